package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// PlainPolicy is what a group makes of messages that passed no fence: those of
// scripts. Candidacies of members are plain too, and always count.
type PlainPolicy uint8

// The policies. Whichever it is, a plain message can only make members wait.
const (
	PlainFollow PlainPolicy = iota // a script's claim counts if the script is the node it names
	PlainIgnore                    // scripts do not count
	PlainTrust                     // who is named counts, whoever sent it
)

// Preemption is whether a leader gives way to a higher candidate. The zero value
// is never.
type Preemption struct {
	Allowed bool
	After   time.Duration // once it has led so long
}

// Settings are what a member is given. All members of a group should agree on
// Timing, Plain and Preempt.
type Settings struct {
	Topic    string
	Node     protocol.NodeID
	Instance protocol.Instance // 128 fresh random bits for each State, used for nothing else
	Seed     uint64            // random bits; they give the jitter
	Priority int64
	Timing   Timing
	Plain    PlainPolicy
	Preempt  Preemption

	// BestEffort is for links without fences and a common order. The order of
	// (term, priority, node) decides then, and two can lead for a while.
	BestEffort bool
}

// New is a member that has not heard anything and observes only.
func New(c Settings) (State, error) {
	if err := c.Timing.Validate(); err != nil {
		return State{}, err
	}
	if err := protocol.ValidTopic(c.Topic); err != nil {
		return State{}, err
	}
	if c.Instance == (protocol.Instance{}) {
		return State{}, fmt.Errorf("election %q: a member needs an instance", c.Topic)
	}
	if c.Priority < -protocol.MaxTerm || c.Priority > protocol.MaxTerm {
		return State{}, fmt.Errorf("election %q: priority %d is out of range", c.Topic, c.Priority)
	}
	if c.Preempt.After < 0 || c.Preempt.After > longest {
		return State{}, fmt.Errorf("election %q: preemption after %v", c.Topic, c.Preempt.After)
	}
	return start(c), nil
}

func start(c Settings) State {
	return State{Settings: c, name: c.Node.String(), chance: c.Seed, stand: Never}
}

// State is one member of a group: a candidate, or an observer. It is a
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
//     a TimerFired, and does not wait for a publish's answer in between;
//   - publishes a Send at once, over the urgent lane, under the [Key] of its
//     instance and attempt, gives it up at Until, and leaves resends to the
//     client: the machine never sends the same twice;
//   - holds a leadership valid only while its clock is before the Until of Lead
//     and Renew, less Timing.Stop, whether or not an action has said otherwise;
//   - hands over the refusal of what the work published under the token, if it
//     was the fence of this topic that refused;
//   - withdraws before it ends, stops the work, and lets the resign go out.
type State struct {
	Settings
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
	quiet  Time // when the silence has lasted
	hold   hold

	// The campaign.
	phase  phase
	due    Time      // of the phase
	stood  uint64    // the first candidacy of this round that was not read back
	higher [3]string // nodes that stand higher in this round
	claim  claim
	bench  Time // a resigner does not stand before

	// Succession.
	stand  Time     // when to let a leader know of this candidate
	best   standing // highest candidate since the leader's claim
	bestAt Time
	heir   string // named by a resign, until somebody claims
	barred string // was heir and did not claim; not yielded to
	until  Time   // before

	lease lease
	none  Reason // why there is no leader, when there is none
	view  View   // as shown
}

type phase uint8

const (
	following phase = iota // until the silence has lasted
	pausing                // for the jitter
	announced              // until the candidacy is read back
	gathering              // other candidacies, for the window
	ranked                 // waiting for higher candidates to claim
	claiming               // until the claim is read back
	leading
	stopping // until the work has stopped, or the lease ends
)

// leader is who has the highest term of the epoch.
type leader struct {
	standing
	Sender protocol.NodeID
	Term   uint64
	Since  Time   // when it was first read
	Live   bool   // was heard, not only in the history, and not silent since
	Ended  Reason // what is known to have ended it, or 0
}

func (l leader) is(o leader) bool {
	return l.Sender == o.Sender && l.Instance == o.Instance && l.Node == o.Node
}

// claim is an attempt to lead without an answer.
type claim struct {
	Attempt, Term uint64
	Expect        protocol.Seq
	Sent          Time
}

