package client_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/stretchr/testify/require"
)

// When a registry comes back, its clients do not come back in one moment, and
// none has a subscription twice.
func TestClientsComeBackSpreadOut(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		many := testenv.Raced(200, 80)
		var clients []*client.Client
		for i := range many {
			c := join(t, reg, fmt.Sprintf("n%d", i))
			subscribe(t, c, "t")
			clients = append(clients, c)
		}
		for name, down := range map[string]time.Duration{"a restart": 0, "an outage": 10 * time.Second} {
			before := len(reg.Events(fakeregistry.EventConnect))
			reg.Stop()
			time.Sleep(down)
			require.NoError(t, reg.Start())
			time.Sleep(time.Minute)

			var at []time.Duration
			for _, e := range reg.Events(fakeregistry.EventConnect)[before:] {
				at = append(at, e.At.Truncate(time.Millisecond))
			}
			slices.Sort(at)
			require.Len(t, at, many, name)
			require.Greater(t, at[many-1]-at[0], 50*time.Millisecond, name)
			require.Less(t, busiest(at), many/4, "%s: %v", name, at)
			require.Len(t, reg.Subscriptions(), many, name)
		}
		for _, c := range clients {
			require.LessOrEqual(t, c.Stats().Connects, uint64(3))
		}
	})
}

// busiest is how many fall into one millisecond at most.
func busiest(at []time.Duration) int {
	count, most := map[time.Duration]int{}, 0
	for _, d := range at {
		count[d]++
		most = max(most, count[d])
	}
	return most
}

func TestTheFirstRetryIsNotAtOnceForAll(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		var spread []time.Duration
		for i := range 20 {
			c := join(t, reg, fmt.Sprintf("n%d", i))
			e := c.Events()
			reg.Disconnect(fmt.Sprintf("n%d", i))
			until[client.Disconnected](t, e)
			start := time.Now()
			until[client.Connected](t, e)
			spread = append(spread, time.Since(start))
		}
		slices.Sort(spread)
		require.Greater(t, spread[19]-spread[0], 20*time.Millisecond)
		require.Less(t, spread[19], 100*time.Millisecond+10*latency)
	})
}

func TestRetriesSlowDown(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.RefuseConnects(-1, protocol.ErrInternal)
		reg.Disconnect("a")
		until[client.Disconnected](t, e)
		start := time.Now()
		n := 0
		for time.Since(start) < 5*time.Minute {
			failed := until[client.DialFailed](t, e)
			require.ErrorIs(t, failed.Err, protocol.ErrInternal)
			require.False(t, failed.Hard)
			require.LessOrEqual(t, failed.Retry, 5*time.Second)
			n++
		}
		require.Greater(t, n, 60)
		require.Less(t, n, 300)
		reg.ClearFaults()
		until[client.Connected](t, e)
		put(t, c, "t", "1")
	})
}

// A connection that was good for a while is not paid for with the delays of the
// outage before it.
func TestRetriesBeginAnewAfterAGoodConnection(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		for range 5 {
			reg.RefuseConnects(20, protocol.ErrInternal)
			reg.Disconnect("a")
			until[client.Connected](t, e)
			time.Sleep(time.Minute)
			reg.Disconnect("a")
			until[client.Disconnected](t, e)
			start := time.Now()
			until[client.Connected](t, e)
			require.Less(t, time.Since(start), 200*time.Millisecond)
			time.Sleep(time.Minute)
		}
	})
}

// A registry that takes clients and throws them out again does not make them
// come at once each time.
func TestRetriesSlowDownThoughTheRegistryWelcomes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		subscribe(t, c, "t")
		record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			if _, ok := h.Frame.(*protocol.Subscribe); ok {
				return fakeregistry.Answer{Close: protocol.ErrInternal}
			}
			return fakeregistry.Answer{}
		})
		time.Sleep(5 * time.Minute)
		require.Less(t, c.Stats().Connects, uint64(300))
		require.Greater(t, c.Stats().Connects, uint64(60))
	})
}

func TestDrainingRegistryLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a", window(64))
		e := c.Events()
		var stop sync.WaitGroup
		stop.Go(func() {
			time.Sleep(200 * time.Millisecond)
			require.NoError(t, reg.Shutdown(t.Context()))
			time.Sleep(time.Second)
			require.NoError(t, reg.Start())
		})
		var pending []client.Pending
		for i := range 1000 {
			pending = append(pending, publish(t, c, fmt.Sprint(i+1))...)
			time.Sleep(time.Millisecond)
		}
		for _, p := range pending {
			acked(t, p)
		}
		require.Equal(t, numbers(1000), stored(reg))
		until[client.Draining](t, e)
		require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrDraining)
		stop.Wait()
	})
}

func TestDrainSaysWhenToComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		tape := record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			switch f := h.Frame.(type) {
			case *protocol.Join:
				return answer(&protocol.Done{ID: f.ID}, &protocol.Drain{RetryAfter: 20 * time.Second, Reason: "upgrade"})
			case *protocol.Publish:
				return answer(&protocol.Acks{List: []protocol.Ack{{N: f.N, Seq: 1}}})
			case *protocol.GetInfo:
				return fakeregistry.Answer{Close: protocol.ErrDraining}
			}
			return fakeregistry.Answer{}
		})
		c := join(t, reg, "a")
		e := c.Events()
		require.NoError(t, c.Join(t.Context(), "t"))
		require.Equal(t, client.Draining{RetryAfter: 20 * time.Second, Reason: "upgrade"}, until[client.Draining](t, e))
		held := publish(t, c, "1")[0]
		time.Sleep(time.Second)
		require.Empty(t, tape.payloads(), "nothing new on a session that drains")
		_, err := c.PublishTo(within(t, time.Second), "t", nil)
		require.ErrorIs(t, err, protocol.ErrDraining)
		_, err = c.Info(within(t, time.Second))
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		start := time.Now()
		acked(t, held)
		require.Greater(t, time.Since(start), 19*time.Second)
		require.Less(t, time.Since(start), 45*time.Second)
		require.Equal(t, []string{"1"}, tape.payloads(), "it was never sent before")
	})
}

func TestRefusedPublishOfADrainingRegistryGoesToTheNextSession(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		tape := record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			f, ok := h.Frame.(*protocol.Publish)
			switch {
			case !ok:
				return fakeregistry.Answer{}
			case h.Session == 1 && f.N > 1:
				return answer(&protocol.Refuse{N: f.N, Code: protocol.ErrDraining, RetryAfter: 10 * time.Second})
			}
			return answer(&protocol.Acks{List: []protocol.Ack{{N: f.N, Seq: 1}}})
		})
		c := join(t, reg, "a")
		start := time.Now()
		list := publish(t, c, "1", "2", "3")
		acked(t, list[0])
		require.Less(t, time.Since(start), time.Second)
		for _, p := range list {
			acked(t, p)
		}
		require.Greater(t, time.Since(start), 10*time.Second)
		// Not marked as sent again: it was refused for certain.
		require.Equal(t, []string{"1", "2", "3", "2", "3"}, tape.payloads())
	})
}

func TestRefusedClientComesBackWhenItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpConnect, Code: protocol.ErrRateLimited, RetryAfter: 10 * time.Second})
		reg.Disconnect("a")
		require.GreaterOrEqual(t, until[client.DialFailed](t, e).Retry, 10*time.Second)
		start := time.Now()
		until[client.Connected](t, e)
		require.Greater(t, time.Since(start), 10*time.Second)
	})
}

// A registry that has all the sessions it takes, or knows all the nodes, says when
// to come again.
func TestACrowdedRegistrySaysWhenToComeBack(t *testing.T) {
	for name, l := range map[string]registry.Limits{"sessions": {Sessions: 1}, "nodes": {Nodes: 1}} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, limited(l), func(t *testing.T, reg *fakeregistry.Registry) {
				join(t, reg, "a")
				addr, o := options(reg, "b")
				_, err := client.Dial(t.Context(), addr, o)
				var told *protocol.Error
				require.ErrorAs(t, err, &told)
				require.Equal(t, protocol.ErrLimit, told.Code)
				require.GreaterOrEqual(t, told.RetryAfter, time.Second)
			})
		})
	}
}

