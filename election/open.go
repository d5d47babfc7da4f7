package election

// readOpen reads a message of a link without fences. Different members may have
// read others before it, so what decides is the same for all of them: the
// highest of (term, priority, node).
func (x *step) readOpen(e messageRead) {
	m := e.Message
	e.Term = m.Term
	switch l := x.leaderOf(e); {
	case e.Void != 0:
		x.void(e, e.Void)
	case m.Instance == x.Instance: // an echo
	case m.Kind == KindResign && !l.is(x.leader):
		x.readAsk(e)
	case x.fault(e) != 0:
		x.void(e, x.fault(e))
	case m.Kind == KindCandidacy:
		x.readCandidacy(e)
	case m.Kind == KindResign:
		x.readResign(e)
	case l.Term < x.leader.Term:
		x.void(e, VoidOldTerm)
	case l.is(x.leader) && l.Term == x.leader.Term:
		x.listen()
		x.endRound()
		x.leader.Live = x.leader.Ended == 0
	case l.Term == x.leader.Term && !l.above(x.leader.standing):
		x.void(e, VoidDecided)
	default:
		x.claim = claim{}
		if x.phase == claiming {
			x.phase = following
		}
		x.listen()
		x.endRound()
		x.follow(l)
	}
}
