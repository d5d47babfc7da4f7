package disklog

import (
	"cmp"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// books are the writer's accounts of what is retained: they decide what a change
// takes away, before it is written and before readers see it. They are never
// wound back: when a change could not be written, the log takes no other.
type books struct {
	keep    registry.Retention
	view    *view // which only the writer changes, so it reads without a lock
	senders map[protocol.NodeID]*account
	largest *ranking // of senders; nil until the log was first full
	charged int64
	n       int
	empty   int // streams of the view or the plan without messages

	ages fifo         // what age has not been looked at
	aged protocol.Seq // the last it has

	plan *plan
}

// plan is what one change does to the view.
type plan struct {
	added   []*stub
	removed []*stub // may be among the added
	marks   map[*stream]protocol.Seq
	fresh   map[streamID]*stream
	merged  []*stream // whose mark goes into forgotten

	head      protocol.Seq
	time      protocol.Time
	forgotten protocol.Seq
	records   []*registry.Record // of the added
}

// streamID names a topic, or the direct messages to a node.
type streamID struct {
	topic string
	to    protocol.NodeID
}

// ledger is the account of one stream.
type ledger struct {
	shares  map[protocol.NodeID]*share
	bytes   int64
	n       int
	largest *ranking // of shares; nil until the stream was first full
}

// share is one sender's part of a stream.
type share struct {
	account
	stream *stream
	owner  *account
	slots  map[string]*stub
}

// open makes the accounts of what the view has.
func (b *books) open(keep registry.Retention, v *view) {
	*b = books{keep: keep.WithDefaults(), view: v, senders: make(map[protocol.NodeID]*account)}
	b.begin()
	b.empty = len(v.topics) + len(v.direct)
	for p := (place{}); ; p = v.all.next(p) {
		x, ok := v.all.at(p)
		if !ok {
			return
		}
		b.enter(x)
	}
}

// begin starts the plan of one change.
func (b *books) begin() {
	b.plan = &plan{
		marks: make(map[*stream]protocol.Seq), fresh: make(map[streamID]*stream),
		head: b.view.head, time: b.view.time, forgotten: b.view.forgotten,
	}
}

// add enters a new record, and applies the bounds that it may have passed.
func (b *books) add(r *registry.Record) {
	p := b.plan
	p.head, p.time = r.Seq, r.Time
	x := &stub{
		seq: r.Seq, time: r.Time, stream: b.streamFor(r), slot: r.Slot, sender: r.Sender,
		size: uint32(len(r.Payload)), charge: chargeOf(r),
	}
	p.added = append(p.added, x)
	p.records = append(p.records, r)
	b.enter(x)
	b.trimShare(x.share)
	b.trimStream(x.stream)
	b.trimTotal()
}

func (b *books) streamFor(r *registry.Record) *stream {
	if s := b.view.stream(r.Topic, r.To); s != nil {
		return s
	}
	id := streamID{r.Topic, r.To}
	s := b.plan.fresh[id]
	if s == nil {
		s = newStream(r.Topic, r.To)
		s.evicted = b.plan.forgotten
		b.plan.fresh[id] = s
		b.empty++
	}
	return s
}

// enter counts a stub, and drops the one whose slot it takes.
func (b *books) enter(x *stub) {
	sh := b.shareFor(x.stream, x.sender)
	x.share = sh
	sh.queue.put(x)
	sh.owner.queue.put(x)
	b.ages.put(x)
	b.n++
	x.stream.ledger.n++
	b.count(x, 1)
	if x.slot == "" {
		return
	}
	replaced := sh.slots[x.slot]
	if sh.slots == nil {
		sh.slots = make(map[string]*stub)
	}
	sh.slots[x.slot] = x
	if replaced != nil {
		b.remove(replaced)
	}
}

func (b *books) shareFor(s *stream, sender protocol.NodeID) *share {
	if s.ledger == nil {
		s.ledger = &ledger{shares: make(map[protocol.NodeID]*share, 1)}
		b.empty--
	}
	sh := s.ledger.shares[sender]
	if sh == nil {
		sh = &share{stream: s, owner: b.ownerFor(sender)}
		s.ledger.shares[sender] = sh
		s.ledger.largest.enter(&sh.account)
	}
	return sh
}

func (b *books) ownerFor(sender protocol.NodeID) *account {
	a := b.senders[sender]
	if a == nil {
		a = &account{}
		b.senders[sender] = a
		b.largest.enter(a)
	}
	return a
}

func (b *books) count(x *stub, sign int64) {
	bytes, l := sign*int64(x.size), x.stream.ledger
	b.charged += sign * int64(x.charge)
	l.bytes += bytes
	x.share.bytes += bytes
	l.largest.moved(&x.share.account)
	x.share.owner.bytes += sign * int64(x.charge)
	b.largest.moved(x.share.owner)
}

// evict takes a message out as retention does: its stream remembers.
func (b *books) evict(x *stub) {
	b.plan.marks[x.stream] = max(b.plan.marks[x.stream], x.stream.evicted, x.seq)
	b.remove(x)
}

func (b *books) remove(x *stub) {
	x.gone = true
	b.plan.removed = append(b.plan.removed, x)
	b.n--
	b.count(x, -1)
	s, sh := x.stream, x.share
	s.ledger.n--
	sh.queue.left()
	sh.owner.queue.left()
	if x.seq > b.aged {
		b.ages.left()
	}
	if x.slot != "" && sh.slots[x.slot] == x {
		delete(sh.slots, x.slot)
	}
	if sh.queue.live == 0 {
		s.ledger.largest.exit(&sh.account)
		delete(s.ledger.shares, x.sender)
	}
	if sh.owner.queue.live == 0 {
		b.largest.exit(sh.owner)
		delete(b.senders, x.sender)
	}
	if s.ledger.n == 0 {
		s.ledger = nil
		b.empty++
	}
}

// trim applies every bound to everything.
func (b *books) trim() {
	for _, s := range b.view.streams() {
		if s.ledger == nil {
			continue
		}
		for _, sh := range s.ledger.shares {
			b.trimShare(sh)
		}
		b.trimStream(s)
	}
	b.trimTotal()
	b.expire(b.plan.time)
}

// streams lists all of the view.
func (v *view) streams() []*stream {
	all := make([]*stream, 0, len(v.topics)+len(v.direct))
	for _, s := range v.topics {
		all = append(all, s)
	}
	for _, s := range v.direct {
		all = append(all, s)
	}
	return all
}

func (b *books) trimShare(sh *share) {
	most := b.keep.Messages
	if sh.stream.versions {
		most = b.keep.Versions
	}
	for sh.queue.live > most {
		b.evict(sh.queue.first())
	}
}

func (b *books) trimStream(s *stream) {
	for l := s.ledger; l != nil && l.bytes > b.keep.TopicBytes && l.n > 1; {
		if l.largest == nil {
			l.largest = rankingOf(len(l.shares), func(put func(*account)) {
				for _, sh := range l.shares {
					put(&sh.account)
				}
			})
		}
		b.evict((*l.largest)[0].queue.first())
	}
}

func (b *books) trimTotal() {
	for b.charged > b.keep.TotalBytes && b.n > 1 {
		if b.largest == nil {
			b.largest = rankingOf(len(b.senders), func(put func(*account)) {
				for _, a := range b.senders {
					put(a)
				}
			})
		}
		b.evict((*b.largest)[0].queue.first())
	}
}

// expire evicts what is too old at a time. Messages stand in order of their time,
// so each is looked at once.
func (b *books) expire(now protocol.Time) {
	if protocol.Time(b.keep.Age) >= now {
		return
	}
	cutoff := now - protocol.Time(b.keep.Age)
	for x := b.ages.first(); x != nil && x.time < cutoff; x = b.ages.first() {
		b.ages.items[0] = nil
		b.ages.items = b.ages.items[1:]
		b.ages.live--
		b.aged = x.seq
		if !x.stream.versions {
			b.evict(x)
		}
	}
}

// purge evicts a topic's messages up to a seq.
func (b *books) purge(topic string, upTo protocol.Seq) {
	s := b.view.topics[topic]
	if s == nil {
		return
	}
	for p := (place{}); ; p = s.stubs.next(p) {
		x, ok := s.stubs.at(p)
		if !ok || x.seq > upTo {
			return
		}
		b.evict(x)
	}
}

const maxEmpty = 100_000

// finish ends the plan. When there are too many streams without messages, the
// half of them with the lowest marks are forgotten: one mark stands for all of
// them from then on, and for every stream not yet known. A reader may be told of
// a gap where there is none, never the other way round.
func (b *books) finish() *plan {
	p := b.plan
	if b.empty <= maxEmpty {
		return p
	}
	var empty []*stream
	for _, s := range b.view.streams() {
		if s.ledger == nil {
			empty = append(empty, s)
		}
	}
	mark := func(s *stream) protocol.Seq { return max(s.evicted, p.marks[s]) }
	slices.SortFunc(empty, func(x, y *stream) int { return cmp.Compare(mark(x), mark(y)) })
	p.merged = empty[:len(empty)/2]
	for _, s := range p.merged {
		p.forgotten = max(p.forgotten, mark(s))
		b.empty--
	}
	return p
}

// idle reports that the plan changes nothing.
func (p *plan) idle() bool { return len(p.added)+len(p.removed)+len(p.merged) == 0 }

// apply makes readers see the plan.
func (v *view) apply(p *plan) {
	before := v.head
	v.head, v.time, v.forgotten = p.head, p.time, p.forgotten
	for _, s := range p.fresh {
		v.enter(s)
	}
	for i, x := range p.added {
		if !x.gone {
			v.put(x)
			v.recent.put(x, p.records[i])
		}
	}
	for _, x := range p.removed {
		if x.seq <= before {
			v.remove(x)
		}
	}
	for s, seq := range p.marks {
		v.mark(s, seq)
	}
	for _, s := range p.merged {
		v.leave(s)
	}
}