func TestClientComesBackWhenACrowdedRegistrySaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		inside, outside := join(t, reg, "a"), join(t, reg, "b")
		reg.SetLimits(registry.Limits{Sessions: 1})
		require.NoError(t, reg.Restart())
		time.Sleep(time.Minute)
		if inside.Stats().Connects == 1 {
			inside, outside = outside, inside
		}
		require.Equal(t, uint64(2), inside.Stats().Connects)
		e := outside.Events()
		failed := until[client.DialFailed](t, e)
		require.ErrorIs(t, failed.Err, protocol.ErrLimit)
		require.False(t, failed.Hard)
		require.GreaterOrEqual(t, failed.Retry, time.Second)
		inside.Close()
		start := time.Now()
		until[client.Connected](t, e)
		require.Greater(t, time.Since(start), failed.Retry-50*time.Millisecond)
	})
}

// A hard error stays one until somebody changes something: calls do not wait.
func TestHardErrorsFailCallsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.DropAcks("a", 1)
		sent := publish(t, c, "1")[0]
		time.Sleep(time.Second)
		open := subscribe(t, c, "t")
		reg.RefuseConnects(-1, protocol.ErrNotAdmitted)
		reg.Disconnect("a")
		until[client.Disconnected](t, e)
		waiting := publish(t, c, "2")[0]
		opening := make(chan error)
		go func() {
			_, err := c.Subscribe(t.Context(), "t")
			opening <- err
		}()
		require.True(t, until[client.DialFailed](t, e).Hard)

		_, err := sent.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		_, err = waiting.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.ErrorIs(t, <-opening, protocol.ErrNotAdmitted)
		start := time.Now()
		for name, err := range calls(t.Context(), c) {
			require.ErrorIs(t, err, protocol.ErrNotAdmitted, name)
		}
		require.Equal(t, start, time.Now())

		reg.ClearFaults()
		until[client.Connected](t, e)
		put(t, c, "t", "3")
		require.Equal(t, []string{"disconnected", "3"}, dropCaughtUp(next(t, open, 4)))
	})
}

// calls makes each call that asks the registry.
func calls(ctx context.Context, c *client.Client) map[string]error {
	all := map[string]error{}
	_, all["publish"] = c.PublishTo(ctx, "t", nil)
	_, all["urgent"] = c.Publish(ctx, client.Publication{Topic: "t", Urgent: true}).Wait(ctx)
	_, all["send"] = c.Send(ctx, 1, nil)
	_, all["subscribe"] = c.Subscribe(ctx, "t")
	_, all["subscribe inbox"] = c.SubscribeInbox(ctx)
	_, all["fence"] = c.Fence(ctx, "t")
	_, all["set fence"] = c.SetFence(ctx, "t", 1, 1)
	_, all["info"] = c.Info(ctx)
	all["join"] = c.Join(ctx, "t")
	all["leave"] = c.Leave(ctx, "t")
	all["clear inbox"] = c.ClearInbox(ctx, 1)
	for _, all["inbox"] = range c.Inbox(ctx, client.InboxOptions{}) {
		break
	}
	for _, all["nodes"] = range c.Nodes(ctx, client.NodesOptions{}) {
		break
	}
	for _, all["topics"] = range c.Topics(ctx, "*") {
		break
	}
	for _, all["joined"] = range c.Joined(ctx) {
		break
	}
	return all
}

func TestCallsWaitAgainOnceTheErrorIsNotHardAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.RefuseConnects(1, protocol.ErrNotAdmitted)
		reg.Disconnect("a")
		until[client.DialFailed](t, e)
		reg.Stop()
		require.False(t, until[client.DialFailed](t, e).Hard)
		for name, call := range single(c) {
			require.ErrorIs(t, call(within(t, time.Second)), context.DeadlineExceeded, name)
		}
	})
}

