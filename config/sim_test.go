package config

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// sim is a swarm of machines over a simulated log, in simulated time.
type sim struct {
	now    moment
	n      int
	queue  []simEvent
	agents []*simAgent
	note   func(a *simAgent, text string)

	epoch protocol.EpochID
	log   []documentRead
	gone  int // up to here retention took all
	fence protocol.Fence
}

type simEvent struct {
	at moment
	n  int
	do func()
}

// simAgent is a process that may die, and a disk that stays.
type simAgent struct {
	*sim
	name string
	s    state
	life int // counts the processes; what comes for an earlier one is lost
	up   bool

	on     bool // linked
	caught bool
	read   protocol.EpochID
	at     int

	timer int // counts, so that an older one does not fire
	job   int // likewise
	busy  bool

	disk    Applied
	judge   func(ref) string // why not; "" is good
	apply   func(ref) string
	works   [2]time.Duration // how long a judge and an apply take
	delay   time.Duration    // of the link
	history []uint64         // versions applied
	last    report
}

const simDelay = time.Millisecond

func newSim() *sim { return &sim{epoch: 1, note: func(*simAgent, string) {}} }

func (m *sim) after(d time.Duration, do func()) {
	m.n++
	m.queue = append(m.queue, simEvent{m.now + d, m.n, do})
}

// run lets time go by.
func (m *sim) run(d time.Duration) {
	for end := m.now + d; ; {
		i := m.next()
		if i < 0 || m.queue[i].at > end {
			m.now = end
			return
		}
		e := m.queue[i]
		m.queue = slices.Delete(m.queue, i, i+1)
		m.now = e.at
		e.do()
	}
}

func (m *sim) next() int {
	best := -1
	for i, e := range m.queue {
		if best < 0 || e.at < m.queue[best].at || e.at == m.queue[best].at && e.n < m.queue[best].n {
			best = i
		}
	}
	return best
}

func (m *sim) publish(d ref, stamp uint64) {
	seq := protocol.Seq(len(m.log) + 1)
	d.Seq = seq
	e := documentRead{Epoch: m.epoch, Seq: seq, Stamped: stamp != 0, Doc: d}
	if stamp != d.Version {
		e.Doc, e.Void = ref{}, VoidUnstamped
	}
	if e.Stamped {
		m.fence = protocol.Fence{K: max(m.fence.K, stamp), S: seq}
	}
	m.log = append(m.log, e)
	for _, a := range m.agents {
		a.pump()
	}
}

func (m *sim) lose() {
	m.epoch++
	m.log, m.gone, m.fence = nil, 0, protocol.Fence{}
	for _, a := range m.agents {
		a.on, a.caught = false, false
		a.link(simDelay)
	}
}

func (m *sim) truth() (s shelf) {
	for _, e := range m.log[min(m.gone, len(m.log)):] {
		if e.Void == 0 {
			s.place(e.Doc, true)
		}
	}
	return s
}

func (m *sim) agent(name string) *simAgent {
	a := &simAgent{
		sim: m, name: name, works: [2]time.Duration{simDelay, simDelay}, delay: simDelay,
		judge: func(ref) string { return "" }, apply: func(ref) string { return "" },
	}
	m.agents = append(m.agents, a)
	return a
}

// start begins a process.
func (a *simAgent) start() {
	a.life++
	a.up, a.busy, a.s = true, false, newState(usual, a.disk)
	a.on, a.caught, a.read, a.at = false, false, a.epoch, len(a.log)
	a.link(a.delay)
}

func (a *simAgent) kill() { a.up, a.on = false, false; a.life++ }

// later does something for this process, if it is still there.
func (a *simAgent) later(d time.Duration, do func()) {
	life := a.life
	a.after(d, func() {
		if a.life == life {
			do()
		}
	})
}

func (a *simAgent) link(d time.Duration) {
	a.later(d, func() { a.on = true; a.pump() })
}

func (a *simAgent) cut(d time.Duration) {
	a.on, a.caught = false, false
	a.link(d)
}

// pump hands over what there is, in order, one thing at a time.
func (a *simAgent) pump() { a.later(a.delay, a.deliver) }

func (a *simAgent) deliver() {
	switch {
	case !a.on:
		return
	case a.read != a.epoch:
		a.read, a.at = a.epoch, 0
		a.step(epochBegan{a.epoch})
	case a.at < a.gone:
		a.at = a.gone
		a.step(gapFound{})
	case a.at < len(a.log):
		a.at++
		a.step(a.log[a.at-1])
	case !a.caught:
		a.caught = true
		a.step(caughtUp{a.epoch, a.fence})
	default:
		return
	}
	a.deliver()
}

func (a *simAgent) step(e event) {
	var actions []action
	a.s, actions = a.s.Step(a.now, e)
	for _, act := range actions {
		if text := tellAction(act); text != "" {
			a.note(a, text)
		}
		a.do(act)
	}
}

func (a *simAgent) do(act action) {
	switch act := act.(type) {
	case look:
		a.later(3*a.delay, a.lookBack)
	case judge:
		a.begin(act.Doc, a.works[0], func() event {
			why := a.judge(act.Doc)
			return judged{act.Doc, why == "", why}
		})
	case cancel:
		a.job++
		a.busy = false
	case apply:
		a.begin(act.Doc, a.works[1], func() event {
			why := a.apply(act.Doc)
			if why == "" {
				a.disk = Applied{Version: act.Doc.Version, Digest: act.Doc.Digest, Highest: max(a.disk.Highest, act.Doc.Version)}
				a.history = append(a.history, act.Doc.Version)
			}
			return done{Doc: act.Doc, OK: why == "", Error: why}
		})
	case tell:
		a.last = act.report
	case setTimer:
		a.timer++
		if n := a.timer; act.At != never {
			a.later(max(0, act.At-a.now), func() {
				if a.timer == n {
					a.step(timerFired{})
				}
			})
		}
	case show, voided:
	}
}

