package election

import (
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

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

func (campaignAsked) happen(x *step) {
	x.candidate = true
	if x.caughtUp {
		x.stand = x.after(x.jitter())
	}
}

func (withdrawAsked) happen(x *step) {
	x.candidate = false
	x.standDown()
	x.handOver("", ReasonWithdrawn)
}

func (timerFired) happen(x *step) {
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
		return x.wait(pausing, x.jitter())
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
		x.do(countAction{Void: VoidExhausted})
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
	x.stand = never // it is known now
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
func (s *machine) nextTerm() uint64 {
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
	x.stand = never
	if x.leader.Term == 0 {
		return // nobody known needs a successor
	}
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
