package election

import (
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// lease is a leadership. Others count their silence from reading what was sent
// after Sent, so Until, counted from the sending, is over before they act.
type lease struct {
	Token
	Claim  uint64 // its attempt
	Since  instant
	Until  instant
	Beat   instant         // the next heartbeat
	Sent   [16]instant     // when the newest heartbeats were sent, by attempt
	Last   [2]protocol.Seq // the newest own messages that were read
	Ending Reason
	Heir   string
}

// Preemption is whether a leader gives way to a higher candidate. The zero value
// is never.
type Preemption struct {
	Allowed bool
	After   time.Duration // once it has led so long
}

// mayYield reports whether a leader gives way to c: to one that reads what it
// should take over.
func (x *step) mayYield(c standing, seen protocol.Seq) bool {
	return x.phase == leading && x.Preempt.Allowed && x.now.Sub(x.lease.Since) >= x.Preempt.After &&
		c.above(x.standing()) && !x.isBarred(c.Node) &&
		seen != 0 && slices.Contains(x.lease.Last[:], seen)
}

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
		x.do(leadAction{x.lease.Token, end})
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
	n := x.send(sendAction{
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
		x.do(renewAction{until})
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
	x.do(cancelAction{why})
}

func (e resignAsked) happen(x *step) { x.handOver(e.Successor, ReasonResigned) }

// The lease ends before the resign is sent: who reads it may lead at once.
func (workStopped) happen(x *step) {
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
		x.do(cancelAction{why})
	}
	x.do(lostAction{x.lease.Token, why})
	x.lease, x.phase = lease{}, following
	x.leader.Live, x.leader.Ended, x.none = false, why, why
}
