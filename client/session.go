package client

import (
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// What a client has to remember to go on after its connection was lost: an
// outbox for each lane of publishes, a position for each subscription. Nothing
// here waits, looks at a clock or knows a connection.

// stage is where a publish is.
type stage uint8

const (
	blocked   stage = iota + 1 // waits for a place in the window
	unsent                     // has a place, not on the present channel
	sent                       // on the present channel, without an answer
	withdrawn                  // as sent, but nobody waits any more
	finished                   // answered, or withdrawn before it was sent
)

// entry is one publish of an outbox.
type entry struct {
	pub     Publication
	counter uint64 // of the key, where the caller gave none
	owner   *pending

	stage    stage
	resend   bool // was on a channel before, and may have been accepted there
	returned bool // refused on this channel only because the registry is going
	n        uint64

	// The log as known when the key first went out; the same on each resend.
	epoch protocol.EpochID
	head  protocol.Seq
}

// outbox is what one lane has not seen an answer to, in call order.
//
// A publish has one of window places from its admission to its answer, and of
// those at most flight are on the channel. Places of withdrawn publishes that
// were not sent are free at once.
type outbox struct {
	window, flight int

	taken   int // places in use
	waiting fifo
	queued  fifo // unsent
	flying  fifo // sent, by n; answered ones are nil
	first   uint64
	inAir   int // flying without an answer
}

// add takes a new publish and reports whether it has a place.
func (o *outbox) add(e *entry) bool {
	if o.taken >= o.window || o.waiting.len() > 0 {
		e.stage = blocked
		o.waiting.push(e)
		return false
	}
	o.place(e)
	return true
}

func (o *outbox) place(e *entry) {
	e.stage = unsent
	o.taken++
	o.queued.push(e)
}

// admit gives a free place to the first that waits for one, and returns it; nil
// when there is none of either.
func (o *outbox) admit() *entry {
	for o.taken < o.window && o.waiting.len() > 0 {
		if e := o.waiting.pop(); e.stage == blocked {
			o.place(e)
			return e
		}
	}
	return nil
}

// next is the publish to send now; nil when there is none or too many are
// without an answer. The caller sends or withdraws it before it asks again.
func (o *outbox) next() *entry {
	for o.queued.len() > 0 && o.inAir < o.flight {
		if e := o.queued.at(0); e.stage == unsent {
			return e
		}
		o.queued.pop()
	}
	return nil
}

// send puts the publish that next gave on the channel. epoch and head are the
// log as known now.
func (o *outbox) send(e *entry, epoch protocol.EpochID, head protocol.Seq) {
	o.queued.pop()
	if !e.resend {
		e.epoch, e.head = epoch, head
	}
	e.stage = sent
	e.n = o.first + uint64(o.flying.len())
	o.flying.push(e)
	o.inAir++
}

// answer takes the publish with number n off the channel; nil when there is no
// such publish without an answer. A withdrawn one is returned as it is.
func (o *outbox) answer(n uint64) *entry {
	i := n - o.first
	if i >= uint64(o.flying.len()) || o.flying.at(int(i)) == nil {
		return nil
	}
	e := o.flying.at(int(i))
	o.flying.set(int(i), nil)
	for o.flying.len() > 0 && o.flying.at(0) == nil {
		o.flying.pop()
		o.first++
	}
	o.inAir--
	o.taken--
	if e.stage == sent {
		e.stage = finished
	}
	return e
}

// giveBack notes that the registry, about to go, has not taken publish n: it
// goes again on the next channel, in its place. It returns nil as answer does.
func (o *outbox) giveBack(n uint64) *entry {
	i := n - o.first
	if i >= uint64(o.flying.len()) || o.flying.at(int(i)) == nil {
		return nil
	}
	e := o.flying.at(int(i))
	e.returned = true
	return e
}

// settled reports whether nothing on the channel waits for an answer.
func (o *outbox) settled() bool {
	for i := range o.flying.len() {
		if e := o.flying.at(i); e != nil && !e.returned {
			return false
		}
	}
	return true
}

// withdraw gives up a publish that has no answer: what was not sent will not be.
func (o *outbox) withdraw(e *entry) {
	switch e.stage {
	case blocked:
		e.stage = finished
		o.waiting.leave()
	case unsent:
		e.stage = finished
		o.taken--
		o.queued.leave()
	case sent:
		e.stage = withdrawn // its place is the registry's until the answer
	case withdrawn, finished:
	}
}

// left reports whether the registry may have the publish.
func (e *entry) left() bool {
	return e.resend || !e.returned && (e.stage == sent || e.stage == withdrawn)
}

// reset prepares for a new channel: what has no answer goes again, in order and
// before the rest. It returns how many those are.
func (o *outbox) reset() (again int) {
	var all fifo
	for i := range o.flying.len() {
		e := o.flying.at(i)
		switch {
		case e == nil:
		case e.stage == withdrawn:
			e.stage = finished
			o.taken--
		default:
			e.stage, e.resend, e.returned = unsent, e.resend || !e.returned, false
			all.push(e)
			again++
		}
	}
	for o.queued.len() > 0 {
		if e := o.queued.pop(); e.stage == unsent {
			all.push(e)
		}
	}
	o.queued, o.flying = all, fifo{}
	o.first, o.inAir = 1, 0
	return again
}

// all calls f for each publish that has no answer and is not withdrawn.
func (o *outbox) all(f func(*entry)) {
	for _, q := range []*fifo{&o.flying, &o.queued, &o.waiting} {
		for _, e := range slices.Clone(q.all()) { // f may withdraw it
			if e != nil && e.stage != withdrawn && e.stage != finished {
				f(e)
			}
		}
	}
}

// position is where a subscription is in the log.
type position struct {
	source  protocol.Source
	pattern string
	start   protocol.StartKind
	since   protocol.Time

	// epoch is 0 until the registry has accepted the subscription; seq is then
	// how far the log was scanned, and before it where StartAfter begins.
	epoch  protocol.Epoch
	seq    protocol.Seq
	caught bool // has caught up once in this epoch
}

// request is the frame that begins or resumes the subscription.
func (p *position) request() protocol.Subscribe {
	f := protocol.Subscribe{
		Source: p.source, Pattern: p.pattern,
		Start: p.start, Since: p.since,
		After: p.seq, Epoch: p.epoch.ID,
	}
	// The last of each topic, or what is new since a time, is for the history of
	// the beginning: after that nothing may be left out.
	history := p.start == protocol.StartLast || p.start == protocol.StartSince
	if p.epoch.ID != 0 && (p.caught || !history) {
		f.Start, f.Since = protocol.StartAfter, 0
	}
	return f
}

// accepted notes where the registry begins, and reports whether the log is
// another one than before.
func (p *position) accepted(epoch protocol.Epoch, at protocol.Seq) (another bool) {
	switch {
	case p.epoch.ID == 0:
	case p.epoch.ID == epoch.ID:
		at = max(at, p.seq)
	default:
		another = true
		p.caught = true // all of a new log is new
	}
	p.epoch, p.seq = epoch, at
	return another
}

// pass moves the position to seq and reports whether that is ahead of it: what
// is not was handed over before.
func (p *position) pass(seq protocol.Seq) bool {
	if seq <= p.seq {
		return false
	}
	p.seq = seq
	return true
}

// caughtUp notes that all up to seq was scanned.
func (p *position) caughtUp(seq protocol.Seq) {
	p.seq = max(p.seq, seq)
	p.caught = true
}

// fifo is a queue of publishes.
type fifo struct {
	queue[*entry]
	stale int // entries that are finished and only not in front yet
}

func (q *fifo) pop() *entry {
	e := q.queue.pop()
	if e != nil && e.stage == finished && q.stale > 0 {
		q.stale--
	}
	return e
}

// leave notes that an entry in the queue is finished. Once most are, they go.
func (q *fifo) leave() {
	q.stale++
	if 2*q.stale <= q.len() {
		return
	}
	live := fifo{}
	for q.len() > 0 {
		if e := q.pop(); e.stage != finished {
			live.push(e)
		}
	}
	*q = live
}
