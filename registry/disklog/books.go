package disklog

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// books are the writer's accounts of what is retained: they decide what a change
// takes away, before it is written and before readers see it. They are ahead of
// the view by the plans that are on their way, so they look at nothing in it: of
// a stream and of a stub they use what never changes and what is the writer's.
// They are never wound back: when a change could not be written, the log takes
// no other.
type books struct {
	keep    registry.Retention
	topics  map[string]*stream // also those without messages
	direct  map[protocol.NodeID]*stream
	senders map[protocol.NodeID]*account
	largest *ranking                // of senders; nil until the log was first full
	waiting map[protocol.NodeID]int // direct messages by recipient
	charged int64
	n       int
	empty   int // streams without messages

	// As of the last finished plan:
	head      protocol.Seq
	time      protocol.Time
	forgotten protocol.Seq

	ages fifo         // what age has not been looked at
	aged protocol.Seq // the last it has

	remains remains

	plan *plan
}

// plan is what one change does to what the plans before it leave.
//
// Once it is finished, added are the messages that outlast it and removed are
// those that were there before it. So a message that a later plan removes is
// written and shown by the first, and deleted and hidden by the second; one that
// comes and goes in a single plan is never written at all. Whether a stub is gone
// does not tell one from the other, and is for the books alone.
type plan struct {
	added   []*stub
	removed []*stub
	marks   map[*stream]protocol.Seq
	fresh   []*stream
	merged  []*stream // whose mark goes into forgotten

	before    protocol.Seq // the head
	head      protocol.Seq
	time      protocol.Time
	forgotten protocol.Seq
	records   []*registry.Record // of the added
	passing   bool               // some of the added are gone

	now    protocol.Time // by which the age of remains is told
	purge  bool          // nothing of what is removed is to remain
	notes  []note
	sweeps []sweep
}

// ledger is the account of one stream.
type ledger struct {
	shares  map[protocol.NodeID]*share
	bytes   int64
	n       int
	largest *ranking // of shares; nil until the stream was first full
}

func (l *ledger) accounts() iter.Seq[*account] {
	return func(yield func(*account) bool) {
		for _, sh := range l.shares {
			if !yield(&sh.account) {
				return
			}
		}
	}
}

type (
	account = retained.Account[fifo]
	ranking = retained.Ranking[fifo]
)

// share is one sender's part of a stream.
type share struct {
	account
	stream *stream
	owner  *account
	slots  map[string]*stub
}

// open makes the accounts of what the view has, and of the dead whose rows remain.
func (b *books) open(keep registry.Retention, v *view, dead []*stub) {
	*b = books{
		keep: keep.WithDefaults(), topics: maps.Clone(v.Topics), direct: maps.Clone(v.Direct),
		senders: make(map[protocol.NodeID]*account), waiting: make(map[protocol.NodeID]int),
		empty: len(v.Topics) + len(v.Direct),
		head:  v.Head, time: v.Time, forgotten: v.Forgotten,
		remains: newRemains(),
	}
	for _, s := range b.streams() {
		s.Own.marked = s.Evicted
	}
	b.begin()
	for x := range v.All.All() {
		b.enter(x)
		b.remains.put(x)
	}
	b.remains.restore(dead)
}

// begin starts the plan of one change.
func (b *books) begin() {
	b.plan = &plan{
		marks:  make(map[*stream]protocol.Seq),
		before: b.head, head: b.head, time: b.time, forgotten: b.forgotten,
		now: b.time,
	}
}

// add enters a new record, and applies the bounds that it may have passed.
func (b *books) add(r *registry.Record) {
	p := b.plan
	p.head, p.time, p.now = r.Seq, r.Time, r.Time
	x := &stub{
		seq: r.Seq, time: r.Time, stream: b.streamFor(r), slot: r.Slot, sender: r.Sender,
		size: uint32(len(r.Payload)), charge: uint32(retained.Charge(r)),
	}
	p.added = append(p.added, x)
	p.records = append(p.records, r)
	b.enter(x)
	b.trimShare(x.share)
	b.trimStream(x.stream)
	b.trimTotal()
}

