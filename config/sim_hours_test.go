package config

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

var simSeed = flag.Int("sim.seed", -1, "run only this schedule of TestTenThousandHours, and print its trace")

// climate is how a swarm lives.
type climate struct {
	name   string
	agents int
	counts bool // versions are 1, 2, 3 and not seconds
	lossy  bool // now and then the log is lost
	forged bool // somebody writes what no program does, which scripts do not survive
	length time.Duration
}

var climates = [...]climate{
	{name: "seconds", agents: 5, lossy: true, length: 2 * time.Hour},
	{name: "counted", agents: 4, counts: true, lossy: true, length: time.Hour},
	{name: "rollouts", agents: 9, length: 3 * time.Hour},
	{name: "forged", agents: 4, lossy: true, forged: true, length: time.Hour},
}

func climateOf(seed uint64) climate { return climates[seed%uint64(len(climates))] }

// newSwarmSim has agents and scripts that run, and nothing published.
func newSwarmSim(seed uint64, m mutant, flaw flaw, trace func(string, ...any)) *simSwarm {
	c := climateOf(seed)
	f := &simSwarm{
		sim: newSim(), rand: rand.New(rand.NewPCG(seed, 1)), flaw: flaw, trace: trace, counts: c.counts, trouble: true,
		reports: map[protocol.NodeID]simReport{}, traits: map[Digest]traits{},
	}
	f.judge = newSimJudge(f)
	f.mutant, f.tells = m, f.report
	if trace != nil {
		f.sim.note = func(a *simAgent, text string) { f.note("%s: %s", a.name, text) }
	}
	for i := range c.agents {
		f.join(i)
	}
	for i := range 2 {
		s := &simScript{simSwarm: f, name: fmt.Sprint("script ", i), node: protocol.NodeID(f.rand.Uint32())}
		if !c.forged {
			f.scripts = append(f.scripts, s)
			s.poll()
		}
	}
	return f
}

func (f *simSwarm) join(i int) {
	a := f.agent(fmt.Sprint("agent ", i))
	a.node = protocol.NodeID(1<<31 + f.rand.Uint32N(1<<31))
	if i == 0 {
		a.labels = map[string]string{"canary": "yes"}
	}
	a.works = [2]time.Duration{1 + f.upTo(2*time.Second), 1 + f.upTo(2*time.Second)}
	a.delay = 1 + f.upTo(100*time.Millisecond)
	a.judge = func(d ref) string {
		if f.traits[d.Digest].bad {
			return "bad"
		}
		return ""
	}
	a.apply = func(d ref) string {
		switch {
		case a.disk.Pinned:
			return "pinned"
		case f.weak(a, d), f.trouble && f.rand.IntN(5) == 0:
			return "it does not come up"
		}
		return ""
	}
	a.ran = func(d ref) { f.judge.agentRan(a, d) }
	a.refuse = func() bool { return f.trouble && f.rand.IntN(5) == 0 }
	a.start()
}

// storm lets things happen and go wrong for a while.
func (f *simSwarm) storm(c climate) {
	for f.now < c.length && f.judge.broken == "" {
		f.disturb(c)
		f.run(f.upTo(time.Minute))
	}
	f.trouble = false
}

func (f *simSwarm) disturb(c climate) {
	a := f.agents[f.rand.IntN(len(f.agents))]
	switch f.rand.IntN(24) {
	case 0, 1:
		f.writer()
	case 2:
		for range 2 + f.rand.IntN(3) {
			f.writer()
		}
	case 3:
		f.plain()
	case 4:
		f.goBack()
	case 5, 6, 7:
		f.rollOut(f.anyPlan())
	case 8, 9, 10:
		f.driver(fmt.Sprint("driver ", f.n))
	case 11:
		for _, p := range f.drivers {
			f.note("%s dies", p.name)
			p.end()
		}
	case 12:
		f.meddle([]RolloutState{RolloutPaused, RolloutRunning, RolloutRunning, RolloutRolledBack}[f.rand.IntN(4)])
	case 13, 14:
		f.note("%s is cut", a.name)
		a.cut(f.upTo(5 * time.Minute))
	case 15, 16:
		f.crash(a)
	case 17:
		f.restart(f.upTo(20 * time.Second))
	case 18:
		if c.lossy && f.rand.IntN(5) == 0 {
			for range 8 {
				f.writer() // which may not learn what became of it
			}
			f.run(f.upTo(500 * time.Millisecond))
			f.loseAll()
		}
	case 19:
		f.retain()
	case 20:
		f.pin(a)
	case 21:
		f.unpin()
	case 22, 23:
		if c.forged {
			f.forge()
		}
	}
}

