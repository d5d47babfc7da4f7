package election_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// tapped is a connection that notes what is published, and of whose subscription
// a test can keep things back.
type tapped struct {
	client.Conn
	lazy atomic.Bool      // items come only to who asks for what is at hand
	more chan client.Item // come before those of the registry

	mu   sync.Mutex
	sent []sent
}

type sent struct {
	client.Publication
	kind  election.Kind
	until time.Duration
}

func tap(conn client.Conn) *tapped { return &tapped{Conn: conn, more: make(chan client.Item, 8)} }

func (c *tapped) Publish(ctx context.Context, p client.Publication) client.Pending {
	m, _ := election.Parse(p.Payload)
	s := sent{Publication: p, kind: m.Kind}
	if end, ok := ctx.Deadline(); ok {
		s.until = time.Until(end)
	}
	c.mu.Lock()
	c.sent = append(c.sent, s)
	c.mu.Unlock()
	return c.Conn.Publish(ctx, p)
}

func (c *tapped) Subscribe(ctx context.Context, pattern string, opts ...client.SubscribeOption) (client.Stream, error) {
	s, err := c.Conn.Subscribe(ctx, pattern, opts...)
	return &tappedStream{s, c}, err
}

type tappedStream struct {
	client.Stream
	c *tapped
}

func (s *tappedStream) Next(ctx context.Context) (client.Item, error) {
	select {
	case item := <-s.c.more:
		return item, nil
	default:
	}
	if s.c.lazy.Load() && ctx.Err() == nil {
		<-ctx.Done()
		return client.Item{}, ctx.Err()
	}
	return s.Stream.Next(ctx)
}

// What members publish: over the urgent lane, in a slot where only the newest
// counts, under a key of their own, and not for longer than it is of use.
func TestWhatMembersPublish(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := tap(dial(t, reg, "a"))
		m := over(t, conn)
		l := elect(t, m)
		time.Sleep(time.Second)
		require.NoError(t, l.Resign(t.Context()))
		instance, own := m.Status().Instance, conn.Self().Instance
		require.NotEqual(t, own, instance)
		want := map[election.Kind]struct {
			slot   string
			fenced bool
			until  time.Duration
		}{
			election.KindCandidacy: {"candidacy", false, lan.Silence},
			election.KindClaim:     {"", true, lan.Lease},
			election.KindHeartbeat: {"heartbeat", true, lan.Lease - lan.Heartbeat + latency},
			election.KindResign:    {"", true, lan.Silence},
		}
		seen := map[election.Kind]int{}
		for i, s := range conn.sent {
			w := want[s.kind]
			seen[s.kind]++
			require.Equal(t, topic, s.Topic)
			require.True(t, s.Urgent)
			require.Equal(t, w.slot, s.Slot)
			require.Equal(t, w.fenced, len(s.Conditions) == 1)
			require.LessOrEqual(t, s.until, w.until)
			require.Greater(t, s.until, w.until-2*lan.Heartbeat)
			require.Len(t, s.Key, 24)
			require.Equal(t, instance[:], s.Key[:16])
			require.EqualValues(t, i+1, s.Key[23])
			parsed, err := election.Parse(s.Payload)
			require.NoError(t, err)
			require.Equal(t, instance, parsed.Instance)
		}
		require.Len(t, seen, 4)
		require.Equal(t, 1, seen[election.KindClaim])
	})
}

// What is at hand is read before a deadline is believed.
func TestADeadlineWaitsForWhatIsAtHand(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		l := elect(t, member(t, reg, "a"))
		conn := tap(dial(t, reg, "b"))
		p := newPool(t, reg)
		p.runOver("b", conn)
		time.Sleep(time.Second)
		conn.lazy.Store(true)
		time.Sleep(20 * lan.Silence)
		s := p.members["b"].Status()
		require.Equal(t, l.Token(), s.Now.Token)
		require.Len(t, s.History, 1, "it never was silent")
		require.True(t, l.Valid())
	})
}

