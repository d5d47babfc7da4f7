package election_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// sample is a list of durations.
type sample []time.Duration

func (s sample) p(q float64) time.Duration {
	slices.Sort(s)
	return s[int(q*float64(len(s)-1))]
}

func (s sample) worst() time.Duration { return s.p(1) }

// times measures something n times, each in a world of its own with a leader.
func times(t *testing.T, n int, o worldOptions, measure func(w *world, leader *process) time.Duration) sample {
	t.Helper()
	var s sample
	for i := range n {
		o.seed = uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, o)
			name := w.led(5 * recovery(o.timing))
			time.Sleep(2*o.timing.Silence + time.Duration(w.rand.Int64N(int64(o.timing.Heartbeat))))
			s = append(s, measure(w, w.process(name)))
			require.NoError(t, w.end())
		})
	}
	return s
}

// replaced waits for the next claim, and returns how long it took since now.
func (w *world) replaced() time.Duration {
	w.t.Helper()
	from := time.Now()
	for time.Since(from) < 10*recovery(w.o.timing) {
		if at := w.judge.claimedAt(); at.After(from) {
			return at.Sub(from)
		}
		time.Sleep(w.o.timing.Heartbeat / 8)
	}
	require.Fail(w.t, "nobody claims")
	return 0
}

// leaderless lets something happen and returns for how long nobody led.
func (w *world) leaderless(happens func()) time.Duration {
	w.t.Helper()
	h, _ := w.judge.leader()
	happens()
	from := time.Now()
	for {
		if now, _ := w.judge.leader(); now == nil || now.token != h.token {
			break
		}
		time.Sleep(time.Millisecond)
		require.Less(w.t, time.Since(from), 10*recovery(w.o.timing))
	}
	from = time.Now()
	for {
		if now, _ := w.judge.leader(); now != nil {
			return time.Since(from)
		}
		time.Sleep(time.Millisecond)
		require.Less(w.t, time.Since(from), 10*recovery(w.o.timing))
	}
}

// How fast members are, beside what the rules expect; the bounds are far enough
// off to hold anywhere, the time is virtual. Each is measured n times where there
// is a budget, and else a third of that; under the race detector the less often.
func TestFigures(t *testing.T) {
	t.Parallel()
	const leg = 2 * time.Millisecond
	lan := worldOptions{nodes: 5, timing: election.LAN, latency: leg}
	kill := func(w *world, leader *process) time.Duration {
		leader.kill()
		return w.replaced()
	}
	rows := []struct {
		name, expected string
		n              int
		o              worldOptions
		measure        func(w *world, leader *process) time.Duration
		p50, worst     time.Duration // bounds
	}{
		{"LAN: kill to claim", "p50 400…424, worst 482 ms", 15, lan, kill, 460 * time.Millisecond, 560 * time.Millisecond},
		{"WAN: kill to claim", "about 5.2 s", 5, worldOptions{nodes: 5, timing: election.WAN, latency: 40 * time.Millisecond}, kill, 6 * time.Second, 8 * time.Second},
		{"flaky: kill to claim", "about 21 s", 3, worldOptions{nodes: 5, timing: election.Flaky, latency: 100 * time.Millisecond}, kill, 24 * time.Second, 30 * time.Second},
		{"mixed: kill to claim", "about 27 s", 3, worldOptions{nodes: 5, timing: election.Mixed, latency: 100 * time.Millisecond}, kill, 29 * time.Second, 36 * time.Second},
		{"LAN: resign to lead, legs of 2 ms", "2 round trips: 8 ms", 8, lan, func(w *world, leader *process) time.Duration {
			return w.leaderless(leader.resign)
		}, 5 * 2 * leg, 8 * 2 * leg},
		{"LAN: leader cut off, to claim", "F + J + W", 5, lan, func(w *world, leader *process) time.Duration {
			w.reg.Partition(leader.node, fakeregistry.Host)
			return w.replaced()
		}, 460 * time.Millisecond, 560 * time.Millisecond},
		{"LAN: registry restarts, leaderless", "0, when it is back within a lease", 5, lan, func(w *world, _ *process) time.Duration {
			return w.overRestart(w.reg.Restart)
		}, recovery(election.LAN), 2 * recovery(election.LAN)},
		{"LAN: registry loses its log, leaderless", "F + J + W after the reconnect", 5, lan, func(w *world, _ *process) time.Duration {
			return w.overRestart(w.reg.RestartEmpty)
		}, recovery(election.LAN), 2 * recovery(election.LAN)},
	}
	table := []string{fmt.Sprintf("%-42s %-36s %10s %10s %3s", "", "expected", "p50", "worst", "n")}
	for _, r := range rows {
		if testenv.Budget(t, 0) == 0 {
			r.n = (r.n + 2) / testenv.Raced(3, 5)
		}
		r.n = max(1, r.n)
		s := times(t, r.n, r.o, r.measure)
		table = append(table, fmt.Sprintf("%-42s %-36s %10v %10v %3d", r.name, r.expected,
			s.p(0.5).Round(100*time.Microsecond), s.worst().Round(100*time.Microsecond), len(s)))
		if len(s) > 2 {
			require.LessOrEqual(t, s.p(0.5), r.p50, "%s: %v", r.name, s)
		}
		require.LessOrEqual(t, s.worst(), r.worst, "%s: %v", r.name, s)
	}
	t.Logf("\n%s", strings.Join(table, "\n"))
}

