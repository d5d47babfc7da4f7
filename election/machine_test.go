package election

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func preempting(after time.Duration) func(*settings) {
	return func(c *settings) { c.Preempt = Preemption{Allowed: true, After: after} }
}

func plain(p PlainPolicy) func(*settings) { return func(c *settings) { c.Plain = p } }

func TestStatesCompare(t *testing.T) {
	a, b := follows(t), follows(t)
	require.True(t, a.s == b.s)
	b.at(200, b.stamped(other, KindHeartbeat, 101))
	require.False(t, a.s == b.s)
}

func TestNewChecksItsSettings(t *testing.T) {
	good := settings{Topic: "election:g", Node: me, Instance: instanceFor(me), Timing: LAN}
	_, err := newMachine(good)
	require.NoError(t, err)
	for _, spoil := range []func(*settings){
		func(c *settings) { c.Timing.Silence = c.Timing.Lease },
		func(c *settings) { c.Topic = "" },
		func(c *settings) { c.Instance = protocol.Instance{} },
		func(c *settings) { c.Priority = protocol.MaxTerm + 1 },
		func(c *settings) { c.Priority = -protocol.MaxTerm - 1 },
		func(c *settings) { c.Preempt.After = -1 },
	} {
		bad := good
		spoil(&bad)
		_, err := newMachine(bad)
		require.Error(t, err)
	}
}

// R9, R10: from the sending; the ack or the reading, whichever is first.
func TestALeaseCountsFromTheFirstSending(t *testing.T) {
	for name, passed := range map[string]func(o *one) event{
		"acked":     func(o *one) event { return o.acked() },
		"read back": func(o *one) event { return o.own(KindHeartbeat, 101) },
	} {
		o := leads(t)
		require.Equal(t, instant(950), o.until())
		require.Equal(t, []string{"publish heartbeat 101"}, o.at(650, timerFired{}))
		require.Empty(t, o.at(700, passed(o)), name)
		require.Equal(t, instant(1050), o.until(), name)
		require.Empty(t, o.at(740, o.acked(), o.own(KindHeartbeat, 101)), "a duplicate changes nothing")
		require.Equal(t, instant(1050), o.until(), name)
	}
}

func TestALateAnswerOfAnOlderHeartbeatDoesNotShorten(t *testing.T) {
	o := leads(t)
	o.at(650, timerFired{})
	first := o.acked()
	o.at(750, timerFired{})
	o.at(760, o.acked())
	require.Equal(t, instant(1150), o.until())
	o.at(770, first)
	require.Equal(t, instant(1150), o.until())
}

func TestOnlyHeartbeatsOfThisLeadershipRenewIt(t *testing.T) {
	o := leads(t)
	o.at(650, timerFired{})
	o.at(660, acked{o.s.lease.Claim, o.epoch.ID}, acked{o.s.attempt + 1, o.epoch.ID}, acked{o.s.attempt, 9})
	require.Equal(t, instant(950), o.until())
}

// R11: the lease is looked at first, whatever happens.
func TestALeaseThatIsOverIsNotRevived(t *testing.T) {
	for name, late := range map[string]func(o *one) event{
		"ack":       func(o *one) event { return o.acked() },
		"read back": func(o *one) event { return o.own(KindHeartbeat, 101) },
		"timer":     func(*one) event { return timerFired{} },
		"anything":  func(*one) event { return gapFound{} },
	} {
		o := leads(t)
		o.at(850-1, timerFired{})
		require.Equal(t, []string{"cancel: expired", "lost 101: expired", "lost: expired"}, o.at(950, late(o)), name)
		require.Equal(t, following, o.s.phase)
		require.Empty(t, o.at(951, timerFired{}, o.acked()), "no more heartbeats, no more lease")
	}
}

// R17: not valid, then cancelled, then over.
func TestALeadershipEndsInOrder(t *testing.T) {
	o := leads(t)
	o.at(650, timerFired{})
	require.Equal(t, []string{"publish heartbeat 101"}, o.at(849, timerFired{}))
	require.Equal(t, instant(850), o.wakes())
	require.Equal(t, []string{"cancel: expired"}, o.at(850, timerFired{}))
	require.Equal(t, instant(950), o.wakes())
	require.Empty(t, o.at(860, o.acked()), "work that was told to stop is not told to go on")
	require.Equal(t, []string{"lost 101: expired", "lost: expired"}, o.at(950, timerFired{}))
}

func TestWorkThatStopsEarlyEndsTheLease(t *testing.T) {
	o := leads(t)
	o.at(850, timerFired{})
	require.Equal(t, []string{"lost 101: expired", "lost: expired"}, o.at(870, workStopped{}), "no resign: it may come back")
	require.Empty(t, o.at(880, workStopped{}))
}

// R17, H06: the fence has said that it is over.
func TestAStaleTermEndsLeadershipAtOnce(t *testing.T) {
	for name, e := range map[string]func(o *one) event{
		"heartbeat": func(o *one) event { return o.refused(protocol.ErrStaleTerm, protocol.Fence{K: 102, S: 9}) },
		"the work's write": func(o *one) event {
			return refused{Token: Token{1, 101}, Code: protocol.ErrStaleTerm, Epoch: 1, Fence: protocol.Fence{K: 102, S: 9}}
		},
	} {
		o := leads(t)
		o.at(650, timerFired{})
		require.Equal(t, []string{"cancel: stale term", "lost 101: stale term", "lost: stale term"}, o.at(660, e(o)), name)
		require.Equal(t, uint64(103), o.s.nextTerm())
	}
	o := leads(t)
	o.at(650, timerFired{})
	require.Empty(t, o.at(660, refused{Token: Token{1, 100}, Code: protocol.ErrStaleTerm, Epoch: 2}), "of an earlier leadership")
	require.Equal(t, []string{"cancel: epoch", "lost 101: epoch", "lost: epoch"}, o.at(670, o.refused(protocol.ErrWrongEpoch, protocol.Fence{})))
}

func TestOtherRefusalsLeaveItToTheLease(t *testing.T) {
	o := leads(t)
	o.at(650, timerFired{})
	require.Empty(t, o.at(660, o.refused(protocol.ErrStorageFull, protocol.Fence{}), o.refused(protocol.ErrRateLimited, protocol.Fence{})))
	require.Equal(t, []string{"publish heartbeat 101"}, o.at(750, timerFired{}))
}

func TestAHigherClaimSupersedes(t *testing.T) {
	o := leads(t)
	require.Equal(t,
		[]string{"cancel: superseded", "lost 101: superseded", "changed 2147483649 102"},
		o.at(700, o.stamped(other, KindClaim, 102)))
}

// R12: what was led is above what will be.
func TestATermIsNotLedAgain(t *testing.T) {
	o := leads(t)
	o.at(950, timerFired{})
	o.at(1000, o.own(KindHeartbeat, 101))
	require.Equal(t, uint64(102), o.s.nextTerm())
	require.Equal(t, View{Reason: ReasonExpired}, o.s.view, "an own late heartbeat is not seen as a leader's")
}

// R13: by its key, and in time.
func TestAClaimIsKnownByItsKey(t *testing.T) {
	o := leadsAlmost(t)
	e := o.own(KindClaim, 101)
	e.Key.Attempt--
	require.Equal(t, []string{"leader 2147483648 101"}, o.at(600, e), "an earlier attempt is nobody's leadership")
	require.False(t, o.s.leads())
}

