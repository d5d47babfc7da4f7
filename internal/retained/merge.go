package retained

import (
	"github.com/pilotgo/pilotgo/protocol"
)

// merge goes through several streams side by side, in log order.
type merge[V Message] struct {
	lanes []lane[V]
	n     int // lanes in the heap; the others are through
}

// lane is one stream of a merge.
type lane[V Message] struct {
	list  *List[protocol.Seq, V]
	at    Place        // next
	order protocol.Seq // the lowest is first in the heap
}

func (m *merge[V]) reset() {
	clear(m.lanes)
	m.lanes = m.lanes[:0]
}

func (m *merge[V]) use(l *List[protocol.Seq, V]) {
	if l.n > 0 {
		m.lanes = append(m.lanes, lane[V]{list: l})
	}
}

// startBehind starts each stream at its first message behind a seq.
func (m *merge[V]) startBehind(after protocol.Seq) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.list.Behind(after)
	}
}

// startLast starts each stream at its last message, if that is behind a seq.
func (m *merge[V]) startLast(after protocol.Seq) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.list.End()
		if r.list.Last().Key() > after {
			r.at = r.list.Back(r.at, 1)
		}
	}
}

// startNewest starts each stream, behind a seq, where the newest messages of all
// streams begin or earlier at its own newest perStream. It reports whether that
// passes over any.
func (m *merge[V]) startNewest(after protocol.Seq, newest, perStream int) (passed bool) {
	total := 0
	for i := range m.lanes {
		r := &m.lanes[i]
		total += r.list.Rest(r.list.Behind(after))
	}
	if total <= newest {
		m.startBehind(after)
		return false
	}
	m.goBack(newest)
	for i := range m.lanes {
		r := &m.lanes[i]
		first := r.list.Behind(after)
		r.at = later(first, earlier(r.at, r.list.Back(r.list.End(), perStream)))
		passed = passed || r.at != first
	}
	return passed
}

// goBack places the streams at the newest n messages of all together.
func (m *merge[V]) goBack(n int) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.list.End()
		r.order = ^r.list.Last().Key() // the latest is first
	}
	m.n = len(m.lanes)
	m.order()
	for ; n > 0 && m.n > 0; n-- {
		r := &m.lanes[0]
		r.at = r.list.Back(r.at, 1)
		if r.at == (Place{}) {
			m.drop()
			continue
		}
		x, _ := r.list.At(r.list.Back(r.at, 1))
		r.order = ^x.Key()
		m.sink(0)
	}
}

// into chooses the messages from where the streams start.
func (m *merge[V]) into(rd *Reading[V]) {
	m.n = 0
	for i := range m.lanes {
		r := &m.lanes[i]
		if x, ok := r.list.At(r.at); ok {
			r.order = x.Key()
			m.lanes[i], m.lanes[m.n] = m.lanes[m.n], m.lanes[i]
			m.n++
		}
	}
	m.order()
	for m.n > 0 {
		r := &m.lanes[0]
		if rd.taker.Take(r.list.one(r.at)) == 0 {
			return
		}
		r.at = r.list.Next(r.at)
		if x, ok := r.list.At(r.at); ok {
			r.order = x.Key()
			m.sink(0)
		} else {
			m.drop()
		}
	}
}

// drop takes the first lane out of the heap.
func (m *merge[V]) drop() {
	m.n--
	m.lanes[0], m.lanes[m.n] = m.lanes[m.n], m.lanes[0]
	m.sink(0)
}

// order makes a heap of the first n lanes.
func (m *merge[V]) order() {
	for i := m.n/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// sink moves a lane down to where it belongs. This is container/heap's, without a
// call for each comparison: a merge does little else.
func (m *merge[V]) sink(i int) {
	h := m.lanes[:m.n]
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if next := least + 1; next < len(h) && h[next].order < h[least].order {
			least = next
		}
		if h[i].order <= h[least].order {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func earlier(a, b Place) Place {
	if a.block < b.block || a.block == b.block && a.at < b.at {
		return a
	}
	return b
}

func later(a, b Place) Place {
	if earlier(a, b) == a {
		return b
	}
	return a
}
