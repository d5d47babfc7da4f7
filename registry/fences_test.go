package registry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// One condition on the message's own topic, against a fence that is unset or
// stands at K = 5, S = 10.
func TestCondition(t *testing.T) {
	const (
		unset   = 0
		ok      = protocol.Code(0)
		stale   = protocol.ErrStaleTerm
		conflct = protocol.ErrConflict
		epoch   = protocol.ErrWrongEpoch
		noRaise = 0
		none    = -1 // no expect
	)
	for _, test := range []struct {
		fence        uint64
		term, raise  uint64
		expect       int
		want         protocol.Code
		k            uint64 // afterwards
		anotherEpoch bool
	}{
		{fence: 5, term: 5, raise: noRaise, expect: none, want: ok, k: 5}, // a heartbeat
		{fence: 5, term: 5, raise: noRaise, expect: 10, want: ok, k: 5},
		{fence: 5, term: 5, raise: noRaise, expect: 9, want: conflct},
		{fence: 5, term: 5, raise: noRaise, expect: 0, want: conflct},
		{fence: 5, term: 4, raise: noRaise, expect: none, want: stale},
		{fence: 5, term: 4, raise: noRaise, expect: 10, want: stale},
		{fence: 5, term: 4, raise: noRaise, expect: 9, want: stale}, // stale comes first
		{fence: 5, term: 4, raise: 6, expect: 10, want: stale},      // a raise does not help an old term
		{fence: 5, term: 6, raise: noRaise, expect: none, want: stale},
		{fence: 5, term: 6, raise: noRaise, expect: 10, want: stale},
		{fence: 5, term: 6, raise: 6, expect: 10, want: ok, k: 6}, // a claim
		{fence: 5, term: 6, raise: 6, expect: 9, want: conflct},
		{fence: 5, term: 6, raise: 6, expect: 11, want: conflct},
		{fence: 5, term: 6, raise: 6, expect: none, want: ok, k: 6}, // a script's version
		{fence: 5, term: 6, raise: 9, expect: none, want: ok, k: 9},
		{fence: 5, term: 5, raise: 5, expect: none, want: stale}, // the version exists
		{fence: 5, term: 5, raise: 5, expect: 10, want: ok, k: 5},
		{fence: 5, term: 5, raise: 6, expect: none, want: ok, k: 6}, // a resignation
		{fence: 5, term: 5, raise: 6, expect: 10, want: ok, k: 6},
		{fence: 5, term: 5, raise: protocol.MaxTerm, expect: none, want: ok, k: protocol.MaxTerm},

		{fence: unset, term: 1, raise: noRaise, expect: none, want: stale}, // nothing was ever raised
		{fence: unset, term: 1, raise: noRaise, expect: 0, want: stale},
		{fence: unset, term: 1, raise: 1, expect: none, want: ok, k: 1},
		{fence: unset, term: 1, raise: 1, expect: 0, want: ok, k: 1},
		{fence: unset, term: 7, raise: 9, expect: 0, want: ok, k: 9},
		{fence: unset, term: 1, raise: 1, expect: 1, want: conflct},

		{fence: 5, term: 5, raise: noRaise, expect: none, want: epoch, anotherEpoch: true},
		{fence: 5, term: 4, raise: noRaise, expect: 9, want: epoch, anotherEpoch: true},
		{fence: unset, term: 1, raise: 1, expect: 0, want: epoch, anotherEpoch: true},
	} {
		name := fmt.Sprintf("K=%d term=%d raise=%d expect=%d epoch=%t", test.fence, test.term, test.raise, test.expect, !test.anotherEpoch)
		t.Run(name, func(t *testing.T) {
			d := newTrial(t, brokerOptions{})
			for range 9 {
				d.accepted(1, "other")
			}
			if test.fence > 0 {
				require.Equal(t, protocol.Seq(10), d.accepted(1, "g", raising("g", test.fence, test.fence)))
			}
			before := d.fence("g")
			condition := protocol.Condition{Topic: "g", Epoch: thisEpoch, Term: test.term, Raise: test.raise}
			if test.anotherEpoch {
				condition.Epoch++
			}
			if test.expect != none {
				condition.HasExpect, condition.Expect = true, protocol.Seq(test.expect)
			}
			use := func(p *protocol.Publish) { p.Conditions = []protocol.Condition{condition} }
			if test.want == ok {
				seq := d.accepted(2, "g", use)
				require.Equal(t, protocol.Fence{K: test.k, S: seq}, d.fence("g"))
				return
			}
			refused := d.refused(test.want, 2, "g", use)
			require.Equal(t, "g", refused.Topic)
			require.Equal(t, thisEpoch, refused.Epoch)
			require.Equal(t, before, refused.Fence, "the refusal tells the fence")
		})
	}
}