func (a *simAgent) begin(d ref, takes time.Duration, end func() event) {
	if a.busy {
		panic(fmt.Sprintf("%s: two things at once: %d", a.name, d.Version))
	}
	a.busy = true
	a.job++
	n := a.job
	a.later(takes, func() {
		if a.job == n {
			a.busy = false
			a.step(end())
		}
	})
}

func (a *simAgent) lookBack() {
	if !a.on {
		a.step(lookedBack{})
		return
	}
	s := a.truth()
	for _, d := range []ref{s.staged, s.latest} {
		if d.Version != 0 {
			a.step(documentRead{Epoch: a.epoch, Seq: d.Seq, Stamped: true, Looked: true, Doc: d})
		}
	}
	a.step(lookedBack{a.epoch, a.fence, true})
}

// TestSimulation lets swarms go through all kinds of trouble and looks that in the
// end all agents run what the log says.
func TestSimulation(t *testing.T) {
	end := time.Now().Add(testenv.Budget(t, 2*time.Second))
	seeds, reached := 0, map[string]int{}
	for ; seeds < 50 || time.Now().Before(end); seeds++ {
		simulate(t, uint64(seeds), reached)
	}
	t.Logf("%d swarms: %v", seeds, reached)
	for _, what := range []string{"applied", "rejected", "failed", "superseded", "held", "registry", "new", "gap", "look", "cancel"} {
		require.NotZero(t, reached[what], what)
	}
}

func simulate(t *testing.T, seed uint64, reached map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := newSim()
	trouble := true
	for i := range 4 {
		a := m.agent(fmt.Sprintf("agent %d of seed %d", i, seed))
		a.works = [2]time.Duration{upTo(rng, 2*time.Second), upTo(rng, 2*time.Second)}
		a.delay = 1 + upTo(rng, 100*time.Millisecond)
		a.apply = func(ref) string {
			if trouble && rng.IntN(3) == 0 {
				return "disk"
			}
			return ""
		}
		a.judge = func(d ref) string {
			if d.Version%7 == 6 {
				return "no"
			}
			return ""
		}
		a.start()
	}
	watchVersions(t, m, reached)
	for range 60 {
		disturb(m, rng)
		m.run(upTo(rng, 3*time.Second))
	}
	trouble = false
	m.run(time.Minute)
	settleSim(t, m)
}

// settleSim publishes a last version, above all that was ever known, and expects
// it everywhere.
func settleSim(t *testing.T, m *sim) {
	known := m.truth()
	last := content(7*(max(known.top(), highest(m))/7+1), "last")
	m.publish(last, last.Version)
	for _, a := range m.agents {
		if !a.up {
			a.start()
		}
	}
	m.run(5 * time.Minute)
	for _, a := range m.agents {
		require.Equal(t, last.Version, a.disk.Version, a.name)
		require.Equal(t, last.Digest, a.disk.Digest, a.name)
		require.Equal(t, report{Applied: last.Version, Digest: last.Digest, State: StateApplied, Version: last.Version}, a.last, a.name)
		require.True(t, slices.IsSorted(a.history), "%s: %v", a.name, a.history)
		require.NotContains(t, a.history, uint64(13), "was refused")
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

func highest(m *sim) uint64 {
	return slices.MaxFunc(m.agents, func(a, b *simAgent) int { return cmp.Compare(a.s.highest, b.s.highest) }).s.highest
}

// watchVersions looks at each report: it tells what is on the disk.
func watchVersions(t *testing.T, m *sim, reached map[string]int) {
	m.note = func(a *simAgent, text string) {
		what, _, _ := strings.Cut(text, " ")
		reached[what]++
		if strings.HasPrefix(text, "tell ") {
			require.Equal(t, a.disk.Version, a.s.applied.Version, a.name)
			require.True(t, strings.HasPrefix(text, fmt.Sprintf("tell %d, ", a.disk.Version)), "%s: %s", a.name, text)
		}
	}
}

func disturb(m *sim, rng *rand.Rand) {
	a := m.agents[rng.IntN(len(m.agents))]
	top := m.fence.K
	switch rng.IntN(12) {
	case 0, 1, 2, 3:
		m.publish(content(top+1, fmt.Sprint(m.epoch)), top+1)
	case 4:
		a.cut(upTo(rng, 20*time.Second))
	case 5:
		a.kill()
		m.after(upTo(rng, 10*time.Second), func() {
			if !a.up {
				a.start()
			}
		})
	case 6:
		if rng.IntN(4) == 0 {
			m.lose()
		}
	case 7:
		m.gone = max(m.gone, len(m.log)-1-rng.IntN(3))
	case 8:
		d := content(top+1, "staged")
		d.Staged = true
		m.publish(d, top+1)
	case 9:
		if s := m.truth(); s.isStaged() {
			for _, a := range m.agents[:1+rng.IntN(len(m.agents))] {
				if a.up {
					a.step(stageMoved{s.staged.Version, rng.IntN(4) > 0})
				}
			}
		}
	case 10:
		if s := m.truth(); s.isStaged() {
			d := s.staged
			d.Staged = false
			m.publish(d, d.Version)
		}
	case 11:
		m.publish(content(top+50, "forged"), 0)
	}
}
