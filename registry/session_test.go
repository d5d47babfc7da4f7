package registry_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func TestWelcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Software: "test 1", Limits: registry.Limits{Payload: 1 << 10, InFlight: 7, Subscriptions: 5, Page: 1 << 12}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		a.publish(a.lane(protocol.LaneNormal), "jobs", "x")
		b := w.join("b")
		defer b.close()
		require.Equal(t, &protocol.Welcome{
			Version: 1, Epoch: w.log.Epoch(), Node: nodeID("b"), Head: 1, Now: b.welcome.Now,
			Limits:   protocol.Limits{Payload: 1 << 10, InFlight: 7, Subscriptions: 5, Page: 1 << 12},
			Software: "test 1",
		}, b.welcome)
		require.WithinDuration(t, time.Now(), b.welcome.Now.Time(), time.Second)

		sessions := w.reg.Sessions()
		require.Len(t, sessions, 2)
		require.Equal(t, nodeID("b"), sessions[1].Node)
		b.close()
		time.Sleep(time.Second)
		require.Len(t, w.reg.Sessions(), 1)
	})
}

func TestRefusedHellos(t *testing.T) {
	access := func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightAdmit && r.Name == "stranger" && string(r.Token) != "sesame" {
			return protocol.Errorf(protocol.ErrNotAdmitted, "no token")
		}
		if r.Right == registry.RightAdmit && r.Name == "odd" {
			return fmt.Errorf("not today")
		}
		return nil
	}
	for _, test := range []struct {
		name  string
		hello protocol.Hello
		want  protocol.Code
	}{
		{"version", protocol.Hello{MinVersion: 2, MaxVersion: 3}, protocol.ErrVersion},
		{"versions the wrong way", protocol.Hello{MinVersion: 2, MaxVersion: 1}, protocol.ErrInvalid},
		{"no token", protocol.Hello{MinVersion: 1, MaxVersion: 1, Name: "stranger"}, protocol.ErrNotAdmitted},
		{"refusal without a code", protocol.Hello{MinVersion: 1, MaxVersion: 1, Name: "odd"}, protocol.ErrNotAdmitted},
		{"many tags", protocol.Hello{MinVersion: 1, MaxVersion: 1, Tags: make([]string, 17)}, protocol.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, registry.Options{Access: access})
				defer w.close()
				a := w.dial("a")
				defer a.close()
				control := a.open(&test.hello)
				require.Equal(t, test.want, next[*protocol.Fail](control).Code)
				a.ends(test.want)
				require.Empty(t, w.reg.Sessions())
				require.Zero(t, w.reg.Info().Nodes)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Access: access})
		defer w.close()
		a := w.dial("a")
		defer a.close()
		next[*protocol.Welcome](a.open(&protocol.Hello{MinVersion: 1, MaxVersion: 9, Name: "stranger", Token: []byte("sesame")}))
	})
}

// These two keys have the same node id.
var twins = [2]string{"twin 9515", "twin 14170"}

func TestNodeIDTaken(t *testing.T) {
	require.Equal(t, nodeID(twins[0]), nodeID(twins[1]))
	require.NotEqual(t, key(twins[0]), key(twins[1]))
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		w.join(twins[0]).close()
		a := w.dial(twins[1])
		defer a.close()
		require.Equal(t, protocol.ErrNodeIDTaken, next[*protocol.Fail](a.open(hello())).Code)
		a.ends(protocol.ErrNodeIDTaken)
		w.join(twins[0]).close()
	})
}

func TestSessionsThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		mute, half := w.dial("mute"), w.dial("half")
		defer mute.close()
		defer half.close()
		ch, err := half.s.Open(t.Context())
		require.NoError(t, err)
		require.NoError(t, ch.Send(encode(hello())[:10]))
		begin := time.Now()
		mute.ends(protocol.ErrTimeout)
		half.ends(protocol.ErrTimeout)
		require.WithinRange(t, time.Now(), begin.Add(4*time.Second), begin.Add(6*time.Second))
	})
}

func TestHalfOpenChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		begin := time.Now()
		for _, cut := range []int{1, 4, 5, 9} {
			ch, err := a.s.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, ch.Send(encode(&protocol.Subscribe{Pattern: "jobs"})[:cut]))
			(&channel{t, ch}).ends(protocol.ErrTimeout)
		}
		require.WithinRange(t, time.Now(), begin.Add(20*time.Second), begin.Add(24*time.Second))
		a.follow("jobs")
	})
}

// A stream of frames of every kind that is no request, cut and spoilt: the
// session ends with a code, and the registry goes on.
// A client that ends its control channel has no fault, and is told of none.
func TestClientEndsItsControlChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		for _, p := range []*peer{w.join("welcomed"), w.dial("silent")} {
			if p.control == nil {
				c, err := p.s.Open(t.Context())
				require.NoError(t, err)
				p.control = &channel{t, c}
			}
			require.NoError(t, p.control.CloseSend())
			p.ends(protocol.ErrNotConnected) // which is code 0 of the other side
			p.close()
		}
	})
}

func TestFramesOutOfPlace(t *testing.T) {
	places := []struct {
		name string
		open func(w *world) (*peer, *channel)
		// end is the end of the session, else of the channel.
		end  bool
		fits []protocol.FrameType
	}{
		{"first", func(w *world) (*peer, *channel) { p := w.dial("a"); return p, nil }, true, []protocol.FrameType{protocol.TypeHello}},
		{"control", func(w *world) (*peer, *channel) { p := w.join("a"); return p, p.control }, true, []protocol.FrameType{
			protocol.TypeGetFence, protocol.TypeSetFence, protocol.TypeJoin, protocol.TypeGetJoined, protocol.TypeGetInbox,
			protocol.TypeClearInbox, protocol.TypeGetInfo, protocol.TypeGetNodes, protocol.TypeGetTopics}},
		{"channel", func(w *world) (*peer, *channel) { return w.join("a"), nil }, false, []protocol.FrameType{protocol.TypeOpenLane, protocol.TypeSubscribe}},
		{"lane", func(w *world) (*peer, *channel) { p := w.join("a"); return p, p.lane(0) }, false, []protocol.FrameType{protocol.TypePublish}},
	}
	for _, place := range places {
		t.Run(place.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, registry.Options{})
				defer w.close()
				for _, b := range foul(place.fits) {
					p, ch := place.open(w)
					if ch == nil {
						c, err := p.s.Open(t.Context())
						require.NoError(t, err)
						ch = &channel{t, c}
					}
					require.NoError(t, ch.Send(b))
					if place.end {
						<-p.s.Done()
						require.Contains(t, []protocol.Code{protocol.ErrMalformed, protocol.ErrTooLarge}, protocol.CodeOf(p.s.Err()), "%x: %v", b, p.s.Err())
					} else {
						_, err := ch.Next()
						require.Contains(t, []protocol.Code{protocol.ErrMalformed, protocol.ErrTooLarge}, protocol.CodeOf(err), "%x: %v", b, err)
						require.NoError(t, p.s.Err())
					}
					p.close()
				}
				p := w.join("b")
				p.publish(p.lane(protocol.LaneNormal), "jobs", "fine")
				p.close()
			})
		})
	}
}

