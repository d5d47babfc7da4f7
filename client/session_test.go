package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// desk drives an outbox and notes what goes where.
type desk struct {
	box     outbox
	made    []*entry
	channel []string // publishes on the present channel, in order; "-" where answered
	log     []string // all that was done
}

func newDesk(window, flight int) *desk {
	return &desk{box: outbox{window: window, flight: flight, first: 1}}
}

func (d *desk) name(e *entry) string { return fmt.Sprint(slices.Index(d.made, e) + 1) }

func (d *desk) note(format string, args ...any) { d.log = append(d.log, fmt.Sprintf(format, args...)) }

func (d *desk) add() {
	e := &entry{}
	d.made = append(d.made, e)
	if !d.box.add(e) {
		d.note("%s blocked", d.name(e))
	}
}

// send sends all that may be sent.
func (d *desk) send(epoch protocol.EpochID, head protocol.Seq) {
	for e := d.box.next(); e != nil; e = d.box.next() {
		d.box.send(e, epoch, head)
		again := ""
		if e.resend {
			again = " again"
		}
		d.channel = append(d.channel, d.name(e))
		d.note("%s sent as %d%s", d.name(e), e.n, again)
	}
}

func (d *desk) answer(n uint64) {
	e := d.box.answer(n)
	if e == nil {
		d.note("no %d", n)
		return
	}
	d.channel[n-1] = "-"
	d.note("%s answered", d.name(e))
	for e := d.box.admit(); e != nil; e = d.box.admit() {
		d.note("%s admitted", d.name(e))
	}
}

func (d *desk) reset() {
	d.channel = nil
	d.note("%d again", d.box.reset())
}

func (d *desk) said() string {
	s := strings.Join(d.log, ", ")
	d.log = nil
	return s
}

func TestOutboxSendsInOrderWithinItsBounds(t *testing.T) {
	d := newDesk(3, 2)
	for range 5 {
		d.add()
	}
	require.Equal(t, "4 blocked, 5 blocked", d.said())
	d.send(1, 0)
	require.Equal(t, "1 sent as 1, 2 sent as 2", d.said())
	d.answer(2)
	d.send(1, 0)
	require.Equal(t, "2 answered, 4 admitted, 3 sent as 3", d.said())
	d.answer(2)
	d.answer(9)
	d.answer(0)
	require.Equal(t, "no 2, no 9, no 0", d.said())
}

func TestOutboxSendsAgainInOrderAndFirst(t *testing.T) {
	d := newDesk(9, 9)
	for range 3 {
		d.add()
	}
	d.send(1, 0)
	d.answer(2)
	d.add()
	d.said()
	d.reset()
	d.add()
	d.send(2, 7)
	require.Equal(t, "2 again, 1 sent as 1 again, 3 sent as 2 again, 4 sent as 3, 5 sent as 4", d.said())
	require.Equal(t, protocol.EpochID(1), d.made[0].epoch, "as known when the key first went out")
	require.Equal(t, protocol.EpochID(2), d.made[3].epoch)
	require.Equal(t, protocol.Seq(7), d.made[3].head)
}

func TestOutboxNeverSendsWhatWasWithdrawn(t *testing.T) {
	d := newDesk(3, 2)
	for range 5 {
		d.add()
	}
	d.send(1, 0)
	d.said()
	d.box.withdraw(d.made[0]) // sent: the registry has its place
	d.box.withdraw(d.made[2]) // not sent: its place is free
	d.box.withdraw(d.made[3]) // blocked
	d.add()
	require.Equal(t, "6 blocked", d.said(), "it does not overtake those that wait")
	d.box.withdraw(d.made[5])
	require.Equal(t, d.made[4], d.box.admit())
	require.Nil(t, d.box.admit())
	require.Nil(t, d.box.next(), "two are in the air")
	d.answer(1)
	d.send(1, 0)
	require.Equal(t, "1 answered, 5 sent as 3", d.said())
	require.Equal(t, withdrawn, d.made[0].stage)

	d.box.withdraw(d.made[1])
	d.reset()
	d.send(1, 0)
	require.Equal(t, "1 again, 5 sent as 1 again", d.said())
	require.Equal(t, 1, d.box.taken)
}

