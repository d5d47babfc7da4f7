package election_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// A log that is lost ends every leadership; the next one, of the new epoch, has a
// higher term all the same.
func TestALostLogEndsALeadership(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		p := newPool(t, reg)
		for _, node := range []string{"a", "b", "c"} {
			p.run(node)
		}
		leader, _ := p.await("")
		before := p.members[leader].Status()
		require.NoError(t, reg.Shutdown(t.Context())) // so that clients come back soon
		require.NoError(t, reg.StartEmpty())
		time.Sleep(lan.Lease)
		require.Empty(t, p.leader())
		next, took := p.await("")
		require.Less(t, took, 20*time.Second)
		after := p.members[next].Status()
		require.Equal(t, reg.Epoch(), after.Epoch)
		require.Equal(t, reg.Epoch().ID, after.Now.Token.Epoch)
		require.NotEqual(t, before.Epoch.ID, after.Epoch.ID)
		require.Greater(t, after.Now.Token.Term, before.Now.Token.Term)
		time.Sleep(10 * time.Second)
		require.Equal(t, next, p.leader())
		for _, m := range p.members {
			require.Equal(t, after.Now.Token, m.Status().Now.Token)
			require.Contains(t, reasons(m), election.ReasonEpoch)
		}
	})
}

// A registry that restarts with its log: who led may go on at once, in a new term.
func TestARestartWithTheLog(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		p := newPool(t, reg)
		p.run("a")
		p.run("b")
		leader, _ := p.await("")
		term := reg.Fence(topic).K
		require.NoError(t, reg.Shutdown(t.Context()))
		time.Sleep(time.Minute)
		require.Empty(t, p.leader())
		require.NoError(t, reg.Start())
		next, took := p.await("")
		t.Logf("%s led; %v after the start %s does", leader, took, next)
		require.Equal(t, term+1, reg.Fence(topic).K)
	})
}

// Retention takes the claim away, and all else; the heartbeats stand for it.
func TestAPurgedTopic(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		l := elect(t, member(t, reg, "a"))
		reg.Purge(topic)
		p := newPool(t, reg)
		p.run("b")
		for range 100 {
			reg.Purge(topic)
			time.Sleep(50 * time.Millisecond)
		}
		require.True(t, l.Valid())
		require.Empty(t, p.leader())
		require.Equal(t, l.Token(), p.members["b"].Status().Now.Token)

		// Its last words are gone before anybody reads them.
		reg.Stall("b")
		require.NoError(t, l.Resign(t.Context()))
		reg.Purge(topic)
		reg.Unstall("b")
		next, took := p.await("")
		require.Equal(t, "b", next)
		require.Less(t, took, 3*lan.Silence, "its first claim is refused, as it has not read all")
		require.Greater(t, reg.Fence(topic).K, l.Term())
	})
}

func access(o fakeregistry.Options, test func(t *testing.T, reg *fakeregistry.Registry)) func(*testing.T) {
	return func(t *testing.T) {
		o.Latency = latency / 2
		test(t, fakeregistry.New(t, o))
	}
}

// A topic that may be read and not written: the campaign says so, and does not go
// on in silence.
func TestACampaignThatIsDenied(t *testing.T) {
	readers := func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightPublish {
			return protocol.Errorf(protocol.ErrDenied, "readers only")
		}
		return nil
	}
	synctest.Test(t, access(fakeregistry.Options{Access: readers}, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		start := time.Now()
		_, err := m.Campaign(t.Context())
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.ErrorContains(t, err, `campaign in "workers"`)
		require.ErrorContains(t, err, "readers only")
		require.NotEmpty(t, protocol.CodeOf(err).Hint())
		require.Less(t, time.Since(start), 2*lan.Silence)
		s := m.Status()
		require.ErrorIs(t, s.Refusal, protocol.ErrDenied)
		require.False(t, s.Candidate)
		require.ErrorIs(t, m.Run(t.Context(), nil), protocol.ErrDenied, "again")
		for o, err := range m.Observe(t.Context()) {
			require.NoError(t, err, "it still may look on")
			require.Empty(t, o.Leader)
			break
		}
	}))
}

func TestAGroupThatMayNotBeRead(t *testing.T) {
	writers := func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightSubscribe {
			return protocol.Errorf(protocol.ErrDenied, "writers only")
		}
		return nil
	}
	synctest.Test(t, access(fakeregistry.Options{Access: writers}, func(t *testing.T, reg *fakeregistry.Registry) {
		_, err := election.Join(t.Context(), dial(t, reg, "a"), election.Options{Group: group})
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.ErrorContains(t, err, group)
	}))
}

