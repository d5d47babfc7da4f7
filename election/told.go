package election

import (
	"github.com/pilotgo/pilotgo/protocol"
)

func (e caughtUp) happen(x *step) {
	x.enter(e.Epoch)
	x.scanned = max(x.scanned, e.Seq)
	x.caughtUp = true
	x.listen()
	x.higher = [3]string{} // they stood in the history, and may be dead
	if x.hold.Used {
		x.hold.Until = x.quiet
	}
	if x.candidate {
		x.stand = x.after(x.jitter())
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

func (disconnected) happen(x *step) {
	x.caughtUp = false
	x.standDown()
}

func (gapFound) happen(x *step) { x.listen() }

func (e epochBegan) happen(x *step) { x.enter(e.Epoch) }

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
	x.best, x.heir, x.stand = standing{}, "", never
	x.endRound()
}

func (e acked) happen(x *step) {
	if e.Epoch == x.epoch.ID {
		x.renew(e.Attempt)
	}
}

func (e refused) happen(x *step) {
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
func (x *step) underLease(e refused) bool {
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

func (unanswered) happen(*step) {}
