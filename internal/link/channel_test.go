package link_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestLoneFrameLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		s.Open()
		for _, body := range []string{"a", "b", "c"} {
			require.NoError(t, c.Send(frame(body)))
			synctest.Wait()
		}
		require.Equal(t, [][]byte{frame("a"), frame("b"), frame("c")}, s.Writes)
	})
}

func TestFramesQueuedDuringAWriteMakeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		var want []byte
		for i := range 1000 {
			f := frame(strings.Repeat("x", i%10+1))
			require.NoError(t, c.Send(f))
			if i == 0 {
				synctest.Wait() // the first one is with the carrier
			} else {
				want = append(want, f...)
			}
		}
		s.Open()
		require.NoError(t, c.Flush(t.Context()))
		require.Len(t, s.Writes, 2)
		require.Equal(t, want, s.Writes[1])
	})
}

func TestSendCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		f := frame("mine")
		require.NoError(t, c.Send(f))
		clear(f)
		s.Open()
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, frame("mine"), s.Writes[0])
	})
}

func TestSharedPartsAreNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{Queue: 1000})
		shared := bytes.Repeat([]byte{'s'}, 2000)
		parts := []link.Part{{Bytes: []byte("head ")}, {Bytes: shared, Shared: true}, {Bytes: []byte(" tail")}}
		require.NoError(t, c.SendParts(t.Context(), parts))
		synctest.Wait() // the head is with the carrier
		require.NoError(t, c.SendParts(t.Context(), parts))
		clear(parts[0].Bytes)
		shared[0] = 'S'
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.SendContext(short, frame("too much")), context.DeadlineExceeded, "shared bytes fill the queue")
		s.Open()
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, string(bytes.Repeat(slices.Concat([]byte("head "), shared, []byte(" tail")), 2)), string(bytes.Join(s.Writes, nil)))
	})
}

func TestFullQueueMakesSendWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{Queue: 10})
		require.NoError(t, c.Send(frame("with the carrier")))
		synctest.Wait()
		require.NoError(t, c.Send(frame("more than the limit, but one call")))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		took := elapsed(func() {
			require.Equal(t, context.DeadlineExceeded, c.SendContext(ctx, frame("late")))
		})
		require.Equal(t, time.Second, took)

		var sends sync.WaitGroup
		for range 3 { // one waiting Send after the other gets its turn
			sends.Go(func() { require.NoError(t, c.Send(frame("waits"))) })
		}
		synctest.Wait()
		s.Open()
		sends.Wait()
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, 3, bytes.Count(bytes.Join(s.Writes, nil), frame("waits")))
		require.NotContains(t, string(bytes.Join(s.Writes, nil)), "late")
	})
}

func TestEndedContextSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, c.SendContext(ctx, frame("x")))
		synctest.Wait()
		require.Empty(t, s.Writes)
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		require.NoError(t, c.Flush(t.Context()), "nothing is queued")
		require.NoError(t, c.Send(frame("a")))
		synctest.Wait()
		require.NoError(t, c.Send(frame("b")))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, c.Flush(ctx))
		s.Free()
		s.Free()
		require.NoError(t, c.Flush(t.Context()))
		require.Len(t, s.Writes, 2)

		require.NoError(t, c.Send(frame("c")))
		failed := make(chan error)
		go func() { failed <- c.Flush(t.Context()) }()
		synctest.Wait()
		c.Reset(protocol.ErrLimit)
		requireCode(t, protocol.ErrClosed, <-failed)
	})
}

func TestCloseSendComesAfterTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{})
		require.NoError(t, c.Send(frame("a")))
		synctest.Wait()
		require.NoError(t, c.Send(frame("b")))
		require.NoError(t, c.CloseSend())
		require.NoError(t, c.CloseSend())
		requireCode(t, protocol.ErrClosed, c.Send(frame("c")))
		requireCode(t, protocol.ErrClosed, c.Err())
		require.False(t, s.Ended)
		s.Open()
		<-c.Done()
		require.True(t, s.Ended)
		require.Equal(t, [][]byte{frame("a"), frame("b")}, s.Writes)
	})
}

func TestPeerThatStopsReadingEndsSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := link.NewFakeChannel(link.Limits{Queue: 10})
		require.NoError(t, c.Send(frame("with the carrier")))
		synctest.Wait()
		require.NoError(t, c.Send(frame("fills the queue")))
		waiting := make(chan error)
		go func() { waiting <- c.Send(frame("waits")) }()
		synctest.Wait()
		s.Stop(uint64(protocol.ErrRateLimited))
		requireCode(t, protocol.ErrRateLimited, <-waiting)
		<-c.Done()
		requireCode(t, protocol.ErrRateLimited, c.Err())
		requireCode(t, protocol.ErrRateLimited, c.CloseSend())

		idle, s := link.NewFakeChannel(link.Limits{})
		s.Stop(uint64(protocol.ErrDenied))
		requireCode(t, protocol.ErrDenied, idle.Send(frame("x")))
	})
}

func TestResetHasItsCode(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		for code, want := range map[protocol.Code]protocol.Code{
			protocol.ErrInvalidTopic: protocol.ErrInvalidTopic,
			4711:                     4711, // of a later version
			protocol.ErrClosed:       protocol.ErrNotConnected,
			0:                        protocol.ErrNotConnected,
		} {
			ca, cb := channels(t, a, b)
			ca.Reset(code)
			ca.Reset(protocol.ErrInternal) // changes nothing
			_, err := cb.Next()
			requireCode(t, want, err)
			<-cb.Done()
			requireCode(t, want, cb.Err())
			requireCode(t, want, cb.Send(frame("x")))
			_, err = ca.Next()
			requireCode(t, protocol.ErrClosed, err)
			requireCode(t, protocol.ErrClosed, ca.Send(frame("x")))
		}
		require.NoError(t, a.Err(), "the session goes on")
		channels(t, a, b)
	})
}

