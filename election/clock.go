package election

import (
	"sync/atomic"
	"time"
)

// newClock is a clock for deadlines: Go's monotonic one, which is virtual where
// time is, and what the machine has slept since, which that leaves out.
func newClock() func() time.Duration {
	start := time.Now()
	slept := sleep{read: suspended}
	slept.begin()
	return func() time.Duration { return time.Since(start) + slept.since() }
}

// sleep is how long the machine was suspended.
type sleep struct {
	read  func() (time.Duration, bool)
	first time.Duration
	most  atomic.Int64
}

// napSize is what two readings of the system's clocks may differ by without a
// suspend between them. Suspends below it are not noticed; timings allow for it.
const napSize = time.Millisecond

func (s *sleep) begin() {
	for range 100 {
		var ok bool
		if s.first, ok = s.read(); ok {
			return
		}
	}
	s.read = func() (time.Duration, bool) { return 0, false } // there is nothing to compare with
}

// since is how long it was since begin. It never goes back.
func (s *sleep) since() time.Duration {
	total, ok := s.read()
	for ok {
		most := s.most.Load()
		if d := total - s.first; d <= time.Duration(most)+napSize || s.most.CompareAndSwap(most, int64(d)) {
			break
		}
	}
	return time.Duration(s.most.Load())
}