// lease is a leadership. Others count their silence from reading what was sent
// after Sent, so Until, counted from the sending, is over before they act.
type lease struct {
	Token
	Claim  uint64 // its attempt
	Since  Time
	Until  Time
	Beat   Time            // the next heartbeat
	Sent   [16]Time        // when the newest heartbeats were sent, by attempt
	Last   [2]protocol.Seq // the newest own messages that were read
	Ending Reason
	Heir   string
}

// hold is the script that this leaderless time waits for, once.
type hold struct {
	Used  bool
	Live  bool // shown as the leader
	By    protocol.NodeID
	Node  string
	Term  uint64
	Stamp string
	Clock float64
	Until Time
}

// Step takes what happened at now into account and tells what to do about it.
func (s State) Step(now Time, e Event) (State, []Action) {
	x := step{State: s, now: now}
	before := s.deadline()
	x.expire()
	e.happen(&x)
	x.beat()
	x.show()
	_, fired := e.(TimerFired)
	if at := x.deadline(); at != before || fired && at != Never {
		x.do(SetTimer{at})
	}
	return x.State, x.actions
}

// step is a State on its way to the next.
type step struct {
	State
	now     Time
	actions []Action
}

func (x *step) do(a Action) { x.actions = append(x.actions, a) }

func (x *step) after(d time.Duration) Time { return x.now.Add(d) }

func (x *step) void(e MessageRead, v Void) { x.do(Count{v, e.Seq, e.Sender}) }

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

func (s *State) standing() standing { return standing{s.Priority, s.name, s.Instance} }

func (s *State) leads() bool { return s.phase == leading || s.phase == stopping }

func (s *State) campaigning() bool { return s.phase >= pausing && s.phase <= ranked }

