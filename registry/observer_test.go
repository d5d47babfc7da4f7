package registry_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// sums are what an observer was told.
type sums struct {
	mu                                  sync.Mutex
	events                              map[registry.EventKind]int
	refused                             []protocol.Code
	published, stored, delivered, bytes int
	answered                            []registry.Op
	lag                                 uint64
	negative                            bool
}

func (s *sums) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sums) observer() *registry.Observer {
	took := func(d time.Duration) { s.negative = s.negative || d < 0 }
	return &registry.Observer{
		Event: func(e registry.Event) {
			s.locked(func() {
				s.events[e.Kind]++
				if e.Err != nil {
					s.refused = append(s.refused, protocol.CodeOf(e.Err))
				}
			})
		},
		Published: func(n int, d time.Duration) { s.locked(func() { s.published += n; took(d) }) },
		Answered: func(op registry.Op, d time.Duration) {
			s.locked(func() { s.answered = append(s.answered, op); took(d) })
		},
		Stored: func(r []*registry.Record, d time.Duration) { s.locked(func() { s.stored += len(r); took(d) }) },
		Delivered: func(n, bytes int, lag uint64) {
			s.locked(func() { s.delivered += n; s.bytes += bytes; s.lag = max(s.lag, lag) })
		},
	}
}

func TestAnObserverIsToldOfAllThatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sums{events: map[registry.EventKind]int{}}
		w := start(t, registry.Options{Observer: s.observer(), Limits: registry.Limits{Payload: 10}})
		defer w.close()
		p := w.join("a")
		p.follow("jobs")
		lane := p.lane(protocol.LaneNormal)
		for i := range 5 {
			lane.send(p.message("jobs", fmt.Sprint(i)))
		}
		lane.send(p.message("jobs", "too long for it"))
		ask[*protocol.InfoState](p, &protocol.GetInfo{ID: 1})
		time.Sleep(time.Second)
		p.close()
		time.Sleep(time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()

		assert.Equal(t, 5, s.published)
		assert.Equal(t, 5, s.stored)
		assert.Equal(t, 5, s.delivered)
		assert.Equal(t, 5, s.bytes)
		assert.Equal(t, []registry.Op{registry.OpGetInfo}, s.answered)
		assert.Contains(t, s.refused, protocol.ErrTooLarge)
		assert.Equal(t, 1, s.events[registry.EventSessionOpened])
		assert.Equal(t, 1, s.events[registry.EventSessionClosed])
		assert.Equal(t, 1, s.events[registry.EventSubscribed])
		assert.Equal(t, 1, s.events[registry.EventUnsubscribed])
		assert.Equal(t, 1, s.events[registry.EventRefused])
		assert.Zero(t, s.events[registry.EventAccepted], "they come in numbers")
		assert.Less(t, s.lag, uint64(5))
		assert.False(t, s.negative)
	})
}
