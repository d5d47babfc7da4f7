package election

import (
	"github.com/pilotgo/pilotgo/protocol"
)

// claim is an attempt to lead without an answer.
type claim struct {
	Attempt, Term uint64
	Expect        protocol.Seq
	Sent          instant
}

func (x *step) send(s sendAction) uint64 {
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
	return x.send(sendAction{
		Message: Message{Kind: KindCandidacy, Term: min(x.nextTerm(), protocol.MaxTerm), Seen: x.read},
		Slot:    "candidacy",
		Until:   x.after(x.Timing.Silence),
	})
}

// sendClaim publishes a claim that is accepted only if nothing stamped came
// after what was read.
func (x *step) sendClaim() {
	term, end := x.nextTerm(), x.after(x.Timing.Lease)
	n := x.send(sendAction{
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
	x.send(sendAction{
		Message:   Message{Kind: KindResign, Term: term, Successor: heir},
		Condition: protocol.Condition{Term: term, Raise: raise},
		Until:     x.after(x.Timing.Silence), // then others act by themselves
	})
}
