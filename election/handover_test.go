package election_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// A successor that the leader knows claims at once: two round trips of silence,
// and not a Silence.
func TestAResignHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := elect(t, member(t, reg, "a"))
		b := member(t, reg, "b")
		elected := make(chan *election.Leadership, 1)
		go func() {
			l, err := b.Campaign(t.Context())
			if err == nil {
				elected <- l
			}
		}()
		time.Sleep(2 * lan.Silence) // b lets the leader know of itself
		require.Equal(t, id("b"), b.Status().Candidates[0].Node)

		start := time.Now()
		require.NoError(t, a.Resign(t.Context()))
		require.Equal(t, latency, time.Since(start), "there and back")
		l := <-elected
		t.Logf("handed over in %v, at %v from member to member", time.Since(start), latency)
		require.LessOrEqual(t, time.Since(start), 2*latency+time.Millisecond)
		require.Equal(t, a.Term()+1, l.Term())
		require.NoError(t, a.Resign(t.Context()), "again")
		require.ErrorIs(t, a.Err(), protocol.ErrStaleTerm)
		require.NoError(t, l.Resign(t.Context()))
	})
}

// Run resigns when lead returns, and returns the same.
func TestLeadEndsRun(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		boom := errors.New("boom")
		for i, want := range []error{nil, boom} {
			conn := dial(t, reg, "a")
			start := time.Now()
			err := election.Run(t.Context(), conn, election.Options{Group: group}, func(ctx context.Context, l *election.Leadership) error {
				require.Equal(t, ctx, l.Context())
				require.NoError(t, l.Err())
				return want
			})
			require.Equal(t, want, err)
			require.Less(t, time.Since(start), 4*lan.Silence)
			all := said(t, reg)
			require.Contains(t, all[len(all)-1], " resign ", i)
		}
	})
}

// When its ctx ends, Run stops the work, resigns, and tells both.
func TestRunEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		ctx, cancel := context.WithCancel(t.Context())
		type value struct{}
		conn, stopped := dial(t, reg, "a"), time.Time{}
		err := election.Run(context.WithValue(ctx, value{}, 7), conn, election.Options{Group: group}, func(ctx context.Context, l *election.Leadership) error {
			require.Equal(t, 7, ctx.Value(value{}))
			cancel()
			<-ctx.Done()
			require.False(t, l.Valid())
			require.ErrorIs(t, l.Err(), context.Canceled)
			time.Sleep(50 * time.Millisecond) // it takes its time
			require.NotEqual(t, "resign", lastKind(reg), "while it works")
			stopped = time.Now()
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, latency, time.Since(stopped), "the resign, there and back")
		require.Equal(t, "resign", lastKind(reg))
		require.ErrorIs(t, election.Run(ctx, conn, election.Options{Group: group}, nil), context.Canceled, "before it begins")
	})
}

// lastKind is what the newest message of the group is.
func lastKind(reg *fakeregistry.Registry) string {
	all := reg.Messages(topic)
	m, err := election.Parse(all[len(all)-1].Payload)
	if err != nil {
		return err.Error()
	}
	return m.Kind.String()
}

// A lead that panics, or ends its goroutine as a failed test does, leads no more.
func TestALeadThatPanicsResigns(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		require.Panics(t, func() {
			_ = m.Run(t.Context(), func(context.Context, *election.Leadership) error { panic("at the disco") })
		})
		time.Sleep(10 * lan.Silence)
		require.Equal(t, "resign", lastKind(reg))
		require.False(t, m.Status().Leads)
		require.False(t, m.Status().Candidate)
		require.NoError(t, elect(t, m).Resign(t.Context()))
	})
}

// Run campaigns again after a loss, once lead has returned.
func TestRunGoesOnAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var terms []uint64
		err := m.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
			terms = append(terms, l.Term())
			if len(terms) == 3 {
				cancel()
				return nil
			}
			reg.Partition("a", fakeregistry.Host)
			<-ctx.Done()
			time.Sleep(time.Second) // far too long
			reg.HealAll()
			return errors.New("not to be seen")
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, terms, 3)
		require.IsIncreasing(t, terms)
	})
}

// With preemption the leader gives way to a higher candidate, in order, and once.
func TestMembersPreemptOnce(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		after := func(n int64) func(*election.Options) {
			return func(o *election.Options) {
				o.Priority = n
				o.Preempt = election.Preemption{Allowed: true, After: 3 * time.Second}
			}
		}
		p := newPool(t, reg)
		p.run("low", after(1))
		_, _ = p.await("")
		start := time.Now()
		p.run("high", after(2))
		next, _ := p.await("low")
		require.Equal(t, "high", next)
		require.InDelta(t, 3*time.Second, time.Since(start), float64(time.Second))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"+low", "-low", "+high"}, p.told())
	})
}

