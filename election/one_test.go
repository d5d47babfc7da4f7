package election

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// one is a member, told what happens step by step. Times are in milliseconds.
type one struct {
	t     *testing.T
	s     machine
	epoch protocol.Epoch
	seq   protocol.Seq // of the newest message in the log
	fence protocol.Fence
}

// clear is a timing whose numbers are easy to add.
var clear = Timing{
	Heartbeat: 100 * time.Millisecond, Lease: 400 * time.Millisecond, Silence: 500 * time.Millisecond,
	Window: 50 * time.Millisecond, Rank: 40 * time.Millisecond, Stop: 100 * time.Millisecond,
	OneWay: 10 * time.Millisecond, Pause: 10 * time.Millisecond,
}

const firstNode = protocol.NodeID(1 << 31)

const (
	me    = firstNode
	other = firstNode + 1 // stands higher
	third = firstNode + 2 // stands higher still
	low   = firstNode - 1
)

// priorityOf is as the ids are.
func priorityOf(n protocol.NodeID) int64 { return int64(n) - int64(me) }

func instanceFor(n protocol.NodeID) protocol.Instance {
	return protocol.Instance{byte(n), byte(n >> 8), 1}
}

// observer has heard nothing; epochs are born at second 100.
func observer(t *testing.T, change ...func(*settings)) *one {
	t.Helper()
	c := settings{
		Topic: "election:group", Node: me, Instance: instanceFor(me), Priority: priorityOf(me), Timing: clear,
	}
	for _, f := range change {
		f(&c)
	}
	s, err := newMachine(c)
	require.NoError(t, err)
	return &one{t: t, s: s, epoch: protocol.Epoch{ID: 1, Born: 100}}
}

// candidate has caught up with an empty log at 0.
func candidate(t *testing.T, change ...func(*settings)) *one {
	t.Helper()
	o := observer(t, change...)
	o.at(0, campaignAsked{})
	o.at(0, o.marker())
	return o
}

// leads has led term 101 since 600, by a claim of seq 2 sent at 550; nobody has
// said that a heartbeat arrived.
func leads(t *testing.T, change ...func(*settings)) *one {
	t.Helper()
	o := candidate(t, change...)
	o.at(10, timerFired{})
	o.at(500, timerFired{})
	o.at(500, o.own(KindCandidacy, 0))
	o.at(550, timerFired{})
	require.Equal(t, claiming, o.s.phase)
	require.Contains(t, o.at(600, o.own(KindClaim, 101)), "lead 101 until 950")
	return o
}

// follows has read the claim of 101 by other at 100.
func follows(t *testing.T) *one {
	t.Helper()
	o := candidate(t)
	require.Equal(t, []string{"leader 2147483649 101"}, o.at(100, o.stamped(other, KindClaim, 101)))
	o.s.stand = never
	return o
}

// at lets things happen at a time and returns what is done about it, timers and
// renewals of a lease aside.
func (o *one) at(ms instant, events ...event) []string {
	o.t.Helper()
	list := []string{}
	for _, e := range events {
		s, actions := o.s.Step(ms*instant(time.Millisecond), e)
		o.s = s
		for _, a := range actions {
			if text := tell(a); text != "" {
				list = append(list, text)
			}
		}
	}
	return list
}

func (o *one) marker() event { return caughtUp{o.epoch, o.seq, o.fence} }

// until is when the lease ends, in milliseconds.
func (o *one) until() instant { return o.s.lease.Until / instant(time.Millisecond) }

// wakes is the deadline in milliseconds, rounded up, or −1.
func (o *one) wakes() instant {
	if at := o.s.deadline(); at != never {
		return (at + instant(time.Millisecond) - 1) / instant(time.Millisecond)
	}
	return -1
}

// next is the next message of the log, by a member if it is no script.
func (o *one) next(from protocol.NodeID, kind Kind, term uint64) messageRead {
	o.seq++
	return messageRead{
		Epoch: o.epoch, Seq: o.seq, Sender: from,
		Message: Message{
			Kind: kind, Node: from.String(), Term: term, Priority: priorityOf(from), Instance: instanceFor(from),
			Seen: o.fence.S,
		},
	}
}

// own is the newest publish of this member, read back; stamped with term.
func (o *one) own(kind Kind, term uint64) messageRead {
	e := o.next(me, kind, term)
	e.Key = key{instanceFor(me), o.s.attempt}
	if e.Term = term; term == 0 {
		e.Message.Term = o.s.nextTerm()
		return e
	}
	o.fence = protocol.Fence{K: max(o.fence.K, term), S: o.seq}
	return e
}

func (o *one) stamped(from protocol.NodeID, kind Kind, term uint64) messageRead {
	e := o.next(from, kind, term)
	e.Term = term
	o.fence = protocol.Fence{K: max(o.fence.K, term), S: o.seq}
	if kind == KindResign {
		o.fence.K = term + 1
	}
	return e
}

// script is a message of somebody who is no member.
func (o *one) script(from protocol.NodeID, kind Kind, term uint64, stamp string) messageRead {
	e := o.next(from, kind, term)
	e.Message.Instance, e.Message.Seen, e.Message.Priority = protocol.Instance{}, 0, 0
	e.Message.Stamp, e.Message.Clock = stamp, clockOf(stamp)
	return e
}

// acked answers the newest publish.
func (o *one) acked() event { return acked{o.s.attempt, o.epoch.ID} }

// refused answers the newest publish with the fence as it is told.
func (o *one) refused(code protocol.Code, f protocol.Fence) event {
	return refused{Attempt: o.s.attempt, Code: code, Epoch: o.epoch.ID, Fence: f}
}

// tell is an action in words; timers and renewals have none.
func tell(a action) string {
	ms := func(t instant) instant { return t / instant(time.Millisecond) }
	switch a := a.(type) {
	case sendAction:
		text := fmt.Sprintf("publish %v %d", a.Message.Kind, a.Message.Term)
		if c := a.Condition; c.HasExpect {
			text += fmt.Sprintf(" expecting %d", c.Expect)
		}
		if c := a.Condition; c.Raise > c.Term {
			text += fmt.Sprintf(" raising to %d", c.Raise)
		}
		if a.Message.Successor != "" {
			text += " for " + a.Message.Successor
		}
		return text
	case leadAction:
		return fmt.Sprintf("lead %d until %d", a.Token.Term, ms(a.Until))
	case cancelAction:
		return fmt.Sprintf("cancel: %v", a.Reason)
	case lostAction:
		return fmt.Sprintf("lost %d: %v", a.Token.Term, a.Reason)
	case showAction:
		v := a.View
		switch {
		case v.Leader == "":
			return fmt.Sprintf("%v: %v", a.Change, v.Reason)
		case v.Plain:
			return fmt.Sprintf("%v %s %d plain", a.Change, v.Leader, v.Token.Term)
		}
		return fmt.Sprintf("%v %s %d", a.Change, v.Leader, v.Token.Term)
	case countAction:
		return "count " + a.Void.String()
	case timerAction, renewAction:
	}
	return ""
}