// deadline is when time alone changes something.
func (s *State) deadline() Time {
	at := Never
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
func (s *State) ready() Time { return max(s.quiet, s.hold.Until, s.bench) }

// What is read.

func (e MessageRead) happen(x *step) {
	x.enter(e.Epoch)
	if e.Seq <= x.scanned {
		x.void(e, VoidRepeated)
		return
	}
	x.scanned = e.Seq
	x.noticeTwin(e)
	switch {
	case x.BestEffort:
		x.readOpen(e)
	case e.Term != 0:
		x.readStamped(e)
	default:
		x.readPlain(e)
	}
}

// noticeTwin counts live messages of another process with this node's key.
func (x *step) noticeTwin(e MessageRead) {
	m := e.Message
	if x.caughtUp && e.Void == 0 && m.Kind != KindResign && m.Node == x.name &&
		(e.Sender == x.Node || x.BestEffort) &&
		m.Instance != x.Instance && m.Instance != (protocol.Instance{}) {
		x.void(e, VoidTwin)
	}
}

// readStamped reads a message that passed the fence. Nobody judges that again:
// it decides, whatever else it says.
func (x *step) readStamped(e MessageRead) {
	x.fence.K = max(x.fence.K, e.Term)
	x.fence.S = max(x.fence.S, e.Seq)
	x.read = e.Seq
	won, mine := x.answered(e)
	switch {
	case e.Void == 0 && e.Message.Kind == KindResign:
		x.readResign(e)
	case e.Void != 0 && e.Term <= x.decided, e.Void == 0 && e.Message.Kind == KindCandidacy:
		x.void(e, max(e.Void, VoidType))
	default: // also what a later version says in a higher term
		x.readLife(e)
	}
	if mine {
		x.elected(won, e.Seq)
	}
}

// answered takes the outstanding claim, if there is one: S has moved past what it
// expects, so it is this message or can be accepted no more. It is recognised by
// its key, since neither the term nor the node tells it from an earlier attempt
// or a twin's.
func (x *step) answered(e MessageRead) (c claim, mine bool) {
	c = x.claim
	if c.Attempt == 0 || e.Seq <= c.Expect {
		return c, false
	}
	x.claim, x.phase = claim{}, following
	return c, e.Key == Key{x.Instance, c.Attempt}
}

// readLife reads a stamped claim or heartbeat; without its claim in view, a
// heartbeat is as good as it.
func (x *step) readLife(e MessageRead) {
	x.listen()
	x.endRound()
	switch l := x.leaderOf(e); {
	case e.Term < max(x.fence.K, x.decided):
		x.none = ReasonBelowFloor
		x.void(e, VoidOldTerm)
	case e.Term > x.leader.Term:
		x.follow(l)
	case l.is(x.leader):
		x.leader.Live = x.leader.Ended == 0 && (x.caughtUp || x.leader.Live)
	default:
		x.void(e, VoidDecided)
	}
	if x.phase == leading && e.Key.Instance == x.Instance && e.Term == x.lease.Term {
		x.lease.Last = [2]protocol.Seq{x.lease.Last[1], e.Seq}
		x.renew(e.Key.Attempt)
	}
}

func (x *step) leaderOf(e MessageRead) leader {
	l := leader{
		standing: standing{e.Message.Priority, e.Message.Node, e.Message.Instance},
		Sender:   e.Sender, Term: e.Term, Since: x.now, Live: x.caughtUp,
	}
	if !x.BestEffort {
		l.Node = e.Sender.String() // proved, unlike what the payload says
	}
	return l
}

// follow takes a leader of a term that is new here, or was forgotten.
func (x *step) follow(l leader) {
	if x.leads() && l.Instance != x.Instance {
		x.lose(ReasonSuperseded)
	}
	if l.Term > x.decided {
		x.settleHeir(l.Node)
		x.best = standing{}
	}
	if l.Instance != x.Instance {
		x.bench = 0
		if x.caughtUp {
			x.stand = x.after(x.draw(x.Timing.Silence))
		}
	}
	x.decided = l.Term
	x.floor = max(x.floor, l.Term)
	x.leader, x.none = l, ReasonUnknown
}

// settleHeir remembers a successor that did not claim: it is not yielded to
// again for a while.
func (x *step) settleHeir(node string) {
	if x.heir != "" && x.heir != node {
		x.barred, x.until = x.heir, x.after(10*x.Timing.Silence)
	}
	x.heir = ""
}

// readResign reads the end of a leadership. Only the leading instance can tell:
// the lease of another may still run.
func (x *step) readResign(e MessageRead) {
	if l := x.leaderOf(e); l.Term != x.leader.Term || !l.is(x.leader) {
		x.void(e, VoidStranger)
		return
	}
	x.fence.K = max(x.fence.K, min(e.Term+1, protocol.MaxTerm))
	x.leader.Live, x.leader.Ended, x.none = false, ReasonResigned, ReasonResigned
	x.heir = e.Message.Successor
	x.listen()
	x.quiet = x.after(x.Timing.Window)
	if x.heir == x.name && x.mayClaim() {
		x.sendClaim()
	}
}

// listen starts the silence anew: whoever leads has this long to be heard.
func (x *step) listen() {
	x.quiet = x.after(x.Timing.Silence)
	x.standDown()
}

// standDown ends a campaign that has not come to a claim.
func (x *step) standDown() {
	if x.campaigning() {
		x.phase, x.stood = following, 0
	}
}

// endRound ends what is true between two signs of life of fenced leaders.
func (x *step) endRound() {
	x.higher = [3]string{}
	x.hold = hold{}
	x.stood = 0
}

func (x *step) readPlain(e MessageRead) {
	switch m := e.Message; {
	case e.Void != 0:
		x.void(e, e.Void)
	case m.Kind == KindResign:
		x.readAsk(e)
	case m.Kind == KindCandidacy && e.Key.Instance == x.Instance:
		x.readBack(e)
	case x.fault(e) != 0:
		x.void(e, x.fault(e))
	case m.Kind == KindCandidacy:
		x.readCandidacy(e)
	default:
		x.readScript(e)
	}
}

// readAsk reads that somebody asks the leader to resign: another process of this
// node may.
func (x *step) readAsk(e MessageRead) {
	m := e.Message
	switch {
	case x.phase != leading || m.Node != x.name:
	case m.Term != x.lease.Term:
		x.void(e, VoidOldTerm)
	case e.Sender != x.Node && x.Plain != PlainTrust:
		x.void(e, VoidSender)
	default:
		x.handOver(m.Successor, ReasonResigned)
	}
}

// High terms would leave none for the claims after them. The bound is above
// unix milliseconds, and moves ahead of the fence.
const (
	maxPlainTerm = 1 << 42
	maxPlainStep = 1 << 20
)

// fault is why a plain message is void, or 0.
func (x *step) fault(e MessageRead) Void {
	m := e.Message
	switch {
	case x.Plain == PlainIgnore && (m.Instance == (protocol.Instance{}) || m.Kind != KindCandidacy && !x.BestEffort):
		return VoidIgnored
	case x.Plain != PlainTrust && !names(m.Node, e.Sender) && !(x.BestEffort && e.Sender == 0):
		return VoidSender
	case m.Term > max(maxPlainTerm, x.fence.K+maxPlainStep):
		return VoidHighTerm
	case m.Term <= x.decided && !x.BestEffort:
		return VoidOldTerm
	}
	return 0
}

func names(text string, node protocol.NodeID) bool {
	id, err := protocol.ParseNodeID(text)
	return err == nil && id == node
}

// readCandidacy notes a candidate, for its rank in this round and as a successor.
func (x *step) readCandidacy(e MessageRead) {
	c := standing{e.Message.Priority, e.Message.Node, e.Message.Instance}
	if c.above(x.standing()) {
		x.rank(c.Node)
	}
	if c.Instance == (protocol.Instance{}) {
		return // a script cannot be handed anything
	}
	if x.best.Node == "" || x.best.Node == c.Node || c.above(x.best) {
		x.best, x.bestAt = c, x.now
	}
	if x.mayYield(c, e.Message.Seen) {
		x.handOver(c.Node, ReasonPreempted)
	}
}

func (x *step) rank(node string) {
	for i, n := range x.higher {
		if n == "" || n == node {
			x.higher[i] = node
			return
		}
	}
}

// mayYield reports whether a leader gives way to c: to one that reads what it
// should take over.
func (x *step) mayYield(c standing, seen protocol.Seq) bool {
	return x.phase == leading && x.Preempt.Allowed && x.now.Sub(x.lease.Since) >= x.Preempt.After &&
		c.above(x.standing()) && !x.isBarred(c.Node) &&
		seen != 0 && slices.Contains(x.lease.Last[:], seen)
}

func (x *step) isBarred(node string) bool { return node == x.barred && x.now < x.until }

// readBack reads this member's own candidacy. All that the log has before it is
// read now, and no leader was in it.
func (x *step) readBack(e MessageRead) {
	if x.phase == announced && e.Key.Attempt >= x.stood {
		x.wait(gathering, x.Timing.Window)
	}
}

// readScript reads a claim or heartbeat of a script. It makes this member wait
// once, and longer only while the same script's heartbeats come.
func (x *step) readScript(e MessageRead) {
	m := e.Message
	x.soft = max(x.soft, m.Term)
	h := hold{
		Used: true, Live: x.caughtUp, By: e.Sender, Node: m.Node, Term: m.Term,
		Stamp: m.Stamp, Clock: m.Clock, Until: x.after(x.Timing.Silence),
	}
	goesOn := m.Kind == KindHeartbeat && h.isOf(x.hold) && x.now < x.hold.Until
	switch {
	case x.fencedLive():
		x.void(e, VoidLed)
	case x.campaigning() && x.phase != pausing, x.phase == claiming:
		x.void(e, VoidHeld)
	case !x.hold.Used, !x.caughtUp, // of the history the last one counts
		goesOn && h.newerThan(x.hold),
		!x.candidate && x.showsInstead(h):
		x.hold = h
		if x.phase == pausing {
			x.phase = following
		}
	case goesOn:
		x.void(e, VoidRepeated)
	default:
		x.void(e, VoidHeld)
	}
}

// showsInstead reports whether an observer, who waits for nothing, sees h lead in
// place of the script before.
func (x *step) showsInstead(h hold) bool {
	return h.Term > x.hold.Term ||
		h.Term == x.hold.Term && x.now >= x.hold.Until && (!h.isOf(x.hold) || h.newerThan(x.hold))
}

// fencedLive reports whether a leader behind the fence was heard lately.
func (x *step) fencedLive() bool {
	return x.leads() || x.leader.Term != 0 && x.leader.Ended == 0 && x.now < x.quiet
}

func (h hold) isOf(o hold) bool { return h.By == o.By && h.Node == o.Node && h.Term == o.Term }

// newerThan tells a new heartbeat from a replayed one. How its clock compares
// with ours does not matter.
func (h hold) newerThan(o hold) bool { return h.Stamp != o.Stamp && h.Clock >= o.Clock }

// What is told.

func (e CaughtUp) happen(x *step) {
	x.enter(e.Epoch)
	x.scanned = max(x.scanned, e.Seq)
	x.caughtUp = true
	x.listen()
	x.higher = [3]string{} // they stood in the history, and may be dead
	if x.hold.Used {
		x.hold.Until = x.quiet
	}
	if x.candidate {
		x.stand = x.after(x.draw(x.Timing.Jitter))
	}
	switch {
	case x.BestEffort:
	case e.Fence != x.fence || x.read != x.fence.S:
		x.told(e.Fence)
	case x.mayReturn():
		x.sendClaim()
	}
}

// told takes a fence that was not read, from a marker or a refusal. Somebody
// unknown moved it, and has all the silence to be heard.
func (x *step) told(f protocol.Fence) {
	if f.S < x.fence.S || f == x.fence && x.read == f.S {
		return // older than what was read, or just that
	}
	x.fence = protocol.Fence{K: max(f.K, x.fence.K), S: f.S}
	x.floor = max(x.floor, f.K)
	if x.leads() && f.K == x.lease.Term {
		return // an own heartbeat that left the log unread
	}
	if x.leads() {
		x.lose(ReasonStale)
	}
	if x.leader.Live {
		x.none = ReasonUnread
	}
	x.leader = leader{}
	x.listen()
}

// mayReturn reports whether a leader that lost its lease may claim again without
// waiting: nobody came after it.
func (x *step) mayReturn() bool {
	l := x.leader
	return l.Instance == x.Instance && (l.Ended == 0 || l.Ended == ReasonExpired) && x.mayClaim()
}

func (Disconnected) happen(x *step) {
	x.caughtUp = false
	x.standDown()
}

func (GapFound) happen(x *step) { x.listen() }

func (e EpochBegan) happen(x *step) { x.enter(e.Epoch) }

// enter begins another log. Nothing in it is known; what is too low for a new
// term is.
func (x *step) enter(e protocol.Epoch) {
	if e.ID == x.epoch.ID {
		return
	}
	if x.leads() {
		x.lose(ReasonEpoch)
	}
	if x.epoch.ID != 0 {
		x.none = ReasonEpoch
	}
	x.past, x.decided = max(x.past, x.decided), 0
	x.epoch, x.caughtUp, x.scanned, x.fence, x.read = e, false, 0, protocol.Fence{}, 0
	x.leader, x.claim, x.phase = leader{}, claim{}, following
	x.best, x.heir, x.stand = standing{}, "", Never
	x.endRound()
}

func (e Acked) happen(x *step) {
	if e.Epoch == x.epoch.ID {
		x.renew(e.Attempt)
	}
}

func (e Refused) happen(x *step) {
	switch {
	case e.Code == protocol.ErrUnknownOutcome:
	case e.Attempt != 0 && e.Attempt == x.claim.Attempt:
		x.claim, x.phase = claim{}, following
		if e.Code != protocol.ErrConflict && e.Code != protocol.ErrStaleTerm {
			x.listen() // it will not go better at once
		}
	case x.phase == announced && e.Attempt >= x.stood:
		x.listen()
	case x.leads() && x.underLease(e):
		x.refusedLeader(e.Code)
	}
	if e.Epoch == x.epoch.ID && (e.Code == protocol.ErrConflict || e.Code == protocol.ErrStaleTerm) {
		x.told(e.Fence)
	}
}

// underLease reports whether the publish was made by this leadership.
func (x *step) underLease(e Refused) bool {
	return e.Attempt > x.lease.Claim || e.Attempt == 0 && e.Token == x.lease.Token
}

// refusedLeader ends a leadership at once when the fence says that it is over.
func (x *step) refusedLeader(code protocol.Code) {
	switch code {
	case protocol.ErrStaleTerm:
		x.lose(ReasonStale)
	case protocol.ErrWrongEpoch:
		x.lose(ReasonEpoch)
	default: // the lease tells
	}
}

func (Unanswered) happen(*step) {}

// The campaign.

func (CampaignAsked) happen(x *step) {
	x.candidate = true
	if x.caughtUp {
		x.stand = x.after(x.draw(x.Timing.Jitter))
	}
}

func (WithdrawAsked) happen(x *step) {
	x.candidate = false
	x.standDown()
	x.handOver("", ReasonWithdrawn)
}

func (TimerFired) happen(x *step) {
	x.fade()
	for x.advance() {
	}
	x.letKnow()
}

// advance goes one phase on if it is time, and reports whether it did.
func (x *step) advance() bool {
	switch {
	case x.phase == following:
		if !x.candidate || !x.caughtUp || x.now < x.ready() {
			return false
		}
		return x.wait(pausing, x.draw(x.Timing.Jitter))
	case x.leads() || x.now < x.due:
		return false
	}
	switch x.phase {
	case pausing:
		x.announce()
	case announced:
		x.phase = following // not read back: again
	case gathering:
		x.wait(ranked, time.Duration(x.ranking())*x.Timing.Rank)
	case ranked:
		x.claimNow()
	default: // claiming
		x.giveUpClaim()
	}
	return true
}

// claimNow claims, or listens again when it may not.
func (x *step) claimNow() {
	switch {
	case x.nextTerm() > protocol.MaxTerm:
		x.do(Count{Void: VoidExhausted})
		x.listen()
	case !x.mayClaim():
		x.listen()
	default:
		x.sendClaim()
	}
}

func (x *step) wait(p phase, d time.Duration) bool {
	x.phase, x.due = p, x.after(d)
	return true
}

// ranking is how many nodes are known to stand higher in this round.
func (x *step) ranking() int {
	n := slices.Index(x.higher[:], "")
	if n < 0 {
		return len(x.higher)
	}
	return n
}

// announce publishes a candidacy, unless a higher one is there already. Then
// the window is for that one's to begin, and to pass.
func (x *step) announce() {
	x.stand = Never // it is known now
	switch {
	case x.BestEffort:
		x.sendCandidacy()
		x.wait(gathering, x.Timing.Window)
	case x.ranking() > 0:
		x.wait(gathering, 2*x.Timing.Window)
	default:
		n := x.sendCandidacy()
		if x.stood == 0 {
			x.stood = n
		}
		x.wait(announced, x.Timing.Silence)
	}
}

// mayClaim reports whether nothing but time forbids a claim.
func (x *step) mayClaim() bool {
	return x.candidate && x.caughtUp && x.now >= x.bench && !x.leads() &&
		x.claim.Attempt == 0 && x.scanned >= x.fence.S && x.nextTerm() <= protocol.MaxTerm
}

// nextTerm is computed from what is known and counts no attempts, so that only
// accepted claims use terms up.
func (s *State) nextTerm() uint64 {
	born := min(s.epoch.Born, maxPlainTerm)
	return max(max(s.floor, s.soft, born)+1, s.fence.K)
}

// giveUpClaim ends the wait for a claim by which nobody can lead any more. It
// may be in the log all the same, so others count its silence too.
func (x *step) giveUpClaim() {
	c := x.claim
	x.claim, x.phase = claim{}, following
	if x.BestEffort {
		x.elected(c, 0)
		return
	}
	x.listen()
}

// letKnow announces a follower once to each leader, which may need a successor,
// and again and again to one that it may preempt.
func (x *step) letKnow() {
	if !x.candidate || !x.caughtUp || x.phase != following || x.now < max(x.stand, x.bench) {
		return
	}
	x.stand = Never
	again := 10 * x.Timing.Silence
	if x.Preempt.Allowed && x.leader.Term != 0 && x.standing().above(x.leader.standing) {
		x.stand = x.after(again)
		if led := x.leader.Since.Add(x.Preempt.After + x.Timing.Heartbeat); x.Preempt.After > 0 && led > x.now {
			x.stand = min(x.stand, led)
		}
	}
	if x.best.Node == "" || x.standing().above(x.best) || x.now.Sub(x.bestAt) >= again {
		x.sendCandidacy()
	}
}

// What is published.

func (x *step) send(s Send) uint64 {
	x.attempt++
	s.Attempt = x.attempt
	s.Message.Node, s.Message.Instance, s.Message.Priority = x.name, x.Instance, x.Priority
	if s.Condition.Term != 0 {
		s.Condition.Topic, s.Condition.Epoch = x.Topic, x.epoch.ID
	}
	if x.BestEffort {
		s.Condition = protocol.Condition{}
	}
	x.do(s)
	return x.attempt
}

func (x *step) sendCandidacy() uint64 {
	return x.send(Send{
		Message: Message{Kind: KindCandidacy, Term: min(x.nextTerm(), protocol.MaxTerm), Seen: x.read},
		Slot:    "candidacy",
		Until:   x.after(x.Timing.Silence),
	})
}

// sendClaim publishes a claim that is accepted only if nothing stamped came
// after what was read.
func (x *step) sendClaim() {
	term, end := x.nextTerm(), x.after(x.Timing.Lease)
	n := x.send(Send{
		Message:   Message{Kind: KindClaim, Term: term},
		Condition: protocol.Condition{Term: term, HasExpect: true, Expect: x.fence.S, Raise: term},
		Until:     end,
	})
	x.claim = claim{n, term, x.fence.S, x.now}
	x.phase, x.due = claiming, end
	if x.BestEffort {
		x.leader = leader{standing: x.standing(), Term: term, Since: x.now}
		x.due = x.after(2 * x.Timing.OneWay)
	}
}

// sendResign raises the fence past the term: what is late of it is refused, and
// the next claim is not.
func (x *step) sendResign(term uint64, heir string) {
	x.bench = x.after(3 * x.Timing.Silence)
	x.leader.Live, x.leader.Ended = false, ReasonResigned
	raise := term + 1
	if raise > protocol.MaxTerm {
		raise = 0
	}
	x.send(Send{
		Message:   Message{Kind: KindResign, Term: term, Successor: heir},
		Condition: protocol.Condition{Term: term, Raise: raise},
		Until:     x.bench,
	})
}

// The lease.

// elected leads by a claim that was read back in time. One that was not frees
// the group of its term.
func (x *step) elected(c claim, seq protocol.Seq) {
	end := c.Sent.Add(x.Timing.Lease)
	switch {
	case x.candidate && x.now < end.Add(-x.Timing.Stop):
		x.phase = leading
		x.lease = lease{
			Token: Token{x.epoch.ID, c.Term}, Claim: c.Attempt, Since: x.now, Until: end,
			Beat: c.Sent.Add(x.Timing.Heartbeat), Last: [2]protocol.Seq{1: seq},
		}
		x.do(Lead{x.lease.Token, end})
	case x.caughtUp:
		x.none = ReasonResigned
		x.sendResign(c.Term, "")
	}
}

// expire ends what time has ended. It comes before all that happens, so that a
// lease which is over cannot be revived.
func (x *step) expire() {
	switch {
	case x.leads() && x.now >= x.lease.Until:
		x.lose(max(x.lease.Ending, ReasonExpired))
	case x.phase == leading && x.now >= x.lease.Until.Add(-x.Timing.Stop):
		x.cancel(ReasonExpired)
	}
}

// beat sends the heartbeat that is due. The lease counts from now on, not from
// the answer: others count from reading it, which is later.
func (x *step) beat() {
	if x.phase != leading || x.now < x.lease.Beat {
		return
	}
	n := x.send(Send{
		Message:   Message{Kind: KindHeartbeat, Term: x.lease.Term},
		Slot:      "heartbeat",
		Condition: protocol.Condition{Term: x.lease.Term},
		Until:     x.lease.Until,
	})
	x.lease.Sent[n%uint64(len(x.lease.Sent))] = x.now
	x.lease.Beat = x.after(x.Timing.Heartbeat)
}

// renew extends the lease by a heartbeat that is known to have passed the fence.
func (x *step) renew(attempt uint64) {
	size := uint64(len(x.lease.Sent))
	if x.phase != leading || attempt <= x.lease.Claim || attempt > x.attempt || x.attempt-attempt >= size {
		return
	}
	if until := x.lease.Sent[attempt%size].Add(x.Timing.Lease); until > x.lease.Until {
		x.lease.Until = until
		x.do(Renew{until})
	}
}

// handOver ends a leadership of its own will: once the work has stopped.
func (x *step) handOver(heir string, why Reason) {
	if x.phase != leading {
		return
	}
	if heir == "" && !x.isBarred(x.best.Node) {
		heir = x.best.Node
	}
	x.lease.Heir = heir
	x.cancel(why)
}

func (x *step) cancel(why Reason) {
	x.phase, x.lease.Ending = stopping, why
	x.do(Cancel{why})
}

func (e ResignAsked) happen(x *step) { x.handOver(e.Successor, ReasonResigned) }

// The lease ends before the resign is sent: who reads it may lead at once.
func (WorkStopped) happen(x *step) {
	if x.phase != stopping {
		return
	}
	l := x.lease
	x.lose(l.Ending)
	if l.Ending != ReasonExpired {
		x.sendResign(l.Term, l.Heir)
	}
}

// lose ends the leadership now.
func (x *step) lose(why Reason) {
	if x.phase != stopping {
		x.do(Cancel{why})
	}
	x.do(Lost{x.lease.Token, why})
	x.lease, x.phase = lease{}, following
	x.leader.Live, x.leader.Ended, x.none = false, why, why
}

// What observers see.

// fade ends what was not heard for too long.
func (x *step) fade() {
	if x.leader.Live && !x.leads() && x.now >= x.quiet {
		x.leader.Live, x.none = false, x.silence()
	}
	if x.hold.Live && x.now >= x.hold.Until {
		x.hold.Live, x.none = false, x.silence()
	}
	if x.caughtUp && x.none.untold() && x.now >= x.quiet {
		x.none = ReasonSilent
	}
}

func (x *step) silence() Reason {
	if !x.caughtUp {
		return ReasonDisconnected
	}
	return ReasonSilent
}

func (x *step) sees() View {
	l := x.leader
	switch {
	case x.leads():
		return View{Leader: x.name, Instance: x.Instance, Token: x.lease.Token}
	case l.Live && l.Term <= x.past:
		return View{Reason: ReasonBelowFloor}
	case l.Live:
		return View{Leader: l.Node, Instance: l.Instance, Token: Token{x.epoch.ID, l.Term}}
	case x.hold.Live:
		return View{Leader: x.hold.Node, Token: Token{x.epoch.ID, x.hold.Term}, Plain: true}
	}
	return View{Reason: x.none}
}

func (x *step) show() {
	v := x.sees()
	if v == x.view {
		return
	}
	change := changeOf(x.view, v)
	x.view = v
	x.do(Show{change, v})
}

// changeOf is how a view differs from the one before.
func changeOf(before, now View) Change {
	switch {
	case now.Leader == "" && before.Leader == "":
		return ChangeNone
	case now.Leader == "":
		return ChangeLost
	case before.Leader == "":
		return ChangeLeader
	}
	return ChangeChanged
}

// Without a fence.

// readOpen reads a message of a link without fences. Different members may have
// read others before it, so what decides is the same for all of them: the
// highest of (term, priority, node).
func (x *step) readOpen(e MessageRead) {
	m := e.Message
	e.Term = m.Term
	switch l := x.leaderOf(e); {
	case e.Void != 0:
		x.void(e, e.Void)
	case m.Instance == x.Instance: // an echo
	case x.fault(e) != 0:
		x.void(e, x.fault(e))
	case m.Kind == KindCandidacy:
		x.readCandidacy(e)
	case m.Kind == KindResign && !l.is(x.leader):
		x.readAsk(e)
	case m.Kind == KindResign:
		x.readResign(e)
	case l.Term < x.leader.Term:
		x.void(e, VoidOldTerm)
	case l.is(x.leader) && l.Term == x.leader.Term:
		x.listen()
		x.endRound()
		x.leader.Live = x.leader.Ended == 0
	case l.Term == x.leader.Term && !l.above(x.leader.standing):
		x.void(e, VoidDecided)
	default:
		x.claim = claim{}
		if x.phase == claiming {
			x.phase = following
		}
		x.listen()
		x.endRound()
		x.follow(l)
	}
}
