package client_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// garbage is what no registry sends: bytes that are no frame.
var garbage = map[string][]byte{
	"array of 4 billion":    fakeregistry.Framed([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}),
	"bytes of 4 billion":    fakeregistry.Framed([]byte{0x91, 0xc6, 0xff, 0xff, 0xff, 0xff}),
	"acks without end":      fakeregistry.Framed([]byte{0x92, 0x22, 0xdd, 0xff, 0xff, 0xff, 0xff}),
	"nested 100,000 deep":   fakeregistry.Framed(bytes.Repeat([]byte{0x91}, 60_000)),
	"an ext that is cut":    fakeregistry.Framed([]byte{0x91, 0xd4}),
	"an unused type":        fakeregistry.Framed([]byte{0x91, 0xc1}),
	"a map":                 fakeregistry.Framed([]byte{0x80}),
	"a frame of length 0":   {0, 0, 0, 0},
	"a frame of 4 GiB":      {0xff, 0xff, 0xff, 0xff},
	"an unknown frame":      fakeregistry.Framed([]byte{0x91, 0x7f}),
	"a client's frame":      fakeregistry.Frames(&protocol.GetInfo{ID: 1}),
	"a frame of elsewhere":  fakeregistry.Frames(&protocol.OpenLane{}),
	"bytes after the array": fakeregistry.Framed([]byte{0x92, 0x05, 0x01, 0x00}),
}

// place is a channel, and the frame of the client to answer.
type place struct {
	name   string
	asks   protocol.FrameType
	before []byte // what comes before the garbage
}

func places(reg *fakeregistry.Registry) []place {
	good := fakeregistry.Frames(&protocol.Subscribed{Epoch: reg.Epoch()}, &protocol.CaughtUp{})
	return []place{
		{"instead of the welcome", protocol.TypeHello, nil},
		{"on the control channel", protocol.TypeGetInfo, nil},
		{"on a publish channel", protocol.TypePublish, nil},
		{"instead of an acceptance", protocol.TypeSubscribe, nil},
		{"on a subscription", protocol.TypeSubscribe, good},
	}
}

// A registry that sends garbage is left with a typed error and dialled again; what
// the client had going goes on with a better one.
func TestGarbageEndsTheConnectionAndNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		for _, p := range places(reg) {
			for name, bad := range garbage {
				name = name + " " + p.name
				require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
					if h.Frame.Type() != p.asks {
						return fakeregistry.Answer{}
					}
					return fakeregistry.Answer{Bytes: append(bytes.Clone(p.before), bad...)}
				}}))
				if p.asks == protocol.TypeHello {
					addr, o := options(reg, "a")
					_, err := client.Dial(t.Context(), addr, o)
					requireFault(t, err, name)
					continue
				}
				c := join(t, reg, "a")
				e := c.Events()
				pending := publish(t, c, "1")[0]
				info := make(chan error)
				go func() {
					_, err := c.Info(t.Context())
					info <- err
				}()
				opened := make(chan client.Stream)
				go func() {
					s, err := c.Subscribe(t.Context(), "t")
					if err != nil {
						t.Error(err)
					}
					opened <- s
				}()
				requireFault(t, until[client.Disconnected](t, e).Err, name)
				time.Sleep(5 * time.Second)
				require.Less(t, c.Stats().Connects+c.Stats().DialsFailed, uint64(20), "%s: dialled like mad", name)

				require.NoError(t, reg.StartEmpty())
				require.NoError(t, <-info, name)
				_, err := pending.Wait(t.Context())
				require.ErrorIs(t, err, protocol.ErrUnknownOutcome, name)
				s := <-opened
				time.Sleep(time.Second)
				put(t, c, "t", "2")
				for next(t, s, 1)[0] != "2" {
				}
				require.NoError(t, c.Close())
			}
		}
	})
}

func requireFault(t *testing.T, err error, name string) {
	t.Helper()
	code := protocol.CodeOf(err)
	if code != protocol.ErrMalformed && code != protocol.ErrTooLarge {
		t.Fatalf("%s: %v", name, err)
	}
}

