package election

import (
	"flag"
	"fmt"
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
)

var simSeed = flag.Int("sim.seed", -1, "run only these schedules of TestTenThousandHours, and print their traces")

// schedule is one run of a simulation: a storm, then a calm in which a leader
// must be found and stay.
type schedule struct {
	seed    uint64
	profile string
	o       simOptions
	rage    time.Duration
	every   time.Duration // between two faults, on average
}

// climates are the timings of schedules, and how much of the time each has.
var climates = []struct {
	name   string
	timing Timing
	delay  [2]time.Duration
	redial time.Duration
	share  float64
}{
	{"tight", fast, [2]time.Duration{time.Millisecond, 2 * time.Millisecond}, 0, 0.03},
	{"LAN", LAN, [2]time.Duration{time.Millisecond, 2 * time.Millisecond}, 2500 * time.Millisecond, 0.17},
	{"WAN", WAN, [2]time.Duration{20 * time.Millisecond, 60 * time.Millisecond}, 2500 * time.Millisecond, 0.35},
	{"flaky", Flaky, [2]time.Duration{50 * time.Millisecond, 250 * time.Millisecond}, 2500 * time.Millisecond, 0.25},
	{"mixed", Mixed, [2]time.Duration{5 * time.Millisecond, 500 * time.Millisecond}, 2500 * time.Millisecond, 0.20},
}

// newSchedule is decided by its seed and climate.
func newSchedule(seed uint64, climate int) schedule {
	c := climates[climate]
	s := schedule{seed: seed, profile: c.name, o: simOptions{
		timing: c.timing, delay: c.delay, redial: c.redial, born: birthday,
		retention: 3 + int(seed)%20, gaps: seed%2 == 0, straight: seed%8 != 0,
	}}
	if seed%5 == 0 {
		s.o.preempt = Preemption{Allowed: true, After: time.Duration(seed%3) * c.timing.Silence}
	}
	if seed%7 == 0 {
		s.o.plain = PlainIgnore
	}
	s.every = c.timing.Silence * time.Duration([]int{1, 2, 4}[seed%3])
	s.rage = 300 * s.every
	return s
}

// recovery is the longest that it may take from the last fault to a leader, on
// clocks that are slow.
func (s schedule) recovery() time.Duration {
	t, leg := s.o.timing, s.o.delay[1]
	reconnect := max(s.o.redial, t.Heartbeat)
	return time.Duration(float64(t.Silence+t.Jitter+t.Window+3*t.Rank)*(1+2*drift)) + reconnect + 10*leg
}

// run returns what happened, and how long it took from the last fault until one
// member led for good.
func (s schedule) run(trace func(format string, args ...any)) (w *storm, found time.Duration) {
	w = newStorm(s.seed, 5, s.o)
	w.every, w.hard, w.twins = s.every, true, s.seed%3 == 1
	w.lateness = 3 * s.o.timing.Silence
	if trace != nil {
		w.trace = func(format string, args ...any) { trace("%12v  "+format, append([]any{w.now}, args...)...) }
	}
	w.rage(s.rage)
	if len(w.broken) > 0 {
		return w, 0
	}
	w.run(w.over - w.now)
	from := w.lastBlow()
	w.run(s.recovery())
	if s.o.preempt.Allowed && w.leads() == "" {
		w.run(10 * s.o.delay[1]) // a handover may be under way
	}
	found = max(0, w.lastLead-from)
	leader, handovers := w.leads(), w.handovers
	if leader == "" {
		w.fail("nobody leads %v after the last fault", s.recovery())
		return w, found
	}
	if s.o.preempt.Allowed { // higher ones may take over first
		w.run(s.o.preempt.After + 15*s.o.timing.Silence)
		leader, handovers = w.leads(), w.handovers
	}
	w.run(40 * s.o.timing.Silence)
	if w.leads() != leader || w.handovers != handovers {
		w.fail("%s leads %v after the last fault, and %s in the calm behind it", leader, s.recovery(), w.leads())
	}
	w.paired()
	return w, found
}

