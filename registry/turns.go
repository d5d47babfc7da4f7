package registry

import (
	"context"
	"slices"
	"sync"
)

// Units of work that one node has with the sequencer at once, over all its
// sessions; a publish is one, and more when it is large. It is about as much as
// one step stores, so that who comes behind a node that floods waits for a step or
// two, however many sessions that node has. Urgent publishes go before all others,
// so their share is less.
const (
	turnUnits   = gatherItems
	urgentUnits = gatherItems / 4
	unitBytes   = gatherBytes / gatherItems
)

// turns lets so much through at once, in the order in which it came.
type turns struct {
	most int

	mu      sync.Mutex
	used    int
	waiting []*turn
}

type turn struct {
	units int
	mine  chan struct{} // closed when it is this one's turn
}

func newTurns(most int) *turns { return &turns{most: most} }

// units is what a piece of work counts for.
func (t *turns) units(items, bytes int) int {
	return min(t.most, items+bytes/unitBytes)
}

// take waits for so many units, which the caller gives back.
func (t *turns) take(ctx context.Context, units int) error {
	w := t.enter(units)
	if w == nil {
		return nil
	}
	select {
	case <-w.mine:
		return nil
	case <-ctx.Done():
	}
	t.leave(w)
	return context.Cause(ctx)
}

// enter takes the units, or a place in line.
func (t *turns) enter(units int) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 && t.used+units <= t.most {
		t.used += units
		return nil
	}
	w := &turn{units: units, mine: make(chan struct{})}
	t.waiting = append(t.waiting, w)
	return w
}

// leave gives up a place in line, or the units that came at the last moment.
func (t *turns) leave(w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, w); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	} else {
		t.used -= w.units
	}
	t.next()
}

func (t *turns) give(units int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used -= units
	t.next()
}

// next is called under mu.
func (t *turns) next() {
	for len(t.waiting) > 0 && t.used+t.waiting[0].units <= t.most {
		w := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		t.used += w.units
		close(w.mine)
	}
}
