package election

import (
	"github.com/pilotgo/pilotgo/protocol"
)

// action is something to do. Actions of one step are done in their order, before
// the next event. It is one of the types below.
type action interface{ action() }

// sendAction asks to publish a message, at once and over the urgent lane.
type sendAction struct {
	Attempt   uint64
	Message   Message
	Slot      string             // the replace slot; may be empty
	Condition protocol.Condition // Term 0: none
	Until     instant            // give it up then
}

// timerAction asks for a timerFired at a time, in place of the one asked for before.
type timerAction struct{ At instant } // never: no timer

// leadAction begins a leadership. It is valid until Until less Timing.Stop.
type leadAction struct {
	Token Token
	Until instant // when the lease ends
}

// renewAction moves the end of the lease, always to later.
type renewAction struct{ Until instant }

// cancelAction asks to stop the work; workStopped answers it. The leadership is not
// valid any more, but the lease goes on, so nobody else leads.
type cancelAction struct{ Reason Reason }

// lostAction ends a leadership, once, after its cancelAction; where the two come together,
// only the fence stands against what the work still writes.
type lostAction struct {
	Token  Token
	Reason Reason
}

// showAction tells that what an observer sees has changed.
type showAction struct {
	Change Change
	View   View
}

// countAction tells that a message was void, or another thing worth counting.
type countAction struct {
	Void   Void
	Seq    protocol.Seq
	Sender protocol.NodeID
}

func (sendAction) action()   {}
func (timerAction) action()  {}
func (leadAction) action()   {}
func (renewAction) action()  {}
func (cancelAction) action() {}
func (lostAction) action()   {}
func (showAction) action()   {}
func (countAction) action()  {}
