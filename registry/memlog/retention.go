package memlog

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// charge is what a record counts against Retention.TotalBytes. Long names are
// beyond the overhead: each is there twice, in the frame and beside it.
func charge(r *registry.Record) int64 {
	names := len(r.Topic)
	for i := range r.Fences {
		names += len(r.Fences[i].Topic)
	}
	return int64(len(r.Payload) + max(registry.RecordOverhead, registry.RecordOverhead/2+2*names))
}

// add stores one record and applies the bounds that it may have passed.
func (l *Log) add(r *registry.Record) {
	l.head, l.time = r.Seq, r.Time
	s := l.streamFor(r)
	sh := l.shareFor(s, r.Sender)
	sender := l.senderFor(r.Sender)

	l.all.put(r.Seq, r)
	s.records.put(r.Seq, r)
	sh.records.put(r.Seq, r)
	sender.records.put(r.Seq, r)
	l.addKey(r)
	l.count(s, sh, sender, r, 1)

	if r.Slot != "" {
		replaced := sh.slots[r.Slot]
		if sh.slots == nil {
			sh.slots = make(map[string]*registry.Record)
		}
		sh.slots[r.Slot] = r
		if replaced != nil {
			l.remove(s, sh, replaced)
		}
	}
	l.trimShare(s, sh)
	l.trimStream(s)
	l.trimTotal()
}

func (l *Log) count(s *stream, sh *share, sender *account, r *registry.Record, sign int64) {
	bytes := sign * int64(len(r.Payload))
	l.bytes += bytes
	l.charged += sign * charge(r)
	s.bytes += bytes
	sh.bytes += bytes
	s.largest.moved(&sh.account)
	sender.bytes += sign * charge(r)
	l.largest.moved(sender)
}

func (l *Log) streamFor(r *registry.Record) *stream {
	s := l.streamOf(r)
	switch {
	case s == nil:
		s = &stream{topic: r.Topic, to: r.To, versions: registry.HasVersions(r.Topic), evicted: l.forgotten}
		if s.to != 0 {
			l.direct[s.to] = s
		} else {
			l.topics[s.topic] = s
			l.names.put(s.topic, s)
		}
	case s.records.n == 0:
		l.empty--
	default:
		return s
	}
	s.shares = make(map[protocol.NodeID]*share, 1)
	if s.to == 0 {
		l.filled++
	}
	return s
}

func (l *Log) streamOf(r *registry.Record) *stream {
	if r.To != 0 {
		return l.direct[r.To]
	}
	return l.topics[r.Topic]
}

func (l *Log) shareFor(s *stream, sender protocol.NodeID) *share {
	sh := s.shares[sender]
	if sh == nil {
		sh = &share{account: account{id: sender}}
		s.shares[sender] = sh
		s.largest.enter(&sh.account)
	}
	return sh
}

func (l *Log) senderFor(id protocol.NodeID) *account {
	a := l.senders[id]
	if a == nil {
		a = &account{id: id}
		l.senders[id] = a
		l.largest.enter(a)
	}
	return a
}

// evict takes a record out as retention does: its stream remembers.
func (l *Log) evict(r *registry.Record) {
	s := l.streamOf(r)
	s.evicted = max(s.evicted, r.Seq)
	if s.to == 0 {
		l.evicted = max(l.evicted, r.Seq)
	}
	l.remove(s, s.shares[r.Sender], r)
}

func (l *Log) remove(s *stream, sh *share, r *registry.Record) {
	sender := l.senders[r.Sender]
	l.all.remove(r.Seq)
	s.records.remove(r.Seq)
	sh.records.remove(r.Seq)
	sender.records.remove(r.Seq)
	l.count(s, sh, sender, r, -1)
	if r.Slot != "" && sh.slots[r.Slot] == r {
		delete(sh.slots, r.Slot)
	}
	if sh.records.n == 0 {
		s.largest.exit(&sh.account)
		delete(s.shares, r.Sender)
	}
	if sender.records.n == 0 {
		l.largest.exit(sender)
		delete(l.senders, r.Sender)
	}
	if s.records.n == 0 {
		l.emptied(s)
	}
}

// emptied keeps a stream without records for its mark.
func (l *Log) emptied(s *stream) {
	if s.to == 0 {
		l.filled--
	}
	s.shares, s.largest = nil, nil
	l.empty++
	if l.empty > maxEmpty {
		l.mergeMarks()
	}
}

const maxEmpty = 100_000

// mergeMarks forgets the half of the empty streams with the lowest marks. One
// mark stands for all of them from then on, and for every stream not yet known:
// a reader may be told of a gap where there is none, never the other way round.
func (l *Log) mergeMarks() {
	var empty []*stream
	for s := range l.streams() {
		if s.records.n == 0 {
			empty = append(empty, s)
		}
	}
	slices.SortFunc(empty, func(a, b *stream) int { return cmp.Compare(a.evicted, b.evicted) })
	for _, s := range empty[:len(empty)/2] {
		l.forgotten = max(l.forgotten, s.evicted)
		l.empty--
		if s.to != 0 {
			delete(l.direct, s.to)
		} else {
			delete(l.topics, s.topic)
			l.names.remove(s.topic)
		}
	}
}

// trim applies every bound to everything.
func (l *Log) trim() {
	for s := range l.streams() {
		for _, sh := range s.shares {
			l.trimShare(s, sh)
		}
		l.trimStream(s)
	}
	l.trimTotal()
	l.expire(l.time)
}

func (l *Log) trimShare(s *stream, sh *share) {
	most := l.keep.Messages
	if s.versions {
		most = l.keep.Versions
	}
	for sh.records.n > most {
		l.evict(sh.records.first().value)
	}
}

func (l *Log) trimStream(s *stream) {
	for s.bytes > l.keep.TopicBytes && s.records.n > 1 {
		if s.largest == nil {
			s.largest = rankingOf(len(s.shares), func(put func(*account)) {
				for _, sh := range s.shares {
					put(&sh.account)
				}
			})
		}
		l.evict((*s.largest)[0].records.first().value)
	}
}

func (l *Log) trimTotal() {
	for l.charged > l.keep.TotalBytes && l.all.n > 1 {
		if l.largest == nil {
			l.largest = rankingOf(len(l.senders), func(put func(*account)) {
				for _, a := range l.senders {
					put(a)
				}
			})
		}
		l.evict((*l.largest)[0].records.first().value)
	}
}

// expire evicts what is too old at a time. Records stand in order of their time,
// so each is looked at once.
func (l *Log) expire(now protocol.Time) {
	if protocol.Time(l.keep.Age) >= now {
		return
	}
	cutoff := now - protocol.Time(l.keep.Age)
	for x := l.all.at(l.all.behind(l.aged)); x != nil && x.value.Time < cutoff; x = l.all.at(l.all.behind(l.aged)) {
		l.aged = x.key
		if !l.streamOf(x.value).versions {
			l.evict(x.value)
		}
	}
}

func (l *Log) streams() iter.Seq[*stream] {
	return func(yield func(*stream) bool) {
		for s := range maps.Values(l.topics) {
			if !yield(s) {
				return
			}
		}
		maps.Values(l.direct)(yield)
	}
}
