package jetlog

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Of registries that write without a pause the one next to the stream's leader
// would be first every time. So one that was not first twice in a row asks the
// others, by a plain NATS message, to let it pass: each holds back its next batch
// until it sees one of another, and not for long.
type courtesy struct {
	id   id  // of this registry, to know its own messages
	lost int // batches in a row that were not first; by who has Log.mu

	mu    sync.Mutex
	until time.Time // hold back the next batch until then
}

// longestPause bounds what another registry can ask for.
const longestPause = 250 * time.Millisecond

func (l *Log) pauseSubject() string { return l.logName() + ".pause" }

// listen hears of registries that ask to pass. The subscription ends with the
// connection.
func (l *Log) listen() error {
	l.courtesy.id = newID()
	_, err := l.nc.Subscribe(l.pauseSubject(), func(m *nats.Msg) {
		if len(m.Data) < 24 || id(m.Data[:16]) == l.courtesy.id {
			return
		}
		pause := time.Duration(min(binary.BigEndian.Uint64(m.Data[16:]), uint64(longestPause)))
		l.courtesy.mu.Lock()
		defer l.courtesy.mu.Unlock()
		l.courtesy.until = time.Now().Add(pause)
	})
	return err
}

// ask asks the others to let this registry pass, which found out in so much time
// that it was not first.
func (l *Log) ask(took time.Duration) {
	c := &l.courtesy
	if c.lost++; c.lost < 2 {
		return
	}
	m := append([]byte(nil), c.id[:]...)
	m = binary.BigEndian.AppendUint64(m, uint64(2*took+5*time.Millisecond))
	_ = l.nc.Publish(l.pauseSubject(), m) // it is only a wish
}

// letPass holds back a batch where another registry has asked for it. Who was
// not first itself does not: all would wait for each other.
func (l *Log) letPass() {
	c := &l.courtesy
	c.mu.Lock()
	until := c.until
	c.until = time.Time{}
	c.mu.Unlock()
	if c.lost > 0 {
		return
	}
	for d := time.Until(until); d > 0; d = time.Until(until) {
		if m, ok := l.queue.at(0); ok && m.seq > l.pos {
			return
		}
		if l.ctx.Err() != nil {
			return
		}
		l.wait(d)
	}
}
