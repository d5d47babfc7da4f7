package disklog

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

// last is the newest that is not gone. There is one.
func (q *fifo) last() *stub {
	i := len(q.items) - 1
	for q.items[i].gone {
		i--
	}
	return q.items[i]
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