// A connection that ends inside a frame, wherever that is, is lost and no more.
func TestFrameCutAtEveryByte(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		whole := fakeregistry.Frames(&protocol.Subscribed{Epoch: reg.Epoch()}, &protocol.Deliver{
			Message: protocol.Message{Seq: 1, Topic: "t", Payload: []byte("payload"), Fences: []protocol.Mark{{Topic: "t", Term: 9}}},
		})
		c := join(t, reg, "a")
		e := c.Events()
		for cut := 1; cut < len(whole); cut++ {
			require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
				if h.Frame.Type() != protocol.TypeSubscribe {
					return fakeregistry.Answer{}
				}
				return fakeregistry.Answer{Bytes: whole[:cut], End: true}
			}}))
			until[client.Connected](t, e)
			s, err := c.Subscribe(within(t, time.Second), "t")
			if err == nil {
				require.Equal(t, []string{"disconnected"}, next(t, s, 1))
				require.NoError(t, s.Close())
			}
			// An end between two frames is the end of the channel alone.
			if cut != len(fakeregistry.Frames(&protocol.Subscribed{Epoch: reg.Epoch()})) {
				require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrMalformed, "cut at %d", cut)
			}
			require.NoError(t, reg.Start())
			until[client.Connected](t, e)
			require.NoError(t, c.Close())
			c = join(t, reg, "a")
			e = c.Events()
		}
	})
}

func TestGarbageTakesNoMemory(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		bad := bytes.Join([][]byte{garbage["array of 4 billion"], garbage["a frame of 4 GiB"]}, nil)
		require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
			if h.Frame.Type() != protocol.TypeGetInfo {
				return fakeregistry.Answer{}
			}
			return fakeregistry.Answer{Bytes: bad}
		}}))
		c := join(t, reg, "a")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Info(within(t, time.Second))
		require.Error(t, err)
		runtime.ReadMemStats(&after)
		// A few handshakes with both their sides are in it.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	})
}

func TestAnswersToNothingAreFaults(t *testing.T) {
	for name, f := range map[string]protocol.Frame{
		"ack":            &protocol.Acks{List: []protocol.Ack{{N: 7, Seq: 1}}},
		"second ack":     &protocol.Acks{List: []protocol.Ack{{N: 1, Seq: 1}, {N: 1, Seq: 1}}},
		"ack of 0":       &protocol.Acks{List: []protocol.Ack{{N: 0, Seq: 1}}},
		"refusal":        &protocol.Refuse{N: 7, Code: protocol.ErrDenied},
		"giving back":    &protocol.Refuse{N: 7, Code: protocol.ErrDraining},
		"lane's failure": &protocol.Fail{Code: protocol.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
					if _, ok := h.Frame.(*protocol.Publish); ok {
						return answer(f)
					}
					return fakeregistry.Answer{}
				})
				c := join(t, reg, "a")
				e := c.Events()
				publish(t, c, "1")
				require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrMalformed)
			})
		})
	}
	for name, answers := range map[string]func(*protocol.GetInfo) protocol.Frame{
		"another request":  func(f *protocol.GetInfo) protocol.Frame { return &protocol.InfoState{ID: f.ID + 1} },
		"no request":       func(f *protocol.GetInfo) protocol.Frame { return &protocol.InfoState{} },
		"another question": func(f *protocol.GetInfo) protocol.Frame { return &protocol.Done{ID: f.ID} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
					if f, ok := h.Frame.(*protocol.GetInfo); ok {
						return answer(answers(f))
					}
					return fakeregistry.Answer{}
				})
				c := join(t, reg, "a")
				e := c.Events()
				_, err := c.Info(within(t, time.Second))
				require.Error(t, err)
				require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrMalformed)
			})
		})
	}
}

func TestWelcomeThatNobodyCanWorkWith(t *testing.T) {
	good := protocol.Welcome{
		Version: 1, Epoch: protocol.Epoch{ID: 1}, Node: fakeregistry.NodeID("a"),
		Limits: protocol.Limits{Payload: 1, InFlight: 1},
	}
	for name, test := range map[string]struct {
		change func(*protocol.Welcome)
		want   protocol.Code
	}{
		"version":   {func(f *protocol.Welcome) { f.Version = 2 }, protocol.ErrVersion},
		"node":      {func(f *protocol.Welcome) { f.Node++ }, protocol.ErrMalformed},
		"in flight": {func(f *protocol.Welcome) { f.Limits.InFlight = 0 }, protocol.ErrInvalid},
		"epoch":     {func(f *protocol.Welcome) { f.Epoch.ID = 0 }, protocol.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				bad := good
				test.change(&bad)
				record(t, reg, func(fakeregistry.Heard) fakeregistry.Answer { return answer(&bad) })
				addr, o := options(reg, "a")
				_, err := client.Dial(t.Context(), addr, o)
				require.ErrorIs(t, err, test.want)
			})
		})
	}
}

func TestLateAnswerToACallThatWasGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.SetLink(fakeregistry.Host, "a", fakeregistry.Link{Latency: time.Second})
		for range 10 {
			_, err := c.Info(within(t, 100*time.Millisecond))
			require.Error(t, err)
		}
		time.Sleep(5 * time.Second)
		require.Zero(t, c.Stats().Disconnects)
		_, err := c.Info(t.Context())
		require.NoError(t, err)
	})
}