func TestBothConditionsOrNone(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.accepted(1, "election:g", raising("election:g", 8, 8))
	v1 := d.accepted(1, "config:s", raising("config:s", 3, 3))

	// The second refuses: the first is not raised.
	refused := d.refused(protocol.ErrStaleTerm, 1, "config:s", claiming("config:s", 4, v1), fenced("election:g", 7))
	require.Equal(t, "election:g", refused.Topic)
	require.Equal(t, protocol.Fence{K: 8, S: 1}, refused.Fence)
	// The first refuses, and is the one that is told.
	refused = d.refused(protocol.ErrConflict, 1, "config:s", claiming("config:s", 4, v1+1), fenced("election:g", 7))
	require.Equal(t, "config:s", refused.Topic)
	refused = d.refused(protocol.ErrConflict, 1, "config:s", fenced("election:g", 8), claiming("config:s", 4, v1+1))
	require.Equal(t, "config:s", refused.Topic)

	a := d.put(1, "config:s", claiming("config:s", 4, v1), raising("election:g", 8, 9))
	require.NotNil(t, a.Record)
	require.Equal(t, protocol.Fence{K: 3, S: v1}, d.fence("config:s"), "not in the log yet")
	require.Equal(t, protocol.Fence{K: 8, S: 1}, d.fence("election:g"))
	d.store()
	require.Equal(t, protocol.Fence{K: 4, S: a.Ack.Seq}, d.fence("config:s"))
	require.Equal(t, protocol.Fence{K: 9, S: 1}, d.fence("election:g"), "raised, but S tells of its own topic only")
	require.Equal(t, uint64(4), a.Record.Term())
}

// A leader's writes elsewhere must not make a claimant conflict, who reads only
// the election's topic.
func TestOnlyMessagesOnTheFencesTopicMoveS(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	claim := d.accepted(1, "election:g", claiming("election:g", 5, 0))
	a := d.put(1, "jobs", fenced("election:g", 5))
	require.Equal(t, []protocol.Mark{{Topic: "election:g", Term: 5}}, a.Record.Fences)
	require.Zero(t, a.Record.Term(), "it is not stamped")
	d.accepted(1, "", direct(3), fenced("election:g", 5))
	d.accepted(2, "election:g") // plain
	require.Equal(t, protocol.Fence{K: 5, S: claim}, d.fence("election:g"))
	require.Zero(t, d.fence("jobs"))

	beat := d.accepted(1, "election:g", fenced("election:g", 5))
	require.Equal(t, protocol.Fence{K: 5, S: beat}, d.fence("election:g"))
	d.refused(protocol.ErrConflict, 2, "election:g", claiming("election:g", 6, claim))
	d.accepted(2, "election:g", claiming("election:g", 6, beat))
	d.refused(protocol.ErrStaleTerm, 1, "election:g", fenced("election:g", 5))
	d.refused(protocol.ErrStaleTerm, 1, "jobs", fenced("election:g", 5))
}

func TestPlainMessagesPassNoFence(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.accepted(1, "election:g", raising("election:g", 5, 5))
	a := d.put(2, "election:g", withPayload(`{"type":"leader","leader":2,"term":99}`))
	require.NotNil(t, a.Record)
	require.Empty(t, a.Record.Fences)
	require.Equal(t, protocol.Fence{K: 5, S: 1}, d.fence("election:g"))
}

