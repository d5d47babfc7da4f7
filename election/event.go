package election

import (
	"errors"
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Time is a reading of one process's monotonic clock, which must go on while the
// machine is suspended. It means nothing to another process.
type Time int64

// Never is after all other times.
const Never Time = math.MaxInt64

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t−u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Event is something that happened to a member. It is one of the types below.
type Event interface{ happen(*step) }

// MessageRead is the next message of the subscription; [ReadingOf] makes one.
type MessageRead struct {
	Epoch   protocol.Epoch
	Seq     protocol.Seq
	Sender  protocol.NodeID // 0 where the link does not tell
	Key     Key             // of own messages
	Term    uint64          // under which it passed the topic's fence; 0 = plain
	Message Message
	Void    Void // why Message could not be parsed, or 0
}

// ReadingOf makes the event of a message of the topic.
func ReadingOf(m *protocol.Message, epoch protocol.Epoch) MessageRead {
	e := MessageRead{Epoch: epoch, Seq: m.Seq, Sender: m.Sender, Key: parseKey(m.Key), Term: m.Term()}
	parse := Parse
	if e.Term != 0 {
		parse = parseStamped
	}
	var err error
	e.Message, err = parse(m.Payload)
	errors.As(err, &e.Void)
	return e
}

// CaughtUp: the subscription has handed over what was retained, at its beginning
// or after a reconnect.
type CaughtUp struct {
	Epoch protocol.Epoch
	Seq   protocol.Seq
	Fence protocol.Fence
}

// Disconnected: the link was lost. CaughtUp tells that it is back.
type Disconnected struct{}

// EpochBegan: the log was lost or replaced.
type EpochBegan struct{ Epoch protocol.Epoch }

// GapFound: messages of the subscription left the log before they were read.
type GapFound struct{}

// Acked: a publish of this member is in the log.
type Acked struct {
	Attempt uint64
	Epoch   protocol.EpochID
}

// Refused: a publish is not in the log and will not be. Attempt is 0 for one
// that the leader's work made under its token; Token is set then.
type Refused struct {
	Attempt uint64
	Token   Token
	Code    protocol.Code
	Epoch   protocol.EpochID // the log's, on ErrStaleTerm, ErrConflict and ErrWrongEpoch
	Fence   protocol.Fence   // on ErrStaleTerm and ErrConflict
}

// AnswerOf makes the event of a publish's result: of its ack, which was given in
// an epoch, or of its error. What is not surely a refusal is no answer.
func AnswerOf(attempt uint64, epoch protocol.EpochID, err error) Event {
	if err == nil {
		return Acked{attempt, epoch}
	}
	var e *protocol.Error
	if !errors.As(err, &e) || !refuses(e.Code) {
		return Unanswered{attempt}
	}
	return Refused{Attempt: attempt, Code: e.Code, Epoch: e.Epoch, Fence: e.Fence}
}

// refuses reports whether a registry answers so what is not in its log.
func refuses(c protocol.Code) bool {
	switch c {
	case protocol.ErrStaleTerm, protocol.ErrConflict, protocol.ErrWrongEpoch,
		protocol.ErrDenied, protocol.ErrRateLimited, protocol.ErrStorageFull, protocol.ErrTooLarge,
		protocol.ErrInvalid, protocol.ErrInvalidTopic, protocol.ErrLimit, protocol.ErrUnsupported:
		return true
	default:
		return false
	}
}

// Unanswered: whether a publish is, or will be, in the log cannot be told. The
// member waits until it has read it or can lead by it no more.
type Unanswered struct{ Attempt uint64 }

// TimerFired: the time of the last SetTimer has come. The driver hands over all
// that the subscription and the publishes have to say before it.
type TimerFired struct{}

// CampaignAsked makes an observer a candidate.
type CampaignAsked struct{}

// WithdrawAsked makes a candidate an observer. A leader ends its leadership.
type WithdrawAsked struct{}

// ResignAsked makes a leader hand over to Successor, or to the best candidate it
// knows. It goes on as a candidate, which stands again once another has led.
type ResignAsked struct{ Successor string }

// WorkStopped answers Cancel: the work under the leadership is over.
type WorkStopped struct{}

// Action is something to do. Actions of one step are done in their order, before
// the next event. It is one of the types below.
type Action interface{ action() }

// Send asks to publish a message, at once and over the urgent lane.
type Send struct {
	Attempt   uint64
	Message   Message
	Slot      string             // the replace slot; may be empty
	Condition protocol.Condition // Term 0: none
	Until     Time               // give it up then
}

// SetTimer asks for a TimerFired at a time, in place of the one asked for before.
type SetTimer struct{ At Time } // Never: no timer

// Lead begins a leadership. It is valid until Until less Timing.Stop.
type Lead struct {
	Token Token
	Until Time // when the lease ends
}

// Renew moves the end of the lease, always to later.
type Renew struct{ Until Time }

// Cancel asks to stop the work; WorkStopped answers it. The leadership is not
// valid any more, but the lease goes on, so nobody else leads.
type Cancel struct{ Reason Reason }

// Lost ends a leadership, once, after its Cancel; where the two come together,
// only the fence stands against what the work still writes.
type Lost struct {
	Token  Token
	Reason Reason
}

// Show tells that what an observer sees has changed.
type Show struct {
	Change Change
	View   View
}

// Count tells that a message was void, or another thing worth counting.
type Count struct {
	Void   Void
	Seq    protocol.Seq
	Sender protocol.NodeID
}

func (Send) action()     {}
func (SetTimer) action() {}
func (Lead) action()     {}
func (Renew) action()    {}
func (Cancel) action()   {}
func (Lost) action()     {}
func (Show) action()     {}
func (Count) action()    {}

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