// foul lists what does not fit a place.
func foul(fits []protocol.FrameType) [][]byte {
	list := [][]byte{
		{0, 0, 0, 0},             // no length
		{0xff, 0xff, 0xff, 0xff}, // longer than allowed
		raw([]byte{0xc1}),
		raw([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}),
		raw([]byte{0xc6, 0xff, 0xff, 0xff, 0xff}),
		raw([]byte{0xd4}),
		raw(make([]byte, 1000)),
		raw([]byte{0x91, 0xcd, 0x03, 0xe7}), // type 999
	}
	deep := make([]byte, 5000)
	for i := range deep {
		deep[i] = 0x91
	}
	list = append(list, raw(deep))
	for _, f := range []protocol.Frame{
		hello(), &protocol.Welcome{}, &protocol.Drain{}, &protocol.Fail{}, &protocol.Done{ID: 1}, &protocol.GetInfo{ID: 1},
		&protocol.OpenLane{}, &protocol.Publish{N: 1, Key: []byte("k"), Topic: "jobs"}, &protocol.Acks{}, &protocol.Refuse{},
		&protocol.Subscribe{Pattern: "jobs"}, &protocol.Subscribed{}, &protocol.Deliver{}, &protocol.CaughtUp{}, &protocol.Gap{},
	} {
		whole := encode(f)
		fit := false
		for _, t := range fits {
			fit = fit || t == f.Type()
		}
		if !fit {
			list = append(list, whole)
			continue
		}
		// Cut at every byte: the length says less than the frame has.
		for n := 1; n < len(whole)-4; n++ {
			list = append(list, raw(whole[4:4+n]))
		}
		list = append(list, raw(append(whole[4:len(whole):len(whole)], 0)))
	}
	return list
}

// A client process has one session: a newer one ends the older before it is
// welcomed, so that nothing from there comes in behind.
func TestNewerSessionOfTheSameInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{NodeSessions: 1}})
		defer w.close()
		h := hello()
		h.Instance = protocol.Instance{1}
		join := func() *peer {
			p := w.dial("a")
			p.control = p.open(h)
			p.welcome = next[*protocol.Welcome](p.control)
			return p
		}
		old := join()
		defer old.close()
		newer := join()
		defer newer.close()
		old.ends(protocol.ErrNotConnected)
		require.Len(t, w.reg.Sessions(), 1)
		newer.follow("jobs")

		// Another instance of the node is another client.
		h = hello()
		h.Instance = protocol.Instance{2}
		third := w.dial("a")
		defer third.close()
		require.Equal(t, protocol.ErrLimit, next[*protocol.Fail](third.open(h)).Code)
		newer.follow("jobs")
	})
}

func TestDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a, b, c := w.join("a"), w.join("a"), w.join("c")
		defer a.close()
		defer b.close()
		defer c.close()
		list := w.reg.Sessions()
		w.reg.Disconnect(list[0].ID, protocol.Errorf(protocol.ErrDenied, "no longer wanted"))
		a.ends(protocol.ErrDenied)
		w.reg.Disconnect(list[2].ID, nil)
		c.ends(protocol.ErrNotConnected)
		time.Sleep(time.Second)
		require.Equal(t, list[1:2], w.reg.Sessions())
		w.reg.Disconnect(list[0].ID, nil) // it is gone
		b.follow("jobs")
	})
}

func TestLimitsOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turnedAway := 0
		w := start(t, registry.Options{
			Limits: registry.Limits{Sessions: 4, NodeSessions: 2},
			Observer: &registry.Observer{Event: func(e registry.Event) {
				if e.Kind == registry.EventSessionRefused && e.Session == 0 {
					turnedAway++
					require.Equal(t, nodeID("d"), e.Node)
					require.ErrorIs(t, e.Err, protocol.ErrLimit)
				}
			}},
		})
		defer w.close()
		a, b := w.join("a"), w.join("a")
		defer a.close()
		defer b.close()
		c := w.dial("a")
		full := next[*protocol.Fail](c.open(hello()))
		require.Equal(t, protocol.ErrLimit, full.Code)
		require.Equal(t, time.Second, full.RetryAfter)
		c.close()
		time.Sleep(time.Second)

		d, e := w.join("b"), w.join("c")
		defer e.close()
		f := w.dial("d")
		full = next[*protocol.Fail](f.open(hello()))
		require.Equal(t, protocol.ErrLimit, full.Code)
		require.Equal(t, time.Second, full.RetryAfter)
		f.close()
		g := w.dial("d") // says nothing, and is closed all the same
		g.ends(protocol.ErrLimit)
		g.close()
		require.Equal(t, 2, turnedAway)
		d.close()
		time.Sleep(time.Second)
		w.join("d").close()
	})
}

