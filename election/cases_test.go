package election_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// Failure cases of other systems that do the same job, on the whole stack.

// H01: who is cut off by a black hole knows by its own clock that it leads no
// more, before anybody else does.
func TestACutOffLeaderStopsByItself(t *testing.T) {
	for _, test := range []struct {
		name string
		cut  func(*fakeregistry.Registry, string)
	}{
		{"both ways", func(r *fakeregistry.Registry, n string) { r.Partition(n, fakeregistry.Host) }},
		{"to the registry", func(r *fakeregistry.Registry, n string) { r.PartitionOneWay(n, fakeregistry.Host) }},
		{"from the registry", func(r *fakeregistry.Registry, n string) { r.PartitionOneWay(fakeregistry.Host, n) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				a := elect(t, member(t, reg, "a"))
				p := newPool(t, reg)
				p.run("b")
				time.Sleep(10 * lan.Silence)

				test.cut(reg, "a")
				cut := time.Now()
				<-a.Done()
				require.LessOrEqual(t, time.Since(cut), lan.Lease-lan.Stop, "counted from the last heartbeat that was acknowledged")
				require.False(t, a.Valid())
				var lost *election.LostError
				require.ErrorAs(t, a.Err(), &lost)
				require.Equal(t, &election.LostError{Token: a.Token(), Reason: election.ReasonExpired}, lost)
				require.ErrorIs(t, a.Err(), protocol.ErrStaleTerm)
				require.Len(t, reg.Sessions(), 2, "no socket has said anything")
				require.Empty(t, p.leader())
				require.ErrorIs(t, a.Resign(t.Context()), protocol.ErrStaleTerm, "there was none")

				_, took := p.await("")
				t.Logf("cut off, %v later another leads", time.Since(cut))
				require.Less(t, took, 2*lan.Silence)
			})
		})
	}
}

// H02: who waited behind a leader and lost its connection for long neither hangs
// nor leads by a claim that nobody accepted.
func TestACandidateThatWasAwayStandsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := elect(t, member(t, reg, "a"))
		b := member(t, reg, "b")
		elected := make(chan *election.Leadership, 1)
		go func() {
			l, err := b.Campaign(t.Context())
			if err == nil {
				elected <- l
			}
			close(elected)
		}()
		time.Sleep(time.Second)

		reg.RefuseConnects(-1, protocol.ErrDraining)
		reg.Disconnect("b")
		time.Sleep(5 * lan.Silence)
		require.NoError(t, a.Resign(t.Context()))
		time.Sleep(5 * lan.Silence)
		require.Empty(t, elected)

		reg.ClearFaults()
		l := <-elected
		require.NotNil(t, l)
		require.True(t, l.Valid())
		require.Greater(t, l.Term(), a.Term())
		require.Equal(t, l.Term(), reg.Fence(topic).K)
		require.Contains(t, said(t, reg), fmt.Sprintf("%s leader %d", id("b"), l.Term()))
		require.NoError(t, l.Resign(t.Context()))
	})
}

// H03: neither a candidacy of the dead nor a claim of an earlier term counts.
func TestOldMessagesDoNotDecide(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		dead := func(payload string) fakeregistry.Raw {
			return fakeregistry.Raw{From: "z", Topic: topic, Payload: fmt.Appendf(nil, payload, id("z"))}
		}
		_, err := reg.Inject(t.Context(), dead(`{"type":"election","candidate":"%s","priority":9000000000000,"term":3}`))
		require.NoError(t, err)
		p := newPool(t, reg)
		p.run("a")
		p.run("b")
		leader, took := p.await("")
		require.Less(t, took, 2*lan.Silence)
		before := p.members[leader].Status()

		_, err = reg.Inject(t.Context(), dead(`{"type":"leader","leader":"%s","term":3}`))
		require.NoError(t, err)
		time.Sleep(10 * lan.Silence)
		require.Equal(t, leader, p.leader())
		after := p.members[leader].Status()
		require.Equal(t, before.Now, after.Now)
		require.EqualValues(t, 1, after.Voids[election.VoidOldTerm]-before.Voids[election.VoidOldTerm])
	})
}

