package link_test

import (
	"context"
	"errors"
	"net"
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

func TestBothSidesProveTheirKeys(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		node, registry := link.NewIdentity(), link.NewIdentity()
		var c, s *link.Session
		took := elapsed(func() {
			c, s = pair(t, n, link.Config{Identity: node}, link.Config{Identity: registry})
		})
		require.Equal(t, registry.Public(), c.PeerKey())
		require.Equal(t, node.Public(), s.PeerKey())
		require.False(t, c.Resumed())
		require.Equal(t, n.Addr("registry"), c.RemoteAddr().String())
		require.Equal(t, n.Addr("client"), c.LocalAddr().String())
		require.Equal(t, n.Addr("client"), s.RemoteAddr().String())
		require.Equal(t, 3*oneWay, took, "one round trip for the client, the last flight to the registry")
		require.Positive(t, c.RTT())
	})
}

func TestFramesGoBothWays(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		a, b := pair(t, n, link.Config{}, link.Config{})
		for _, way := range [][2]*link.Session{{a, b}, {b, a}} {
			ca, cb := channels(t, way[0], way[1])
			require.NoError(t, cb.Send(append(frame("one"), frame("two")...)))
			require.NoError(t, cb.CloseSend())
			for _, want := range []string{"one", "two"} {
				body, err := ca.Next()
				require.NoError(t, err)
				require.Equal(t, want, string(body))
			}
			_, err := ca.Next()
			require.Equal(t, "EOF", err.Error())
		}
	})
}

func TestCloseTellsCodeAndText(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		ch, far := channels(t, c, s)
		require.NoError(t, c.Err())
		s.Close(protocol.ErrNodeIDTaken, "2147483649 is \x1b[31manother's\n"+strings.Repeat("é", 400))
		<-c.Done()

		var typed *protocol.Error
		require.ErrorAs(t, c.Err(), &typed)
		require.Equal(t, protocol.ErrNodeIDTaken, typed.Code)
		require.True(t, strings.HasPrefix(typed.Detail, "2147483649 is  [31manother's éé"), typed.Detail)
		require.Less(t, len(typed.Detail), 520)

		_, err := ch.Next()
		requireCode(t, protocol.ErrNodeIDTaken, err)
		requireCode(t, protocol.ErrNodeIDTaken, ch.Send(frame("x")))
		requireCode(t, protocol.ErrNodeIDTaken, ch.Err())
		_, err = c.Open(t.Context())
		requireCode(t, protocol.ErrNodeIDTaken, err)
		_, err = c.Accept(t.Context())
		requireCode(t, protocol.ErrNodeIDTaken, err)

		requireCode(t, protocol.ErrClosed, s.Err())
		_, err = far.Next()
		requireCode(t, protocol.ErrClosed, err)
	})
}

func TestPeerThatJustClosesIsNotALocalClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		c.Close(protocol.ErrClosed, "")
		<-s.Done()
		requireCode(t, protocol.ErrNotConnected, s.Err())
	})
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		ch, _ := channels(t, c, s)
		var waiting sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := ch.Next(); return err },
			func() error { _, err := c.Accept(context.Background()); return err },
			func() error { _, err := c.Accept(context.Background()); return err },
			func() error { // stuck: the other side does not read
				for {
					if err := ch.Send(make([]byte, 64<<10)); err != nil {
						return err
					}
				}
			},
		} {
			waiting.Go(func() { requireCode(t, protocol.ErrClosed, call()) })
		}
		time.Sleep(time.Second)
		for range 3 {
			waiting.Go(func() { require.NoError(t, c.Close(protocol.ErrClosed, "")) })
		}
		waiting.Wait()
		require.NoError(t, c.Close(protocol.ErrClosed, ""))

		<-c.Done()
		requireCode(t, protocol.ErrClosed, c.Err())
		_, err := c.Open(t.Context())
		requireCode(t, protocol.ErrClosed, err)
		requireCode(t, protocol.ErrClosed, ch.Send(frame("x")))
		requireCode(t, protocol.ErrClosed, ch.Flush(t.Context()))
		_, err = ch.Next()
		requireCode(t, protocol.ErrClosed, err)
	})
}

func TestListenerCloseEndsItsSessions(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		accepted := make(chan struct{})
		go func() {
			_, err := l.Accept(t.Context())
			require.NoError(t, err)
			_, err = l.Accept(t.Context()) // the second stays in line
			require.NoError(t, err)
			close(accepted)
		}()
		a, err := dial(t, n, "a", "registry", link.Config{})
		require.NoError(t, err)
		_, err = dial(t, n, "b", "registry", link.Config{})
		require.NoError(t, err)
		c, err := dial(t, n, "c", "registry", link.Config{})
		require.NoError(t, err)
		<-accepted
		time.Sleep(2 * oneWay) // until the last handshake is complete there too

		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { require.NoError(t, l.Close()) })
		}
		wg.Wait()
		for _, s := range []*link.Session{a, c} {
			<-s.Done()
			requireCode(t, protocol.ErrDraining, s.Err())
		}
		_, err = l.Accept(t.Context())
		requireCode(t, protocol.ErrClosed, err)
	})
}