func (f *simSwarm) anyPlan() Plan {
	p := Plan{Bake: time.Second + f.upTo(2*time.Minute), MaxUnhealthy: 1, Canary: f.rand.Float64() / 2, MaxFailed: f.rand.Float64() / 3}
	p.Timeout = 2*p.Bake + f.upTo(2*time.Minute)
	if f.rand.IntN(2) == 0 {
		p.Labels = map[string]string{"canary": "yes"}
	}
	p.Steps = []float64{0.5 + f.rand.Float64()/4, 1}
	p.Success = 0.5 + f.rand.Float64()/2
	return p
}

// meddle is somebody who sets a rollout to a state, often just when its next step
// is due.
func (f *simSwarm) meddle(state RolloutState) {
	wait := time.Duration(0)
	if p := f.judge.pending[simVersion{f.epoch, f.truth().staged.Version}]; p != nil && f.rand.IntN(2) == 0 {
		plan, _ := planOf(f.find(p.Version))
		wait = max(0, p.Since.Add(plan.Bake).Sub(f.time())+f.upTo(time.Second))
	}
	f.after(wait, func() { f.setRollout(state) })
}

// crash ends an agent, perhaps in the middle of an apply, and starts it later.
func (f *simSwarm) crash(a *simAgent) {
	f.note("%s dies", a.name)
	if a.up && a.busy && a.s.phase == applying && !a.disk.Pinned && !f.weak(a, a.s.work) && f.rand.IntN(2) == 0 {
		a.put(a.s.work)
	}
	a.kill()
	f.after(f.upTo(5*time.Minute), func() {
		if !a.up {
			a.start()
		}
	})
}

func (f *simSwarm) restart(d time.Duration) {
	f.note("the registry is away for %v", d)
	f.down = f.now + d
	for _, a := range f.agents {
		a.cut(d + f.upTo(3*time.Second))
	}
}

// retain is a retention that keeps little: the newest version, and what is after it.
func (f *simSwarm) retain() {
	for i := len(f.log) - 1; i >= f.gone; i-- {
		if d := f.papers[i]; d != nil && !d.Staged && f.log[i].Doc.is(f.truth().latest) {
			f.note("what is before %d leaves the log", f.log[i].Seq)
			f.gone = i
			return
		}
	}
}

// pin is a local rollback, by hand: the agent is not told.
func (f *simSwarm) pin(a *simAgent) {
	for _, d := range f.papers[min(f.gone, len(f.papers)):] {
		if d != nil && !d.Staged && d.Version < a.disk.Version && !a.disk.Pinned {
			f.note("%s is pinned at %d", a.name, d.Version)
			a.disk.Version, a.disk.Digest, a.disk.Pinned = d.Version, d.Digest, true
			return
		}
	}
}

func (f *simSwarm) unpin() {
	for _, a := range f.agents {
		if a.disk.Pinned {
			f.note("%s is unpinned", a.name)
			a.disk.Pinned = false
			a.start()
		}
	}
}

// forge stores what no program does, often while an agent starts, which then reads
// it before it has looked back.
func (f *simSwarm) forge() {
	if a := f.agents[f.rand.IntN(len(f.agents))]; f.rand.IntN(2) == 0 {
		a.kill()
		a.start()
		f.run(f.upTo(a.delay))
	}
	d := f.document(traits{})
	d.Version = f.fence.K + f.rand.Uint64N(3)
	if f.rand.IntN(2) == 0 || f.fence.K == 0 {
		_, _ = f.store(forger, d, nil)
		return
	}
	d.Version = f.fence.K
	_, _ = f.store(forger, d, &protocol.Condition{Epoch: f.epoch, Term: d.Version})
}

// calm lets everything come to rest, and checks that it has.
func (f *simSwarm) calm() {
	f.run(6 * time.Minute) // the last cut is over
	for range 6 {          // what was paused goes on, what nobody drives is driven
		f.setRollout(RolloutRunning)
		f.driver("last driver")
		f.run(6 * time.Minute)
	}
	for _, a := range f.agents {
		f.judge.rest(a)
	}
	if f.judge.broken != "" {
		return
	}
	f.last()
	f.unpin()
	f.last()
	f.lastRollouts()
}

