package client

// queue is a row of things, first in, first out, in one slice.
type queue[T any] struct {
	list []T
	head int
}

func (q *queue[T]) len() int       { return len(q.list) - q.head }
func (q *queue[T]) at(i int) T     { return q.list[q.head+i] }
func (q *queue[T]) set(i int, v T) { q.list[q.head+i] = v }
func (q *queue[T]) all() []T       { return q.list[q.head:] }

func (q *queue[T]) push(v T) {
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

func (q *queue[T]) pop() T {
	var none T
	v := q.list[q.head]
	q.list[q.head] = none
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return v
}