func TestAskingALeaderToResign(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		same := member(t, reg, "a") // another process with the leader's key
		stranger := member(t, reg, "c")
		require.ErrorIs(t, same.Ask(t.Context(), ""), protocol.ErrNotFound)

		p := newPool(t, reg)
		p.run("a")
		require.Equal(t, "a", first(p.await("")))
		p.run("b")
		p.run("d")
		time.Sleep(2 * lan.Silence)
		require.ErrorIs(t, stranger.Ask(t.Context(), ""), protocol.ErrDenied)
		require.Equal(t, "a", p.leader())

		start := time.Now()
		require.NoError(t, same.Ask(t.Context(), id("b")))
		require.Equal(t, latency, time.Since(start))
		require.Equal(t, "b", first(p.await("a")))
		require.Less(t, time.Since(start), 10*latency)

		require.NoError(t, member(t, reg, "b").Ask(t.Context(), id("d")))
		require.Equal(t, "d", first(p.await("b")))
	})
}

func first[A, B any](a A, _ B) A { return a }

// A leader can ask itself, and one whose group trusts payloads listens to all.
func TestWhoMayAsk(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		trust := func(o *election.Options) { o.Plain = election.PlainTrust }
		a := member(t, reg, "a", trust)
		l := elect(t, a)
		require.NoError(t, a.Ask(t.Context(), ""))
		<-l.Done()
		require.NoError(t, l.Resign(t.Context()))

		l = elect(t, a)
		require.NoError(t, member(t, reg, "b", trust).Ask(t.Context(), ""))
		<-l.Done()
		require.NoError(t, l.Resign(t.Context()))
	})
}

func TestAScriptCannotBeAsked(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		script := dial(t, reg, "script")
		time.Sleep(latency)
		_, err := script.PublishTo(t.Context(), topic, []byte(`{"type":"leader","leader":"`+id("script")+`","term":4}`))
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorIs(t, m.Ask(t.Context(), ""), protocol.ErrUnsupported)
	})
}

// After a leadership from Campaign was cancelled its holder says when the work is
// over; without a word the lease has to end.
func TestTheHolderSaysWhenTheWorkIsOver(t *testing.T) {
	for _, says := range []bool{true, false} {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			m := member(t, reg, "a")
			a := elect(t, m)
			p := newPool(t, reg)
			p.run("b")
			time.Sleep(2 * lan.Silence)
			require.NoError(t, m.Ask(t.Context(), ""))
			<-a.Done()
			start := time.Now()
			require.True(t, m.Status().Leads, "nobody else may")
			if says {
				require.NoError(t, a.Resign(t.Context()))
			}
			_, took := p.await("")
			if says {
				require.Less(t, took, 4*latency)
			} else {
				require.Greater(t, time.Since(start), lan.Lease-2*lan.Heartbeat)
			}
			require.False(t, m.Status().Leads)
			require.False(t, m.Status().Candidate, "nobody asked for another leadership")
		})
	}
}

// One campaign at a time.
func TestCampaignsExcludeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := m.Campaign(ctx)
			done <- err
		}()
		synctest.Wait()
		_, err := m.Campaign(t.Context())
		require.ErrorIs(t, err, protocol.ErrInvalid)
		require.ErrorContains(t, err, "campaigns already")
		start := time.Now()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Zero(t, time.Since(start))
		require.False(t, m.Status().Candidate)

		l := elect(t, m)
		_, err = m.Campaign(t.Context())
		require.ErrorContains(t, err, "leads already")
		require.True(t, l.Valid())

		// The rest of one that has ended is waited for.
		reg.Partition("a", fakeregistry.Host)
		<-l.Done()
		reg.HealAll()
		next := elect(t, m)
		require.Greater(t, next.Term(), l.Term())
		require.NoError(t, next.Resign(t.Context()))
	})
}

// Whoever gives up in the moment of being elected does not lead.
func TestNobodyLeadsByACampaignThatWasGivenUp(t *testing.T) {
	outcomes := map[bool]int{}
	for range 40 { // which of the two Campaign sees is chance
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			ctx, cancel := context.WithCancel(t.Context())
			m := member(t, reg, "a", func(o *election.Options) { o.Logger = slog.New(onMessage{slog.DiscardHandler, "leads", cancel}) })
			l, err := m.Campaign(ctx)
			outcomes[err == nil]++
			if err == nil {
				require.True(t, l.Valid(), "its context outlives the campaign's")
				require.NoError(t, l.Resign(t.Context()))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			time.Sleep(latency)
			synctest.Wait()
			require.False(t, m.Status().Leads)
			require.Equal(t, "resign", lastKind(reg), "what was claimed is free again")
		})
	}
	require.NotZero(t, outcomes[false], "or this test says nothing")
}

