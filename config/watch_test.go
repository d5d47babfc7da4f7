package config_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

type watching struct {
	mu   sync.Mutex
	seen []string
}

// watch notes what a watcher sees, until the test ends.
func watch(t *testing.T, s *config.Swarm) *watching {
	t.Helper()
	w := &watching{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for e, err := range s.Watch(ctx) {
			if err != nil {
				done <- err
				return
			}
			w.note(e)
		}
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	return w
}

func (w *watching) note(e config.WatchEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := e.Kind.String()
	switch {
	case e.Document != nil && e.Document.Staged:
		text += fmt.Sprintf(" staged %d", e.Document.Version)
	case e.Document != nil:
		text += fmt.Sprintf(" %d", e.Document.Version)
	case e.Kind == config.WatchGap:
		text += fmt.Sprintf(" %d-%d", e.From, e.To)
	}
	w.seen = append(w.seen, text)
}

func (w *watching) took() string {
	settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.seen, ", ")
	w.seen = nil
	return text
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		early := watch(t, join(t, reg, "early"))
		require.Equal(t, "snapshot", early.took())
		publish(t, s, 1, `{}`)
		publish(t, s, 2, `{}`)
		require.Equal(t, "update 1, update 2", early.took())
		late := watch(t, join(t, reg, "late"))
		require.Equal(t, "snapshot 2", late.took())

		reg.Partition("late", fakeregistry.Host)
		publish(t, s, 3, `{}`)
		publish(t, s, 4, `{}`)
		pass(time.Minute)
		reg.HealAll()
		pass(10 * time.Second)
		require.Equal(t, "update 3, update 4", late.took(), "nothing was lost")

		reg.RestartEmpty()
		pass(10 * time.Second)
		require.Equal(t, "new epoch, snapshot", late.took())
		publish(t, s, 5, `{}`)
		require.Equal(t, "update 5", late.took())
	})
}

// H10: the gap, the newest, then what comes.
func TestWatchOverAGap(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{Versions: 50}}, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		fresh := watch(t, join(t, reg, "fresh")) // has no event yet
		require.Equal(t, "snapshot", fresh.took())
		reg.Partition("fresh", fakeregistry.Host)
		for v := uint64(1); v <= 10; v++ {
			publish(t, s, v, `{}`)
		}
		old := watch(t, join(t, reg, "old"))
		require.Equal(t, "snapshot 10", old.took())
		reg.Partition("old", fakeregistry.Host)
		for v := uint64(11); v <= 510; v++ {
			publish(t, s, v, `{}`)
		}
		pass(time.Minute)
		reg.HealAll()
		pass(time.Minute)
		require.Equal(t, "gap 11-460, snapshot 510", old.took())
		require.Equal(t, "gap 1-460, snapshot 510", fresh.took())
		publish(t, s, 511, `{}`)
		require.Equal(t, "update 511", old.took())
		require.Equal(t, "update 511", fresh.took())
	})
}

func TestWatchWithoutFences(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		publish(t, join(t, reg, "ci"), 3, `{}`)
		full := watch(t, openSwarm(t, restricted{c, client.Capabilities{History: true}}))
		require.Equal(t, "snapshot 3", full.took())
		bare := watch(t, openSwarm(t, restricted{c, client.Capabilities{}}))
		bare.took()
		for _, v := range []int{4, 4, 2, 5} {
			_, err := c.PublishTo(t.Context(), topic, fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":{}}`, v))
			require.NoError(t, err)
		}
		require.Equal(t, "update 4, update 5", full.took())
		require.Equal(t, "update 4, update 5", bare.took())
	})
}

func TestAWatcherMayStop(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		for e, err := range s.Watch(t.Context()) {
			require.NoError(t, err)
			require.Nil(t, e.Document)
			break
		}
	})
}
