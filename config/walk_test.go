package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// The walk: one agent and a small log, in every order in which versions are
// published, read and applied, and things go wrong, within bounds.

const walkLog = 4 // messages in a log

// world is a state of everything. It is comparable. There is no time: timers fire
// whenever they are set.
type world struct {
	S state

	// The registry.
	Epoch protocol.EpochID
	Log   [walkLog]walkMessage
	Head  uint8
	Gone  uint8 // up to here retention took all
	Open  bool  // the rollout of the staged version has reached the agent

	// The link.
	On     bool
	Caught bool
	At     uint8            // the subscription has handed over so much
	Read   protocol.EpochID // of this log
	Told   bool             // of Open
	Look   bool             // a look goes on

	// The agent.
	Job  phase // judging or applying: an answer is to come
	Work ref
	Good ref // the last that was judged good
	Disk ref
	High uint64 // version ever applied
	Bad  ref    // the last that was refused
	Pin  bool   // a local rollback holds it

	Left walkFaults
}

type walkMessage struct {
	Version uint8
	Content uint8
	Staged  bool
	Forged  bool // not stamped with its version
}

// walkFaults are how often things may still happen.
type walkFaults struct {
	Publish, Stage, Twice, Forge, Purge, Lose, Drop, Crash, Fail, Reject, Pin int8
}

// mutant is a machine with one rule broken.
type mutant struct {
	name  string
	walk  string                            // that it goes wrong in
	bend  func(s *state, e event) event     // before the step; nil: it does not happen
	twist func(was state, x *turn, e event) // after it
}

type walker struct {
	mutant mutant
	seen   map[world]bool
	todo   []world
	wrong  string
	counts map[string]int // what was reached
}

var walkSettings = settings{}

// walk goes through all worlds and returns the first wrong that it finds.
func walk(left walkFaults, m mutant) *walker {
	w := &walker{mutant: m, seen: map[world]bool{}, counts: map[string]int{}}
	first := world{S: newState(walkSettings, Applied{}), Epoch: 1, Read: 1, Left: left}
	w.add(first)
	for len(w.todo) > 0 && w.wrong == "" {
		next := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.expand(next)
	}
	return w
}

func (w *walker) add(next world) {
	if !w.seen[next] {
		w.seen[next] = true
		w.todo = append(w.todo, next)
	}
}

func (w *walker) fault(x *world, format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...) + fmt.Sprintf("\n%+v", *x)
	}
}

func (m walkMessage) ref(seq uint8) ref {
	d := content(uint64(m.Version), fmt.Sprint(m.Content))
	d.Staged, d.Seq = m.Staged, protocol.Seq(seq)
	return d
}

// top is the highest version of the log, in a message that counts or not.
func (x *world) top() (v uint8) {
	for _, m := range x.Log[:x.Head] {
		if !m.Forged {
			v = max(v, m.Version)
		}
	}
	return v
}

// truth is what the log says: the first of each version counts.
func (x *world) truth() shelf {
	var s shelf
	for i, m := range x.Log[:x.Head] {
		if !m.Forged && uint8(i) >= x.Gone {
			s.place(m.ref(uint8(i+1)), true)
		}
	}
	return s
}

func (x *world) fence() protocol.Fence {
	f := protocol.Fence{K: uint64(x.top())}
	for i, m := range x.Log[:x.Head] {
		if !m.Forged {
			f.S = protocol.Seq(i + 1)
		}
	}
	return f
}

// step hands an event to the machine and does what it asks for.
func (w *walker) step(x world, e event) {
	was := x
	s := x.S
	if w.mutant.bend != nil {
		if e = w.mutant.bend(&s, e); e == nil {
			return
		}
	}
	next, actions := s.Step(0, e)
	if w.mutant.twist != nil {
		t := turn{state: next, actions: actions}
		w.mutant.twist(s, &t, e)
		next, actions = t.state, t.actions
	}
	x.S = next
	for _, a := range actions {
		w.do(&x, a)
	}
	w.check(&was, &x)
	w.add(x)
}

