package jetlog

import (
	"slices"
	"sync"
)

// message is one of the stream, as the consumer brings it.
type message struct {
	seq  uint64
	data []byte
}

// queueBytes is how much waits to be taken before the consumer waits.
const queueBytes = 32 << 20

// queue holds what has come and is not taken yet, in stream order.
type queue struct {
	news chan struct{} // a token for the registry when something came
	more chan struct{} // and one for who waits inside

	mu     sync.Mutex
	room   sync.Cond
	closed bool
	passed uint64 // what came up to here is known already
	last   uint64 // of what came
	list   []message
	bytes  int
	awaits []await
}

// await is who waits for what stands up to a sequence.
type await struct {
	seq  uint64
	come chan struct{}
}

func newQueue() *queue {
	q := &queue{news: make(chan struct{}, 1), more: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

// put adds a message, and waits while too much is there.
func (q *queue) put(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > queueBytes && !q.closed && m.seq > q.passed {
		q.room.Wait()
	}
	q.add(m)
}

// insert adds a message at once.
func (q *queue) insert(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(m)
}

func (q *queue) add(m message) {
	if q.closed || m.seq <= max(q.passed, q.last) {
		return
	}
	q.last = m.seq
	q.list = append(q.list, m)
	q.bytes += len(m.data)
	q.reached()
	signal(q.news)
	signal(q.more)
}

// follows is the sequence behind all that came.
func (q *queue) follows() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.passed, q.last) + 1
}

// reaches is closed once all up to a sequence has come.
func (q *queue) reaches(seq uint64) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := await{seq, make(chan struct{})}
	q.awaits = append(q.awaits, a)
	q.reached()
	return a.come
}

func (q *queue) reached() {
	q.awaits = slices.DeleteFunc(q.awaits, func(a await) bool {
		if a.seq > max(q.passed, q.last) {
			return false
		}
		close(a.come)
		return true
	})
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// at is the i-th message that waits.
func (q *queue) at(i int) (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i >= len(q.list) {
		return message{}, false
	}
	return q.list[i], true
}

// pass drops what is up to a sequence, and what comes of that.
func (q *queue) pass(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passed = max(q.passed, seq)
	q.reached()
	for len(q.list) > 0 && q.list[0].seq <= q.passed {
		q.bytes -= len(q.list[0].data)
		q.list[0].data = nil
		q.list = q.list[1:]
	}
	q.room.Broadcast()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
}