func TestLogLinesOfAnOutageAreFew(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		var lines atomic.Int64
		c := join(t, reg, "a", func(o *client.Options) { o.Logger = slog.New(counting{&lines}) })
		reg.RefuseConnects(-1, protocol.ErrInternal)
		reg.Disconnect("a")
		time.Sleep(5 * time.Minute)
		require.Greater(t, c.Stats().DialsFailed, uint64(60))
		require.Less(t, lines.Load(), int64(15))
		require.NotZero(t, lines.Load())
	})
}

// counting counts warnings.
type counting struct{ lines *atomic.Int64 }

func (counting) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c counting) Handle(context.Context, slog.Record) error  { c.lines.Add(1); return nil }
func (c counting) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c counting) WithGroup(string) slog.Handler              { return c }

func TestDialErrors(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		dial := func(ctx context.Context, more ...func(*client.Options)) error {
			addr, o := options(reg, "a", more...)
			_, err := client.Dial(ctx, addr, o)
			return err
		}
		other := link.Fingerprint(fakeregistry.Key("other").Public().(ed25519.PublicKey))
		require.ErrorIs(t, dial(t.Context(), func(o *client.Options) { o.RegistryKey = other }), protocol.ErrWrongKey)
		reg.RefuseConnects(1, protocol.ErrNodeIDTaken)
		require.ErrorIs(t, dial(t.Context()), protocol.ErrNodeIDTaken)
		reg.Mute("a")
		start := time.Now()
		require.ErrorIs(t, dial(t.Context()), protocol.ErrTimeout)
		require.InDelta(t, 5*time.Second, time.Since(start), float64(time.Second))
		reg.Unmute("a")
		require.ErrorIs(t, dial(ended(t)), context.Canceled)

		reg.Stop()
		start = time.Now()
		err := dial(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		require.InDelta(t, time.Second, time.Since(start), float64(100*time.Millisecond))
		require.ErrorIs(t, dial(t.Context()), protocol.ErrTimeout)
	})
}

// net.ErrClosed says that the client was closed, and nothing else.
func TestSocketThatTheUserClosed(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		addr, o := options(reg, "a")
		c, err := client.Dial(t.Context(), addr, o)
		require.NoError(t, err)
		defer c.Close()
		e := c.Events()
		o.PacketConn.Close()
		err = until[client.Disconnected](t, e).Err
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		require.NotErrorIs(t, err, net.ErrClosed)
		_, err = c.PublishTo(within(t, time.Second), "t", nil)
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		require.NotErrorIs(t, err, net.ErrClosed)
		_, err = client.Dial(t.Context(), addr, o)
		require.Error(t, err)
		require.NotErrorIs(t, err, net.ErrClosed)
	})
}

// serve runs a registry of its own at a node, until it is stopped.
func serve(t *testing.T, n *simnet.Network, node string, o registry.Options) (stop func()) {
	t.Helper()
	o.Access = func(context.Context, registry.Request) error { return nil }
	r, err := registry.New(o)
	require.NoError(t, err)
	pc := n.Listen(node)
	served := make(chan error)
	go func() { served <- r.Serve(pc) }()
	stop = sync.OnceFunc(func() {
		r.Close()
		<-served
		pc.Close()
	})
	t.Cleanup(stop)
	return stop
}

func TestSeveralAddressesOfOneLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Options{Latency: latency})
		t.Cleanup(n.Close)
		log := memlog.New(memlog.Options{}) // as if it were on a cluster
		stops := map[string]func(){}
		for _, node := range []string{"one", "two"} {
			stops[node] = serve(t, n, node, registry.Options{Log: log, Key: fakeregistry.Key("registry")})
		}
		n.Isolate("one")
		c, err := client.Dial(t.Context(), n.Addr("one")+","+n.Addr("two"), client.Options{Key: fakeregistry.Key("a"), NoState: true, PacketConn: n.Listen("a")})
		require.NoError(t, err)
		defer c.Close()
		e := c.Events()
		info, err := c.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, n.Addr("two"), info.Address)
		n.HealAll()
		n.Isolate("two")
		require.Equal(t, n.Addr("one"), until[client.Connected](t, e).Address)
		n.HealAll()
		start := time.Now()
		stops["one"]()
		require.Equal(t, n.Addr("two"), until[client.Connected](t, e).Address)
		require.Less(t, time.Since(start), time.Second, "the other address comes first")
	})
}

