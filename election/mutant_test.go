package election

import "github.com/pilotgo/pilotgo/protocol"

// A mutant is a member with one rule broken: what happens to it, or what it does
// about that, is bent around the machine.
type mutant struct {
	name string

	// bend changes the state or the event before the step; with no event, nothing
	// happens.
	bend func(s *machine, now instant, e event) event

	// twist changes the state and the actions after the step.
	twist func(was machine, x *step, e event)
}

func (m mutant) step(s machine, now instant, e event) (machine, []action) {
	was := s
	if m.bend != nil {
		if e = m.bend(&s, now, e); e == nil {
			return s, nil
		}
	}
	next, actions := s.Step(now, e)
	if m.twist == nil {
		return next, actions
	}
	before := next.deadline()
	x := step{machine: next, now: now, actions: actions}
	m.twist(was, &x, e)
	if at := x.deadline(); at != before {
		x.do(timerAction{at})
	}
	return x.machine, x.actions
}

// own reports whether a message is a stamped claim for the term that is being
// claimed.
func (s *machine) claimsTerm(e messageRead) bool {
	return e.Term != 0 && e.Message.Kind == KindClaim && e.Term == s.claim.Term && s.claim.Attempt != 0
}

// The mutants of the machine's rules, by rule.
var (
	leaseFromAck = mutant{name: "R9: the lease counts from the ack", bend: func(s *machine, now instant, e event) event {
		if a, ok := e.(acked); ok && s.leads() {
			s.lease.Sent[a.Attempt%16] = now
		}
		return e
	}}

	leaseFromReading = mutant{name: "R9: the lease counts from reading the claim", bend: func(s *machine, now instant, e event) event {
		if m, ok := e.(messageRead); ok && s.claimsTerm(m) {
			s.claim.Sent = now
		}
		return e
	}}

	reviving = mutant{name: "R11: a late ack revives the lease", bend: func(s *machine, now instant, e event) event {
		if a, ok := e.(acked); ok && s.phase == leading && s.lease.Sent[a.Attempt%16].Add(s.Timing.Lease) > now {
			s.lease.Until = max(s.lease.Until, now.Add(s.Timing.Stop)+1)
		}
		return e
	}}

	resuming = mutant{name: "R12: an expired leader resumes its term", twist: func(was machine, x *step, e event) {
		if was.leads() && !x.leads() && x.leader.Ended == ReasonExpired {
			x.lease = was.lease
		}
		a, ok := e.(acked)
		if !ok || x.leads() || x.lease.Term == 0 || x.leader.Instance != x.Instance {
			return
		}
		if until := x.lease.Sent[a.Attempt%16].Add(x.Timing.Lease); until > x.now {
			x.phase, x.lease.Until = leading, until
			x.do(leadAction{x.lease.Token, until})
		}
	}}

	claimByTerm = mutant{name: "R13: a claim is recognised by its term", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && s.claimsTerm(m) && m.Message.Instance == s.Instance {
			m.Key = key{s.Instance, s.claim.Attempt}
			return m
		}
		return e
	}}

	claimByNode = mutant{name: "R14: a claim is recognised by the node", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && s.claimsTerm(m) && m.Sender == s.Node {
			m.Key, m.Message.Instance = key{s.Instance, s.claim.Attempt}, s.Instance
			return m
		}
		return e
	}}

	emptyAtOnce = mutant{name: "R20: nobody is waited for on an empty topic", twist: func(_ machine, x *step, e event) {
		if c, ok := e.(caughtUp); ok && c.Fence.S == 0 {
			x.quiet = x.now
		}
	}}

	retryAtOnce = mutant{name: "R21: a conflict is tried again with the S that was told", twist: func(was machine, x *step, e event) {
		if r, ok := e.(refused); ok && was.claim.Attempt == r.Attempt && was.claim.Attempt != 0 && x.candidate {
			x.sendClaim()
		}
	}}

	toldIsRead = mutant{name: "R21: a fence that was told counts as read", bend: func(s *machine, _ instant, e event) event {
		if c, ok := e.(caughtUp); ok {
			s.fence, s.read, s.floor = c.Fence, c.Fence.S, max(s.floor, c.Fence.K)
		}
		return e
	}}

	floorForgotten = mutant{name: "R24: the floor is forgotten with the epoch", twist: func(was machine, x *step, _ event) {
		if was.epoch != x.epoch {
			x.floor, x.past = 0, 0
		}
	}}

	resignFirst = mutant{name: "R27: the resign is published before the lease ends", twist: func(was machine, x *step, _ event) {
		if was.phase == leading && x.phase == stopping && x.lease.Ending != ReasonExpired {
			x.sendResign(x.lease.Term, x.lease.Heir)
		}
	}}

	anyResign = mutant{name: "R28: anybody's resign is believed", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && m.Term != 0 && m.Message.Kind == KindResign {
			m.Sender, m.Message.Instance = s.leader.Sender, s.leader.Instance
			return m
		}
		return e
	}}

	plainDeposes = mutant{name: "R34: a plain claim deposes", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && m.Term == 0 && m.Message.Kind == KindClaim {
			m.Term = m.Message.Term
			return m
		}
		return e
	}}
)

