package disklog

import "container/heap"

// account is what belongs to one sender, in a stream or in the whole log.
type account struct {
	queue fifo
	bytes int64
	rank  int // in a ranking
}

// fifo holds stubs in log order. Those that are gone stay in it until they come
// to the front or are more than the others.
type fifo struct {
	items []*stub
	live  int
}

func (q *fifo) put(x *stub) {
	q.items = append(q.items, x)
	q.live++
}

// first is the oldest that is not gone, nil when there is none.
func (q *fifo) first() *stub {
	for len(q.items) > 0 {
		if !q.items[0].gone {
			return q.items[0]
		}
		q.items[0] = nil
		q.items = q.items[1:]
	}
	return nil
}

// left is told that one of its stubs has gone.
func (q *fifo) left() {
	q.live--
	if len(q.items) <= 2*q.live+32 {
		return
	}
	kept := make([]*stub, 0, q.live+q.live/4)
	for _, x := range q.items {
		if !x.gone {
			kept = append(kept, x)
		}
	}
	q.items = kept
}

// ranking has the account with most bytes first. A nil one is not kept up.
type ranking []*account

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].bytes > r[j].bytes }

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