// leadsAlmost has sent the claim of 101 at 550, expecting 0.
func leadsAlmost(t *testing.T) *one {
	t.Helper()
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	o.at(500, o.own(KindCandidacy, 0))
	require.Equal(t, []string{"publish leader 101 expecting 0"}, o.at(550, timerFired{}))
	return o
}

func TestAClaimThatIsReadTooLateFreesItsTerm(t *testing.T) {
	o := leadsAlmost(t)
	got := o.at(850, o.own(KindClaim, 101))
	require.Equal(t, []string{"publish resign 101 raising to 102", "none: resigned"}, got)
	require.Equal(t, instant(850+3*500), o.wakes(), "it is slow: let others lead")
}

func TestAClaimOfWhoHasWithdrawnFreesItsTerm(t *testing.T) {
	o := leadsAlmost(t)
	o.at(560, withdrawAsked{})
	require.Equal(t, []string{"publish resign 101 raising to 102", "none: resigned"}, o.at(600, o.own(KindClaim, 101)))
}

// R14: another process with this node's key.
func TestAnotherInstanceIsAnotherNode(t *testing.T) {
	o := leadsAlmost(t)
	e := o.own(KindClaim, 101)
	e.Key.Instance = instanceFor(third)
	e.Message.Instance = instanceFor(third)
	require.Equal(t, []string{"count duplicate node id", "leader 2147483648 101"}, o.at(600, e))
	require.False(t, o.s.leads())
	require.Equal(t, claim{}, o.s.claim, "S has moved: this one cannot be accepted any more")
}

// R18: retention may have dropped the claim.
func TestAHeartbeatStandsForItsClaim(t *testing.T) {
	o := candidate(t)
	require.Equal(t, []string{"leader 2147483649 107"}, o.at(400, o.stamped(other, KindHeartbeat, 107)))
	o.s.stand = never
	require.Equal(t, uint64(108), o.s.nextTerm())
	require.Empty(t, o.at(600, timerFired{}))
	require.Equal(t, []string{"publish election 108", "lost: silent"}, o.at(900, timerFired{}))
}

// R18: what cannot be read but passed the fence with a higher term may be a claim
// in a form to come.
func TestAStampOfAHigherTermIsLife(t *testing.T) {
	o := follows(t)
	e := o.stamped(third, KindClaim, 105)
	e.Message, e.Void = Message{}, VoidType
	require.Equal(t, []string{"changed 2147483650 105"}, o.at(300, e))
	e = o.stamped(third, KindClaim, 105)
	e.Message, e.Void = Message{}, VoidType
	require.Equal(t, []string{"count unknown type"}, o.at(400, e), "in its own term it is not")
	require.Equal(t, protocol.Fence{K: 105, S: o.seq}, o.s.fence, "but S has moved")
	require.Equal(t, instant(800), o.s.quiet/instant(time.Millisecond))
}

// R19: without a link nobody campaigns, and with it the silence starts anew.
func TestSilenceCountsWhileConnected(t *testing.T) {
	o := follows(t)
	o.at(200, disconnected{})
	require.Equal(t, []string{"lost: disconnected"}, o.at(2000, timerFired{}))
	require.Equal(t, instant(-1), o.wakes())
	o.at(3000, o.marker())
	o.at(3001, timerFired{})
	require.Empty(t, o.at(3499, timerFired{}))
	require.Contains(t, o.at(3500, timerFired{}), "publish election 102")
}

func TestALostLinkEndsACampaignAndNotALease(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	require.Equal(t, announced, o.s.phase)
	o.at(510, disconnected{})
	require.Equal(t, following, o.s.phase)

	o = leads(t)
	require.Equal(t, []string{"publish heartbeat 101"}, o.at(650, disconnected{}))
	require.True(t, o.s.leads())
	o.at(700, o.marker())
	require.True(t, o.s.leads())
}

// R20: also on an empty topic, and in a new epoch.
func TestWhoJoinsWaits(t *testing.T) {
	o := candidate(t)
	require.Empty(t, o.at(10, timerFired{}), "no leader needs a successor")
	require.Equal(t, []string{"publish election 101", "none: silent"}, o.at(500, timerFired{}))

	o = candidate(t)
	o.at(10, timerFired{})
	o.epoch = protocol.Epoch{ID: 2, Born: 200}
	o.seq = 0
	require.Equal(t, []string{"none: epoch"}, o.at(400, epochBegan{o.epoch}))
	o.at(450, o.marker())
	require.Empty(t, o.at(949, timerFired{}))
	require.Equal(t, []string{"publish election 201"}, o.at(950, timerFired{}))
}

// R21: somebody unknown moved the fence and has all the silence to be heard.
func TestWhatIsToldIsNotRead(t *testing.T) {
	o := follows(t)
	o.at(200, disconnected{})
	o.seq, o.fence = 9, protocol.Fence{K: 105, S: 8}
	require.Equal(t, []string{"lost: fence moved unread"}, o.at(300, o.marker()))
	require.Equal(t, uint64(106), o.s.nextTerm(), "105 may be led")
	o.at(310, timerFired{})
	require.Equal(t, []string{"publish election 106", "none: silent"}, o.at(800, timerFired{}))
	o.at(800, o.own(KindCandidacy, 0))
	require.Equal(t, []string{"publish leader 106 expecting 8"}, o.at(850, timerFired{}))
}

// R21, R23: after a conflict it reads and waits.
func TestAConflictIsNotTriedAgain(t *testing.T) {
	o := leadsAlmost(t)
	f := protocol.Fence{K: 101, S: 3}
	require.Empty(t, o.at(600, o.refused(protocol.ErrConflict, f)))
	require.Equal(t, protocol.Fence{K: 101, S: 3}, o.s.fence)
	require.False(t, func() bool { x := step{machine: o.s}; return x.mayClaim() }(), "3 is not read yet")
	require.Empty(t, o.at(1099, timerFired{}))
	o.seq = 2
	require.Equal(t, []string{"leader 2147483649 101"}, o.at(1099, o.stamped(other, KindClaim, 101)))
	require.Equal(t, instant(1599), o.s.quiet/instant(time.Millisecond))
}

func TestAnOldRefusalDoesNotSetTheFenceBack(t *testing.T) {
	o := leadsAlmost(t)
	o.at(560, o.stamped(other, KindClaim, 101))
	o.at(570, o.stamped(other, KindHeartbeat, 101))
	was := o.s
	require.Empty(t, o.at(580, o.refused(protocol.ErrConflict, protocol.Fence{K: 101, S: o.seq - 1})))
	require.Equal(t, was, o.s)
}

func TestOtherRefusalsOfAClaimAreWaitedOut(t *testing.T) {
	o := leadsAlmost(t)
	o.at(600, o.refused(protocol.ErrDenied, protocol.Fence{}))
	require.Empty(t, o.at(1099, timerFired{}))
	require.Equal(t, []string{"publish election 101"}, o.at(1100, timerFired{}))

	o = candidate(t)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	require.Empty(t, o.at(510, o.refused(protocol.ErrRateLimited, protocol.Fence{})), "a candidacy")
	require.Equal(t, instant(1010), o.wakes())
}

