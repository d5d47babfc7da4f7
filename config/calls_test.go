package config_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// calls are all that wait for the registry.
var calls = map[string]func(context.Context, *config.Swarm) error{
	"publish": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.Publish(ctx, []byte(`{"v":3}`), config.PublishOptions{})
		return err
	},
	"latest":  func(ctx context.Context, s *config.Swarm) error { _, err := s.Latest(ctx); return err },
	"get":     func(ctx context.Context, s *config.Swarm) error { _, err := s.Get(ctx, 1); return err },
	"history": func(ctx context.Context, s *config.Swarm) error { return last(s.History(ctx, config.HistoryOptions{})) },
	"watch":   func(ctx context.Context, s *config.Swarm) error { return last(s.Watch(ctx)) },
	"rollback": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.Rollback(ctx, 1, config.RollbackOptions{})
		return err
	},
	"compliance": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.Compliance(ctx, config.ComplianceOptions{})
		return err
	},
	"wait": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.WaitFor(ctx, 0, 1, config.ComplianceOptions{})
		return err
	},
	"follow": func(ctx context.Context, s *config.Swarm) error {
		return s.Follow(ctx, &memory{}, config.FollowOptions{})
	},
	"subscribe": func(ctx context.Context, s *config.Swarm) error {
		_, err := config.Subscribe(ctx, s, config.LiveOptions[struct{}]{})
		return err
	},
	"start": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.StartRollout(ctx, []byte(`{"v":3}`), plan, config.PublishOptions{})
		return err
	},
	"drive": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.DriveRollout(ctx, config.DriveOptions{})
		return err
	},
	"rollout": func(ctx context.Context, s *config.Swarm) error { _, err := s.Rollout(ctx); return err },
	"pause":   func(ctx context.Context, s *config.Swarm) error { return s.PauseRollout(ctx, config.RolloutOptions{}) },
	"resume":  func(ctx context.Context, s *config.Swarm) error { return s.ResumeRollout(ctx, config.RolloutOptions{}) },
	"abort": func(ctx context.Context, s *config.Swarm) error {
		_, err := s.AbortRollout(ctx, config.RolloutOptions{})
		return err
	},
}

// last is the error that ends a sequence.
func last[T any](seq func(func(T, error) bool)) (err error) {
	for _, e := range seq {
		err = e
	}
	return err
}

// staging is a swarm in which each call has something to do: a rollout is going on.
func staging(t *testing.T, reg *fakeregistry.Registry) *client.Client {
	t.Helper()
	c := dial(t, reg, "a")
	s := openSwarm(t, c)
	publish(t, s, 1, `{"v":1}`)
	follow(t, reg, "agent")
	settle()
	_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{})
	require.NoError(t, err)
	return c
}

// slow is a connection that answers so many requests, and then none.
type slow struct {
	client.Conn
	left atomic.Int64
}

func (c *slow) spent() bool { return c.left.Add(-1) < 0 }

func (c *slow) Fence(ctx context.Context, topic string) (client.FenceState, error) {
	if c.spent() {
		<-ctx.Done()
		return client.FenceState{}, ctx.Err()
	}
	return c.Conn.Fence(ctx, topic)
}

func (c *slow) Info(ctx context.Context) (client.Info, error) {
	if c.spent() {
		<-ctx.Done()
		return client.Info{}, ctx.Err()
	}
	return c.Conn.(*client.Client).Info(ctx)
}

func (c *slow) Subscribe(ctx context.Context, topic string, o ...client.SubscribeOption) (client.Stream, error) {
	if c.spent() {
		return mute{}, nil
	}
	return c.Conn.Subscribe(ctx, topic, o...)
}

func (c *slow) Publish(ctx context.Context, p client.Publication) client.Pending {
	if c.spent() {
		return mute{}
	}
	return c.Conn.Publish(ctx, p)
}

// mute is a stream and a publish of which nothing is heard.
type mute struct{}

func (mute) Next(ctx context.Context) (client.Item, error) {
	<-ctx.Done()
	return client.Item{}, ctx.Err()
}

func (mute) Wait(ctx context.Context) (client.Ack, error) {
	<-ctx.Done()
	return client.Ack{}, ctx.Err()
}

func (mute) Done() <-chan struct{}             { return nil }
func (mute) Key() []byte                       { return nil }
func (mute) Result() (client.Ack, bool, error) { return client.Ack{}, false, nil }
func (mute) Close() error                      { return nil }

// Whichever request it is that gets no answer, each call ends with its context.
func TestEachCallEndsWithItsContext(t *testing.T) {
	const requests = 12
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ended := 0
			for answered := range requests {
				bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
					c := &slow{Conn: staging(t, reg)}
					c.left.Store(int64(answered) + 1)
					s := openSwarm(t, c)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					begun := time.Now()
					err := call(ctx, s)
					require.Less(t, time.Since(begun), 5*time.Second+100*time.Millisecond)
					if time.Since(begun) >= 5*time.Second {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						ended++
					}
				})
			}
			require.NotZero(t, ended, "this test says nothing about it")
		})
	}
}

// Open has no Swarm yet.
func TestOpenEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := &slow{Conn: dial(t, reg, "a")} // answers nothing
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := config.Open(ctx, c, swarm, config.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(begun), 5*time.Second+100*time.Millisecond)
	})
}

// A connection that is closed ends each call.
func TestEachCallEndsWithItsConnection(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				c := staging(t, reg)
				s := openSwarm(t, c)
				reg.Stop()
				done := make(chan error, 1)
				go func() { done <- call(t.Context(), s) }()
				settle()
				require.NoError(t, c.Close())
				err := <-done
				if name == "watch" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, net.ErrClosed)
			})
		})
	}
}