// Sessions without a hello hold places too, but only their own node's.
func TestLimitOfSessionsBeforeTheirHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Sessions: 6, NodeSessions: 2}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		for range 2 {
			defer w.dial("a").close()
		}
		synctest.Wait()
		more := w.dial("a")
		defer more.close()
		more.ends(protocol.ErrLimit)

		w.join("b").close()
		a.follow("jobs")
		time.Sleep(5 * time.Second) // as long as those may wait
		w.join("a").close()
	})
}

func TestHandshakeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Handshakes: 5}})
		defer w.close()
		for i := range 5 {
			defer w.join(fmt.Sprint(i)).close()
		}
		p := w.dial("late")
		f := next[*protocol.Fail](p.open(hello()))
		require.Equal(t, protocol.ErrRateLimited, f.Code)
		require.Positive(t, f.RetryAfter)
		p.close()
		time.Sleep(f.RetryAfter)
		w.join("late").close()
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		sub := b.follow("jobs")
		lane := a.lane(protocol.LaneNormal)
		for range 100 {
			lane.send(a.message("jobs", "x"))
		}
		time.Sleep(2 * time.Millisecond) // all is there

		done := make(chan error, 1)
		go func() { done <- w.reg.Shutdown(t.Context()) }()
		time.Sleep(2 * time.Millisecond)
		late := w.dial("c")
		defer late.close()
		f := next[*protocol.Fail](late.open(hello()))
		require.Equal(t, protocol.ErrDraining, f.Code)
		require.Positive(t, f.RetryAfter)

		lane.send(a.message("jobs", "too late"))
		acked := 0
		for refused := false; !refused; {
			switch f := lane.read().(type) {
			case *protocol.Acks:
				acked += len(f.List)
			case *protocol.Refuse:
				require.Equal(t, protocol.ErrDraining, f.Code)
				require.Positive(t, f.RetryAfter)
				refused = true
			}
		}
		require.Equal(t, 100, acked)
		drain := next[*protocol.Drain](a.control)
		require.Positive(t, drain.RetryAfter)
		require.Len(t, deliveries(sub, 100), 100)
		a.ends(protocol.ErrDraining)
		b.ends(protocol.ErrDraining)
		require.NoError(t, <-done)
		require.NoError(t, w.reg.Shutdown(t.Context()))
		w.close()
		require.ErrorIs(t, w.reg.Serve(w.pc), net.ErrClosed)
	})
}

// A client that reads nothing does not hold up the end.
func TestShutdownIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		a.follow("jobs") // and reads nothing of it
		var sending sync.WaitGroup
		sending.Go(func() {
			for lane.Send(encode(a.message("jobs", string(make([]byte, 1000))))) == nil { // until the session ends
			}
		})
		time.Sleep(testenv.Raced(10*time.Second, 2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		_ = w.reg.Shutdown(ctx)
		require.LessOrEqual(t, time.Since(begin), 3*time.Second+100*time.Millisecond)
		a.ends(protocol.ErrDraining)
		sending.Wait()
		w.close()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		a := w.join("a")
		defer a.close()
		a.follow("jobs")
		a.publish(a.lane(protocol.LaneNormal), "jobs", "x")
		var closes sync.WaitGroup
		for range 3 {
			closes.Go(func() { require.NoError(t, w.reg.Close()) })
		}
		closes.Wait()
		a.ends(protocol.ErrDraining)
		w.close()
		require.Equal(t, protocol.Seq(1), w.reg.Info().Head)
		_, err := w.reg.Listen("127.0.0.1:0")
		require.ErrorIs(t, err, protocol.ErrClosed)
	})
}