// A subscription that ends for good ends the leadership, and is everybody's error.
func TestASubscriptionThatEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(reg *fakeregistry.Registry, c *client.Client)
		want error
	}{
		{"denied", func(reg *fakeregistry.Registry, _ *client.Client) {
			reg.FailNext(fakeregistry.OpSubscribe, 1, protocol.ErrDenied)
			reg.Disconnect("a")
		}, protocol.ErrDenied},
		{"closed", func(_ *fakeregistry.Registry, c *client.Client) { c.Close() }, net.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				c := dial(t, reg, "a")
				m := over(t, c)
				var led *election.Leadership
				err := m.Run(t.Context(), func(ctx context.Context, l *election.Leadership) error {
					led = l
					test.end(reg, c)
					<-ctx.Done()
					return nil
				})
				require.ErrorIs(t, err, test.want)
				require.False(t, led.Valid())
				_, err = m.Campaign(t.Context())
				require.ErrorIs(t, err, test.want)
				require.ErrorIs(t, m.Ask(t.Context(), ""), test.want)
				for _, err = range m.Observe(t.Context()) {
				}
				require.ErrorIs(t, err, test.want)
				require.Error(t, led.Resign(t.Context()), "there was no way to")
			})
		})
	}
}

// Refusals that may pass do not end a campaign.
func TestAFullDiskIsWaitedOut(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		reg.StorageFull(true)
		time.AfterFunc(10*time.Second, func() {
			require.ErrorIs(t, m.Status().Refusal, protocol.ErrStorageFull)
			reg.StorageFull(false)
		})
		start := time.Now()
		l := elect(t, m)
		require.InDelta(t, 10*time.Second, time.Since(start), float64(2*time.Second))
		require.NoError(t, m.Status().Refusal)
		require.NoError(t, l.Resign(t.Context()))
	})
}

// Close comes to an end in whatever phase, soon, and leaves nothing: the bubble
// fails when a goroutine is left.
func TestCloseInEachPhase(t *testing.T) {
	still := lan
	still.Jitter = 0
	kinds := map[string]int{}
	for at := time.Duration(0); at < 600*time.Millisecond; at += 7 * time.Millisecond {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			m := member(t, reg, "a", func(o *election.Options) { o.Timing = still })
			done := make(chan error, 1)
			go func() {
				done <- m.Run(t.Context(), func(ctx context.Context, l *election.Leadership) error {
					<-ctx.Done()
					return nil
				})
			}()
			time.Sleep(at)
			start := time.Now()
			require.NoError(t, m.Close())
			require.LessOrEqual(t, time.Since(start), lan.Silence)
			require.ErrorIs(t, <-done, net.ErrClosed)
			time.Sleep(time.Second)
			last := "nothing"
			if len(reg.Messages(topic)) > 0 {
				last = lastKind(reg)
			}
			kinds[last]++
		})
	}
	t.Log(kinds)
	require.NotZero(t, kinds["nothing"])
	require.NotZero(t, kinds["election"])
	require.NotZero(t, kinds["resign"])
	require.Zero(t, kinds["heartbeat"])
}

// A leader that cannot be heard does not wait for ever to be.
func TestCloseWhileCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		l := elect(t, m)
		reg.Partition("a", fakeregistry.Host)
		start := time.Now()
		go func() { _ = l.Resign(t.Context()) }()
		require.NoError(t, m.Close())
		require.Equal(t, lan.Silence, time.Since(start))
		require.ErrorIs(t, l.Resign(t.Context()), protocol.ErrUnknownOutcome)
	})
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		l := elect(t, m)
		start := time.Now()
		require.NoError(t, m.Close(), "its holder says nothing")
		require.LessOrEqual(t, time.Since(start), lan.Lease)
		require.Greater(t, time.Since(start), lan.Lease-2*lan.Heartbeat)
		require.Equal(t, &election.LostError{Token: l.Token(), Reason: election.ReasonWithdrawn}, l.Err())
	})
}