// H04: who comes back after a long time follows; with preemption on it is handed
// over to, once.
func TestWhoComesBackFollows(t *testing.T) {
	for _, preempts := range []bool{false, true} {
		t.Run(fmt.Sprint("preemption ", preempts), func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				set := func(n int64) func(*election.Options) {
					return func(o *election.Options) {
						o.Priority = n
						o.Preempt.Allowed = preempts
					}
				}
				p := newPool(t, reg)
				p.run("a", set(2))
				p.run("b", set(1))
				leader, _ := p.await("")
				require.Equal(t, "a", leader)
				p.run("c", set(-3))
				term := p.members["a"].Status().Now.Token.Term

				// c as a higher one than both, cut off.
				c := newPool(t, reg)
				c.run("d", set(3))
				reg.Partition("d", fakeregistry.Host)
				time.Sleep(20 * lan.Silence)
				require.Equal(t, "a", p.leader())
				require.Empty(t, c.leader())
				reg.HealAll()
				time.Sleep(30 * time.Second)
				got := c.members["d"].Status()
				require.True(t, got.Connected)
				if !preempts {
					require.Equal(t, id("a"), got.Now.Leader)
					require.Equal(t, term, got.Now.Token.Term)
					require.Equal(t, []string{"+a"}, p.told())
					require.Empty(t, c.told())
					return
				}
				require.Equal(t, id("d"), got.Now.Leader)
				require.Equal(t, term+1, got.Now.Token.Term)
				require.Equal(t, []string{"+a", "-a"}, p.told())
				require.Equal(t, []string{"+d"}, c.told())
				require.Contains(t, reasons(p.members["a"]), election.ReasonPreempted)
			})
		})
	}
}

// reasons lists why there was no leader, as a member has seen it.
func reasons(m *election.Member) []election.Reason {
	var list []election.Reason
	for _, o := range m.Status().History {
		if o.Leader == "" {
			list = append(list, o.Reason)
		}
	}
	return list
}

// H05: of two that claim together the log decides, and the other follows.
func TestOfTwoClaimsOneCounts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		// So slow that neither reads of the other in time.
		reg.SetLink("", "", fakeregistry.Link{Latency: 40 * time.Millisecond})
		p := newPool(t, reg)
		conns := map[string]client.Conn{"a": dial(t, reg, "a"), "b": dial(t, reg, "b")}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.runOver("a", conns["a"], priority(7))
		}()
		p.runOver("b", conns["b"], priority(7))
		<-done
		leader, _ := p.await("")
		time.Sleep(time.Second)
		var conflicts int
		for _, e := range reg.Events(fakeregistry.EventRefuse) {
			if errors.Is(e.Err, protocol.ErrConflict) || errors.Is(e.Err, protocol.ErrStaleTerm) {
				conflicts++
			}
		}
		require.Equal(t, 1, conflicts, "both have claimed")
		time.Sleep(time.Minute)
		require.Equal(t, leader, p.leader())
		require.Equal(t, []string{"+" + leader}, p.told())
		for _, m := range p.members {
			require.Equal(t, id(leader), m.Status().Now.Leader)
			require.NoError(t, m.Status().Refusal, "who is first is no refusal to tell of")
		}
	})
}