// A log goes on where it was under a new registry.
func TestRestartOverTheSameLog(t *testing.T) {
	log := memlog.New(memlog.Options{})
	m := &protocol.Publish{N: 1, Key: []byte("k"), Epoch: log.Epoch().ID, Topic: "jobs"}
	m.Conditions = []protocol.Condition{{Topic: "jobs", Epoch: m.Epoch, Term: 4, Raise: 4}}
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, registry.Options{Log: log})
			defer w.close()
			a := w.join("a")
			defer a.close()
			lane := a.lane(protocol.LaneNormal)
			lane.send(m)
			require.Equal(t, i == 1, lane.ack().Duplicate)
			require.Equal(t, protocol.Fence{K: 4, S: 1}, w.reg.Fence("jobs"))
			require.Equal(t, uint64(1), w.reg.Info().Online)
		})
	}
}

// Whoever closes the log too early gets no wrong answers.
func TestClosedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		require.NoError(t, w.log.Close())
		lane.send(a.message("jobs", "x"))
		lane.refused(protocol.ErrDraining)
		require.Equal(t, protocol.ErrDraining, ask[*protocol.Fail](a, &protocol.Join{ID: 1, Topics: []string{"jobs"}}).Code)
		more, _ := a.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAll})
		next[*protocol.CaughtUp](more)
	})
}

func TestManySessionsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		const clients = 20
		rounds := testenv.Raced(50, 8)
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for range rounds {
					p := w.join(fmt.Sprint(c))
					p.follow("jobs")
					p.publish(p.lane(protocol.LaneUrgent), "jobs", "x")
					p.close()
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		require.Empty(t, w.reg.Sessions())
		require.Empty(t, w.reg.Subscriptions())
		info := w.reg.Info()
		require.Equal(t, uint64(clients), info.Nodes)
		require.Zero(t, info.Online)
		require.Equal(t, uint64(clients*rounds), info.Published)
	})
}

func TestStrangersNeedRules(t *testing.T) {
	open := func(access registry.AccessFunc) *registry.Registry {
		r, err := registry.New(registry.Options{Log: memlog.New(memlog.Options{}), Key: key("registry"), Access: access})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		_, err := open(nil).Listen(addr)
		require.ErrorIs(t, err, protocol.ErrInvalid)
		require.ErrorContains(t, err, "Options.Access")
	}
	pc, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	defer pc.Close()
	require.ErrorIs(t, open(nil).Serve(pc), protocol.ErrInvalid)

	r := open(registry.AllowAll)
	addr, err := r.Listen("0.0.0.0:0")
	require.NoError(t, err)
	require.NotZero(t, addr.(*net.UDPAddr).Port)
	_, err = open(nil).Listen("127.0.0.1:0")
	require.NoError(t, err)
	_, err = r.Listen("no such host:x")
	require.ErrorIs(t, err, protocol.ErrInvalid)
}

func TestOptionsAreChecked(t *testing.T) {
	log := memlog.New(memlog.Options{})
	for _, o := range []registry.Options{
		{Key: key("r")},
		{Log: log},
		{Log: log, Key: key("r"), Limits: registry.Limits{Payload: -1}},
		{Log: log, Key: key("r"), Limits: registry.Limits{Payload: protocol.MaxPayload + 1}},
		{Log: log, Key: key("r"), Limits: registry.Limits{Page: protocol.MaxPage + 1}},
	} {
		_, err := registry.New(o)
		require.ErrorIs(t, err, protocol.ErrInvalid)
	}
}

func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		s := protocol.SignSuccession(key("registry"), key("next").Public().(ed25519.PublicKey))
		require.NoError(t, w.reg.Announce(t.Context(), s))
		require.Equal(t, s, next[*protocol.Successor](a.control).Succession)
		require.ErrorIs(t, w.reg.Announce(t.Context(), protocol.SignSuccession(key("other"), s.New)), protocol.ErrInvalid)
	})
}
