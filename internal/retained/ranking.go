package retained

import (
	"container/heap"
	"iter"

	"github.com/pilotgo/pilotgo/protocol"
)

// Account is what belongs to one sender, in a stream or in the whole log: Q is
// the messages. Rankings that it is in are told when Bytes has changed.
type Account[Q any] struct {
	ID       protocol.NodeID
	Messages Q
	Bytes    int64
	rank     int
}

// Ranking has the account with most bytes first; of two equal ones that with the
// lower id, so that the same log loses the same messages everywhere. A nil one is
// not kept up: most logs are never full.
type Ranking[Q any] struct{ heap accounts[Q] }

// RankingOf ranks n accounts.
func RankingOf[Q any](n int, each iter.Seq[*Account[Q]]) *Ranking[Q] {
	r := &Ranking[Q]{make(accounts[Q], 0, n)}
	for a := range each {
		r.heap.Push(a)
	}
	heap.Init(&r.heap)
	return r
}

// First is for rankings that have accounts.
func (r *Ranking[Q]) First() *Account[Q] { return r.heap[0] }

// Len is how many accounts there are.
func (r *Ranking[Q]) Len() int { return len(r.heap) }

// Enter adds an account.
func (r *Ranking[Q]) Enter(a *Account[Q]) {
	if r != nil {
		heap.Push(&r.heap, a)
	}
}

// Moved is told that the bytes of an account have changed.
func (r *Ranking[Q]) Moved(a *Account[Q]) {
	if r != nil {
		heap.Fix(&r.heap, a.rank)
	}
}

// Exit takes an account out.
func (r *Ranking[Q]) Exit(a *Account[Q]) {
	if r != nil {
		heap.Remove(&r.heap, a.rank)
	}
}

type accounts[Q any] []*Account[Q]

func (h accounts[Q]) Len() int { return len(h) }

func (h accounts[Q]) Less(i, j int) bool {
	if h[i].Bytes != h[j].Bytes {
		return h[i].Bytes > h[j].Bytes
	}
	return h[i].ID < h[j].ID
}

func (h accounts[Q]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rank, h[j].rank = i, j
}

// Push implements heap.Interface.
func (h *accounts[Q]) Push(x any) {
	a := x.(*Account[Q])
	a.rank = len(*h)
	*h = append(*h, a)
}

// Pop implements heap.Interface.
func (h *accounts[Q]) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