// Those whose damage needs more members, or time, to be seen.
var (
	noExpect = mutant{name: "R3: claims do not expect what was read", twist: func(was machine, x *step, e event) {
		for i, a := range x.actions {
			if s, ok := a.(sendAction); ok && s.Message.Kind == KindClaim {
				s.Condition.HasExpect, s.Condition.Expect = false, 0
				x.actions[i] = s
			}
		}
		if m, ok := e.(messageRead); ok && was.claim.Attempt != 0 && x.claim.Attempt == 0 && x.phase == following &&
			m.Key.Instance != x.Instance {
			x.claim, x.phase, x.due = was.claim, claiming, was.due
		}
	}}

	noBirth = mutant{name: "R24: the birth of the epoch does not count", bend: func(_ *machine, _ instant, e event) event {
		switch e := e.(type) {
		case messageRead:
			e.Epoch.Born = 0
			return e
		case caughtUp:
			e.Epoch.Born = 0
			return e
		case epochBegan:
			e.Epoch.Born = 0
			return e
		}
		return e
	}}

	noBound = mutant{name: "R25: plain terms have no bound", twist: func(_ machine, x *step, e event) {
		if m, ok := e.(messageRead); ok && m.Term == 0 && m.Message.Kind == KindClaim {
			x.soft = max(x.soft, m.Message.Term)
		}
	}}

	noRaise = mutant{name: "R27: a resign does not raise the fence", twist: func(_ machine, x *step, _ event) {
		for i, a := range x.actions {
			if s, ok := a.(sendAction); ok && s.Message.Kind == KindResign {
				s.Condition.Raise = 0
				x.actions[i] = s
			}
		}
	}}

	noBench = mutant{name: "R29: a resigner stands again at once", twist: func(_ machine, x *step, _ event) {
		x.bench = 0
	}}

	highestOnly = mutant{name: "R31: a candidate waits for the highest", twist: func(_ machine, x *step, _ event) {
		if x.phase == ranked && x.ranking() > 0 {
			x.due = never
		}
	}}

	evenJitter = mutant{name: "R31: the jitter is drawn evenly", twist: func(was machine, x *step, _ event) {
		if was.phase == following && x.phase == pausing {
			x.due = x.after(x.draw(x.Timing.Jitter))
		}
	}}

	seenIgnored = mutant{name: "R33: a leader yields to who does not read", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && m.Message.Kind == KindCandidacy && s.phase == leading {
			m.Message.Seen = s.lease.Last[1]
			return m
		}
		return e
	}}

	eachClaimHolds = mutant{name: "R35: each plain claim holds", bend: func(s *machine, _ instant, e event) event {
		if m, ok := e.(messageRead); ok && m.Term == 0 && m.Message.Kind == KindClaim && m.Void == 0 {
			s.hold = hold{}
			if s.campaigning() {
				s.phase = following
			}
		}
		return e
	}}

	claimOnly = mutant{name: "R18: a heartbeat without its claim in view is nothing", bend: func(s *machine, _ instant, e event) event {
		m, ok := e.(messageRead)
		if ok && m.Term != 0 && m.Message.Kind == KindHeartbeat && m.Term != s.leader.Term && m.Epoch == s.epoch {
			s.scanned, s.read, s.fence = m.Seq, m.Seq, protocol.Fence{K: max(s.fence.K, m.Term), S: m.Seq}
			return nil
		}
		return e
	}}
)