func TestResetWakesNext(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		ca, _ := channels(t, a, b)
		failed := make(chan error)
		go func() {
			_, err := ca.Next()
			failed <- err
		}()
		synctest.Wait()
		ca.Reset(protocol.ErrClosed)
		requireCode(t, protocol.ErrClosed, <-failed)
	})
}

func TestBadFramesEndTheChannelOnly(t *testing.T) {
	long := binary.BigEndian.AppendUint32(nil, 4<<30-1)
	for name, bad := range map[string]struct {
		bytes []byte
		want  protocol.Code
	}{
		"zero length": {frame(""), protocol.ErrMalformed},
		"too long":    {long, protocol.ErrTooLarge},
		"above max":   {frame(strings.Repeat("x", 101)), protocol.ErrTooLarge},
		"in length":   {frame("whole")[:3], protocol.ErrMalformed},
		"in body":     {frame("whole")[:7], protocol.ErrMalformed},
		"no body":     {frame("whole")[:4], protocol.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				a, b := pair(t, n, link.Config{}, link.Config{Limits: link.Limits{Frame: 100}})
				ca, cb := channels(t, a, b)
				require.NoError(t, ca.Send(append(frame("good"), bad.bytes...)))
				require.NoError(t, ca.CloseSend())
				body, err := cb.Next()
				require.NoError(t, err)
				require.Equal(t, "good", string(body))
				for range 2 {
					_, err = cb.Next()
					requireCode(t, bad.want, err)
				}
				require.NoError(t, cb.Send(frame("why")), "an answer is still possible")
				body, err = ca.Next()
				require.NoError(t, err)
				require.Equal(t, "why", string(body))
				channels(t, a, b)
			})
		})
	}
}

func TestSenderLearnsOfABadFrame(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		ca, cb := channels(t, a, b)
		require.NoError(t, ca.Send(frame("")))
		_, err := cb.Next()
		requireCode(t, protocol.ErrMalformed, err)
		<-ca.Done()
		requireCode(t, protocol.ErrMalformed, ca.Err())
	})
}

func TestMaxFrameChangesForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{Limits: link.Limits{Frame: 10}})
		ca, cb := channels(t, a, b)
		big := strings.Repeat("x", 3<<20)
		cb.SetMaxFrame(len(big))
		require.NoError(t, ca.Send(frame(big)))
		body, err := cb.Next()
		require.NoError(t, err)
		require.Len(t, body, len(big))
		require.False(t, cb.Buffered())
	})
}

func TestReadDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		ca, cb := channels(t, a, b)
		f := frame("in two parts")
		require.NoError(t, cb.Send(f[:9]))
		require.NoError(t, ca.SetReadDeadline(time.Now().Add(5*time.Second)))
		took := elapsed(func() {
			_, err := ca.Next()
			requireCode(t, protocol.ErrTimeout, err)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
		require.Equal(t, 5*time.Second, took)

		require.NoError(t, ca.SetReadDeadline(time.Time{}))
		require.NoError(t, cb.Send(f[9:]))
		body, err := ca.Next()
		require.NoError(t, err)
		require.Equal(t, "in two parts", string(body))
	})
}

func TestFramesInOrderOverABadNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		bad := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1}
		a, b := pair(t, n, link.Config{}, link.Config{})
		n.SetLink("client", "registry", bad)
		n.SetLink("registry", "client", bad)
		ca, cb := channels(t, a, b)
		const frames = 2000
		go func() {
			for i := range frames {
				body := binary.BigEndian.AppendUint32(nil, uint32(i))
				if ca.Send(frame(string(body)+strings.Repeat("x", i%300))) != nil {
					return
				}
			}
			ca.CloseSend()
		}()
		for i := range frames {
			body, err := cb.Next()
			require.NoError(t, err)
			require.Equal(t, uint32(i), binary.BigEndian.Uint32(body))
			require.Len(t, body, 4+i%300)
		}
		_, err := cb.Next()
		require.Equal(t, io.EOF, err)
	})
}

func TestUrgentOvertakesBulk(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		n.SetLink("client", "registry", simnet.Link{Latency: oneWay, Bandwidth: 1 << 20})
		bulk, farBulk := channels(t, a, b)
		urgent, farUrgent := channels(t, a, b)
		urgent.SetUrgent()
		go func() {
			for {
				if _, err := farBulk.Next(); err != nil {
					return
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for bulk.SendContext(ctx, frame(strings.Repeat("x", 64<<10))) == nil {
			}
		}()
		time.Sleep(5 * time.Second)
		for range 20 {
			sent := time.Now()
			require.NoError(t, urgent.Send(frame("beat")))
			_, err := farUrgent.Next()
			require.NoError(t, err)
			require.Less(t, time.Since(sent), time.Second)
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestHotPathAllocatesNothing(t *testing.T) {
	f := frame(strings.Repeat("x", 128))
	c := link.NewDiscardChannel(bytes.Repeat(f, 1000))
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		if c.SendContext(ctx, f) != nil {
			panic("send")
		}
		if _, err := c.Next(); err != nil {
			panic(err)
		}
	}))
}

func TestLimitsHaveDefaults(t *testing.T) {
	filled := reflect.ValueOf(link.FillLimits(link.Limits{}))
	for i := range filled.NumField() {
		require.False(t, filled.Field(i).IsZero(), filled.Type().Field(i).Name)
	}
}
