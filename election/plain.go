package election

import (
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

func (x *step) readPlain(e messageRead) {
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
// node may, and where the link does not tell who it is, everybody.
func (x *step) readAsk(e messageRead) {
	m := e.Message
	switch {
	case x.phase != leading || m.Node != x.name:
	case m.Term != x.lease.Term:
		x.void(e, VoidOldTerm)
	case e.Sender != x.Node && x.Plain != PlainTrust && !(x.BestEffort && e.Sender == 0):
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
func (x *step) fault(e messageRead) Void {
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
func (x *step) readCandidacy(e messageRead) {
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

func (x *step) isBarred(node string) bool { return node == x.barred && x.now < x.until }

// readBack reads this member's own candidacy. All that the log has before it is
// read now, and no leader was in it.
func (x *step) readBack(e messageRead) {
	if x.phase == announced && e.Key.Attempt >= x.stood {
		x.wait(gathering, x.Timing.Window)
	}
}

// readScript reads a claim or heartbeat of a script. It makes this member wait
// once, and longer only while the same script's heartbeats come.
func (x *step) readScript(e messageRead) {
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

// hold is the script that this leaderless time waits for, once.
type hold struct {
	Used  bool
	Live  bool // shown as the leader
	By    protocol.NodeID
	Node  string
	Term  uint64
	Stamp string
	Clock float64
	Until instant
}

func (h hold) isOf(o hold) bool { return h.By == o.By && h.Node == o.Node && h.Term == o.Term }

// newerThan tells a new heartbeat from a replayed one. How its clock compares
// with ours does not matter.
func (h hold) newerThan(o hold) bool { return h.Stamp != o.Stamp && h.Clock >= o.Clock }