// overRestart is how long nobody led in the time after a restart.
func (w *world) overRestart(restart func() error) (gap time.Duration) {
	w.t.Helper()
	require.NoError(w.t, restart())
	from, since := time.Now(), time.Time{}
	for time.Since(from) < 3*recovery(w.o.timing) {
		h, _ := w.judge.leader()
		switch {
		case h == nil && since.IsZero():
			since = time.Now()
		case h != nil && !since.IsZero():
			gap, since = gap+time.Since(since), time.Time{}
		}
		time.Sleep(time.Millisecond)
	}
	require.True(w.t, since.IsZero(), "nobody leads in the end")
	return gap
}

// A member that comes back after twenty silences disturbs nobody.
func TestReturningMembersChangeNothing(t *testing.T) {
	for i, cut := range []func(reg *fakeregistry.Registry, node string){
		func(reg *fakeregistry.Registry, node string) { reg.Partition(node, fakeregistry.Host) },
		func(reg *fakeregistry.Registry, node string) { reg.PartitionOneWay(node, fakeregistry.Host) },
		func(reg *fakeregistry.Registry, node string) { reg.PartitionOneWay(fakeregistry.Host, node) },
		func(reg *fakeregistry.Registry, node string) { reg.Stall(node) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOptions{seed: uint64(i), nodes: 3, timing: election.LAN, latency: time.Millisecond})
			leader := w.led(time.Minute)
			for _, p := range w.nodes {
				if p.name != leader {
					cut(w.reg, p.node)
					break
				}
			}
			time.Sleep(20 * election.LAN.Silence)
			w.reg.ClearFaults()
			w.judge.attach(w.reg)
			time.Sleep(20 * election.LAN.Silence)
			w.judge.agree()
			require.Equal(t, 1, w.judge.counts().elected, "the term changed")
			require.NoError(t, w.end())
		})
	}
}

// A higher member that may preempt takes over once, and orderly.
func TestPreemptionHandsOverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{
			seed: 1, nodes: 3, timing: election.LAN, latency: time.Millisecond,
			preempt: election.Preemption{Allowed: true, After: 2 * time.Second},
		})
		w.led(time.Minute)
		time.Sleep(10 * time.Second) // those that were there are in order now
		before := w.judge.counts().elected
		top := w.startAt("top", 1<<40)
		time.Sleep(20 * time.Second)
		h, _ := w.judge.leader()
		require.NotNil(t, h)
		require.Equal(t, top.name, h.who)
		require.Equal(t, before+1, w.judge.counts().elected)
		w.judge.agree()
		require.NoError(t, w.end())
	})
}

// Fifty candidates do not flood the topic when their leader dies, neither for the
// election nor behind it, when the new leader learns who could succeed it.
func TestAnElectionTakesFewPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		w := newWorld(t, worldOptions{seed: 1, nodes: many, timing: election.LAN, latency: time.Millisecond})
		name := w.led(time.Minute)
		time.Sleep(5 * time.Second)
		w.process(name).kill()
		before := w.judge.counts().stood
		took := w.replaced()
		stood := w.judge.counts().stood - before
		time.Sleep(3 * election.LAN.Silence)
		after := w.judge.counts().stood - before - stood
		t.Logf("%d candidates: %d candidacies, then the claim after %v, then %d candidacies", many, stood, took, after)
		require.Less(t, stood, 40)
		require.Less(t, after, 40)
		require.NoError(t, w.end())
	})
}
