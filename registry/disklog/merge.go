package disklog

import (
	"container/heap"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// merge goes through several streams side by side, in log order.
type merge struct {
	lanes []lane
	n     int // lanes in the heap; the others are through
}

// lane is one stream of a merge.
type lane struct {
	stubs *list[protocol.Seq, *stub]
	at    place        // next
	order protocol.Seq // the lowest is first in the heap
}

var merges = sync.Pool{New: func() any { return &merge{} }}

func newMerge() *merge { return merges.Get().(*merge) }

func (m *merge) release() {
	clear(m.lanes)
	m.lanes = m.lanes[:0]
	merges.Put(m)
}

func (m *merge) use(s *stream) {
	if s.stubs.n > 0 {
		m.lanes = append(m.lanes, lane{stubs: &s.stubs})
	}
}

// startBehind starts each stream at its first message behind a seq.
func (m *merge) startBehind(after protocol.Seq) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.stubs.behind(after)
	}
}

// startLast starts each stream at its last message, if that is behind a seq.
func (m *merge) startLast(after protocol.Seq) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.stubs.end()
		if r.stubs.last().seq > after {
			r.at = r.stubs.back(r.at, 1)
		}
	}
}

// startNewest starts each stream, behind a seq, where the newest messages of all
// streams begin or earlier at its own newest perStream. It reports whether that
// passes over any.
func (m *merge) startNewest(after protocol.Seq, newest, perStream int) (passed bool) {
	total := 0
	for i := range m.lanes {
		r := &m.lanes[i]
		total += r.stubs.rest(r.stubs.behind(after))
	}
	if total <= newest {
		m.startBehind(after)
		return false
	}
	m.goBack(newest)
	for i := range m.lanes {
		r := &m.lanes[i]
		first := r.stubs.behind(after)
		r.at = later(first, earlier(r.at, r.stubs.back(r.stubs.end(), perStream)))
		passed = passed || r.at != first
	}
	return passed
}

// goBack places the streams at the newest n messages of all together.
func (m *merge) goBack(n int) {
	for i := range m.lanes {
		r := &m.lanes[i]
		r.at = r.stubs.end()
		r.order = ^r.stubs.last().seq // the latest is first
	}
	m.n = len(m.lanes)
	heap.Init(m)
	for ; n > 0 && m.n > 0; n-- {
		r := &m.lanes[0]
		r.at = r.stubs.back(r.at, 1)
		if r.at == (place{}) {
			m.drop()
			continue
		}
		x, _ := r.stubs.at(r.stubs.back(r.at, 1))
		r.order = ^x.seq
		heap.Fix(m, 0)
	}
}

// into puts the messages from where the streams start into the reader's page.
func (m *merge) into(rd *reading) {
	m.n = 0
	for i := range m.lanes {
		r := &m.lanes[i]
		if x, ok := r.stubs.at(r.at); ok {
			r.order = x.seq
			m.Swap(i, m.n)
			m.n++
		}
	}
	heap.Init(m)
	for m.n > 0 {
		r := &m.lanes[0]
		x, _ := r.stubs.at(r.at)
		if x.seq > rd.upTo || !rd.add(x) {
			return
		}
		r.at = r.stubs.next(r.at)
		if x, ok := r.stubs.at(r.at); ok {
			r.order = x.seq
			heap.Fix(m, 0)
		} else {
			m.drop()
		}
	}
}

// drop takes the first lane out of the heap.
func (m *merge) drop() {
	m.n--
	m.Swap(0, m.n)
	if m.n > 0 {
		heap.Fix(m, 0)
	}
}

func earlier(a, b place) place {
	if a.block < b.block || a.block == b.block && a.at < b.at {
		return a
	}
	return b
}

func later(a, b place) place {
	if earlier(a, b) == a {
		return b
	}
	return a
}

func (m *merge) Len() int           { return m.n }
func (m *merge) Less(i, j int) bool { return m.lanes[i].order < m.lanes[j].order }
func (m *merge) Swap(i, j int)      { m.lanes[i], m.lanes[j] = m.lanes[j], m.lanes[i] }

// Push and Pop complete heap.Interface; lanes only ever leave by drop.
func (m *merge) Push(any) {}
func (m *merge) Pop() any { return nil }