// H06: a leader that slept writes after its successor. The registry refuses it,
// and so does everything here that looks at the clock.
func TestADeposedLeaderDoesNotWrite(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := dial(t, reg, "a")
		a := elect(t, over(t, conn))
		publication := client.Publication{Topic: "config:fleet", Payload: []byte("a")}
		ack, err := a.Publish(t.Context(), publication).Wait(t.Context())
		require.NoError(t, err)
		require.NotZero(t, ack.Seq)
		stored := reg.Messages("config:fleet")
		require.Equal(t, []protocol.Mark{{Topic: topic, Term: a.Term()}}, stored[0].Fences)
		require.Empty(t, publication.Conditions)

		// It has looked whether it leads, and stands still.
		require.True(t, a.Valid())
		byHand := publication
		byHand.Conditions = []protocol.Condition{a.Condition()}
		reg.Partition("a", fakeregistry.Host)
		b := elect(t, member(t, reg, "b"))
		_, err = b.Publish(t.Context(), client.Publication{Topic: "config:fleet", Payload: []byte("b")}).Wait(t.Context())
		require.NoError(t, err)
		reg.HealAll()

		_, err = conn.Publish(t.Context(), byHand).Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		p := a.Publish(t.Context(), publication)
		<-p.Done()
		_, ok, err := p.Result()
		require.True(t, ok)
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		require.ErrorAs(t, err, new(*election.LostError))
		require.Len(t, reg.Messages("config:fleet"), 2)
	})
}

// H07: wall clocks are for display.
func TestWallClocksMayJump(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		p := newPool(t, reg)
		ahead := map[string]*atomic.Int64{"a": {}, "b": {}}
		for node, by := range ahead {
			stop := p.run(node, func(o *election.Options) {
				o.WallClock = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
			})
			defer stop()
		}
		leader, _ := p.await("")
		follower := map[string]string{"a": "b", "b": "a"}[leader]
		for _, jump := range []time.Duration{-time.Hour, time.Hour} {
			for _, node := range []string{leader, follower} {
				ahead[node].Store(int64(jump))
				time.Sleep(10 * time.Second)
				require.Equal(t, leader, p.leader())
			}
			last := reg.Messages(topic)
			m, err := election.Parse(last[len(last)-1].Payload)
			require.NoError(t, err)
			require.InDelta(t, time.Now().Add(jump).Unix(), m.Clock, 2, "shown")
		}
		require.Equal(t, []string{"+" + leader}, p.told())
		reg.Partition(leader, fakeregistry.Host)
		next, took := p.await(leader)
		require.Equal(t, follower, next)
		require.Less(t, took, 2*lan.Silence)
	})
}

// H08: what a heartbeat says of the time does not matter, but that it is another.
func TestTimestampsDoNotMatter(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		script := dial(t, reg, "script")
		say := func(payload string) {
			_, err := script.PublishTo(t.Context(), topic, []byte(strings.ReplaceAll(payload, "ID", id("script"))))
			require.NoError(t, err)
		}
		p := newPool(t, reg)
		say(`{"type":"leader","leader":"ID","term":1000000000,"elected_at":"2025-11-30T10:00:00Z"}`)
		p.run("a")
		pause := lan.Silence * 3 / 4
		for _, stamp := range []string{
			`"1764500000"`, `1764500001`, `1.764500002e9`, `"2025-11-30T12:53:23Z"`, `1764510000.5`, `"1764510001"`,
		} {
			say(`{"type":"heartbeat","leader":"ID","term":1000000000,"timestamp":` + stamp + `}`)
			time.Sleep(pause)
			require.Empty(t, p.leader(), stamp)
			synctest.Wait()
			now := p.members["a"].Status().Now
			require.Equal(t, id("script"), now.Leader, stamp)
			require.True(t, now.Plain)
		}
		renewed := time.Now()
		for p.leader() == "" {
			require.Less(t, time.Since(renewed), 2*lan.Silence, "replayed heartbeats are none")
			say(`{"type":"heartbeat","leader":"ID","term":1000000000,"timestamp":"1764510001"}`)
			time.Sleep(lan.Heartbeat)
		}
		require.NotZero(t, p.members["a"].Status().Voids[election.VoidRepeated])
		require.Equal(t, uint64(1000000001), p.members["a"].Status().Now.Token.Term, "above that of the script")
	})
}