// lastBlow is one more fault when all others are over, and returns when it is
// over too.
func (w *storm) lastBlow() time.Duration {
	f := w.o.timing.Silence
	w.run(w.between(0, f))
	switch l := w.leader(); {
	case w.rand.IntN(5) == 0 && l != nil:
		l.kill()
	case w.rand.IntN(4) == 0:
		w.reg.restart(f/4, false)
		w.run(f / 4)
	case w.rand.IntN(3) == 0:
		for _, p := range w.nodes {
			p.cut(true, true, 2*f)
		}
		w.run(2 * f)
	case w.rand.IntN(2) == 0 && l != nil:
		l.pause(2 * f)
		w.run(2 * f)
	}
	return w.now
}

// paired checks at the end that who was told to lead does, and nobody else.
func (s *sim) paired() {
	for _, p := range s.procs {
		if !p.dead && p.state.leads() != (p.holds != Token{}) {
			s.fail("%s leads: %v, was told so of %v", p.name, p.state.leads(), p.holds)
		}
	}
}

// Whatever goes wrong: never two leases at one instant, no write of a leader
// accepted after a higher claim, no term that falls for who looks, no leadership
// without an end, and a leader soon after the last fault.
//
// The budget is in virtual time: 1 s of it is 33 hours, so that the 5m of a
// nightly run are 10,000 hours, however long that takes.
func TestTenThousandHours(t *testing.T) {
	// The simulation makes nothing but garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	budget := testenv.Budget(t, 150*time.Millisecond) * 120_000
	var sum hours
	if *simSeed >= 0 {
		for i := range climates {
			sum.retell(t, newSchedule(uint64(*simSeed), i))
		}
		return
	}
	for i, c := range climates {
		sum.climate(t, i, time.Duration(c.share*float64(budget)))
	}
	t.Logf("%.1f virtual hours, seeds 0 to %d%s", sum.virtual.Hours(), sum.seeds, sum.lines.String())
}

// hours sums up schedules.
type hours struct {
	virtual time.Duration
	seeds   uint64
	lines   strings.Builder
}

// climate runs schedules of one climate until they have lasted for d.
func (h *hours) climate(t *testing.T, climate int, d time.Duration) {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	var total, worst time.Duration
	var faults, claims, written int
	var failed []uint64
	start := time.Now()
	work := func() {
		for {
			seed := next.Add(1) - 1
			mu.Lock()
			over := total >= d && seed > 0 || len(failed) > 0
			mu.Unlock()
			if over {
				return
			}
			s := newSchedule(seed, climate)
			w, found := s.run(nil)
			mu.Lock()
			total, worst = total+w.now, max(worst, found)
			faults, claims, written = faults+w.faults, claims+w.claims, written+w.written
			h.seeds = max(h.seeds, seed)
			if len(w.broken) > 0 {
				failed = append(failed, seed)
			}
			mu.Unlock()
		}
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(work)
	}
	all.Wait()
	if len(failed) > 0 {
		slices.Sort(failed)
		h.retell(t, newSchedule(failed[0], climate))
	}
	h.virtual += total
	fmt.Fprintf(&h.lines, "\n%-6s %8.1f h, %8.1f h a second; %7d faults, %7d claims, %7d fenced writes; from the last fault to a leader at worst %v",
		climates[climate].name, total.Hours(), total.Hours()/time.Since(start).Seconds(), faults, claims, written, worst.Round(time.Millisecond))
}

// retell runs a schedule with its trace, and shows the end of it.
func (*hours) retell(t *testing.T, s schedule) {
	t.Helper()
	var tape []string
	w, _ := s.run(func(format string, args ...any) { tape = append(tape, fmt.Sprintf(format, args...)) })
	const shown = 150
	t.Logf("the end of seed %d, %s:\n%s", s.seed, s.profile, strings.Join(tape[len(tape)-min(len(tape), shown):], "\n"))
	require.Empty(t, w.broken, "seed %d of %s, again with -sim.seed=%d", s.seed, s.profile, s.seed)
}