// R22 (b): nothing came after its own message.
func TestALeaderThatWasCutOffComesBackAtOnce(t *testing.T) {
	back := func(o *one) []string {
		o.at(700, disconnected{})
		o.at(950, timerFired{})
		return o.at(5000, o.marker())
	}
	require.Equal(t, []string{"publish leader 102 expecting 2"}, back(leads(t)))

	o := leads(t)
	o.at(700, disconnected{})
	o.at(950, timerFired{})
	o.at(5000, o.stamped(other, KindClaim, 102))
	require.Empty(t, o.at(5000, o.marker()), "somebody else has claimed")

	o = leads(t)
	o.at(650, timerFired{})
	o.seq, o.fence = 4, protocol.Fence{K: 102, S: 4}
	require.NotContains(t, back(o), "publish leader 103 expecting 4", "somebody moved the fence unread")

	o = leads(t)
	o.at(700, withdrawAsked{})
	require.Empty(t, back(o), "it did not mean to come back")
}

// R23: an unknown outcome is waited for.
func TestAnUnknownOutcomeIsWaitedFor(t *testing.T) {
	o := leadsAlmost(t)
	require.Empty(t, o.at(600, unanswered{o.s.attempt}))
	require.Empty(t, o.at(610, o.refused(protocol.ErrUnknownOutcome, protocol.Fence{})))
	require.Equal(t, claiming, o.s.phase)
	require.Equal(t, instant(950), o.wakes(), "so long it could lead by it")
	require.Empty(t, o.at(950, timerFired{}))
	require.Equal(t, instant(1450), o.wakes(), "and as long others may")

	o = leadsAlmost(t)
	o.at(600, unanswered{o.s.attempt})
	require.Contains(t, o.at(700, o.own(KindClaim, 101)), "lead 101 until 950")
}

// R24: from what is known, not from what was tried.
func TestTheNextTerm(t *testing.T) {
	for _, test := range []struct {
		name string
		want uint64
		know func(o *one)
	}{
		{"the epoch's birth", 101, func(*one) {}},
		{"a decided term", 108, func(o *one) { o.at(1, o.stamped(other, KindClaim, 107)) }},
		{"a script's term", 151, func(o *one) { o.at(1, o.script(other, KindClaim, 150, "")) }},
		{"a script's term below", 108, func(o *one) { o.at(1, o.stamped(other, KindClaim, 107), o.script(other, KindClaim, 99, "")) }},
		{"candidacies do not count", 101, func(o *one) { o.at(1, o.next(other, KindCandidacy, 150)) }},
		{"a term that was told", 131, func(o *one) { o.fence = protocol.Fence{K: 130, S: 5}; o.seq = 5; o.at(1, o.marker()) }},
		{"a resign leaves the next term free", 108, func(o *one) {
			o.at(1, o.stamped(other, KindClaim, 107), o.stamped(other, KindResign, 107))
		}},
		{"another epoch", 108, func(o *one) {
			o.at(1, o.stamped(other, KindClaim, 107))
			o.epoch, o.seq, o.fence = protocol.Epoch{ID: 2, Born: 3}, 0, protocol.Fence{}
			o.at(2, o.marker())
		}},
		{"a registry clock gone wild", 1<<42 + 1, func(o *one) {
			o.epoch = protocol.Epoch{ID: 2, Born: 1 << 60}
			o.at(2, o.marker())
		}},
		{"attempts do not count", 101, func(o *one) {
			for at := instant(10); at < 5000; at += 10 {
				o.at(at, timerFired{})
			}
		}},
	} {
		o := candidate(t)
		test.know(o)
		require.Equal(t, test.want, o.s.nextTerm(), test.name)
	}
}

func TestNoTermIsLeft(t *testing.T) {
	o := candidate(t)
	o.at(1, o.stamped(other, KindClaim, protocol.MaxTerm))
	o.at(501, timerFired{})
	o.at(501, o.own(KindCandidacy, 0))
	require.Equal(t, []string{"count no term left"}, o.at(551, timerFired{}))
	require.Equal(t, instant(1051), o.wakes())

	o = leads(t)
	o.s.lease.Term = protocol.MaxTerm
	o.at(610, resignAsked{})
	require.Contains(t, o.at(620, workStopped{}), "publish resign 9007199254740991", "without a raise")
}

// R25, R34, R36: what scripts say, and whom it counts with.
func TestPlainClaims(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy PlainPolicy
		want   []string
		change func(e *messageRead)
	}{
		{"of the node itself", PlainFollow, []string{"leader 2147483649 150 plain"}, func(*messageRead) {}},
		{"by its address", PlainFollow, []string{"leader 0:0000.8000.0001 150 plain"}, func(e *messageRead) { e.Message.Node = other.Address() }},
		{"of another", PlainFollow, []string{"count not by the node it names"}, func(e *messageRead) { e.Sender = third }},
		{"of another, trusted", PlainTrust, []string{"leader 2147483649 150 plain"}, func(e *messageRead) { e.Sender = third }},
		{"by a name", PlainFollow, []string{"count not by the node it names"}, func(e *messageRead) { e.Message.Node = "agent-7" }},
		{"by a name, trusted", PlainTrust, []string{"leader agent-7 150 plain"}, func(e *messageRead) { e.Message.Node = "agent-7" }},
		{"ignored", PlainIgnore, []string{"count plain messages are ignored"}, func(*messageRead) {}},
		{"old", PlainFollow, []string{"count old term"}, func(e *messageRead) { e.Message.Term = 107 }},
		{"milliseconds", PlainFollow, []string{"leader 2147483649 1764500000000 plain"}, func(e *messageRead) { e.Message.Term = 1764500000000 }},
		{"the highest", PlainFollow, []string{"leader 2147483649 4398046511104 plain"}, func(e *messageRead) { e.Message.Term = 1 << 42 }},
		{"too high", PlainFollow, []string{"count term too high"}, func(e *messageRead) { e.Message.Term = 1<<42 + 1 }},
		{"void", PlainTrust, []string{"count bad term"}, func(e *messageRead) { e.Void = VoidTerm }},
	} {
		o := candidate(t, plain(test.policy))
		o.at(1, o.stamped(third, KindClaim, 107), o.stamped(third, KindResign, 107))
		o.s.stand = never
		e := o.script(other, KindClaim, 150, "")
		test.change(&e)
		require.Equal(t, test.want, o.at(2, e), test.name)
	}
	o := candidate(t)
	o.at(1, o.stamped(third, KindClaim, 1<<45), o.stamped(third, KindResign, 1<<45))
	o.s.stand = never
	require.Equal(t, []string{"leader 2147483649 35184373137408 plain"}, o.at(2, o.script(other, KindClaim, 1<<45+1<<20, "")), "the bound moves with the fence")
}

// R34: it decides nothing.
func TestAPlainClaimNeverDeposes(t *testing.T) {
	o := follows(t)
	require.Equal(t, []string{"count there is a leader"}, o.at(200, o.script(third, KindClaim, 150, "")))
	require.Equal(t, uint64(101), o.s.decided)
	require.Equal(t, uint64(151), o.s.nextTerm(), "though the next term is above it")

	o = leads(t)
	require.Equal(t, []string{"count there is a leader"}, o.at(610, o.script(third, KindClaim, 150, "")))
}

