package election

import (
	"github.com/pilotgo/pilotgo/protocol"
)

func (e messageRead) happen(x *step) {
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
func (x *step) noticeTwin(e messageRead) {
	m := e.Message
	if x.caughtUp && e.Void == 0 && m.Kind != KindResign && m.Node == x.name &&
		(e.Sender == x.Node || x.BestEffort) &&
		m.Instance != x.Instance && m.Instance != (protocol.Instance{}) {
		x.void(e, VoidTwin)
	}
}

// readStamped reads a message that passed the fence. Nobody judges that again:
// it decides, whatever else it says.
func (x *step) readStamped(e messageRead) {
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
func (x *step) answered(e messageRead) (c claim, mine bool) {
	c = x.claim
	if c.Attempt == 0 || e.Seq <= c.Expect {
		return c, false
	}
	x.claim, x.phase = claim{}, following
	return c, e.Key == key{x.Instance, c.Attempt}
}

// readLife reads a stamped claim or heartbeat; without its claim in view, a
// heartbeat is as good as it.
func (x *step) readLife(e messageRead) {
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

func (x *step) leaderOf(e messageRead) leader {
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
func (x *step) readResign(e messageRead) {
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