func TestQuietSessionLives(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
		require.NoError(t, s.Err())
		channels(t, c, s)
	})
}

func TestSilentPeerIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{Limits: link.Limits{Idle: 12 * time.Second}})
		n.Partition("client", "registry")
		for _, side := range []*link.Session{c, s} {
			took := elapsed(func() { <-side.Done() })
			require.LessOrEqual(t, took, 20*time.Second)
			requireCode(t, protocol.ErrNotConnected, side.Err())
		}
	})
}

func TestRestartedRegistryIsNoticedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		registry := link.NewIdentity()
		pc := n.Listen("registry")
		l, err := link.Listen(pc, link.Config{Identity: registry})
		require.NoError(t, err)
		serve(l, nil)
		c, err := dial(t, n, "client", "registry", link.Config{})
		require.NoError(t, err)
		ch, err := c.Open(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)

		n.Isolate("registry") // a crash: nobody is told
		l.Close()
		pc.Close()
		n.Heal("registry", "")
		listen(t, n, "registry", link.Config{Identity: registry})
		require.NoError(t, ch.Send(frame("are you there?")))
		took := elapsed(func() { <-c.Done() })
		require.LessOrEqual(t, took, 10*oneWay)
		requireCode(t, protocol.ErrNotConnected, c.Err())
	})
}

func TestCancelledOpenLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{Limits: link.Limits{Channels: 2}})
		first, far := channels(t, c, s)
		_, _ = channels(t, c, s)

		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			took := elapsed(func() {
				_, err := c.Open(ctx)
				require.Equal(t, context.DeadlineExceeded, err)
			})
			require.Equal(t, 30*time.Millisecond, took)
			cancel()
		}
		opened := make(chan error)
		go func() {
			_, err := c.Open(t.Context())
			opened <- err
		}()
		synctest.Wait()
		first.Reset(protocol.ErrClosed)
		far.Reset(protocol.ErrClosed)
		require.NoError(t, <-opened, "the credit of the channel that ended is there")
	})
}

func TestCancelledAcceptLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		took := elapsed(func() {
			_, err := s.Accept(ctx)
			require.Equal(t, context.DeadlineExceeded, err)
		})
		require.Equal(t, time.Second, took)
		channels(t, c, s)
	})
}

func TestSideThatTakesNoChannels(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{Limits: link.Limits{Channels: -1}}, link.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Open(ctx)
		require.Equal(t, context.DeadlineExceeded, err)
		channels(t, c, s) // it opens its own
	})
}

func TestChannelsThatComeTogetherWakeAllAccepts(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		var accepts sync.WaitGroup
		for range 3 {
			accepts.Go(func() {
				_, err := s.Accept(t.Context())
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		var last *link.Channel
		for range 3 {
			ch, err := c.Open(t.Context())
			require.NoError(t, err)
			last = ch
		}
		require.NoError(t, last.Send(frame("x"))) // brings those opened before it
		accepts.Wait()
	})
}

func TestStalledReadersStallNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		const stalled = 20
		limits := link.Limits{Channels: stalled + 1, Window: 64 << 10, Queue: 16 << 10}
		c, s := pair(t, n, link.Config{Limits: limits}, link.Config{Limits: limits})
		for range stalled {
			ch, _ := channels(t, c, s) // whose other end is never read again
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			for ctx.Err() == nil {
				ch.SendContext(ctx, make([]byte, 4096)) // the content is nobody's business
			}
			cancel()
		}
		live, far := channels(t, c, s)
		for range 100 {
			require.NoError(t, live.Send(frame(strings.Repeat("x", 4096))))
			_, err := far.Next()
			require.NoError(t, err)
		}
	})
}

// A peer that fills channels which nobody accepts, before anybody knows it.
func TestTotalBoundsWhatIsReceivedAhead(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		const size = 16 << 10
		limits := link.Limits{Window: 64 << 10, Total: 8 * size}
		c, _ := pair(t, n, link.Config{}, link.Config{Limits: limits})
		sent := 0
		for range 30 {
			ch, err := c.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, ch.Send(make([]byte, size)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if ch.Flush(ctx) == nil {
				sent++
			}
			cancel()
		}
		require.Equal(t, 8, sent)
	})
}

func TestHalfOpenChannelsHarmNobody(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		half, err := c.Open(t.Context()) // opened, never used
		require.NoError(t, err)
		cut, err := c.Open(t.Context()) // half a frame, then nothing
		require.NoError(t, err)
		require.NoError(t, cut.Send(frame("whole")[:6]))
		// The first was never used, but it is before the second, so it comes too.
		farHalf, err := s.Accept(t.Context())
		require.NoError(t, err)
		farCut, err := s.Accept(t.Context())
		require.NoError(t, err)
		channels(t, c, s)

		half.Reset(protocol.ErrLimit)
		_, err = farHalf.Next()
		requireCode(t, protocol.ErrLimit, err)
		require.NoError(t, cut.CloseSend())
		_, err = farCut.Next()
		requireCode(t, protocol.ErrMalformed, err)
		requireCode(t, protocol.ErrLimit, farHalf.Send(frame("x")))
	})
}

func TestCloseWhileTheNetworkIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, s := pair(t, n, link.Config{}, link.Config{})
		ch, _ := channels(t, c, s)
		n.Partition("client", "registry")
		require.NoError(t, ch.Send(make([]byte, 1<<20)))
		require.Zero(t, elapsed(func() { c.Close(protocol.ErrClosed, "") }))
	})
}

func TestSocketThatBreaksEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		serve(l, nil)
		pc := n.Listen("client")
		c, err := link.Dial(t.Context(), n.Addr("registry"), link.Config{Identity: link.NewIdentity(), PacketConn: pc})
		require.NoError(t, err)
		pc.Close()
		<-c.Done()
		require.Error(t, c.Err())
		c.Close(protocol.ErrClosed, "")
	})
}

func TestSocketServesOneSessionAfterAnother(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		serve(l, echo)
		pc := n.Listen("client")
		defer pc.Close()
		for range 5 {
			c, err := link.Dial(t.Context(), n.Addr("registry"), link.Config{Identity: link.NewIdentity(), PacketConn: pc})
			require.NoError(t, err)
			ch, err := c.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, ch.Send(frame("x")))
			_, err = ch.Next()
			require.NoError(t, err)
			c.Close(protocol.ErrClosed, "")
		}
	})
}

func TestFloodPaysARoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{Limits: link.Limits{Unproven: 2}})
		serve(l, nil)
		var took []time.Duration
		for _, node := range []string{"a", "b", "c"} {
			took = append(took, elapsed(func() {
				_, err := dial(t, n, node, "registry", link.Config{})
				require.NoError(t, err)
			}))
		}
		require.Equal(t, []time.Duration{2 * oneWay, 2 * oneWay, 4 * oneWay}, took)
	})
}

// One place that floods pays a round trip more, and then nothing helps it; others
// go on as before.
func TestAFloodFromOnePlaceIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{Limits: link.Limits{Source: 1}})
		serve(l, nil)
		var took []time.Duration
		for range 10 {
			took = append(took, elapsed(func() {
				_, err := dial(t, n, "flood", "registry", link.Config{})
				require.NoError(t, err)
			}))
		}
		require.Equal(t, 2*oneWay, took[0])
		require.Equal(t, 4*oneWay, took[9])
		refused := 0
		for range 10 {
			if _, err := dial(t, n, "flood", "registry", link.Config{}); err != nil {
				requireCode(t, protocol.ErrNotConnected, err)
				refused++
			}
		}
		require.GreaterOrEqual(t, refused, 5)
		require.Equal(t, 2*oneWay, elapsed(func() {
			_, err := dial(t, n, "other", "registry", link.Config{})
			require.NoError(t, err)
		}))
	})
}

func TestConfigMustFit(t *testing.T) {
	_, err := link.Dial(t.Context(), "127.0.0.1:1", link.Config{})
	requireCode(t, protocol.ErrInvalid, err)
	_, err = link.ListenUDP("127.0.0.1:0", link.Config{})
	requireCode(t, protocol.ErrInvalid, err)
	id := link.NewIdentity()
	_, err = link.Dial(t.Context(), "127.0.0.1", link.Config{Identity: id})
	requireCode(t, protocol.ErrInvalid, err)
	_, err = link.Dial(t.Context(), "127.0.0.1:no-such-service", link.Config{Identity: id})
	requireCode(t, protocol.ErrInvalid, err)
	_, err = link.Dial(t.Context(), "127.0.0.1:1", link.Config{Identity: id, Pinned: "md5:abc"})
	requireCode(t, protocol.ErrInvalid, err)
	_, err = link.ListenUDP("nonsense", link.Config{Identity: id})
	requireCode(t, protocol.ErrInvalid, err)
}

func TestListenWhereAnotherDoes(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	_, err = link.ListenUDP(pc.LocalAddr().String(), link.Config{Identity: link.NewIdentity()})
	requireCode(t, protocol.ErrNotConnected, err)
	var op *net.OpError
	require.True(t, errors.As(err, &op), "the system's reason is in it: %v", err)
}

func TestEachSocketHasItsOwnResets(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		id := link.NewIdentity()
		first, second := n.Listen("registry"), n.Listen("registry")
		before := link.ResetKey(first, id)
		require.NotEqual(t, before, link.ResetKey(second, id))
		require.NoError(t, first.Close())
		require.Equal(t, before, link.ResetKey(n.Listen("registry"), id), "the same after a restart")
		require.NotEqual(t, before, link.ResetKey(n.Listen("another"), id))
	})
}