// R26: all that was known is of another log, but terms.
func TestANewEpochEndsALeadership(t *testing.T) {
	o := leads(t)
	o.epoch, o.seq, o.fence = protocol.Epoch{ID: 2, Born: 50}, 0, protocol.Fence{}
	require.Equal(t, []string{"cancel: epoch", "lost 101: epoch", "lost: epoch"}, o.at(650, epochBegan{o.epoch}))
	require.Equal(t, uint64(102), o.s.nextTerm())

	o = leadsAlmost(t)
	claimed := o.own(KindClaim, 101)
	o.epoch, o.seq, o.fence = protocol.Epoch{ID: 2, Born: 50}, 0, protocol.Fence{}
	o.at(560, epochBegan{o.epoch})
	claimed.Epoch, claimed.Seq = o.epoch, 1
	o.at(570, claimed)
	require.False(t, o.s.leads(), "the claim was of another log")
}

// R27: work stopped, lease ended, then published.
func TestAResignComesLast(t *testing.T) {
	o := leads(t)
	o.at(610, o.next(other, KindCandidacy, 102), o.next(third, KindCandidacy, 102))
	require.Equal(t, []string{"cancel: resigned"}, o.at(620, resignAsked{}))
	require.Empty(t, o.at(660, timerFired{}), "no more heartbeats")
	require.Equal(t,
		[]string{"lost 101: resigned", "publish resign 101 raising to 102 for 2147483650", "lost: resigned"},
		o.at(670, workStopped{}))

	o = leads(t)
	o.at(620, resignAsked{other.String()})
	require.Contains(t, o.at(630, workStopped{}), "publish resign 101 raising to 102 for 2147483649", "whom it was told to name")

	o = leads(t)
	o.at(620, resignAsked{})
	require.Equal(t, []string{"lost 101: resigned", "lost: resigned"}, o.at(950, timerFired{}), "work did not stop: nobody is told to lead")
	require.Empty(t, o.at(960, workStopped{}))
}

// R28: a process that asks is heard by the leader only, and if it may.
func TestAskingToResign(t *testing.T) {
	ask := func(o *one, from protocol.NodeID) messageRead {
		e := o.script(from, KindResign, 101, "")
		e.Message.Node, e.Message.Successor = me.String(), third.String()
		return e
	}
	o := leads(t)
	require.Equal(t, []string{"cancel: resigned"}, o.at(610, ask(o, me)))
	require.Contains(t, o.at(620, workStopped{}), "publish resign 101 raising to 102 for 2147483650")

	o = leads(t)
	require.Equal(t, []string{"count not by the node it names"}, o.at(610, ask(o, other)))
	o = leads(t, plain(PlainTrust))
	require.Equal(t, []string{"cancel: resigned"}, o.at(610, ask(o, other)))
	o = leads(t)
	e := ask(o, me)
	e.Message.Term = 100
	require.Equal(t, []string{"count old term"}, o.at(610, e))
	o = follows(t)
	require.Empty(t, o.at(610, ask(o, me)))
}

func TestAResignOfAnotherInstanceIsNotBelieved(t *testing.T) {
	o := follows(t)
	e := o.stamped(other, KindResign, 101)
	e.Message.Instance = instanceFor(third)
	e.Message.Successor = me.String()
	require.Equal(t, []string{"count not the leader's instance"}, o.at(200, e))
	require.Equal(t, instant(600), o.wakes(), "the lease may still run")
}

// R29: it is not its own successor.
func TestAResignerWaits(t *testing.T) {
	resigned := func() *one {
		o := leads(t)
		o.at(610, resignAsked{})
		o.at(620, workStopped{})
		o.at(630, o.own(KindResign, 101))
		return o
	}
	o := resigned()
	require.Empty(t, o.at(2119, timerFired{}))
	require.Equal(t, []string{"publish election 102"}, o.at(2120, timerFired{}), "3F after")

	o = resigned()
	o.at(700, o.stamped(other, KindClaim, 102))
	o.s.stand = never
	require.Equal(t, instant(1200), o.wakes(), "or once another has led")
}

// R30: the successor claims at once, others leave it the window.
func TestASuccessorClaimsAtOnce(t *testing.T) {
	o := follows(t)
	e := o.stamped(other, KindResign, 101)
	e.Message.Successor = me.String()
	require.Equal(t, []string{"publish leader 102 expecting 2", "lost: resigned"}, o.at(200, e))

	o = follows(t)
	e = o.stamped(other, KindResign, 101)
	e.Message.Successor = third.String()
	require.Equal(t, []string{"lost: resigned"}, o.at(200, e))
	require.Equal(t, []string{"publish election 102"}, o.at(250, timerFired{}))

	o = follows(t)
	o.at(150, withdrawAsked{})
	e = o.stamped(other, KindResign, 101)
	e.Message.Successor = me.String()
	require.Equal(t, []string{"lost: resigned"}, o.at(200, e), "an observer is nobody's successor")

	o = follows(t)
	o.at(150, disconnected{})
	e = o.stamped(other, KindResign, 101)
	e.Message.Successor = me.String()
	require.Equal(t, []string{"lost: resigned"}, o.at(200, e), "in the history it is an old one")
}

// R30: a leader knows the best candidate since its claim.
func TestTheBestCandidateSucceeds(t *testing.T) {
	for _, test := range []struct {
		name string
		read func(o *one)
		want string
	}{
		{"the highest", func(o *one) { o.at(610, o.next(third, KindCandidacy, 102), o.next(other, KindCandidacy, 102)) }, third.String()},
		{"a lower one", func(o *one) { o.at(610, o.next(low, KindCandidacy, 102)) }, low.String()},
		{"no script", func(o *one) { o.at(610, o.script(third, KindCandidacy, 102, "")) }, ""},
		{"not of an old term", func(o *one) { o.at(610, o.next(third, KindCandidacy, 101)) }, ""},
	} {
		o := leads(t)
		test.read(o)
		o.at(620, resignAsked{})
		require.Equal(t, test.want, o.s.lease.Heir, test.name)
	}
	o := leadsAlmost(t)
	o.at(560, o.next(third, KindCandidacy, 101))
	o.at(600, o.own(KindClaim, 101))
	o.at(620, resignAsked{})
	require.Empty(t, o.s.lease.Heir, "not of before the claim")
}

func TestFollowersLetTheLeaderKnow(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(100, o.stamped(other, KindClaim, 101))
	require.LessOrEqual(t, o.wakes(), instant(600))
	at := o.wakes()
	require.Equal(t, []string{"publish election 102"}, o.at(at, timerFired{}), "once to each leader")
	o.at(at, o.stamped(other, KindHeartbeat, 101))
	require.Equal(t, at+500, o.wakes(), "and not again")

	o = candidate(t)
	o.at(10, timerFired{})
	o.at(100, o.stamped(other, KindClaim, 101), o.next(third, KindCandidacy, 102))
	require.Empty(t, o.at(o.wakes(), timerFired{}), "nobody needs a lower one")
}

