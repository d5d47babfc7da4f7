package memlog

import (
	"container/heap"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

type records = list[protocol.Seq, *registry.Record]

// stream is what is retained of one topic, or of the direct messages to one node.
type stream struct {
	topic    string
	to       protocol.NodeID
	versions bool // a swarm's config: kept by number, not by age

	records records
	shares  map[protocol.NodeID]*share
	bytes   int64
	largest *ranking // of shares; nil until the stream was first full

	// evicted is the mark: the highest seq that retention or a purge took, from
	// whichever sender. A selection has no senders, so it needs no mark of each.
	evicted protocol.Seq
}

// share is one sender's part of a stream.
type share struct {
	account
	slots map[string]*registry.Record
}

// account is what belongs to one sender, in a stream or in the whole log.
type account struct {
	id      protocol.NodeID
	records records
	bytes   int64
	rank    int // in a ranking
}

func (s *stream) stats() registry.TopicStats {
	t := registry.TopicStats{Topic: s.topic, Messages: s.records.n, Bytes: s.bytes}
	if s.records.n > 0 {
		t.First, t.Last = s.records.first().key, s.records.last().key
	}
	return t
}

// ranking has the account with most bytes first; of two equal ones that with the
// lower id, so that the same log loses the same messages everywhere.
type ranking []*account

func (r ranking) Len() int { return len(r) }

func (r ranking) Less(i, j int) bool {
	if r[i].bytes != r[j].bytes {
		return r[i].bytes > r[j].bytes
	}
	return r[i].id < r[j].id
}

func (r ranking) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

// Push implements heap.Interface.
func (r *ranking) Push(x any) {
	a := x.(*account)
	a.rank = len(*r)
	*r = append(*r, a)
}

// Pop implements heap.Interface.
func (r *ranking) Pop() any {
	last := len(*r) - 1
	a := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return a
}

func rankingOf(n int, each func(func(*account))) *ranking {
	r := make(ranking, 0, n)
	each(func(a *account) { r.Push(a) })
	heap.Init(&r)
	return &r
}

// A nil ranking is not kept up.

func (r *ranking) enter(a *account) {
	if r != nil {
		heap.Push(r, a)
	}
}

func (r *ranking) moved(a *account) {
	if r != nil {
		heap.Fix(r, a.rank)
	}
}

func (r *ranking) exit(a *account) {
	if r != nil {
		heap.Remove(r, a.rank)
	}
}