func (b *books) streamFor(r *registry.Record) *stream {
	if r.To != 0 {
		if s := b.direct[r.To]; s != nil {
			return s
		}
	} else if s := b.topics[r.Topic]; s != nil {
		return s
	}
	s := newStream(r.Topic, r.To)
	s.Evicted, s.Own.marked = b.forgotten, b.forgotten
	if r.To != 0 {
		b.direct[r.To] = s
	} else {
		b.topics[r.Topic] = s
	}
	b.plan.fresh = append(b.plan.fresh, s)
	b.empty++
	return s
}

// enter counts a stub, and drops the one whose slot it takes.
func (b *books) enter(x *stub) {
	sh := b.shareFor(x.stream, x.sender)
	x.share = sh
	sh.Messages.put(x)
	sh.owner.Messages.put(x)
	b.ages.put(x)
	b.n++
	x.stream.Own.ledger.n++
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
	if s.Own.ledger == nil {
		s.Own.ledger = &ledger{shares: make(map[protocol.NodeID]*share, 1)}
		b.empty--
	}
	sh := s.Own.ledger.shares[sender]
	if sh == nil {
		sh = &share{account: account{ID: sender}, stream: s, owner: b.ownerFor(sender)}
		s.Own.ledger.shares[sender] = sh
		s.Own.ledger.largest.Enter(&sh.account)
	}
	return sh
}

func (b *books) ownerFor(sender protocol.NodeID) *account {
	a := b.senders[sender]
	if a == nil {
		a = &account{ID: sender}
		b.senders[sender] = a
		b.largest.Enter(a)
	}
	return a
}

func (b *books) count(x *stub, sign int64) {
	bytes, l := sign*int64(x.size), x.stream.Own.ledger
	b.charged += sign * int64(x.charge)
	l.bytes += bytes
	x.share.Bytes += bytes
	l.largest.Moved(&x.share.account)
	x.share.owner.Bytes += sign * int64(x.charge)
	if to := x.stream.To; to != 0 {
		if b.waiting[to] += int(sign); b.waiting[to] == 0 {
			delete(b.waiting, to)
		}
	}
	b.largest.Moved(x.share.owner)
}

// evict takes a message out as retention does: its stream remembers.
func (b *books) evict(x *stub) {
	x.stream.Own.marked = max(x.stream.Own.marked, x.seq)
	b.plan.marks[x.stream] = x.stream.Own.marked
	b.remove(x)
}

func (b *books) remove(x *stub) {
	x.gone = true
	if x.seq > b.head {
		b.plan.passing = true
	} else {
		b.plan.removed = append(b.plan.removed, x)
	}
	b.n--
	b.count(x, -1)
	s, sh := x.stream, x.share
	s.Own.ledger.n--
	sh.Messages.left()
	sh.owner.Messages.left()
	if x.seq > b.aged {
		b.ages.left()
	}
	if x.slot != "" && sh.slots[x.slot] == x {
		delete(sh.slots, x.slot)
	}
	if sh.Messages.live == 0 {
		s.Own.ledger.largest.Exit(&sh.account)
		delete(s.Own.ledger.shares, x.sender)
	}
	if sh.owner.Messages.live == 0 {
		b.largest.Exit(sh.owner)
		delete(b.senders, x.sender)
	}
	if s.Own.ledger.n == 0 {
		s.Own.ledger = nil
		b.empty++
	}
}

// trim applies every bound to everything.
func (b *books) trim() {
	for _, s := range b.streams() {
		if s.Own.ledger == nil {
			continue
		}
		for _, sh := range s.Own.ledger.shares {
			b.trimShare(sh)
		}
		b.trimStream(s)
	}
	b.trimTotal()
	b.expire(b.plan.time)
}

func (b *books) streams() []*stream {
	return slices.AppendSeq(slices.Collect(maps.Values(b.topics)), maps.Values(b.direct))
}

func (b *books) trimShare(sh *share) {
	most := b.keep.Messages
	if sh.stream.Versions {
		most = b.keep.Versions
	}
	for sh.Messages.live > most {
		b.evict(sh.Messages.first())
	}
}