// R31: the jitter is within its bounds, its eighths are drawn 1 : 2 : 4 … times,
// and one seed gives one row of it.
func TestTheJitterIsSeldomShort(t *testing.T) {
	const draws = 255 * 200
	x := step{machine: start(settings{Seed: 1, Timing: LAN})}
	y := x
	var parts [jitterSteps]float64
	for range draws {
		d := x.jitter()
		if d < 0 || d > LAN.Jitter || d != y.jitter() {
			require.Fail(t, "out of bounds, or another the second time", d)
		}
		parts[min(int(d*jitterSteps/LAN.Jitter), jitterSteps-1)]++
	}
	for i, n := range parts {
		want := float64(int(1)<<i) * draws / 255
		require.InEpsilon(t, want, n, 0.2, "part %d", i)
	}
	x.Timing.Jitter = 0
	require.Zero(t, x.jitter())
}

// R31: own candidacy read back, window, rank.
func TestACampaign(t *testing.T) {
	for _, test := range []struct {
		name   string
		higher []protocol.NodeID // read in the window
		claims instant
	}{
		{"alone", nil, 560},
		{"with a lower one", []protocol.NodeID{low}, 560},
		{"with a higher one", []protocol.NodeID{other}, 600},
		{"with the same twice", []protocol.NodeID{other, other}, 600},
		{"with two", []protocol.NodeID{other, third}, 640},
		{"with five", []protocol.NodeID{other, third, third + 1, third + 2, third + 3}, 680},
	} {
		o := candidate(t)
		o.at(10, timerFired{})
		require.Equal(t, []string{"publish election 101", "none: silent"}, o.at(500, timerFired{}), test.name)
		require.Equal(t, instant(1000), o.wakes(), "it waits for its own candidacy")
		o.at(510, o.own(KindCandidacy, 0))
		for _, n := range test.higher {
			o.at(520, o.next(n, KindCandidacy, 101))
		}
		for at := instant(530); at < test.claims; at += 10 {
			require.Empty(t, o.at(at, timerFired{}), test.name)
		}
		require.Equal(t, []string{"publish leader 101 expecting 0"}, o.at(test.claims, timerFired{}), test.name)
	}
}

func TestACandidacyIsNotReadBack(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	first := o.own(KindCandidacy, 0)
	require.Equal(t, []string{"publish election 101"}, o.at(1000, timerFired{}), "again")
	require.Empty(t, o.at(1010, first), "an earlier one of the round does")
	require.Equal(t, gathering, o.s.phase)
}

func TestALowerCandidateIsSilent(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(490, o.next(other, KindCandidacy, 101))
	require.Equal(t, []string{"none: silent"}, o.at(500, timerFired{}), "a higher one has announced itself")
	require.Equal(t, instant(600), o.wakes(), "it leaves that one two windows")
	require.Empty(t, o.at(600, timerFired{}))
	require.Equal(t, instant(640), o.wakes(), "and a rank")
	require.Equal(t, []string{"publish leader 101 expecting 0"}, o.at(640, timerFired{}))
}

func TestAHeartbeatEndsACandidacy(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	o.at(510, o.stamped(other, KindHeartbeat, 101), o.own(KindCandidacy, 0))
	require.Equal(t, following, o.s.phase)
	require.Empty(t, o.at(560, timerFired{}))
}

// R32, H03: candidacies count in their round.
func TestOldCandidaciesDoNotCount(t *testing.T) {
	o := candidate(t)
	o.at(1, o.next(third, KindCandidacy, 103)) // and then it died
	o.at(2, o.stamped(other, KindHeartbeat, 103))
	o.s.stand = never
	require.Equal(t, []string{"count old term"}, o.at(3, o.next(third, KindCandidacy, 103)))
	o.at(502, timerFired{})
	require.Equal(t, announced, o.s.phase)
	o.at(510, o.own(KindCandidacy, 0))
	require.Equal(t, []string{"publish leader 104 expecting 2"}, o.at(560, timerFired{}), "of rank 0")
}

// H03: a dead node's candidacy is still retained.
func TestCandidaciesOfTheHistoryDoNotCount(t *testing.T) {
	o := observer(t)
	o.at(0, campaignAsked{}, o.next(third, KindCandidacy, 150), o.marker())
	o.s.stand = never
	o.at(500, timerFired{})
	require.Equal(t, announced, o.s.phase)
	o.at(510, o.own(KindCandidacy, 0))
	require.Equal(t, []string{"publish leader 101 expecting 0"}, o.at(560, timerFired{}), "of rank 0")
}

// H03: a late claim of an earlier term changes nothing.
func TestAnEarlierTermIsOver(t *testing.T) {
	o := follows(t)
	o.at(200, o.stamped(third, KindClaim, 104))
	o.s.stand = never
	late := o.next(other, KindHeartbeat, 101)
	late.Term = 101 // no registry stores this
	require.Equal(t, []string{"count old term"}, o.at(300, late))
	require.Equal(t, third.String(), o.s.view.Leader)
}

// H05: the first accepted claim decides.
func TestASecondClaimOfATermIsVoid(t *testing.T) {
	o := follows(t)
	require.Equal(t, []string{"count term has another leader"}, o.at(200, o.stamped(third, KindClaim, 101)))
	require.Equal(t, other.String(), o.s.view.Leader)
}

// R33: to whom a leader gives way.
func TestPreemption(t *testing.T) {
	stood := func(o *one, n protocol.NodeID, seen protocol.Seq) messageRead {
		e := o.next(n, KindCandidacy, 102)
		e.Message.Seen = seen
		return e
	}
	led := func(change ...func(*settings)) *one {
		o := leads(t, change...) // its claim is 2
		o.at(650, timerFired{})
		o.at(660, o.own(KindHeartbeat, 101)) // 3
		o.at(750, timerFired{})
		o.at(760, o.own(KindHeartbeat, 101)) // 4
		return o
	}
	for _, test := range []struct {
		name  string
		o     *one
		node  protocol.NodeID
		seen  protocol.Seq
		yield bool
	}{
		{"never", led(), other, 4, false},
		{"always", led(preempting(0)), other, 4, true},
		{"the heartbeat before", led(preempting(0)), other, 3, true},
		{"an older one", led(preempting(0)), other, 2, false},
		{"none at all", led(preempting(0)), other, 0, false},
		{"a lower one", led(preempting(0)), low, 4, false},
		{"after d", led(preempting(100 * time.Millisecond)), other, 4, true},
		{"before d", led(preempting(time.Second)), other, 4, false},
	} {
		want := []string{}
		if test.yield {
			want = []string{"cancel: preempted"}
		}
		require.Equal(t, want, test.o.at(770, stood(test.o, test.node, test.seen)), test.name)
	}
	o := led(preempting(0))
	e := stood(o, other, 4)
	e.Message.Instance = protocol.Instance{}
	require.Empty(t, o.at(770, e), "a script")
}

func TestWhoDidNotSucceedIsNotYieldedTo(t *testing.T) {
	o := candidate(t, preempting(0))
	o.at(1, o.stamped(low, KindClaim, 101))
	e := o.stamped(low, KindResign, 101)
	e.Message.Successor = other.String()
	o.at(2, e)
	o.s.stand = never
	o.at(52, timerFired{}) // other did not claim
	o.at(52, o.own(KindCandidacy, 0))
	o.at(102, timerFired{})
	require.Contains(t, o.at(110, o.own(KindClaim, 102)), "lead 102 until 502")
	again := func() messageRead { return o.next(other, KindCandidacy, 103) }
	require.Empty(t, o.at(120, again()))
	require.Equal(t, []string{"cancel: resigned"}, o.at(130, resignAsked{}))
	require.Empty(t, o.s.lease.Heir)
	require.Equal(t, other.String(), o.s.barred)
}

func TestAHigherFollowerStandsAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		leader protocol.NodeID
		after  time.Duration
		again  instant // 0: never
	}{
		{"when the leader may be preempted", low, time.Second, 100 + 1000 + 100},
		{"10F after", low, time.Minute, 300 + 5000},
		{"10F after, also then", low, 0, 300 + 5000},
		{"not to a higher leader", other, time.Second, 0},
	} {
		o := candidate(t, preempting(test.after))
		o.at(100, o.stamped(test.leader, KindClaim, 101))
		o.s.stand = instant(300 * time.Millisecond)
		require.Equal(t, []string{"publish election 102"}, o.at(300, timerFired{}), test.name)
		if test.again == 0 {
			require.Equal(t, never, o.s.stand, test.name)
			continue
		}
		require.Equal(t, test.again, o.s.stand/instant(time.Millisecond), test.name)
	}
}

// R35: one hold, renewed by new heartbeats of the same script.
func TestAScriptIsWaitedForOnce(t *testing.T) {
	o := candidate(t)
	o.at(10, timerFired{})
	require.Equal(t, []string{"leader 2147483649 150 plain"}, o.at(300, o.script(other, KindClaim, 150, "1764500000")))
	require.Empty(t, o.at(500, timerFired{}))
	require.Equal(t, instant(800), o.wakes())
	require.Empty(t, o.at(600, o.script(other, KindHeartbeat, 150, "1764500001")))
	require.Equal(t, instant(1100), o.wakes(), "renewed")

	require.Equal(t, []string{"count repeated"}, o.at(700, o.script(other, KindHeartbeat, 150, "1764500001")), "H08: replayed")
	require.Equal(t, []string{"count repeated"}, o.at(700, o.script(other, KindHeartbeat, 150, "1764500000")), "and going back")
	require.Equal(t, []string{"count held already"}, o.at(700, o.script(other, KindClaim, 151, "1764500009")), "another claim")
	require.Equal(t, []string{"count held already"}, o.at(700, o.script(third, KindHeartbeat, 150, "1764500009")), "another script")
	require.Equal(t, instant(1100), o.wakes())

	require.Equal(t, []string{"publish election 152", "lost: silent"}, o.at(1100, timerFired{}))
	require.Equal(t, []string{"count held already"}, o.at(1110, o.script(other, KindHeartbeat, 152, "1764500010")), "a campaign is not stopped")

	o.at(1120, o.stamped(third, KindClaim, 152), o.stamped(third, KindResign, 152))
	require.Equal(t, []string{"leader 2147483649 160 plain"}, o.at(1130, o.script(other, KindClaim, 160, "")), "the next leaderless time is another")
}

// H08: a leader's clock may be anywhere; its heartbeats are new or they are not.
func TestOnlyNewHeartbeatsOfAScriptCount(t *testing.T) {
	for _, test := range []struct {
		first, second string
		renews        bool
	}{
		{"1764500000", "1764500001", true},
		{"1764500000", "1764500000", false},
		{"1764500000", "1764499999", false},
		{"1764500000", "1764500000.0", true},
		{"2025-11-30T10:53:20Z", "2025-11-30T10:53:21Z", true},
		{"2031-01-01T00:00:00Z", "2031-01-01T00:00:05Z", true},
		{"", "", false},
		{"7", "8", true},
	} {
		o := candidate(t)
		o.at(100, o.script(other, KindHeartbeat, 150, test.first))
		o.at(200, o.script(other, KindHeartbeat, 150, test.second))
		want := instant(600)
		if test.renews {
			want = 700
		}
		require.Equal(t, want, o.s.hold.Until/instant(time.Millisecond), "%s, then %s", test.first, test.second)
	}
}

func TestTheLastScriptOfTheHistoryIsWaitedFor(t *testing.T) {
	o := observer(t)
	o.at(0, campaignAsked{})
	o.at(1, o.script(other, KindHeartbeat, 150, "5"), o.script(third, KindHeartbeat, 160, "6"))
	o.at(2, o.marker())
	o.at(12, timerFired{})
	require.Equal(t, []string{"leader 2147483650 160 plain"}, o.at(300, o.script(third, KindHeartbeat, 160, "7")))
	require.Empty(t, o.at(502, timerFired{}))
}

// Contract of observers: they end in the true state.
func TestObserversSee(t *testing.T) {
	o := observer(t)
	require.Empty(t, o.at(0, o.stamped(third, KindClaim, 90), o.stamped(other, KindClaim, 101), o.marker()), "the history is not news")
	require.Equal(t, []string{"leader 2147483649 101"}, o.at(50, o.stamped(other, KindHeartbeat, 101)))
	require.Equal(t, []string{"changed 2147483650 102"}, o.at(100, o.stamped(third, KindClaim, 102)))
	require.Equal(t, []string{"changed 2147483650 103"}, o.at(200, o.stamped(third, KindClaim, 103)))
	require.Equal(t, []string{"lost: silent"}, o.at(700, timerFired{}))
	require.Equal(t, instant(-1), o.wakes(), "an observer does nothing about it")
	require.Equal(t, []string{"leader 2147483650 103"}, o.at(800, o.stamped(third, KindHeartbeat, 103)), "it lives")
	require.Equal(t, []string{"lost: resigned"}, o.at(900, o.stamped(third, KindResign, 103)))
}

func TestAnObserverOfAnEmptyTopicSeesNobody(t *testing.T) {
	o := observer(t)
	require.Empty(t, o.at(0, o.marker()))
	require.Equal(t, []string{"none: silent"}, o.at(500, timerFired{}))
}

func TestAnObserverDoesNotSeeTermsFall(t *testing.T) {
	o := observer(t)
	o.at(0, o.marker())
	o.at(1, o.stamped(other, KindClaim, 150))
	o.epoch, o.seq, o.fence = protocol.Epoch{ID: 2, Born: 90}, 0, protocol.Fence{}
	require.Equal(t, []string{"lost: epoch"}, o.at(2, o.marker()))
	require.Equal(t, []string{"none: term below known floor"}, o.at(3, o.stamped(third, KindClaim, 150)))
	require.Equal(t, []string{"leader 2147483649 151"}, o.at(4, o.stamped(other, KindClaim, 151)))
}

func TestAnObserverSeesScripts(t *testing.T) {
	o := observer(t)
	o.at(0, o.marker())
	require.Equal(t, []string{"leader 2147483649 5 plain"}, o.at(1, o.script(other, KindClaim, 5, "")))
	require.Equal(t, []string{"lost: silent"}, o.at(501, timerFired{}))
	require.Equal(t, []string{"leader 2147483649 5 plain"}, o.at(600, o.script(other, KindHeartbeat, 5, "7")), "late, but there")
	require.Equal(t, []string{"count held already"}, o.at(610, o.script(third, KindClaim, 4, "")), "terms do not fall")
	require.Equal(t, []string{"changed 2147483650 6 plain"}, o.at(620, o.script(third, KindClaim, 6, "")))
	require.Equal(t, []string{"changed 2147483649 107"}, o.at(630, o.stamped(other, KindClaim, 107)))
}

