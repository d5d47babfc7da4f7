package election

import (
	"context"
	"iter"
	"time"
)

// Observation is what there was to see of a group's leader from a moment on.
type Observation struct {
	View
	Change Change    // against the observation before
	At     time.Time // when it was seen, by Options.WallClock
}

// Observe yields what is to be seen now, then each change. Until the member has read
// what is retained, a leadership that ended tells nothing: the next one may follow, and
// without a leader the reason is ReasonUnknown. A slow reader misses
// what is over by the time it asks, and always comes to see what is true; Change
// is against what it saw before. When ctx ends, and when the member has ended, the
// error is yielded last.
func (m *Member) Observe(ctx context.Context) iter.Seq2[Observation, error] {
	return func(yield func(Observation, error) bool) {
		var before *Observation
		for {
			now, changed, err := m.sight()
			if before == nil || now.View != before.View {
				if before == nil {
					before = &Observation{}
				}
				now.Change = changeOf(before.View, now.View)
				before = &now
				if !yield(now, nil) {
					return
				}
				continue
			}
			if err != nil {
				yield(Observation{}, err)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Observation{}, ctx.Err())
				return
			}
		}
	}
}

// sight is what is seen now, what is closed when that changes, and why nothing
// more will be seen.
func (m *Member) sight() (Observation, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.record.seen
	if !m.record.read && now.Leader == "" {
		now.View = View{}
	}
	if m.over {
		return now, m.record.changed, m.ending
	}
	return now, m.record.changed, nil
}