func (w *walker) do(x *world, a action) {
	switch a := a.(type) {
	case look:
		if x.Look {
			w.fault(x, "two looks at once")
		}
		x.Look = true
	case judge:
		if x.Job != idle {
			w.fault(x, "judges %d while something goes on", a.Doc.Version)
		}
		x.Job, x.Work = judging, a.Doc
	case cancel:
		if x.Job != judging {
			w.fault(x, "calls off what does not go on")
		}
		x.Job, x.Work = idle, ref{}
	case apply:
		w.counts["apply"]++
		switch {
		case x.Job != idle:
			w.fault(x, "applies %d while something goes on", a.Doc.Version)
		case !x.Good.is(a.Doc):
			w.fault(x, "applies %d, which was not judged good", a.Doc.Version)
		case a.Doc.Version < x.Disk.Version:
			w.fault(x, "goes back from %d to %d", x.Disk.Version, a.Doc.Version)
		case a.Doc.is(x.Disk):
			w.fault(x, "applies %d again", a.Doc.Version)
		case a.Doc.Staged && !x.Open && x.Told:
			w.fault(x, "applies %d, which is held", a.Doc.Version)
		case x.Pin:
			w.fault(x, "applies %d, though pinned", a.Doc.Version)
		}
		x.Job, x.Work = applying, a.Doc
	case tell:
		w.counts[string(a.State)]++
		if a.Applied != x.Disk.Version || a.State == StateApplied && a.Version != x.Disk.Version {
			w.fault(x, "reports %s", a.report)
		}
		if a.Behind {
			w.counts["behind"]++
		}
	case show, voided, setTimer:
	}
}

// expand goes on from a world in all ways.
func (w *walker) expand(x world) {
	w.registry(x)
	w.link(x)
	w.agent(x)
	w.rest(x)
}

func (w *walker) publish(x world, m walkMessage) {
	if x.Head < walkLog {
		x.Log[x.Head] = m
		x.Head++
		w.add(x)
	}
}

func (w *walker) registry(x world) {
	top := x.top()
	if n := x; x.Left.Publish > 0 {
		n.Left.Publish--
		w.publish(n, walkMessage{Version: top + 1, Content: uint8(x.Epoch)})
	}
	if n := x; x.Left.Stage > 0 && x.Head > 0 {
		n.Left.Stage--
		n.Open, n.Told = false, false
		w.publish(n, walkMessage{Version: top + 1, Content: 7, Staged: true})
	}
	if s := x.truth(); s.isStaged() {
		w.publish(x, walkMessage{Version: uint8(s.staged.Version), Content: 7}) // complete
		if !x.Open {
			n := x
			n.Open = true
			w.add(n)
		}
	}
	if n := x; x.Left.Twice > 0 && top > 0 {
		n.Left.Twice--
		w.publish(n, walkMessage{Version: top, Content: 9})
	}
	if n := x; x.Left.Forge > 0 {
		n.Left.Forge--
		w.publish(n, walkMessage{Version: 9, Forged: true})
	}
	if n := x; x.Left.Purge > 0 && x.Gone < x.Head {
		n.Left.Purge--
		n.Gone = x.Head - 1 // the newest is kept
		w.add(n)
	}
	if n := x; x.Left.Lose > 0 {
		n.Left.Lose--
		n.Epoch++
		n.Log, n.Head, n.Gone, n.Open, n.Told = [walkLog]walkMessage{}, 0, 0, false, false
		n.On, n.Caught = false, false
		w.add(n)
	}
}

func (w *walker) link(x world) {
	if !x.On {
		x.On = true
		w.add(x)
		return
	}
	if n := x; x.Left.Drop > 0 {
		n.Left.Drop--
		n.On, n.Caught = false, false
		w.add(n)
	}
	n := x
	switch {
	case x.Read != x.Epoch:
		n.Read, n.At = x.Epoch, 0
		w.step(n, epochBegan{x.Epoch})
	case x.At < x.Gone:
		n.At = x.Gone
		w.step(n, gapFound{})
	case x.At < x.Head:
		n.At++
		m := x.Log[x.At]
		e := documentRead{Epoch: x.Epoch, Seq: protocol.Seq(n.At), Stamped: !m.Forged}
		if m.Forged {
			e.Void = VoidUnstamped
		} else {
			e.Doc = m.ref(n.At)
		}
		w.step(n, e)
	case !x.Caught:
		n.Caught = true
		w.step(n, caughtUp{x.Epoch, x.fence()})
	}
	if s := x.truth(); s.isStaged() && x.Open != x.Told {
		n := x
		n.Told = x.Open
		w.step(n, stageMoved{s.staged.Version, x.Open})
	}
	if x.Look {
		w.lookBack(x)
	}
}