func TestFencesOutliveTheProcess(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.accepted(1, "g", raising("g", 5, 7))
	d.restart()
	require.Equal(t, protocol.Fence{K: 7, S: 1}, d.fence("g"))
	d.refused(protocol.ErrStaleTerm, 1, "g", fenced("g", 5))
	require.Equal(t, protocol.Seq(2), d.accepted(1, "g", fenced("g", 7)))
}

func TestOperatorsResetAFence(t *testing.T) {
	d := newTrial(t, brokerOptions{maxFences: 2})
	d.accepted(1, "g", raising("g", 99, 99))

	f, fault := d.setFence(1, "g", thisEpoch, 5) // also to a lower value
	require.Nil(t, fault)
	require.Equal(t, protocol.Fence{K: 5, S: 1}, f)
	d.store()
	d.restart()
	d.accepted(1, "g", claiming("g", 6, 1))

	f, fault = d.setFence(1, "new", thisEpoch, protocol.MaxTerm)
	require.Nil(t, fault)
	require.Equal(t, protocol.Fence{K: protocol.MaxTerm}, f)

	for _, test := range []struct {
		topic string
		epoch protocol.EpochID
		k     uint64
		want  protocol.Code
	}{
		{"g", thisEpoch + 1, 7, protocol.ErrWrongEpoch},
		{"g", thisEpoch, protocol.MaxTerm + 1, protocol.ErrInvalid},
		{"g.*", thisEpoch, 7, protocol.ErrInvalidTopic},
		{"third", thisEpoch, 7, protocol.ErrLimit},
	} {
		_, fault := d.setFence(1, test.topic, test.epoch, test.k)
		require.NotNil(t, fault, test.topic)
		require.Equal(t, test.want, fault.Code)
		if test.want == protocol.ErrWrongEpoch {
			require.Equal(t, d.fence("g"), fault.Fence)
			require.Equal(t, "g", fault.Topic)
			require.Equal(t, thisEpoch, fault.Epoch)
		}
	}
	require.Equal(t, protocol.Fence{K: 6, S: 2}, d.fence("g"))
}

func TestFencesAreBounded(t *testing.T) {
	d := newTrial(t, brokerOptions{maxFences: 2})
	d.accepted(1, "a", raising("a", 1, 1))
	d.accepted(1, "b", raising("b", 1, 1))
	d.refused(protocol.ErrLimit, 1, "c", raising("c", 1, 1))
	d.refused(protocol.ErrStaleTerm, 1, "c", fenced("c", 1)) // makes none
	d.accepted(1, "a", raising("a", 2, 2))
}

// One node must not be able to take the room for fences from the others, or no
// new group could ever elect.
func TestEachNodeHasItsShareOfFences(t *testing.T) {
	d := newTrial(t, brokerOptions{maxFences: 7, nodeFences: 3})
	d.accepted(1, "a", raising("a", 1, 1))
	_, fault := d.setFence(1, "b", thisEpoch, 1) // an operator is a node, too
	require.Nil(t, fault)
	d.store()
	d.refused(protocol.ErrLimit, 1, "c", raising("c", 1, 1), raising("d", 1, 1))
	d.accepted(1, "c", raising("c", 1, 1))
	d.refused(protocol.ErrLimit, 1, "d", raising("d", 1, 1))
	_, fault = d.setFence(1, "d", thisEpoch, 1)
	require.NotNil(t, fault)
	require.Equal(t, protocol.ErrLimit, fault.Code)
	d.accepted(1, "a", raising("a", 2, 2)) // those that are there go on

	d.put(2, "d", raising("d", 1, 1))
	d.abort() // what was not stored takes no room
	d.accepted(2, "d", raising("d", 1, 1))
	d.accepted(2, "e", raising("e", 1, 1), raising("f", 1, 1))
	d.accepted(1, "f", raising("f", 2, 2)) // of another node

	d.refused(protocol.ErrLimit, 3, "g", raising("g", 1, 1), raising("h", 1, 1)) // room for one
	d.restart()
	d.accepted(1, "g", raising("g", 1, 1)) // who made those of before is not known
	d.refused(protocol.ErrLimit, 3, "h", raising("h", 1, 1))
}