// A gap starts the silence anew: what is missing may have been a heartbeat.
func TestAGapIsWaitedOut(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		l := elect(t, member(t, reg, "a"))
		conn := tap(dial(t, reg, "b"))
		p := newPool(t, reg)
		p.runOver("b", conn)
		time.Sleep(time.Second)
		reg.Partition("a", fakeregistry.Host)
		start := time.Now()
		for range 10 {
			time.Sleep(lan.Silence / 2)
			conn.more <- client.Item{Kind: client.ItemGap, Epoch: reg.Epoch()}
			poke(t, reg) // so that it reads on
			require.Empty(t, p.leader())
		}
		require.False(t, l.Valid())
		_, _ = p.await("")
		require.Greater(t, time.Since(start), 6*lan.Silence)
	})
}

// poke puts something into the group's topic that counts for nothing.
func poke(t *testing.T, reg *fakeregistry.Registry) {
	t.Helper()
	_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "x", Topic: topic, Payload: []byte(`{}`)})
	require.NoError(t, err)
	time.Sleep(latency)
	synctest.Wait()
}

// Close waits for lead: no callback runs after it.
func TestCloseWaitsForLead(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		var over atomic.Bool
		leads := make(chan struct{})
		go func() {
			_ = m.Run(t.Context(), func(ctx context.Context, _ *election.Leadership) error {
				close(leads)
				<-ctx.Done()
				time.Sleep(time.Second) // it takes longer than the lease
				over.Store(true)
				return nil
			})
		}()
		<-leads
		require.NoError(t, m.Close())
		require.True(t, over.Load())
	})
}

// A clock that runs slower than the timers, as one does by a little: a timer that
// is early is set again.
func TestTimersMayBeEarly(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		begin := time.Now()
		m := member(t, reg, "a", func(o *election.Options) {
			o.Clock = func() time.Duration { return time.Since(begin) * 99 / 100 }
		})
		l := elect(t, m)
		require.Less(t, time.Since(begin), 2*lan.Silence)
		time.Sleep(time.Minute)
		require.True(t, l.Valid())
		require.NoError(t, l.Resign(t.Context()))
	})
}

// Why a leadership of one's own ended: the context of Run, or lead's return.
func TestOwnEndsHaveTheirReasons(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, m.Run(ctx, func(ctx context.Context, _ *election.Leadership) error {
			cancel()
			return nil
		}), context.Canceled)
		require.Contains(t, reasons(m), election.ReasonWithdrawn)
		n := len(reasons(m))
		require.NoError(t, m.Run(t.Context(), func(context.Context, *election.Leadership) error { return nil }))
		require.NotContains(t, reasons(m)[n:], election.ReasonWithdrawn)
		require.Contains(t, reasons(m)[n:], election.ReasonResigned)
	})
}

// Candidates of a log that was lost are forgotten, and what does not count is no
// sign of a leader.
func TestStatusForgetsAndIsNotFooled(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "o")
		say := func(payload string) {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "s", Topic: topic, Payload: []byte(payload)})
			require.NoError(t, err)
			time.Sleep(latency)
			synctest.Wait()
		}
		say(`{"type":"election","candidate":"` + id("s") + `","priority":1,"term":2000000000}`)
		require.Len(t, m.Status().Candidates, 1)
		beat := `{"type":"heartbeat","leader":"` + id("s") + `","term":2000000000,"timestamp":"1764500000"}`
		say(beat)
		require.LessOrEqual(t, m.Status().Heard, latency)
		time.Sleep(lan.Silence / 2)
		say(beat)
		require.GreaterOrEqual(t, m.Status().Heard, lan.Silence/2, "it was the same one again")

		require.NoError(t, reg.Shutdown(t.Context()))
		require.NoError(t, reg.StartEmpty())
		time.Sleep(time.Minute)
		require.True(t, m.Status().Connected)
		require.Empty(t, m.Status().Candidates)
	})
}

// What is called from within may ask the member.
func TestAClockMayLookAtTheMember(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		var asked atomic.Pointer[election.Member]
		m := member(t, reg, "a", func(o *election.Options) {
			o.WallClock = func() time.Time {
				if m := asked.Load(); m != nil {
					m.Status()
				}
				return time.Now()
			}
		})
		asked.Store(m)
		require.NoError(t, elect(t, m).Resign(t.Context()))
	})
}