// lastRollouts roll out a bad version, which ends soon, and a good one, which comes
// to all.
func (f *simSwarm) lastRollouts() {
	for _, t := range []traits{{bad: true}, {}} {
		d := f.document(t)
		f.rollOutDocument(d, Plan{Bake: time.Minute, Canary: 0.1})
		f.run(5 * time.Second)
		f.driver("last driver")
		f.run(10 * time.Minute)
		s := f.truth()
		if s.isStaged() || (s.latest.Digest == d.Digest) == t.bad {
			f.judge.fail("the rollout of %d, which is bad: %v, does not come to its end", s.top(), t.bad)
		}
		f.judge.same(s.latest)
	}
}

// last publishes a version above all that was ever known, and expects it everywhere.
func (f *simSwarm) last() {
	d := f.document(traits{})
	d.Version = f.fence.K
	for _, a := range f.agents {
		d.Version = max(d.Version, a.s.highest)
	}
	for _, s := range f.scripts {
		d.Version = max(d.Version, s.has.Version)
	}
	d.Version++
	stored, err := f.store("end", d, &protocol.Condition{Epoch: f.epoch, Term: d.Version, Raise: d.Version})
	if err != nil {
		f.judge.fail("the last version is refused: %v", err)
		return
	}
	f.run(5 * time.Minute)
	f.judge.same(refOf(stored))
}

// simulate runs a schedule to its end.
func simulate(seed uint64, m mutant, flaw flaw, trace func(string, ...any)) *simSwarm {
	f := newSwarmSim(seed, m, flaw, trace)
	defer func() {
		for _, p := range f.flows {
			p.end()
		}
	}()
	if f.storm(climateOf(seed)); f.judge.broken == "" {
		f.calm()
	}
	return f
}

// Whatever goes wrong: one content for each version, nothing applied that lost or
// was refused, no way back but by hand, no rollout beyond its share or before its
// time; and when all is well again each agent is where it should be.
//
// The budget is in virtual time: 1 s of it is 33 hours, so that the 5m of a
// nightly run are 10,000 hours, however long that takes.
func TestTenThousandHours(t *testing.T) {
	// The simulation makes nothing but garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	budget := testenv.Budget(t, 4*time.Second) * 120_000
	if *simSeed >= 0 {
		retellSeed(t, uint64(*simSeed), mutant{}, flaw{})
		return
	}
	var next atomic.Uint64
	var mu sync.Mutex
	var total time.Duration
	var broken []uint64
	reached := map[string]int{}
	work := func() {
		for {
			seed := next.Add(1) - 1
			mu.Lock()
			over := total >= budget && seed >= uint64(len(climates)) || len(broken) > 0
			mu.Unlock()
			if over {
				return
			}
			f := simulate(seed, mutant{}, flaw{}, nil)
			mu.Lock()
			total += f.now
			for what, n := range f.judge.reached {
				reached[what] += n
			}
			if f.judge.broken != "" {
				broken = append(broken, seed)
			}
			mu.Unlock()
		}
	}
	start := time.Now()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(work)
	}
	all.Wait()
	if len(broken) > 0 {
		retellSeed(t, slices.Min(broken), mutant{}, flaw{})
	}
	t.Logf("%.1f virtual hours, %.0f h a second, seeds 0 to %d: %s",
		total.Hours(), total.Hours()/time.Since(start).Seconds(), next.Load()-1, told(reached))
	for _, what := range []string{
		"applied", "staged applied", "stored", "published", "conflict", "unknown", "promoted", "forged", "pinned", "held", "behind",
		"rollout running", "rollout paused", "rollout complete", "rollout rolled_back",
		"too late to pause", "rejected", "failed", "pending", "rest applied", "rest pinned", "rest behind",
	} {
		require.NotZero(t, reached[what], what)
	}
}

func told(reached map[string]int) string {
	var list []string
	for _, what := range slices.Sorted(maps.Keys(reached)) {
		list = append(list, fmt.Sprintf("%d %s", reached[what], what))
	}
	return strings.Join(list, ", ")
}

// retellSeed runs a schedule with its trace, and shows the end of it.
func retellSeed(t *testing.T, seed uint64, m mutant, flaw flaw) {
	t.Helper()
	var tape []string
	f := simulate(seed, m, flaw, func(format string, args ...any) { tape = append(tape, fmt.Sprintf(format, args...)) })
	end := slices.IndexFunc(tape, func(line string) bool { return strings.Contains(line, "BROKEN") }) + 1
	if end == 0 {
		end = len(tape)
	}
	const shown = 200
	t.Logf("the end of seed %d, %s:\n%s", seed, climateOf(seed).name, strings.Join(tape[max(0, end-shown):end], "\n"))
	require.Empty(t, f.judge.broken, "again with -sim.seed=%d", seed)
}