// lookBack answers a look, at once or while other things are read.
func (w *walker) lookBack(x world) {
	x.Look = false
	s := x.truth()
	inner := &walker{mutant: w.mutant, seen: map[world]bool{}, counts: w.counts}
	worlds := []world{x}
	for _, e := range []event{
		documentRead{Epoch: x.Epoch, Seq: s.latest.Seq, Stamped: true, Looked: true, Doc: s.latest},
		documentRead{Epoch: x.Epoch, Seq: s.staged.Seq, Stamped: true, Looked: true, Doc: s.staged},
		lookedBack{x.Epoch, x.fence(), true},
	} {
		if d, ok := e.(documentRead); ok && d.Doc.Version == 0 {
			continue
		}
		inner.todo = nil
		for _, each := range worlds {
			inner.step(each, e)
		}
		worlds = append([]world(nil), inner.todo...)
		if inner.wrong != "" {
			w.fault(&x, "%s", inner.wrong)
			return
		}
	}
	for _, each := range worlds {
		w.add(each)
	}
}

func (w *walker) agent(x world) {
	n := x
	n.Job, n.Work = idle, ref{}
	switch x.Job {
	case judging:
		good := n
		good.Good = x.Work
		w.step(good, judged{Doc: x.Work, OK: true})
		if n.Left.Reject > 0 {
			n.Left.Reject--
			n.Bad = x.Work
			w.step(n, judged{Doc: x.Work, Reason: "no"})
		}
	case applying:
		applied := n
		applied.Disk, applied.High = x.Work, max(x.High, x.Work.Version)
		w.step(applied, done{Doc: x.Work, OK: true})
		if n.Left.Fail > 0 {
			n.Left.Fail--
			w.step(n, done{Doc: x.Work, Error: "disk"})
		}
	case idle, waiting:
	}
	if x.S.deadline() != never {
		w.step(x, timerFired{})
	}
	if n := x; x.Left.Pin > 0 && x.Job == idle && x.Disk.Version > 1 {
		n.Left.Pin--
		n.Pin = true
		n.Disk = content(x.Disk.Version-1, "local")
		w.step(n, currentFound{Applied: n.Disk, Highest: n.High, Pinned: true})
	}
	if n := x; x.Pin {
		n.Pin = false
		w.step(n, currentFound{Applied: x.Disk, Highest: x.High})
	}
	if n := x; x.Left.Crash > 0 {
		n.Left.Crash--
		n.S = newState(walkSettings, Applied{Version: x.Disk.Version, Digest: x.Disk.Digest, Highest: x.High, Pinned: x.Pin})
		n.On, n.Caught, n.Told, n.Look, n.Job, n.Work = false, false, false, false, idle, ref{}
		n.At, n.Read, n.Good, n.Bad = x.Head, x.Epoch, ref{}, ref{} // subscribes to what is new
		w.add(n)
	}
}

// check looks at one step.
func (w *walker) check(was, is *world) {
	if is.S.phase == applying && is.Job != applying {
		w.fault(is, "waits for an apply that does not go on")
	}
	if is.S.applied.Version != is.Disk.Version {
		w.fault(is, "believes to run %d, and runs %d", is.S.applied.Version, is.Disk.Version)
	}
	if is.Disk.Version < was.Disk.Version && !is.Pin {
		w.fault(is, "runs less than before")
	}
}

// rest looks at worlds in which nothing is to come: the agent runs what it should.
func (w *walker) rest(x world) {
	s := x.truth()
	if !x.On || !x.Caught || x.At < x.Head || x.Read != x.Epoch || x.Look || x.Job != idle ||
		x.S.deadline() != never || s.isStaged() && x.Open != x.Told {
		return
	}
	w.counts["rest"]++
	want := s.latest
	if s.isStaged() && x.Open {
		want = s.staged
	}
	known := max(x.High, x.S.highest)
	switch {
	case x.Pin:
		w.counts["pinned"]++
	case s.top() < known:
		w.counts["rest behind"]++
		if !x.S.behind() {
			w.fault(&x, "does not see that the registry is behind")
		}
	case x.Bad.is(want):
		w.counts["rest rejected"]++
	case want.Version <= x.Disk.Version:
		w.counts["rest done"]++
	default:
		w.fault(&x, "rests at %d, and should run %d", x.Disk.Version, want.Version)
	}
	own := x.Disk.is(content(x.Disk.Version, "local"))
	if want.Version == x.Disk.Version && !want.is(x.Disk) && x.Epoch == 1 && !own {
		w.fault(&x, "runs another %d than others", want.Version)
	}
}