// The walk takes every way through seven steps and looks at each state.
func TestOutboxWalk(t *testing.T) {
	steps := []func(d *desk){
		func(d *desk) { d.add() },
		func(d *desk) { d.send(1, 0) },
		func(d *desk) { d.reset() },
		func(d *desk) { d.answer(d.box.first) },
		func(d *desk) { d.answer(d.box.first + 1) },
		func(d *desk) { withdrawNth(d, 0) },
		func(d *desk) { withdrawNth(d, 1) },
	}
	depth := testenv.Raced(7, 6)
	reached := map[stage]int{}
	resent := 0
	for way := range pow(len(steps), depth) {
		d := newDesk(3, 2)
		for range depth {
			steps[way%len(steps)](d)
			way /= len(steps)
			checkDesk(t, d)
		}
		for _, e := range d.made {
			reached[e.stage]++
			if e.resend {
				resent++
			}
		}
	}
	require.Len(t, reached, 5, "all stages are reached")
	require.NotZero(t, resent)
}

func pow(base, exp int) int {
	n := 1
	for range exp {
		n *= base
	}
	return n
}

func withdrawNth(d *desk, n int) {
	if n < len(d.made) {
		d.box.withdraw(d.made[n])
	}
}

func checkDesk(t *testing.T, d *desk) {
	open := slices.DeleteFunc(slices.Clone(d.channel), func(s string) bool { return s == "-" })
	if !slices.IsSorted(open) {
		t.Fatalf("out of order on the channel: %s", d.said())
	}
	taken, inAir := 0, 0
	for _, e := range d.made {
		switch e.stage {
		case unsent:
			taken++
		case sent, withdrawn:
			if i := e.n - d.box.first; i < uint64(d.box.flying.len()) && d.box.flying.at(int(i)) == e {
				taken++
				inAir++
			}
		case blocked, finished:
		}
	}
	if taken != d.box.taken || inAir != d.box.inAir || taken > 3 || inAir > 2 {
		t.Fatalf("taken %d, counted %d; in the air %d, counted %d: %s", d.box.taken, taken, d.box.inAir, inAir, d.said())
	}
}

func TestOutboxForgetsWhatItDoesNotNeed(t *testing.T) {
	box := outbox{window: 4, flight: 4, first: 1}
	for range 10_000 {
		e := &entry{}
		box.add(e)
		box.withdraw(e)
	}
	require.Less(t, box.queued.len(), 8)
	for range 4 {
		box.add(&entry{})
	}
	for range 10_000 {
		e := &entry{}
		box.add(e)
		box.withdraw(e)
	}
	require.Less(t, box.waiting.len(), 8)
	for range 10_000 {
		box.send(box.next(), 1, 0)
		box.answer(box.first)
		box.add(&entry{})
	}
	require.LessOrEqual(t, cap(box.flying.list)+cap(box.queued.list), 64)
}

func TestPositionStartsAndResumes(t *testing.T) {
	one, two := protocol.Epoch{ID: 1}, protocol.Epoch{ID: 2}
	fresh := position{pattern: "t", start: protocol.StartLast}
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartLast}, fresh.request())

	p := fresh
	require.False(t, p.accepted(one, 0))
	require.True(t, p.pass(5))
	require.False(t, p.pass(5), "each at most once")
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartLast, After: 5, Epoch: 1}, p.request(),
		"the history is not over")
	p.caughtUp(9)
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartAfter, After: 9, Epoch: 1}, p.request())

	require.False(t, p.accepted(one, 3))
	require.False(t, p.pass(9), "a registry that begins too early repeats nothing")

	require.True(t, p.accepted(two, 0), "another log")
	require.True(t, p.pass(1))
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartAfter, After: 1, Epoch: 2}, p.request())
}

func TestPositionOfNewOnlyMissesNothingOnceItIsOpen(t *testing.T) {
	p := position{pattern: "t"}
	require.Equal(t, protocol.StartNew, p.request().Start)
	p.accepted(protocol.Epoch{ID: 1}, 40)
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartAfter, After: 40, Epoch: 1}, p.request())
}

func TestPositionFromAnEarlierProcess(t *testing.T) {
	p := position{pattern: "t", start: protocol.StartAfter, epoch: protocol.Epoch{ID: 1}, seq: 7}
	require.Equal(t, protocol.Subscribe{Pattern: "t", Start: protocol.StartAfter, After: 7, Epoch: 1}, p.request())
	require.True(t, p.accepted(protocol.Epoch{ID: 2}, 0))
	require.True(t, p.pass(1))
}