// Options that cannot work are told with the inequality and its numbers.
func TestOptionsThatCannotWork(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := dial(t, reg, "a")
		for _, test := range []struct {
			spoil func(*election.Options)
			want  string
		}{
			{func(o *election.Options) { o.Group = "" }, "Group is missing"},
			{func(o *election.Options) { o.Group = "a*" }, "invalid topic"},
			{func(o *election.Options) { o.Timing = lan; o.Timing.Silence = lan.Lease },
				"silence >= lease*1.01/0.99 + max(5ms, lease/50) does not hold: 320ms < 332.8"},
			{func(o *election.Options) { o.Timing.Heartbeat = time.Second }, "lease is 0s, not above 0"},
			{func(o *election.Options) { o.Priority = 1 << 60 }, "is not between -9007199254740991 and 9007199254740991"},
			{func(o *election.Options) { o.Preempt.After = time.Second }, "is not Allowed"},
			{func(o *election.Options) { o.Preempt = election.Preemption{Allowed: true, After: -1} }, "-1ns is not between 0 and"},
			{func(o *election.Options) { o.Plain = 9 }, "no such Plain policy: 9"},
		} {
			o := election.Options{Group: group}
			test.spoil(&o)
			_, err := election.Join(t.Context(), conn, o)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, fmt.Sprintf("election %q", o.Group))
			require.Equal(t, "invalid_argument", protocol.CodeOf(err).Name())
		}
		require.Empty(t, reg.Subscriptions(), "nothing was begun")
	})
}

// Two processes with one key are two members, and say so.
func TestTwinsAreTwo(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		twin := newPool(t, reg)
		p := newPool(t, reg)
		p.run("a")
		twin.run("a")
		time.Sleep(time.Minute)
		leads, follows := p, twin
		if p.leader() == "" {
			leads, follows = twin, p
		}
		require.Equal(t, "a", leads.leader())
		require.Empty(t, follows.leader())
		require.Empty(t, follows.told())
		s := follows.members["a"].Status()
		require.False(t, s.Leads)
		require.Equal(t, id("a"), s.Now.Leader)
		require.Equal(t, leads.members["a"].Status().Instance, s.Now.Instance)
		require.NotEqual(t, s.Instance, s.Now.Instance)
		require.Greater(t, s.Voids[election.VoidTwin], uint64(100))

		reg.Disconnect("a") // both: the leader is not let go by the wrong one
		time.Sleep(time.Minute)
		require.NotEqual(t, p.leader(), twin.leader())
	})
}

// Members share a connection, and their publishes are not taken for each other's
// or for the connection's own.
func TestMembersShareAConnection(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := dial(t, reg, "a")
		for i := range 3 {
			_, err := conn.PublishTo(t.Context(), "own.topic", fmt.Append(nil, i))
			require.NoError(t, err)
		}
		x := over(t, conn)
		y := over(t, conn, func(o *election.Options) { o.Group = "others" })
		lx, ly := elect(t, x), elect(t, y)
		twin := over(t, conn)
		time.Sleep(10 * time.Second)
		require.True(t, lx.Valid())
		require.True(t, ly.Valid())
		require.False(t, twin.Status().Leads)
		require.Equal(t, lx.Token(), twin.Status().Now.Token)
		require.NoError(t, lx.Resign(t.Context()))
		require.NoError(t, elect(t, twin).Resign(t.Context()))
		require.NoError(t, ly.Resign(t.Context()))
	})
}

// stuck is a connection on which no publish finds a place, while it is on.
type stuck struct {
	client.Conn
	on atomic.Bool
}

func (s *stuck) Publish(ctx context.Context, p client.Publication) client.Pending {
	if s.on.Load() {
		<-ctx.Done()
	}
	return s.Conn.Publish(ctx, p)
}

// A full window must not keep the member from seeing that its lease ends.
func TestAFullWindowDoesNotHoldUpTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := &stuck{Conn: dial(t, reg, "a")}
		m := over(t, conn)
		l := elect(t, m)
		time.Sleep(time.Second)
		conn.on.Store(true)
		start := time.Now()
		<-l.Done()
		require.LessOrEqual(t, time.Since(start), lan.Lease-lan.Stop)
		require.ErrorContains(t, l.Err(), "expired")
		conn.on.Store(false)
		require.ErrorIs(t, l.Resign(t.Context()), protocol.ErrStaleTerm)
		require.NoError(t, elect(t, m).Resign(t.Context()))
	})
}