// H07: no wall clock, of whomever, is looked at.
func TestWallClocksDoNotMatter(t *testing.T) {
	o := follows(t)
	for i, stamp := range []string{"1764500000", "1764496400", "1764503600", "2001-01-01T00:00:00Z", "", "soon"} {
		e := o.stamped(other, KindHeartbeat, 101)
		e.Message.Stamp, e.Message.Clock = stamp, clockOf(stamp)
		at := instant(200 + 100*i)
		require.Empty(t, o.at(at, e), stamp)
		require.Equal(t, at+500, o.wakes(), stamp)
	}
}

func TestRepeatedMessagesAreVoid(t *testing.T) {
	o := follows(t)
	e := o.stamped(other, KindHeartbeat, 101)
	o.at(200, e)
	require.Equal(t, []string{"count repeated"}, o.at(650, e))
	require.Equal(t, instant(700), o.wakes())
}

func TestAGapStartsTheSilenceAnew(t *testing.T) {
	o := follows(t)
	o.at(400, gapFound{})
	require.Equal(t, instant(900), o.wakes())
}

// Whatever the log says, and in whatever order things happen, a member keeps to
// a few things that its driver relies on.
func TestNothingConfusesAMember(t *testing.T) {
	leads := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		o := candidate(t, func(c *settings) {
			c.Plain = PlainPolicy(seed % 3)
			c.Preempt.Allowed = seed%2 == 0
			c.BestEffort = seed%7 == 0
		})
		var led *Token
		var until instant
		now := instant(0)
		for range 400 {
			now += instant(r.Int64N(int64(120 * time.Millisecond)))
			e := anything(r, o)
			s, actions := o.s.Step(now, e)
			o.s = s
			for _, a := range actions {
				switch a := a.(type) {
				case leadAction:
					require.Nil(t, led)
					led, until = &a.Token, a.Until
					leads++
				case renewAction:
					require.NotNil(t, led)
					require.Greater(t, a.Until, until)
					require.Greater(t, until, now, "it was over")
					until = a.Until
				case lostAction:
					require.Equal(t, *led, a.Token)
					led = nil
				case sendAction:
					require.Greater(t, a.Until, now)
					if a.Message.Kind == KindHeartbeat {
						require.Equal(t, led.Term, a.Message.Term)
						require.Greater(t, until, now)
					}
					if a.Message.Kind == KindResign {
						require.Nil(t, led, "the lease ends first")
					}
				default:
				}
			}
			require.Equal(t, led != nil, s.leads())
			if _, fired := e.(timerFired); fired {
				require.Greater(t, s.deadline(), now)
			}
		}
	}
	require.Greater(t, leads, 50, "too little happens")
}

// anything may happen, in a log that keeps no promise.
func anything(r *rand.Rand, o *one) event {
	nodes := []protocol.NodeID{me, me, low, other, third}
	from := nodes[r.IntN(len(nodes))]
	term := max(o.s.floor, o.s.soft) + uint64(r.IntN(3))
	kind := Kind(1 + r.IntN(4))
	switch r.IntN(16) {
	case 0:
		return disconnected{}
	case 1, 2:
		o.seq += protocol.Seq(r.IntN(2))
		return caughtUp{o.epoch, o.seq, protocol.Fence{K: o.fence.K + uint64(r.IntN(2)), S: o.seq - protocol.Seq(r.IntN(2))}}
	case 3:
		if r.IntN(4) == 0 {
			o.epoch, o.seq, o.fence = protocol.Epoch{ID: o.epoch.ID + 1, Born: r.Uint64N(300)}, 0, protocol.Fence{}
		}
		return epochBegan{o.epoch}
	case 4:
		return o.refused(protocol.Code(r.IntN(20)), protocol.Fence{K: term, S: o.seq})
	case 5:
		return []event{campaignAsked{}, withdrawAsked{}, resignAsked{}, workStopped{}, gapFound{}, unanswered{}, campaignAsked{}}[r.IntN(7)]
	case 6, 7:
		return o.acked()
	case 8, 9:
		if c := o.s.claim; c.Attempt != 0 {
			return o.own(KindClaim, c.Term)
		}
		if o.s.phase == leading {
			return o.own(KindHeartbeat, o.s.lease.Term)
		}
		return o.own(KindCandidacy, 0)
	case 10:
		e := o.stamped(from, kind, term)
		e.Void = Void(r.IntN(3))
		return e
	case 11:
		return o.script(from, kind, term, fmt.Sprint(r.IntN(5)))
	case 12:
		return o.next(from, kind, term)
	default:
		return timerFired{}
	}
}

func TestATimerThatFiresEarlyIsSetAgain(t *testing.T) {
	o := follows(t)
	_, actions := o.s.Step(instant(300*time.Millisecond), timerFired{})
	require.Equal(t, []action{timerAction{instant(600 * time.Millisecond)}}, actions)
}

func TestPublishesCarryWhatTheyNeed(t *testing.T) {
	var sent []sendAction
	collect := func(o *one, ms instant, e event) {
		s, actions := o.s.Step(ms*instant(time.Millisecond), e)
		o.s = s
		for _, a := range actions {
			if a, ok := a.(sendAction); ok {
				sent = append(sent, a)
			}
		}
	}
	o := candidate(t)
	o.at(10, timerFired{})
	collect(o, 500, timerFired{})
	o.at(500, o.own(KindCandidacy, 0))
	collect(o, 550, timerFired{})
	o.at(600, o.own(KindClaim, 101))
	collect(o, 650, timerFired{})
	o.at(660, resignAsked{})
	collect(o, 670, workStopped{})

	mine := func(k Kind) Message {
		return Message{Kind: k, Node: me.String(), Term: 101, Priority: priorityOf(me), Instance: instanceFor(me)}
	}
	ms := func(n instant) instant { return n * instant(time.Millisecond) }
	require.Equal(t, []sendAction{
		{Attempt: 1, Message: mine(KindCandidacy), Slot: "candidacy", Until: ms(1000)},
		{Attempt: 2, Message: mine(KindClaim), Until: ms(950), Condition: protocol.Condition{
			Topic: "election:group", Epoch: 1, Term: 101, HasExpect: true, Expect: 0, Raise: 101,
		}},
		{Attempt: 3, Message: mine(KindHeartbeat), Slot: "heartbeat", Until: ms(950), Condition: protocol.Condition{
			Topic: "election:group", Epoch: 1, Term: 101,
		}},
		{Attempt: 4, Message: mine(KindResign), Until: ms(670 + 500), Condition: protocol.Condition{
			Topic: "election:group", Epoch: 1, Term: 101, Raise: 102,
		}},
	}, sent)
}

func TestAnswersOfPublishes(t *testing.T) {
	f := protocol.Fence{K: 7, S: 9}
	stale := &protocol.Error{Code: protocol.ErrStaleTerm, Epoch: 3, Fence: f}
	for _, test := range []struct {
		err  error
		want event
	}{
		{nil, acked{5, 2}},
		{fmt.Errorf("publish: %w", stale), refused{Attempt: 5, Code: protocol.ErrStaleTerm, Epoch: 3, Fence: f}},
		{protocol.Errorf(protocol.ErrRateLimited, "slower"), refused{Attempt: 5, Code: protocol.ErrRateLimited}},
		{protocol.Errorf(protocol.ErrUnknownOutcome, ""), unanswered{5}},
		{protocol.Errorf(protocol.ErrInternal, ""), unanswered{5}},
		{protocol.ErrNotConnected, unanswered{5}},
		{context.DeadlineExceeded, unanswered{5}},
	} {
		require.Equal(t, test.want, answerOf(5, 2, test.err))
	}
}