// The registry's key moves on to one that the pinned one signed; any other is an
// error that no retry mends.
func TestKeyOfTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Options{Latency: latency})
		t.Cleanup(n.Close)
		key := func(name string) link.Identity { return link.Identity{Key: fakeregistry.Key(name)} }
		run := func(id link.Identity, chain ...protocol.Succession) (stop func()) {
			return serve(t, n, "registry", registry.Options{Log: memlog.New(memlog.Options{}), Key: id.Key, Successions: chain})
		}
		stop := run(key("1"))
		home := t.TempDir()
		o := client.Options{Key: fakeregistry.Key("a"), Home: home, PacketConn: n.Listen("a")}
		c, err := client.Dial(t.Context(), n.Addr("registry"), o)
		require.NoError(t, err)
		defer c.Close()
		e := c.Events()
		known := func() string {
			list, err := client.KnownRegistries(home)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, n.Addr("registry"), list[0].Host)
			return list[0].Fingerprint
		}
		require.Equal(t, link.Fingerprint(key("1").Public()), known())

		stop()
		stop = run(key("2"), protocol.SignSuccession(key("1").Key, key("2").Public()))
		require.Equal(t, client.KeyChanged{Old: key("1").Public(), New: key("2").Public()}, until[client.KeyChanged](t, e))
		require.Equal(t, link.Fingerprint(key("2").Public()), known())

		stop()
		run(key("3"))
		failed := until[client.DialFailed](t, e)
		for !failed.Hard {
			failed = until[client.DialFailed](t, e)
		}
		require.ErrorIs(t, failed.Err, protocol.ErrWrongKey)
		_, err = c.PublishTo(t.Context(), "t", nil)
		require.ErrorIs(t, err, protocol.ErrWrongKey)

		ok, err := client.ForgetRegistry(home, strings.ToUpper("quic://")+n.Addr("registry"))
		require.ErrorIs(t, err, protocol.ErrUnsupported)
		require.False(t, ok)
		ok, err = client.ForgetRegistry(home, "quic://"+n.Addr("registry"))
		require.NoError(t, err)
		require.True(t, ok)
		until[client.Connected](t, e)
		require.Equal(t, link.Fingerprint(key("3").Public()), known())
	})
}

// The next command of a user finds a ticket of the last one.
func TestOneShotKeepsTickets(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		home := t.TempDir()
		c := join(t, reg, "a", func(o *client.Options) { o.NoState, o.Home, o.OneShot = false, home, true })
		put(t, c, "t", "1")
		require.NoError(t, c.Close())
		dir, err := client.StateDir(home)
		require.NoError(t, err)
		tickets, err := os.ReadDir(filepath.Join(dir, "tickets"))
		require.NoError(t, err)
		require.NotEmpty(t, tickets)
	})
}

func TestAnnouncedKeyIsAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		registryKey := fakeregistry.Key("\x00registry")
		next := fakeregistry.Key("next").Public().(ed25519.PublicKey)
		record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			if _, ok := h.Frame.(*protocol.GetInfo); ok {
				return answer(&protocol.Successor{Succession: protocol.SignSuccession(registryKey, next)})
			}
			if _, ok := h.Frame.(*protocol.GetFence); ok {
				return answer(&protocol.Successor{Succession: protocol.SignSuccession(fakeregistry.Key("z"), next)})
			}
			return fakeregistry.Answer{}
		})
		c := join(t, reg, "a")
		e := c.Events()
		c.Info(within(t, time.Second))
		require.Equal(t, client.KeyChanged{Old: registryKey.Public().(ed25519.PublicKey), New: next, Announced: true},
			until[client.KeyChanged](t, e))
		c.Fence(within(t, time.Second), "t")
		require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrMalformed)
	})
}
