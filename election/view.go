package election

import (
	"github.com/pilotgo/pilotgo/protocol"
)

// Token is the fencing token of a leadership. A term is led at most once in an
// epoch.
type Token struct {
	Epoch protocol.EpochID
	Term  uint64
}

// View is what an observer sees.
type View struct {
	Leader   string // the node's id; empty: none
	Instance protocol.Instance
	Token    Token
	Plain    bool   // a script leads: nothing enforces it
	Reason   Reason // why there is none
}

// Change is how a view differs from the one before.
type Change uint8

// The changes of a view.
const (
	ChangeNone    Change = iota + 1 // there was and is no leader; the reason is another
	ChangeLeader                    // there is one now
	ChangeChanged                   // there is another, or the same with a new term
	ChangeLost                      // there is none any more
)

var changeNames = [...]string{ChangeNone: "none", ChangeLeader: "leader", ChangeChanged: "changed", ChangeLost: "lost"}

func (c Change) String() string { return changeNames[c] }

// Reason is why a leadership ended or why nobody is seen to lead.
type Reason uint8

// The reasons.
const (
	ReasonUnknown      Reason = iota // nothing is known yet
	ReasonSilent                     // nothing was heard of a leader
	ReasonDisconnected               // the same, without a link
	ReasonExpired                    // the lease ended unrenewed
	ReasonResigned                   // the leader gave way
	ReasonWithdrawn                  // the leader is no candidate any more
	ReasonPreempted                  // the leader gave way to a higher candidate
	ReasonStale                      // the fence has a higher term
	ReasonSuperseded                 // another leader was read
	ReasonEpoch                      // the log was lost or replaced
	ReasonUnread                     // the fence has moved past what was read
	ReasonBelowFloor                 // the leader's term is below a known floor
)

var reasonNames = [...]string{
	ReasonUnknown: "unknown", ReasonSilent: "silent", ReasonDisconnected: "disconnected",
	ReasonExpired: "expired", ReasonResigned: "resigned", ReasonWithdrawn: "withdrawn",
	ReasonPreempted: "preempted", ReasonStale: "stale term", ReasonSuperseded: "superseded",
	ReasonEpoch: "epoch", ReasonUnread: "fence moved unread", ReasonBelowFloor: "term below known floor",
}

// untold reports whether a leader may still be heard of.
func (r Reason) untold() bool {
	return r == ReasonUnknown || r == ReasonUnread || r == ReasonBelowFloor
}

func (r Reason) String() string { return reasonNames[r] }

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
	x.do(showAction{change, v})
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