// The machine stood still: the leadership is not valid from the first look on,
// though no timer has said so.
func TestAMachineThatSlept(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		start := time.Now()
		var slept atomic.Int64
		m := member(t, reg, "a", func(o *election.Options) {
			o.Clock = func() time.Duration { return time.Since(start) + time.Duration(slept.Load()) }
		})
		l := elect(t, m)
		require.True(t, l.Valid())
		slept.Store(int64(time.Hour))
		require.False(t, l.Valid())
		require.NoError(t, l.Err(), "nobody has looked yet")
		_, err := l.Publish(t.Context(), client.Publication{Topic: "config:fleet"}).Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		require.ErrorContains(t, err, "expired")
		<-l.Done()
		require.LessOrEqual(t, time.Since(start), time.Second, "the next heartbeat would have been due")
		require.Error(t, l.Resign(t.Context()))
		require.NoError(t, elect(t, m).Resign(t.Context()))
		require.True(t, m.Status().Suspend)
	})
}

// Errors of hostile streams are not taken for the loop's own.
func TestAStreamMayEndInAnyWay(t *testing.T) {
	for _, want := range []error{context.Canceled, errors.New("odd"), protocol.ErrDenied} {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			m, err := election.Join(t.Context(), ending{dial(t, reg, "a"), want}, election.Options{Group: group})
			require.NoError(t, err)
			synctest.Wait()
			_, err = m.Campaign(t.Context())
			require.ErrorIs(t, err, want)
			require.NoError(t, m.Close())
		})
	}
}

type ending struct {
	client.Conn
	err error
}

func (e ending) Subscribe(context.Context, string, ...client.SubscribeOption) (client.Stream, error) {
	return e, nil
}
func (e ending) Next(context.Context) (client.Item, error) { return client.Item{}, e.err }
func (e ending) Close() error                              { return nil }

// A registry that takes subscriptions and publishes and never says anything: what
// waits for it ends with its context, and Close at once.
func TestARegistryThatSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := over(t, &silent{Conn: dial(t, reg, "a")})
		const patience = time.Minute
		for name, call := range map[string]func(context.Context) error{
			"Campaign": func(ctx context.Context) error { _, err := m.Campaign(ctx); return err },
			"Run":      func(ctx context.Context) error { return m.Run(ctx, nil) },
			"Ask":      func(ctx context.Context) error { return m.Ask(ctx, "") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			start := time.Now()
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
			require.Equal(t, patience, time.Since(start), name)
			cancel()
		}
		require.Equal(t, election.ReasonUnknown, m.Status().Now.Reason)
		start := time.Now()
		require.NoError(t, m.Close())
		require.Zero(t, time.Since(start))
	})

	// Here it falls silent while the member leads.
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := &silent{Conn: dial(t, reg, "a")}
		conn.heard.Store(true)
		m := over(t, conn)
		l := elect(t, m)
		conn.heard.Store(false)
		start := time.Now()
		<-l.Done()
		require.LessOrEqual(t, time.Since(start), lan.Lease-lan.Stop)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var lost *election.LostError
		require.ErrorAs(t, l.Resign(ctx), &lost)
		start = time.Now()
		require.NoError(t, m.Close())
		require.LessOrEqual(t, time.Since(start), lan.Silence)
	})
}

// silent is a connection over which nothing is heard unless a test says so.
type silent struct {
	client.Conn
	heard atomic.Bool
}

func (c *silent) Publish(ctx context.Context, p client.Publication) client.Pending {
	if c.heard.Load() {
		return c.Conn.Publish(ctx, p)
	}
	return unheard{ctx}
}

func (c *silent) Subscribe(ctx context.Context, pattern string, opts ...client.SubscribeOption) (client.Stream, error) {
	s, err := c.Conn.Subscribe(ctx, pattern, opts...)
	return &silentStream{s, c}, err
}

type silentStream struct {
	client.Stream
	c *silent
}

func (s *silentStream) Next(ctx context.Context) (client.Item, error) {
	if s.c.heard.Load() {
		return s.Stream.Next(ctx)
	}
	<-ctx.Done()
	return client.Item{}, ctx.Err()
}

// unheard is a publish that nobody answers.
type unheard struct{ ctx context.Context }

func (u unheard) Wait(ctx context.Context) (client.Ack, error) {
	select {
	case <-u.ctx.Done():
		return client.Ack{}, protocol.ErrUnknownOutcome
	case <-ctx.Done():
		return client.Ack{}, ctx.Err()
	}
}

func (u unheard) Result() (client.Ack, bool, error) {
	return client.Ack{}, u.ctx.Err() != nil, protocol.ErrUnknownOutcome
}
func (u unheard) Done() <-chan struct{} { return u.ctx.Done() }
func (u unheard) Key() []byte           { return nil }
