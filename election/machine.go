package election

import (
	"math/bits"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// settings are what a member is given. All members of a group should agree on
// Timing, Plain and Preempt.
type settings struct {
	Topic    string
	Node     protocol.NodeID
	Instance protocol.Instance // 128 fresh random bits for each machine, used for nothing else
	Seed     uint64            // random bits; they give the jitter
	Priority int64
	Timing   Timing
	Plain    PlainPolicy
	Preempt  Preemption

	// BestEffort is for links without fences and a common order. The order of
	// (term, priority, node) decides then, and two can lead for a while.
	BestEffort bool
}

// newMachine is a member that has not heard anything and observes only.
func newMachine(c settings) (machine, error) {
	if err := c.Timing.Validate(); err != nil {
		return machine{}, err
	}
	if err := protocol.ValidTopic(c.Topic); err != nil {
		return machine{}, err
	}
	switch {
	case c.Instance == (protocol.Instance{}):
		return machine{}, protocol.Errorf(protocol.ErrInvalid, "a member needs an instance")
	case c.Priority < -protocol.MaxTerm || c.Priority > protocol.MaxTerm:
		return machine{}, protocol.Errorf(protocol.ErrInvalid, "priority %d is not between -%d and %[2]d", c.Priority, uint64(protocol.MaxTerm))
	case c.Preempt.After < 0 || c.Preempt.After > longest:
		return machine{}, protocol.Errorf(protocol.ErrInvalid, "preemption after %v is not between 0 and %v", c.Preempt.After, longest)
	}
	return start(c), nil
}

func start(c settings) machine {
	return machine{settings: c, name: c.Node.String(), chance: c.Seed, stand: never}
}

// machine is one member of a group: a candidate, or an observer. It is a
// comparable value; two equal ones do the same ever after.
//
// Who drives it hands events over one by one and does the actions of each before
// the next, in their order. It
//
//   - reads the clock right before each Step: one that goes on while the machine
//     sleeps, never negative;
//   - subscribes to the topic alone, so that markers carry its fence, from all
//     that is retained;
//   - hands over all that the subscription and the publishes have to say before
//     a timerFired, and does not wait for a publish's answer in between;
//   - publishes a sendAction at once, over the urgent lane, under the key of its
//     instance and attempt, gives it up at Until, and leaves resends to the
//     client: the machine never sends the same twice;
//   - holds a leadership valid only while its clock is before the Until of leadAction
//     and renewAction, less Timing.Stop, whether or not an action has said otherwise;
//   - hands over the refusal of what the work published under the token, if it
//     was the fence of this topic that refused;
//   - withdraws before it ends, stops the work, and lets the resign go out.
type machine struct {
	settings
	name      string // of Node
	chance    uint64 // gives the next jitter
	candidate bool
	attempt   uint64 // of the last publish

	// The log. The fence is the highest that was read or told; read is the last
	// stamped message that was really read.
	epoch    protocol.Epoch
	caughtUp bool
	scanned  protocol.Seq
	fence    protocol.Fence
	read     protocol.Seq

	// Terms. Claims are above all of them.
	floor   uint64 // highest decided or told, in all epochs
	past    uint64 // highest decided in earlier epochs
	decided uint64 // highest decided in this one
	soft    uint64 // highest of plain claims and heartbeats

	leader leader
	quiet  instant // when the silence has lasted
	hold   hold

	// The campaign.
	phase  phase
	due    instant   // of the phase
	stood  uint64    // the first candidacy of this round that was not read back
	higher [3]string // nodes that stand higher in this round
	claim  claim
	bench  instant // a resigner does not stand before

	// Succession.
	stand  instant  // when to let a leader know of this candidate
	best   standing // highest candidate since the leader's claim
	bestAt instant
	heir   string  // named by a resign, until somebody claims
	barred string  // was heir and did not claim; not yielded to
	until  instant // before

	lease lease
	none  Reason // why there is no leader, when there is none
	view  View   // as shown
}

// leader is who has the highest term of the epoch.
type leader struct {
	standing
	Sender protocol.NodeID
	Term   uint64
	Since  instant // when it was first read
	Live   bool    // was heard, not only in the history, and not silent since
	Ended  Reason  // what is known to have ended it, or 0
}

func (l leader) is(o leader) bool {
	return l.Sender == o.Sender && l.Instance == o.Instance && l.Node == o.Node
}

// Step takes what happened at now into account and tells what to do about it.
func (s machine) Step(now instant, e event) (machine, []action) {
	x := step{machine: s, now: now}
	before := s.deadline()
	x.expire()
	e.happen(&x)
	x.beat()
	x.show()
	_, fired := e.(timerFired)
	if at := x.deadline(); at != before || fired && at != never {
		x.do(timerAction{at})
	}
	return x.machine, x.actions
}

// step is a machine on its way to the next.
type step struct {
	machine
	now     instant
	actions []action
}

func (x *step) do(a action) { x.actions = append(x.actions, a) }

func (x *step) after(d time.Duration) instant { return x.now.Add(d) }

func (x *step) void(e messageRead, v Void) { x.do(countAction{v, e.Seq, e.Sender}) }

// draw is a random part of d.
func (x *step) draw(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	x.chance += 0x9e3779b97f4a7c15 // splitmix64
	z := x.chance
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return time.Duration((z ^ z>>31) % uint64(d+1))
}

// jitterSteps is how many parts the jitter has, each drawn twice as often as the
// one before it. The first one is drawn once in 255 times: hundreds of candidates
// are what a group may have.
const jitterSteps = 8

// jitter is a random part of Timing.Jitter, seldom a short one, so that of many
// candidates few speak before they hear of each other. These are the timers of
// multicast feedback suppression (RandomBackoff in RFC 5401; Nonnenmacher and
// Biersack, Scalable Feedback for Large Groups, 1999), with their exponential
// density made of steps: whole numbers are the same on every machine.
func (x *step) jitter() time.Duration {
	const all = 1<<jitterSteps - 1
	part := bits.Len64(uint64(1+x.draw(all-1))) - 1
	return (time.Duration(part)*x.Timing.Jitter + x.draw(x.Timing.Jitter)) / jitterSteps
}

func (s *machine) standing() standing { return standing{s.Priority, s.name, s.Instance} }

func (s *machine) leads() bool { return s.phase == leading || s.phase == stopping }

func (s *machine) campaigning() bool { return s.phase >= pausing && s.phase <= ranked }

// deadline is when time alone changes something.
func (s *machine) deadline() instant {
	at := never
	switch {
	case s.phase == leading:
		at = min(s.lease.Beat, s.lease.Until.Add(-s.Timing.Stop))
	case s.phase == stopping:
		at = s.lease.Until
	case s.phase != following:
		at = s.due
	case s.candidate && s.caughtUp:
		at = min(s.ready(), max(s.stand, s.bench))
	}
	if s.leader.Live && !s.leads() {
		at = min(at, s.quiet)
	}
	if s.hold.Live {
		at = min(at, s.hold.Until)
	}
	if s.caughtUp && s.none.untold() {
		at = min(at, s.quiet)
	}
	return at
}

// ready is when a candidate begins its campaign.
func (s *machine) ready() instant { return max(s.quiet, s.hold.Until, s.bench) }
