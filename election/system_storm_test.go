package election_test

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

var systemSeed = flag.Int("system.seed", -1, "run only this schedule of TestSystemStorms, and print its tape")

// Whatever goes wrong around real members, clients and a real registry, nothing
// that the judge knows is broken, and soon after it is over there is one leader,
// whom all see, for good.
//
// The budget is in virtual time: 1 s of it is 6 minutes, so that the 5m of a
// nightly run are 30 hours.
func TestSystemStorms(t *testing.T) {
	budget := 360 * testenv.Budget(t, testenv.Raced(1200*time.Millisecond, 400*time.Millisecond))
	var ran atomic.Int64
	var sums tally
	t.Run("schedules", func(t *testing.T) {
		for seed, planned := 0, time.Duration(0); planned < budget; seed++ {
			s := newStorm(uint64(seed))
			planned += s.length + s.calm()
			if *systemSeed >= 0 && seed != *systemSeed {
				continue
			}
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				ran.Add(int64(s.run(t, &sums)))
			})
		}
	})
	t.Logf("%.2f virtual hours: %v", time.Duration(ran.Load()).Hours(), &sums)
}

// storm is one schedule and where it takes place.
type storm struct {
	worldOptions
	length, every time.Duration
}

func newStorm(seed uint64) storm {
	s := storm{worldOptions: worldOptions{seed: seed, nodes: 4, timing: election.LAN, latency: time.Millisecond}}
	s.length, s.every = testenv.Raced[time.Duration](150, 60)*s.timing.Silence, 3*s.timing.Silence/2
	if seed%4 == 3 {
		s.timing, s.latency = election.WAN, 30*time.Millisecond
		s.length, s.every = testenv.Raced[time.Duration](80, 30)*s.timing.Silence, s.timing.Silence
	}
	if seed%5 == 4 {
		s.preempt = election.Preemption{Allowed: true, After: 2 * s.timing.Silence}
	}
	return s
}

// calm is how long nothing may change once a leader is found.
func (s storm) calm() time.Duration { return testenv.Raced[time.Duration](40, 20) * s.timing.Silence }

// reconnect is the longest that a client waits before it dials again.
const reconnect = 2500 * time.Millisecond

// recovery is how long it may take from the last fault to a leader who stays.
func recovery(t election.Timing) time.Duration {
	return t.Silence + t.Jitter + t.Window + 3*t.Rank + reconnect
}

// run is the storm and the calm behind it, and returns the virtual time of both.
func (s storm) run(t *testing.T, sums *tally) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := newWorld(t, s.worldOptions)
		x := newWeather(s.worldOptions, s.length, s.every)
		t.Cleanup(func() {
			if t.Failed() || *systemSeed >= 0 {
				t.Logf("seed %d, again with -system.seed=%d\n%v\ntape:\n%s", s.seed, s.seed, x, strings.Join(w.judge.lines(), "\n"))
			}
		})
		w.rage(x)
		leader, found := w.settled(recovery(s.timing))
		if s.preempt.Allowed { // higher ones may take over first
			leader, _ = w.settled(s.preempt.After + 15*s.timing.Silence)
		}
		elected := w.judge.counts().elected
		time.Sleep(s.calm())
		now, _ := w.judge.leader()
		require.NotNil(t, now, "seed %d: the leader does not stay", s.seed)
		require.Equal(t, leader, now.who, "seed %d: the leader does not stay", s.seed)
		require.Equal(t, elected, w.judge.counts().elected, "seed %d: somebody led meanwhile", s.seed)
		w.judge.agree()
		require.NoError(t, w.end(), "seed %d", s.seed)
		require.Greater(t, w.judge.counts().claims, testenv.Raced(5, 2), "seed %d: too little happens", s.seed)
		sums.add(w.judge.counts(), found)
		took = time.Since(start)
	})
	return took
}

// What the judge is there for: programs that are wrong.

func TestTheJudgeFindsALeaderThatDoesNotStop(t *testing.T) {
	err := mistaken(t, mutant{validLies: true}, func(w *world, leader *process) {
		w.reg.Partition(leader.node, fakeregistry.Host)
		time.Sleep(3 * election.LAN.Silence)
		w.reg.HealAll()
	})
	require.ErrorContains(t, err, "two leaderships")
}

func TestTheJudgeFindsWritesWithoutTheFence(t *testing.T) {
	err := mistaken(t, mutant{unfenced: true}, func(w *world, leader *process) {
		leader.pause(3 * election.LAN.Silence)
		time.Sleep(4 * election.LAN.Silence)
	})
	require.ErrorContains(t, err, "was stored when the fence was at")
	require.ErrorContains(t, err, "is not linearizable")
}

func TestTheJudgeHasNothingToSayOfARightLeader(t *testing.T) {
	for _, wrong := range []func(w *world, leader *process){
		func(w *world, leader *process) { w.reg.Partition(leader.node, fakeregistry.Host) },
		func(w *world, leader *process) { leader.pause(3 * election.LAN.Silence) },
	} {
		require.NoError(t, mistaken(t, mutant{}, func(w *world, leader *process) {
			wrong(w, leader)
			time.Sleep(3 * election.LAN.Silence)
			w.reg.HealAll()
			time.Sleep(3 * election.LAN.Silence)
		}))
	}
}

// mistaken is what the judge says of a program while something happens to its
// leader.
func mistaken(t *testing.T, m mutant, happens func(w *world, leader *process)) (verdict error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{seed: 1, nodes: 3, timing: election.LAN, latency: time.Millisecond, mutant: m})
		name := w.led(time.Minute)
		happens(w, w.process(name))
		verdict = w.end()
	})
	return verdict
}
