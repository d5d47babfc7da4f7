package config_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

type pool struct {
	MaxWorkers int    `json:"max_workers"`
	LogLevel   string `json:"log_level"`
}

func TestDecode(t *testing.T) {
	d, err := config.NewDocument(1, []byte(`{"max_workers":10,"log_level":"info","new":{}}`))
	require.NoError(t, err)
	p, err := config.Decode[pool](d)
	require.NoError(t, err)
	require.Equal(t, &pool{10, "info"}, p)
	d, err = config.NewDocument(1, []byte(`{"id":9007199254740993}`))
	require.NoError(t, err)
	m, err := config.Decode[map[string]any](d)
	require.NoError(t, err)
	require.Equal(t, "9007199254740993", (*m)["id"].(interface{ String() string }).String())
	d, err = config.NewDocument(1, []byte(`{"max_workers":"hunter2"}`))
	require.NoError(t, err)
	_, err = config.Decode[pool](d)
	require.ErrorIs(t, err, protocol.ErrInvalid)
	require.EqualError(t, err, "invalid argument: max_workers: a string is no int")
}

func live(t *testing.T, s *config.Swarm, o config.LiveOptions[pool]) *config.Live[pool] {
	t.Helper()
	l, err := config.Subscribe(t.Context(), s, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestLiveIsTheNewestGoodValue(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"max_workers":1}`)
		var mu sync.Mutex
		var changes [][2]*pool
		l := live(t, join(t, reg, "a"), config.LiveOptions[pool]{
			Default: &pool{MaxWorkers: 99},
			Validate: func(p *pool) error {
				if p.MaxWorkers == 0 {
					return errors.New("max_workers: none")
				}
				return nil
			},
			OnChange: func(old, now *pool) {
				mu.Lock()
				defer mu.Unlock()
				changes = append(changes, [2]*pool{old, now})
			},
		})
		require.Equal(t, &pool{MaxWorkers: 1}, l.Load(), "the latest, at once")
		require.Equal(t, uint64(1), l.Version())

		changed := l.Changed()
		publish(t, s, 2, `{"max_workers":2}`)
		<-changed
		require.Equal(t, &pool{MaxWorkers: 2}, l.Load())
		publish(t, s, 3, `{"max_workers":"3"}`)
		publish(t, s, 4, `{"max_workers":0}`)
		settle()
		require.Equal(t, uint64(2), l.Version())
		c := compliance(t, s, config.ComplianceOptions{})
		require.Equal(t, "a rejected", states(c.Agents))
		require.Equal(t, "max_workers: none", c.Agents[0].Error)

		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Err(), context.Canceled)
		require.Equal(t, uint64(2), l.Version())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, [][2]*pool{{{MaxWorkers: 99}, {MaxWorkers: 1}}, {{MaxWorkers: 1}, {MaxWorkers: 2}}}, changes)
	})
}

// An applier has the value before the registry is there.
func TestLiveWithoutARegistry(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		reg.Stop()
		within := func() (*config.Live[pool], error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			kept := &memory{now: config.Applied{Version: 3, Config: []byte(`{"max_workers":3}`)}}
			return config.Subscribe(ctx, s, config.LiveOptions[pool]{Applier: kept})
		}
		l, err := within()
		require.NoError(t, err)
		defer l.Close()
		require.Equal(t, 3, l.Load().MaxWorkers)
		reg.Start()
		require.NoError(t, script(t, dial(t, reg, "script"), 4, `{"max_workers":4}`))
		<-l.Changed()
		require.Equal(t, 4, l.Load().MaxWorkers)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reg.Stop()
		_, err = config.Subscribe(ctx, s, config.LiveOptions[pool]{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestLiveWithoutAVersion(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		l := live(t, join(t, reg, "a"), config.LiveOptions[pool]{})
		require.Nil(t, l.Load())
		require.Zero(t, l.Version())
		settle()
		reg.FailNext(fakeregistry.OpSubscribe, 1, protocol.ErrDenied)
		_, err := config.Subscribe(t.Context(), join(t, reg, "b"), config.LiveOptions[pool]{})
		require.ErrorIs(t, err, protocol.ErrDenied)
	})
}