// Each scenario lets some things happen, often enough to meet each other.
var walks = map[string]walkFaults{
	"publish":  {Publish: 3, Drop: 1, Fail: 1, Reject: 1, Pin: 1},
	"lost log": {Publish: 3, Lose: 1, Crash: 1, Fail: 1},
	"rollout":  {Publish: 2, Stage: 1, Drop: 1, Crash: 1, Reject: 1},
	"twice":    {Publish: 2, Twice: 1, Crash: 1},
	"forged":   {Publish: 1, Forge: 2, Crash: 1, Drop: 1},
	"purge":    {Publish: 3, Purge: 2, Drop: 1, Crash: 1},
}

func TestWalk(t *testing.T) {
	reached := map[string]int{}
	for name, left := range walks {
		w := walk(left, mutant{})
		require.Empty(t, w.wrong, name)
		for what, n := range w.counts {
			reached[what] += n
		}
		t.Logf("%s: %d worlds", name, len(w.seen))
	}
	for _, what := range []string{
		"apply", "rest", "rest behind", "rest done", "rest rejected", "pinned", "behind", "applied", "rejected", "failed", "pending",
	} {
		require.NotZero(t, reached[what], what)
	}
}

// Each rule is needed: without it a walk goes wrong.
func TestMutants(t *testing.T) {
	for _, m := range []mutant{
		{name: "an empty log is taken for the truth", walk: "lost log", twist: func(was state, x *turn, e event) {
			if _, ok := e.(epochBegan); ok {
				x.highest = 0
			}
		}},
		{name: "starts before the log is known", walk: "twice", bend: func(s *state, e event) event {
			s.ready = true
			return e
		}},
		{name: "the last of two messages with one version counts", walk: "twice", bend: func(s *state, e event) event {
			if d, ok := e.(documentRead); ok && d.Void == 0 && d.Doc.Version == s.latest.Version && !d.Looked {
				s.latest = d.Doc
			}
			return e
		}},
		{name: "a message need not be stamped", walk: "forged", bend: func(s *state, e event) event {
			if d, ok := e.(documentRead); ok && d.Void != 0 {
				d.Void, d.Doc = 0, content(9, "forged")
				d.Doc.Seq = d.Seq
				return d
			}
			return e
		}},
		{name: "does not look back", walk: "purge", bend: func(s *state, e event) event {
			if c, ok := e.(caughtUp); ok {
				c.Fence.S = 0
				return c
			}
			return e
		}},
		{name: "a staged version is for all", walk: "rollout", twist: func(was state, x *turn, e event) {
			if d, ok := e.(documentRead); ok && d.Void == 0 && d.Doc.Staged {
				x.open = d.Doc.Version
				x.settle()
			}
		}},
		{name: "an apply is called off", walk: "publish", twist: func(was state, x *turn, e event) {
			if g, ok := x.wanted(); ok && was.phase == applying && x.phase == applying && !x.work.is(g) {
				x.begin(g)
			}
		}},
		{name: "a pin holds nothing", walk: "publish", bend: func(s *state, e event) event {
			if c, ok := e.(currentFound); ok {
				c.Pinned = false
				return c
			}
			return e
		}},
		{name: "a failure is final", walk: "publish", twist: func(was state, x *turn, e event) {
			if d, ok := e.(done); ok && !d.OK {
				x.phase = idle
				x.outcome.State = StateRejected
			}
		}},
		{name: "a refused version is in use", walk: "publish", twist: func(was state, x *turn, e event) {
			if j, ok := e.(judged); ok && !j.OK && was.phase == judging && j.Doc.is(was.work) {
				x.applied = j.Doc
			}
		}},
		{name: "goes to what the log says, also down", walk: "lost log", twist: func(was state, x *turn, e event) {
			if g := x.goal(); x.ready && x.phase == idle && !x.pinned && g.Version != 0 && g.Version < x.applied.Version {
				x.begin(g)
			}
		}},
		{name: "a completed rollout is applied again", walk: "rollout", bend: func(s *state, e event) event {
			if d, ok := e.(documentRead); ok && d.Void == 0 && !d.Doc.Staged && d.Doc.is(s.applied) {
				s.applied.Version--
			}
			return e
		}},
		{name: "a new version does not supersede", walk: "publish", twist: func(was state, x *turn, e event) {
			if _, ok := e.(documentRead); ok && was.phase == waiting && x.phase == judging {
				x.state = was
				x.actions = nil
			}
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			left, ok := walks[m.walk]
			require.True(t, ok)
			require.NotEmpty(t, walk(left, m).wrong)
		})
	}
}
