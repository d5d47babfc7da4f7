package config

import (
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// moment is a reading of the follower's own clock, since it began.
type moment = time.Duration

// never is after all other moments.
const never moment = math.MaxInt64

// ref names a document; its bytes stay with who drives the machine.
type ref struct {
	Version  uint64
	Digest   Digest
	Seq      protocol.Seq
	Staged   bool
	Rollback bool
}

func refOf(d *Document) ref {
	return ref{Version: d.Version, Digest: d.Digest, Seq: d.Seq, Staged: d.Staged, Rollback: d.RolledBackTo != 0}
}

// is tells whether two name the same content.
func (r ref) is(o ref) bool { return r.Version == o.Version && r.Digest == o.Digest }

// event is something that happened to an agent. It is one of the types below.
type event interface{ happen(*turn) }

// documentRead is a message of the topic, from the subscription or a look back.
type documentRead struct {
	Epoch   protocol.EpochID
	Seq     protocol.Seq
	Sender  protocol.NodeID
	Stamped bool // it passed the topic's fence
	Looked  bool // found by a look back, and so perhaps not new
	Doc     ref
	Void    Void // why there is no Doc, or 0
}

// caughtUp: the subscription has handed over what there was, at its beginning or
// after a reconnect.
type caughtUp struct {
	Epoch protocol.EpochID
	Fence protocol.Fence
}

// lookedBack answers look, after the documents that were found; not OK when the
// log could not be read.
type lookedBack struct {
	Epoch protocol.EpochID
	Fence protocol.Fence
	OK    bool
}

// epochBegan: the log was lost or replaced.
type epochBegan struct{ Epoch protocol.EpochID }

// gapFound: messages left the log before they were read.
type gapFound struct{}

// stageMoved: the rollout of a version now reaches this agent, or does not.
type stageMoved struct {
	Version uint64
	Open    bool
}

// judged answers judge.
type judged struct {
	Doc    ref
	OK     bool
	Reason string
}

// done answers apply.
type done struct {
	Doc     ref
	OK      bool
	Refused bool // it was judged unfit, which trying again does not mend
	Error   string
}

// currentFound: what is applied was looked at again, and can be another than was
// thought.
type currentFound struct {
	Applied ref
	Highest uint64
	Pinned  bool
}

// timerFired: the moment of the last setTimer has come.
type timerFired struct{}

// action is something to do. Actions of one step are done in their order, before
// the next event. It is one of the types below.
type action interface{ action() }

// look asks to read back from the log what is retained: the newest update, and
// what is staged behind it.
type look struct{}

// judge asks to validate a document.
type judge struct{ Doc ref }

// cancel asks to give up a judge; it is not answered any more.
type cancel struct{}

// apply asks to make a document the one in use.
type apply struct{ Doc ref }

// tell asks to report.
type tell struct{ report }

// setTimer asks for a timerFired, in place of the one asked for before.
type setTimer struct{ At moment }

// show tells that something has changed.
type show struct{ Change }

// voided tells that a message counted for nothing.
type voided struct {
	Void   Void
	Seq    protocol.Seq
	Sender protocol.NodeID
}

func (look) action()     {}
func (judge) action()    {}
func (cancel) action()   {}
func (apply) action()    {}
func (tell) action()     {}
func (setTimer) action() {}
func (show) action()     {}
func (voided) action()   {}

// report is what the machine knows for a [Report].
type report struct {
	Applied              uint64
	Digest               Digest
	State                AgentState
	Version              uint64
	Error                string
	Pinned, Held, Behind bool
	Highest              uint64 // while Behind, where it is above Applied
}

// Change is something that happened to a follower.
type Change struct {
	Kind    ChangeKind
	Version uint64
	Reason  string // of ChangeRejected, ChangeFailed, ChangeVoid and ChangeStuck
}

// ChangeKind is what happened.
type ChangeKind uint8

// What happens to a follower. Each names the version it is about.
const (
	ChangeAnnounced  ChangeKind = iota + 1 // a new version was read
	ChangeApplied                          // it is in use
	ChangeRolledBack                       // it is in use, and has the content of an older one
	ChangeRejected                         // it was refused; what was in use still is
	ChangeFailed                           // it could not be applied; that is tried again
	ChangeSuperseded                       // it was given up for a newer one
	ChangeHeld                             // it is staged, and its rollout has not come here
	ChangePinned                           // it stays in use, whatever is published
	ChangeUnpinned                         // and no longer
	ChangeBehind                           // the registry knows no version as high as this one
	ChangeEpoch                            // the registry's log was lost or replaced
	ChangeGap                              // messages left the log before they were read
	ChangeVoid                             // a message counts for nothing; Version is 0
	ChangeStuck                            // Follow is to end, and waits for an Apply that does not return
)

var changeNames = [...]string{
	ChangeAnnounced: "announced", ChangeApplied: "applied", ChangeRolledBack: "rolled back",
	ChangeRejected: "rejected", ChangeFailed: "failed", ChangeSuperseded: "superseded", ChangeHeld: "held",
	ChangePinned: "pinned", ChangeUnpinned: "unpinned", ChangeBehind: "registry behind",
	ChangeEpoch: "new epoch", ChangeGap: "gap", ChangeVoid: "void message",
	ChangeStuck: "stuck",
}

func (k ChangeKind) String() string {
	if int(k) < len(changeNames) {
		return changeNames[k]
	}
	return "unknown change"
}
