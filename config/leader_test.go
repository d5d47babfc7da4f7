package config_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

var _ config.Leadership = (*election.Leadership)(nil)

// Whoever is elected drives the rollout; when the leader is cut off, the next one
// goes on, and what the first still writes is refused.
func TestTheElectedLeaderDrives(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		quick := plan
		quick.Bake = time.Minute
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), quick, config.PublishOptions{Version: 2})
		require.NoError(t, err)

		leads := make(chan string, 10)
		ended := make(chan config.RolloutStatus, 2)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, name := range []string{"l1", "l2"} {
			c := dial(t, reg, name)
			mine := openSwarm(t, c)
			go func() {
				done <- election.Run(ctx, c, election.Options{Group: "coordinators"}, func(ctx context.Context, l *election.Leadership) error {
					leads <- name
					st, err := mine.DriveRollout(ctx, config.DriveOptions{Leadership: l})
					if err == nil {
						ended <- st
					}
					<-ctx.Done()
					return ctx.Err()
				})
			}()
		}
		first := <-leads
		pass(80 * time.Second)
		require.Equal(t, 1, rollout(t, s).Step)

		reg.Partition(first, fakeregistry.Host)
		second := <-leads
		require.NotEqual(t, first, second)
		end := <-ended
		require.Equal(t, config.RolloutComplete, end.State)
		settle()
		require.Equal(t, 10, running(all, 2))
		require.Equal(t, []uint64{1, 2}, updates(reg))
		terms := map[uint64]bool{}
		for _, m := range reg.Messages(rolloutTopic) {
			for _, f := range m.Fences {
				if f.Topic == "election:coordinators" {
					terms[f.Term] = true
				}
			}
		}
		require.Len(t, terms, 2, "each wrote under a term of its own")
		reg.HealAll()
		cancel()
		for range 2 {
			require.Error(t, <-done)
		}
	})
}

func TestALeaderOfThePastPublishesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		s := openSwarm(t, c)
		var kept *election.Leadership
		publishAs := func() error {
			_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Leadership: kept})
			return err
		}
		require.NoError(t, election.Run(t.Context(), c, election.Options{Group: "g"}, func(_ context.Context, l *election.Leadership) error {
			kept = l
			return publishAs()
		}))
		err := publishAs()
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		require.NotErrorIs(t, err, protocol.ErrConflict)
		require.Len(t, reg.Messages(topic), 1)
	})
}
