package config

import (
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// settings are what an agent's machine is given.
type settings struct {
	// BestEffort is for links without fences: the first message that is read with
	// a version counts, and nothing is looked up.
	BestEffort bool

	// Retry is the delay after the first failure; it doubles up to MaxRetry.
	Retry, MaxRetry time.Duration

	// Every is how often to report when nothing changes; 0 is never.
	Every time.Duration
}

type phase uint8

const (
	idle     phase = iota
	judging        // work is being validated
	applying       // work is being applied, which cannot be called off
	waiting        // work has failed and is tried again
)

// state is an agent's side of a swarm's configuration: what it has read, what it
// has in use, and what it is doing about the difference. It is a comparable value;
// two equal ones do the same ever after.
//
// Who drives it hands events over one by one and does the actions of each before
// the next, in their order. It subscribes to what is new: the machine itself asks
// to look back.
//
//   - A version is never given up for a lower one. Only a local rollback goes back,
//     which pins.
//   - An empty log changes nothing: absent is not empty.
//   - Nothing is applied that was not judged, and one thing is done at a time.
type state struct {
	settings

	// The log.
	epoch   protocol.EpochID
	read    protocol.Seq // of the newest stamped message that was read, or looked for
	ready   bool         // what the log retains is known
	looking bool
	looked  bool   // once in this epoch
	lookAt  moment // after a look failed
	shelf
	open uint64 // the staged version that has reached this agent

	// This agent.
	applied ref
	highest uint64 // version ever known here, in any epoch
	pinned  bool
	phase   phase
	work    ref
	tries   int
	due     moment // of waiting
	outcome outcome

	// What was said.
	shown  Change // the last hold, pin or lag that was shown
	told   report
	tellAt moment
}

// shelf is what was read of the log.
type shelf struct {
	latest ref // the newest update
	staged ref // the newest document of a rollout
}

// top is the highest version.
func (s *shelf) top() uint64 { return max(s.latest.Version, s.staged.Version) }

// isStaged reports whether a rollout is going on.
func (s *shelf) isStaged() bool { return s.staged.Version > s.latest.Version }

// place takes a document in and reports whether that changes anything. Of two
// with one version the first counts; as long as the log is not known, one found
// by looking back can lie before what was read meanwhile.
func (s *shelf) place(d ref, settled bool) (news bool, v Void) {
	switch {
	case d.Version == s.latest.Version:
		if same := d.is(s.latest); same || settled || d.Seq > s.latest.Seq {
			return false, takenUnless(same)
		}
		s.latest = ref{} // it was not the first
	case d.Version == s.staged.Version:
		same := d.is(s.staged)
		if !same || d.Staged || d.Version < s.latest.Version {
			return false, takenUnless(same)
		}
		// The rollout is complete.
	case d.Version < s.latest.Version,
		d.Version < s.staged.Version && (d.Staged || d.Seq > s.staged.Seq):
		return false, VoidOld
	}
	if d.Staged {
		s.staged = d
	} else {
		s.latest = d
	}
	return true, 0
}

func takenUnless(same bool) Void {
	if same {
		return 0
	}
	return VoidTaken
}

// outcome is what became of a document that is not in use.
type outcome struct {
	Doc   ref
	State AgentState
	Error string
}

func newState(c settings, a Applied) state {
	return state{
		settings: c,
		ready:    c.BestEffort,
		lookAt:   never,
		applied:  ref{Version: a.Version, Digest: a.Digest},
		highest:  max(a.Version, a.Highest),
		pinned:   a.Pinned,
	}
}

// Step takes what happened at now into account and tells what to do about it.
func (s state) Step(now moment, e event) (state, []action) {
	x := turn{state: s, now: now}
	before := s.deadline()
	e.happen(&x)
	x.settle()
	x.showHold()
	x.report()
	_, fired := e.(timerFired)
	if at := x.deadline(); at != before || fired && at != never {
		x.do(setTimer{at})
	}
	return x.state, x.actions
}

// turn is a state on its way to the next.
type turn struct {
	state
	now     moment
	actions []action
}

func (x *turn) do(a action) { x.actions = append(x.actions, a) }

func (x *turn) show(kind ChangeKind, version uint64, reason string) {
	x.do(show{Change{kind, version, reason}})
}

// deadline is when time alone changes something.
func (s *state) deadline() moment {
	at := s.lookAt
	if s.phase == waiting {
		at = min(at, s.due)
	}
	if s.ready && s.Every > 0 {
		at = min(at, s.tellAt)
	}
	return at
}

// goal is what this agent is to have, by the log.
func (s *state) goal() ref {
	if s.isStaged() && s.open == s.staged.Version {
		return s.staged
	}
	return s.latest
}

// behind reports whether the log knows less than this agent, which then keeps
// what it has.
func (s *state) behind() bool {
	if !s.ready || s.BestEffort {
		return false
	}
	g := s.goal()
	other := g.Version == s.applied.Version && g.Digest != s.applied.Digest && s.applied.Digest != Digest{}
	return s.top() < s.highest || other && g.Version != 0
}

// held reports whether a rollout goes on that has not come here.
func (s *state) held() bool {
	return s.isStaged() && s.open != s.staged.Version && s.applied.Version < s.staged.Version
}

// wanted is the goal, if there is something to do about it.
func (s *state) wanted() (ref, bool) {
	g := s.goal()
	refused := s.outcome.State == StateRejected && s.outcome.Doc.is(g)
	return g, s.ready && !s.pinned && !s.behind() && !refused && g.Version > s.applied.Version
}

// settle sees to it that what is being done is what is wanted.
func (x *turn) settle() {
	g, ok := x.wanted()
	if x.phase == applying || ok && x.phase != idle && x.work.is(g) {
		return
	}
	if x.phase != idle && ok {
		x.show(ChangeSuperseded, x.work.Version, "")
	}
	if x.phase == judging {
		x.do(cancel{})
	}
	x.phase = idle
	if ok {
		x.tries = 0
		x.begin(g)
	}
}

func (x *turn) begin(g ref) {
	x.phase, x.work = judging, g
	x.do(judge{g})
}

// What is read.

func (e documentRead) happen(x *turn) {
	if e.Epoch != x.epoch && x.epoch != 0 {
		return // of a look into a log that is gone
	}
	x.epoch = e.Epoch
	if e.Stamped {
		x.read = max(x.read, e.Seq)
	}
	v := e.Void
	if v == 0 {
		v = x.place(e.Doc)
	}
	if v != 0 && !e.Looked {
		x.do(voided{v, e.Seq, e.Sender})
	}
}

func (x *turn) place(d ref) Void {
	news, v := x.shelf.place(d, x.ready)
	if news && d.Version > x.highest {
		x.highest = d.Version
		x.show(ChangeAnnounced, d.Version, "")
	}
	return v
}

// A fence with a message that was not read: it lies before the subscription, or
// retention took it. Once a look is needed in any case: what is read while the
// subscription catches up hides what lies before.
func (e caughtUp) happen(x *turn) {
	x.epoch = e.Epoch
	if x.BestEffort || e.Fence.S == 0 || x.looked && e.Fence.S <= x.read {
		x.ready = true
		return
	}
	x.look()
}

func (x *turn) look() {
	x.lookAt = never
	if !x.looking {
		x.looking = true
		x.do(look{})
	}
}

func (e lookedBack) happen(x *turn) {
	x.looking = false
	switch {
	case !e.OK:
		x.lookAt = x.now + x.Retry
	case e.Epoch != x.epoch:
		x.look()
	default:
		x.read = max(x.read, e.Fence.S)
		x.looked, x.ready = true, true
	}
}

func (e epochBegan) happen(x *turn) {
	if e.Epoch == x.epoch {
		return
	}
	if x.epoch != 0 {
		x.show(ChangeEpoch, x.applied.Version, "")
	}
	x.epoch, x.read, x.looked, x.ready = e.Epoch, 0, false, x.BestEffort
	x.shelf, x.open = shelf{}, 0
	x.told = report{}
}

func (gapFound) happen(x *turn) { x.show(ChangeGap, x.applied.Version, "") }

func (e stageMoved) happen(x *turn) {
	switch {
	case e.Open:
		x.open = e.Version
	case x.open == e.Version:
		x.open = 0
	}
}

// What was done.

func (e judged) happen(x *turn) {
	if x.phase != judging || !e.Doc.is(x.work) {
		return // it was called off
	}
	if e.OK {
		x.phase = applying
		x.do(apply{x.work})
		return
	}
	x.rejected(e.Reason)
}

func (x *turn) rejected(reason string) {
	x.phase = idle
	x.outcome = outcome{x.work, StateRejected, reason}
	x.show(ChangeRejected, x.work.Version, reason)
}

func (e done) happen(x *turn) {
	if x.phase != applying {
		return
	}
	switch {
	case e.OK:
	case x.pinned:
		x.phase = idle
		return
	case e.Refused:
		x.rejected(e.Error)
		return
	default:
		x.failed(e.Error)
		return
	}
	x.phase, x.applied, x.outcome = idle, x.work, outcome{}
	x.highest = max(x.highest, x.work.Version)
	kind := ChangeApplied
	if x.work.Rollback {
		kind = ChangeRolledBack
	}
	x.show(kind, x.work.Version, "")
}

func (x *turn) failed(reason string) {
	delay := x.Retry
	for range x.tries {
		delay = min(2*delay, x.MaxRetry)
	}
	x.tries = min(x.tries+1, 30)
	x.phase, x.due = waiting, x.now+delay
	x.outcome = outcome{x.work, StateFailed, reason}
	x.show(ChangeFailed, x.work.Version, reason)
}

func (e currentFound) happen(x *turn) {
	x.applied, x.pinned = e.Applied, e.Pinned
	x.highest = max(x.highest, e.Highest, e.Applied.Version)
}

func (timerFired) happen(x *turn) {
	if x.phase == waiting && x.now >= x.due {
		if g, ok := x.wanted(); ok && g.is(x.work) {
			x.begin(g)
		}
	}
	if x.now >= x.lookAt {
		x.look()
	}
}

// What is said.

// showHold shows why the goal is not approached, once.
func (x *turn) showHold() {
	var c Change
	switch {
	case x.pinned:
		c = Change{Kind: ChangePinned, Version: x.applied.Version}
	case x.behind():
		c = Change{Kind: ChangeBehind, Version: x.highest}
	case x.ready && x.held():
		c = Change{Kind: ChangeHeld, Version: x.staged.Version}
	}
	if c == x.shown {
		return
	}
	if x.shown.Kind == ChangePinned && !x.pinned {
		x.show(ChangeUnpinned, x.applied.Version, "")
	}
	if x.shown = c; c.Kind != 0 {
		x.do(show{c})
	}
}

// report tells what has changed, once it is settled, and all of it now and then.
func (x *turn) report() {
	if !x.ready {
		return
	}
	r := x.state.report()
	busy := x.phase == judging || x.phase == applying
	if busy && x.tellAt == 0 {
		x.tellAt = x.now + x.Every
	}
	due := x.Every > 0 && x.now >= x.tellAt
	if !due && (busy || r == x.told) {
		return
	}
	x.told, x.tellAt = r, x.now+x.Every
	x.do(tell{r})
}

func (s *state) report() report {
	r := report{
		Applied: s.applied.Version, Digest: s.applied.Digest,
		Pinned: s.pinned, Held: s.held(), Behind: s.behind(),
	}
	g := s.goal()
	switch {
	case g.Version == s.applied.Version, g.Version < s.applied.Version, r.Behind:
		r.State, r.Version = StateApplied, s.applied.Version
	case s.outcome.Doc.is(g) && !s.pinned:
		r.State, r.Version, r.Error = s.outcome.State, g.Version, s.outcome.Error
	default:
		r.State, r.Version = StatePending, g.Version
	}
	if r.Version == 0 {
		r.State = StatePending
	}
	if r.Behind && s.highest > r.Applied {
		r.Highest = s.highest
	}
	return r
}