func (b *books) trimStream(s *stream) {
	for l := s.Own.ledger; l != nil && l.bytes > b.keep.TopicBytes && l.n > 1; {
		if l.largest == nil {
			l.largest = retained.RankingOf(len(l.shares), l.accounts())
		}
		b.evict(l.largest.First().Messages.first())
	}
}

func (b *books) trimTotal() {
	for b.charged > b.keep.TotalBytes && b.n > 1 {
		if b.largest == nil {
			b.largest = retained.RankingOf(len(b.senders), maps.Values(b.senders))
		}
		b.evict(b.largest.First().Messages.first())
	}
}

// expire evicts what is too old at a time. Messages stand in order of their time,
// so each is looked at once.
func (b *books) expire(now protocol.Time) {
	b.plan.now = max(b.plan.now, now)
	if protocol.Time(b.keep.Age) >= now {
		return
	}
	cutoff := now - protocol.Time(b.keep.Age)
	for x := b.ages.first(); x != nil && x.time < cutoff; x = b.ages.first() {
		b.ages.items[0] = nil
		b.ages.items = b.ages.items[1:]
		b.ages.live--
		b.aged = x.seq
		if !x.stream.Versions {
			b.evict(x)
		}
	}
}

// purge evicts a topic's messages up to a seq.
func (b *books) purge(topic string, upTo protocol.Seq) {
	b.plan.purge = true
	s := b.topics[topic]
	if s == nil || s.Own.ledger == nil {
		return
	}
	for _, sh := range s.Own.ledger.shares {
		for x := sh.Messages.first(); x != nil && x.seq <= upTo; x = sh.Messages.first() {
			b.evict(x)
		}
	}
}

const maxEmpty = 100_000

// finish ends the plan.
func (b *books) finish() *plan {
	p := b.plan
	if p.passing {
		p.dropGone()
	}
	for _, x := range p.added {
		b.remains.put(x)
	}
	b.remains.settle(p)
	if b.empty > maxEmpty {
		b.forget()
	}
	b.head, b.time, b.forgotten = p.head, p.time, p.forgotten
	return p
}

// dropGone leaves among the added those that outlast the plan.
func (p *plan) dropGone() {
	n := 0
	for i, x := range p.added {
		if !x.gone {
			p.added[n], p.records[n] = x, p.records[i]
			n++
		}
	}
	clear(p.added[n:])
	clear(p.records[n:])
	p.added, p.records = p.added[:n], p.records[:n]
}

// forget is for when there are too many streams without messages. The half of
// them with the lowest marks are forgotten: one mark stands for all of them from
// then on, and for every stream not yet known. A reader may be told of a gap
// where there is none, never the other way round.
func (b *books) forget() {
	p := b.plan
	var empty []*stream
	for _, s := range b.streams() {
		if s.Own.ledger == nil {
			empty = append(empty, s)
		}
	}
	slices.SortFunc(empty, func(x, y *stream) int { return cmp.Compare(x.Own.marked, y.Own.marked) })
	p.merged = empty[:len(empty)/2]
	for _, s := range p.merged {
		p.forgotten = max(p.forgotten, s.Own.marked)
		b.empty--
		if s.To != 0 {
			delete(b.direct, s.To)
		} else {
			delete(b.topics, s.Topic)
		}
	}
}

// idle reports that the plan changes nothing.
func (p *plan) idle() bool {
	return len(p.added)+len(p.removed)+len(p.merged)+len(p.sweeps) == 0
}

// apply makes readers see the plan. Those before it have been applied.
func (v *view) apply(p *plan) {
	v.Head, v.Time, v.Forgotten = p.head, p.time, p.forgotten
	for _, s := range p.fresh {
		v.Enter(s)
	}
	for i, x := range p.added {
		v.put(x)
		v.recent.put(x, p.records[i])
	}
	for _, x := range p.removed {
		v.remove(x)
	}
	for s, seq := range p.marks {
		v.Mark(s, seq)
	}
	for _, s := range p.merged {
		v.Leave(s)
	}
}
