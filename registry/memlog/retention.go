package memlog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// add stores one record and applies the bounds that it may have passed.
func (l *Log) add(r *registry.Record) {
	l.view.Head, l.view.Time = r.Seq, r.Time
	s := l.streamFor(r)
	sh := l.shareFor(s, r.Sender)
	sender := l.senderFor(r.Sender)

	x := message{r.Seq, r}
	l.view.Put(s, x)
	sh.Messages.Put(x)
	sender.Messages.Put(x)
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
	charge := sign * retained.Charge(r)
	l.charged += charge
	sh.Bytes += sign * int64(len(r.Payload))
	s.Own.largest.Moved(&sh.account)
	sender.Bytes += charge
	l.largest.Moved(sender)
}

func (l *Log) streamFor(r *registry.Record) *stream {
	s := l.view.Stream(r.Topic, r.To)
	switch {
	case s == nil:
		s = retained.NewStream[message, holdings](r.Topic, r.To)
		s.Evicted = l.view.Forgotten
		l.view.Enter(s)
	case s.Messages.Len() == 0:
		l.empty--
	default:
		return s
	}
	s.Own.shares = make(map[protocol.NodeID]*share, 1)
	return s
}

func (l *Log) shareFor(s *stream, sender protocol.NodeID) *share {
	sh := s.Own.shares[sender]
	if sh == nil {
		sh = &share{account: account{ID: sender}}
		s.Own.shares[sender] = sh
		s.Own.largest.Enter(&sh.account)
	}
	return sh
}

func (l *Log) senderFor(id protocol.NodeID) *account {
	a := l.senders[id]
	if a == nil {
		a = &account{ID: id}
		l.senders[id] = a
		l.largest.Enter(a)
	}
	return a
}

// evict takes a record out as retention does: its stream remembers.
func (l *Log) evict(r *registry.Record) {
	s := l.view.Stream(r.Topic, r.To)
	l.view.Mark(s, r.Seq)
	l.remove(s, s.Own.shares[r.Sender], r)
}

func (l *Log) remove(s *stream, sh *share, r *registry.Record) {
	sender := l.senders[r.Sender]
	l.view.Remove(s, message{r.Seq, r})
	sh.Messages.Remove(r.Seq)
	sender.Messages.Remove(r.Seq)
	l.count(s, sh, sender, r, -1)
	if r.Slot != "" && sh.slots[r.Slot] == r {
		delete(sh.slots, r.Slot)
	}
	if sh.Messages.Len() == 0 {
		s.Own.largest.Exit(&sh.account)
		delete(s.Own.shares, r.Sender)
	}
	if sender.Messages.Len() == 0 {
		l.largest.Exit(sender)
		delete(l.senders, r.Sender)
	}
	if s.Messages.Len() == 0 {
		l.emptied(s)
	}
}

// emptied keeps a stream without records for its mark.
func (l *Log) emptied(s *stream) {
	s.Own = holdings{}
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
	for s := range l.view.Streams() {
		if s.Messages.Len() == 0 {
			empty = append(empty, s)
		}
	}
	slices.SortFunc(empty, func(a, b *stream) int { return cmp.Compare(a.Evicted, b.Evicted) })
	for _, s := range empty[:len(empty)/2] {
		l.view.Forgotten = max(l.view.Forgotten, s.Evicted)
		l.view.Leave(s)
		l.empty--
	}
}

// trim applies every bound to everything.
func (l *Log) trim() {
	for s := range l.view.Streams() {
		for _, sh := range s.Own.shares {
			l.trimShare(s, sh)
		}
		l.trimStream(s)
	}
	l.trimTotal()
	l.expire(l.view.Time)
}

func (l *Log) trimShare(s *stream, sh *share) {
	most := l.keep.Messages
	if s.Versions {
		most = l.keep.Versions
	}
	for sh.Messages.Len() > most {
		l.evict(sh.Messages.First().record)
	}
}

func (l *Log) trimStream(s *stream) {
	for s.Bytes > l.keep.TopicBytes && s.Messages.Len() > 1 {
		if s.Own.largest == nil {
			s.Own.largest = retained.RankingOf(len(s.Own.shares), s.Own.accounts())
		}
		l.evict(s.Own.largest.First().Messages.First().record)
	}
}

func (l *Log) trimTotal() {
	for l.charged > l.keep.TotalBytes && l.view.All.Len() > 1 {
		if l.largest == nil {
			l.largest = retained.RankingOf(len(l.senders), maps.Values(l.senders))
		}
		l.evict(l.largest.First().Messages.First().record)
	}
}

// expire evicts what is too old at a time. Records stand in order of their time,
// so each is looked at once.
func (l *Log) expire(now protocol.Time) {
	if protocol.Time(l.keep.Age) >= now {
		return
	}
	cutoff := now - protocol.Time(l.keep.Age)
	all := &l.view.All
	for x, ok := all.At(all.Behind(l.aged)); ok && x.At() < cutoff; x, ok = all.At(all.Behind(l.aged)) {
		l.aged = x.seq
		if !l.view.Stream(x.Place()).Versions {
			l.evict(x.record)
		}
	}
}
