package memlog

import (
	"container/heap"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// merge reads several streams side by side, in log order.
type merge struct {
	runs []run
	n    int // runs in the heap; the others are through
}

// run is one stream of a merge.
type run struct {
	records *records
	at      place        // next
	order   protocol.Seq // the lowest is first in the heap
}

var merges = sync.Pool{New: func() any { return &merge{} }}

func newMerge() *merge { return merges.Get().(*merge) }

func (m *merge) release() {
	clear(m.runs)
	m.runs = m.runs[:0]
	merges.Put(m)
}

func (m *merge) use(s *stream) {
	if s.records.n > 0 {
		m.runs = append(m.runs, run{records: &s.records})
	}
}

// startBehind starts each stream at its first record behind a seq.
func (m *merge) startBehind(after protocol.Seq) {
	for i := range m.runs {
		r := &m.runs[i]
		r.at = r.records.behind(after)
	}
}

// startLast starts each stream at its last record, if that is behind a seq.
func (m *merge) startLast(after protocol.Seq) {
	for i := range m.runs {
		r := &m.runs[i]
		r.at = r.records.end()
		if r.records.last().key > after {
			r.at = r.records.back(r.at, 1)
		}
	}
}

// startNewest starts each stream, behind a seq, where the newest records of all
// streams begin or earlier at its own newest perStream. It reports whether that
// passes over any.
func (m *merge) startNewest(after protocol.Seq, newest, perStream int) (passed bool) {
	total := 0
	for i := range m.runs {
		r := &m.runs[i]
		total += r.records.rest(r.records.behind(after))
	}
	if total <= newest {
		m.startBehind(after)
		return false
	}
	m.goBack(newest)
	for i := range m.runs {
		r := &m.runs[i]
		first := r.records.behind(after)
		r.at = later(first, earlier(r.at, r.records.back(r.records.end(), perStream)))
		passed = passed || r.at != first
	}
	return passed
}

// goBack places the streams at the newest n records of all together.
func (m *merge) goBack(n int) {
	for i := range m.runs {
		r := &m.runs[i]
		r.at = r.records.end()
		r.order = ^r.records.last().key // the latest is first
	}
	m.n = len(m.runs)
	heap.Init(m)
	for ; n > 0 && m.n > 0; n-- {
		r := &m.runs[0]
		if r.at == (place{}) {
			m.drop()
			n++
			continue
		}
		r.at = r.records.back(r.at, 1)
		if r.at != (place{}) {
			r.order = ^r.records.at(r.records.back(r.at, 1)).key
			heap.Fix(m, 0)
		}
	}
}

// into puts the records from where the streams start into the reader's page.
func (m *merge) into(rd *reader) {
	m.n = 0
	for i := range m.runs {
		r := &m.runs[i]
		if x := r.records.at(r.at); x != nil {
			r.order = x.key
			m.Swap(i, m.n)
			m.n++
		}
	}
	heap.Init(m)
	for m.n > 0 {
		r := &m.runs[0]
		x := r.records.at(r.at)
		if x.key > rd.upTo || !rd.add(x.value) {
			return
		}
		r.at = r.records.next(r.at)
		if x := r.records.at(r.at); x != nil {
			r.order = x.key
			heap.Fix(m, 0)
		} else {
			m.drop()
		}
	}
}

// drop takes the first run out of the heap.
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
func (m *merge) Less(i, j int) bool { return m.runs[i].order < m.runs[j].order }
func (m *merge) Swap(i, j int)      { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }

// Push and Pop complete heap.Interface; runs only ever leave by drop.
func (m *merge) Push(any) {}
func (m *merge) Pop() any { return nil }
