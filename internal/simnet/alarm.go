package simnet

import (
	"sync"
	"time"
)

// alarm calls ring in a goroutine of its own when its time has come. Its
// methods are not safe for concurrent use. pending counts the calls that are to
// come or under way.
type alarm struct {
	ring    func()
	pending *sync.WaitGroup
	timer   *time.Timer
}

// set replaces the time that was set before.
func (a *alarm) set(d time.Duration) {
	switch {
	case a.timer == nil:
		a.pending.Add(1)
		a.timer = time.AfterFunc(d, func() {
			defer a.pending.Done()
			a.ring()
		})
	case !a.timer.Reset(d):
		a.pending.Add(1)
	}
}

func (a *alarm) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.pending.Done()
	}
}