// onMessage calls do when a member logs a message.
type onMessage struct {
	slog.Handler
	message string
	do      func()
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return nil
}

// Who is told that it leads can see that it does.
func TestAnElectedMemberSeesItself(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a", func(o *election.Options) {
			o.Logger = slog.New(onMessage{slog.DiscardHandler, "sees", func() { time.Sleep(time.Millisecond) }})
		})
		l := elect(t, m)
		require.True(t, m.Status().Leads)
		require.Equal(t, l.Token(), m.Status().Now.Token)
		require.NoError(t, m.Ask(t.Context(), ""))
		<-l.Done()
		require.NoError(t, l.Resign(t.Context()))
	})
}

// The fence refuses a publish of the leader before the leader has read why: it
// leads no more.
func TestARefusedWriteEndsTheLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := elect(t, member(t, reg, "a"))
		publish := func(p client.Publication) error {
			_, err := a.Publish(t.Context(), p).Wait(t.Context())
			return err
		}
		// Another fence's refusal is none of the election's business.
		other := protocol.Condition{Topic: "config:fleet", Epoch: reg.Epoch().ID, Term: 7}
		require.ErrorIs(t, publish(client.Publication{Topic: "config:fleet", Conditions: []protocol.Condition{other}}), protocol.ErrStaleTerm)
		time.Sleep(time.Second)
		require.True(t, a.Valid())

		reg.Stall("a")
		supersede(t, reg)
		require.True(t, a.Valid(), "it has not heard of it")
		require.ErrorIs(t, publish(client.Publication{Topic: "config:fleet"}), protocol.ErrStaleTerm)
		synctest.Wait()
		require.False(t, a.Valid())
		require.Equal(t, &election.LostError{Token: a.Token(), Reason: election.ReasonStale}, a.Err())
		reg.Unstall("a")
	})
}

// The same, when nobody looks at the result.
func TestARefusedWriteIsHeardOfUnasked(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := elect(t, member(t, reg, "a", func(o *election.Options) { o.Timing = election.Flaky }))
		reg.Stall("a")
		supersede(t, reg)
		start := time.Now()
		a.Publish(t.Context(), client.Publication{Topic: "config:fleet"})
		<-a.Done()
		require.Equal(t, latency, time.Since(start))
		require.Equal(t, &election.LostError{Token: a.Token(), Reason: election.ReasonStale}, a.Err())
		reg.Unstall("a")
	})
}

// supersede has another claim the next term, over the present leader.
func supersede(t *testing.T, reg *fakeregistry.Registry) {
	t.Helper()
	f := reg.Fence(topic)
	_, err := reg.Inject(t.Context(), fakeregistry.Raw{
		From: "z", Topic: topic, Payload: []byte(`{}`),
		Conditions: []protocol.Condition{{Topic: topic, Term: f.K + 1, HasExpect: true, Expect: f.S, Raise: f.K + 1}},
	})
	require.NoError(t, err)
}

// Run returns soon after its context has ended and lead has returned, also when
// nobody can hear that the member resigns.
func TestRunDoesNotOutlastItsContext(t *testing.T) {
	const work = 30 * time.Millisecond
	slow := func(o *election.Options) { o.Timing = election.WAN }
	type lead = func(context.Context, *election.Leadership) error
	for name, run := range map[string]func(*testing.T, context.Context, client.Conn, lead) error{
		"Run": func(_ *testing.T, ctx context.Context, conn client.Conn, f lead) error {
			return election.Run(ctx, conn, election.Options{Group: group, Timing: election.WAN}, f)
		},
		"Member.Run": func(t *testing.T, ctx context.Context, conn client.Conn, f lead) error {
			return over(t, conn, slow).Run(ctx, f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cut := range []bool{true, false} {
				bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
					conn := dial(t, reg, "a")
					ctx, cancel := context.WithCancel(t.Context())
					var ended time.Time
					err := run(t, ctx, conn, func(ctx context.Context, _ *election.Leadership) error {
						if cut {
							reg.Partition("a", fakeregistry.Host)
						}
						cancel()
						<-ctx.Done()
						time.Sleep(work)
						ended = time.Now()
						return nil
					})
					require.ErrorIs(t, err, context.Canceled)
					if cut {
						require.Equal(t, 100*time.Millisecond, time.Since(ended))
					} else {
						require.Equal(t, latency, time.Since(ended))
						require.Equal(t, "resign", lastKind(reg))
					}
					reg.HealAll()
				})
			}
		})
	}
}