func TestKeysTellAttempts(t *testing.T) {
	k := key{Instance: instanceFor(me), Attempt: 1<<63 + 7}
	b := k.Append(nil)
	require.LessOrEqual(t, len(b), protocol.MaxKey)
	require.Equal(t, k, parseKey(b))
	require.Zero(t, parseKey(nil))
	require.Zero(t, parseKey(b[1:]))
	require.Zero(t, parseKey(append(b, 0)))
}

func TestReadingsOfMessages(t *testing.T) {
	epoch := protocol.Epoch{ID: 3, Born: 9}
	k := key{instanceFor(me), 8}
	m := &protocol.Message{
		Seq: 7, Sender: me, Topic: "election:group", Key: k.Append(nil),
		Payload: []byte(`{"type":"leader","leader":"2147483648"}`),
		Fences:  []protocol.Mark{{Topic: "other", Term: 1}, {Topic: "election:group", Term: 42}},
	}
	e := readingOf(m, epoch)
	require.Equal(t, messageRead{
		Epoch: epoch, Seq: 7, Sender: me, Key: k, Term: 42, Message: e.Message,
	}, e)
	require.Equal(t, KindClaim, e.Message.Kind)
	m.Fences = nil
	require.Equal(t, VoidTerm, readingOf(m, epoch).Void, "a plain one needs a term")
	m.Payload = []byte("?")
	require.Equal(t, VoidMalformed, readingOf(m, epoch).Void)
}

func TestAClaimGivenUpLeavesNothingDue(t *testing.T) {
	o := leadsAlmost(t)
	o.s.stand = o.s.due.Add(-time.Millisecond)
	o.at(950, timerFired{})
	require.Greater(t, o.wakes(), instant(950))
}

func TestANegativePriorityIsAPriority(t *testing.T) {
	negative := func(c *settings) { c.Priority = -5 }
	o := candidate(t, negative)
	o.at(100, o.stamped(other, KindClaim, 101))
	o.s.stand = 100
	require.Equal(t, []string{"publish election 102"}, o.at(110, timerFired{}), "no candidate is not a higher one")
	o = leads(t)
	e := o.next(low, KindCandidacy, 102)
	e.Message.Priority = -7
	o.at(610, e)
	require.Equal(t, low.String(), o.s.best.Node)
}

func TestNodesCompareAsNumbers(t *testing.T) {
	rising := []string{"9", "10", "2147483648", "", "1a", "9a", "agent"}
	for i, a := range rising {
		for k, b := range rising {
			require.Equal(t, cmp.Compare(i, k), compareNodes(a, b), "%q and %q", a, b)
		}
	}
	a, b := standing{Node: "1"}, standing{Node: "1", Instance: protocol.Instance{1}}
	require.True(t, b.above(a))
	require.False(t, a.above(b))
	require.False(t, a.above(a))
}

// Without fences the order of (term, priority, node) decides.

func bestEffort(c *settings) { c.BestEffort = true }

func openCandidate(t *testing.T) *one {
	t.Helper()
	o := candidate(t, bestEffort)
	o.at(10, timerFired{})
	require.Equal(t, []string{"publish election 101", "none: silent"}, o.at(500, timerFired{}))
	require.Equal(t, []string{"publish leader 101"}, o.at(550, timerFired{}))
	return o
}

func TestBestEffortLeads(t *testing.T) {
	o := openCandidate(t)
	require.Equal(t, []string{"lead 101 until 950", "leader 2147483648 101"}, o.at(570, timerFired{}), "once an objection would be here")
	require.Equal(t, []string{"publish heartbeat 101"}, o.at(650, timerFired{}))
	o.at(651, acked{o.s.attempt, o.s.epoch.ID})
	require.Equal(t, instant(1050), o.until(), "as long as the link takes heartbeats")
	o.at(660, o.next(low, KindClaim, 101))
	require.True(t, o.s.leads(), "a lower one of the same term does not count")
	require.Equal(t, []string{"cancel: superseded", "lost 101: superseded", "changed 2147483649 101"}, o.at(670, o.next(other, KindHeartbeat, 101)))
}

// H05: in whatever order they are read, all end with the same leader.
func TestBestEffortConverges(t *testing.T) {
	orders := [][]protocol.NodeID{{low, other, third}, {low, third, other}, {other, low, third}, {other, third, low}, {third, low, other}, {third, other, low}}
	for _, order := range orders {
		o := openCandidate(t)
		for _, n := range order {
			o.at(560, o.next(n, KindClaim, 101))
		}
		require.False(t, o.s.leads())
		require.Equal(t, third.String(), o.s.view.Leader)
		o.at(570, o.next(low, KindClaim, 103))
		require.Equal(t, low.String(), o.s.view.Leader, "a higher term is above all")
		require.Equal(t, []string{"count old term"}, o.at(580, o.next(third, KindHeartbeat, 101)))
	}
}

func TestBestEffortResigns(t *testing.T) {
	o := openCandidate(t)
	o.at(570, timerFired{})
	o.at(580, o.next(other, KindCandidacy, 102), resignAsked{})
	require.Contains(t, o.at(590, workStopped{}), "publish resign 101 for 2147483649")

	o = candidate(t, bestEffort)
	o.at(1, o.next(other, KindClaim, 101))
	e := o.next(other, KindResign, 101)
	e.Message.Successor = me.String()
	require.Equal(t, []string{"publish leader 102", "lost: resigned"}, o.at(2, e))
}

// Where the link does not tell who asks, naming the leader is enough.
func TestBestEffortMayBeAsked(t *testing.T) {
	for _, policy := range []PlainPolicy{PlainFollow, PlainIgnore} {
		for from, want := range map[protocol.NodeID][]string{
			0:     {"cancel: resigned"},
			me:    {"cancel: resigned"},
			other: {"count not by the node it names"},
		} {
			o := candidate(t, bestEffort, plain(policy))
			o.at(10, timerFired{})
			o.at(500, timerFired{})
			o.at(550, timerFired{})
			o.at(570, timerFired{})
			require.True(t, o.s.leads())
			e := o.script(me, KindResign, 101, "")
			e.Sender = from
			require.Equal(t, want, o.at(580, e), "%v", policy)
		}
	}
}

func TestBestEffortFollowsScripts(t *testing.T) {
	o := candidate(t, bestEffort)
	e := o.script(other, KindClaim, 150, "")
	e.Sender = 0 // the link does not tell
	require.Equal(t, []string{"leader 2147483649 150"}, o.at(1, e))
	o = candidate(t, bestEffort, plain(PlainIgnore))
	require.Equal(t, []string{"count plain messages are ignored"}, o.at(1, o.script(other, KindClaim, 150, "")))
	require.Equal(t, []string{"leader 2147483649 150"}, o.at(1, o.next(other, KindClaim, 150)))
}
