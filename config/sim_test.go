package config

import (
	"cmp"
	"container/heap"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// sim is a swarm of machines over a simulated log, in simulated time.
type sim struct {
	now    moment
	n      int
	queue  simQueue
	agents []*simAgent
	mutant mutant
	note   func(a *simAgent, text string) // nil where nobody reads it
	tells  func(a *simAgent, r report)    // of each report

	epoch    protocol.EpochID
	log      []documentRead
	gone     int // up to here retention took all
	fence    protocol.Fence
	progress []Progress // of rollouts, all that was written in this epoch
}

type simEvent struct {
	at moment
	n  int
	do func()
}

// simQueue is a heap.
type simQueue []simEvent

func (q simQueue) Len() int      { return len(q) }
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q simQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].n, q[j].n)) < 0
}
func (q *simQueue) Push(e any) { *q = append(*q, e.(simEvent)) }

func (q *simQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = simEvent{}
	*q = (*q)[:last]
	return e
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

	node    protocol.NodeID
	labels  map[string]string
	rollout int          // so much of the progress was read
	newest  progressRead // of a rollout

	disk   Applied
	judge  func(ref) string // why not; "" is good
	apply  func(ref) string
	ran    func(ref)        // is told when one was applied
	refuse func() bool      // whether the registry refuses a look
	works  [2]time.Duration // how long a judge and an apply take
	delay  time.Duration    // of the link
	last   report
	said   uint64 // counts the reports
}

const simDelay = time.Millisecond

func newSim() *sim { return &sim{epoch: 1} }

func (m *sim) after(d time.Duration, do func()) {
	m.n++
	heap.Push(&m.queue, simEvent{m.now + d, m.n, do})
}

// run lets time go by.
func (m *sim) run(d time.Duration) {
	end := m.now + d
	for len(m.queue) > 0 && m.queue[0].at <= end {
		e := heap.Pop(&m.queue).(simEvent)
		m.now = e.at
		e.do()
	}
	m.now = end
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
	m.log, m.gone, m.fence, m.progress = nil, 0, protocol.Fence{}, nil
	for _, a := range m.agents {
		a.cut(simDelay)
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
		judge: func(ref) string { return "" }, apply: func(ref) string { return "" }, ran: func(ref) {},
		refuse: func() bool { return false },
	}
	m.agents = append(m.agents, a)
	return a
}

// start begins a process.
func (a *simAgent) start() {
	a.life++
	a.up, a.busy, a.s = true, false, newState(usual, a.disk)
	a.on, a.caught, a.read, a.at = false, false, a.epoch, len(a.log)
	a.rollout, a.newest = 0, progressRead{}
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
	if a.up {
		a.link(d)
	}
}

// pump hands over what there is, in order, one thing at a time.
func (a *simAgent) pump() { a.later(a.delay, a.deliver) }

func (a *simAgent) deliver() {
	switch {
	case !a.on:
		return
	case a.read != a.epoch:
		a.read, a.at, a.rollout = a.epoch, 0, 0
		a.step(epochBegan{a.epoch})
	case a.rollout < len(a.progress):
		a.rollout++
		a.step(progressRead{a.progress[a.rollout-1], a.epoch})
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

// step hands an event to the machine as a follower does.
func (a *simAgent) step(e event) {
	switch e := e.(type) {
	case progressRead:
		a.newest = e
		a.turn(a.reached(e.Version))
	case documentRead:
		a.turn(e)
		if e.Void == 0 && a.newest.Version != 0 {
			a.turn(a.reached(e.Doc.Version))
		}
	default:
		a.turn(e)
	}
}

func (a *simAgent) reached(version uint64) stageMoved {
	p := &a.newest
	here := p.Version == version && p.epoch == a.s.epoch
	return stageMoved{version, here && p.Reaches(a.node, a.labels)}
}

func (a *simAgent) turn(e event) {
	var actions []action
	a.s, actions = a.mutant.step(a.s, a.now, e)
	for _, act := range actions {
		if a.note != nil {
			if text := tellAction(act); text != "" {
				a.note(a, text)
			}
		}
		a.do(act)
	}
}

// step is a step of the machine with the rule broken.
func (m mutant) step(s state, now moment, e event) (state, []action) {
	was := s
	if m.bend != nil {
		if e = m.bend(&s, e); e == nil {
			return s, nil
		}
	}
	next, actions := s.Step(now, e)
	if m.twist == nil {
		return next, actions
	}
	before := next.deadline()
	x := turn{state: next, now: now, actions: actions}
	m.twist(was, &x, e)
	if at := x.deadline(); at != before {
		x.do(setTimer{at})
	}
	return x.state, x.actions
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
				a.put(act.Doc)
			} else {
				a.lookAgain()
			}
			return done{Doc: act.Doc, OK: why == "", Error: why}
		})
	case tell:
		a.last = act.report
		if a.tells != nil {
			a.tells(a, act.report)
		}
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

// put makes a document the one on the disk.
func (a *simAgent) put(d ref) {
	a.ran(d)
	a.disk.Version, a.disk.Digest, a.disk.Highest = d.Version, d.Digest, max(a.disk.Highest, d.Version)
}

// lookAgain is what a follower does after an error of its applier.
func (a *simAgent) lookAgain() {
	a.step(currentFound{ref{Version: a.disk.Version, Digest: a.disk.Digest}, a.disk.Highest, a.disk.Pinned})
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
	if !a.on || a.refuse() {
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
