package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(10)
		require.Equal(t, 3, turns.units(3, 0))
		require.Equal(t, 5, turns.units(3, 2*unitBytes))
		require.Equal(t, 10, turns.units(3, 1<<30), "what is larger than all there is waits for all there is")
		require.NoError(t, turns.take(t.Context(), 4))
		require.NoError(t, turns.take(t.Context(), 6))

		var order []string
		wait := func(name string, units int) {
			go func() {
				if turns.take(t.Context(), units) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		give := func(units int) []string {
			turns.give(units)
			synctest.Wait()
			got := order
			order = nil
			return got
		}
		wait("large", 7)
		wait("small", 1)
		require.Empty(t, give(4), "a small one does not pass a large one")
		require.Equal(t, []string{"large"}, give(3))
		require.Equal(t, []string{"small"}, give(7))
		give(3 + 1)
		require.Zero(t, turns.used)
	})
}

func TestWhoGoesAwayGivesUpItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		require.NoError(t, turns.take(t.Context(), 1))
		why := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 2)
		go func() { got <- turns.take(ctx, 1) }()
		synctest.Wait()
		go func() { got <- turns.take(t.Context(), 1) }()
		synctest.Wait()
		cancel(why)
		require.Equal(t, why, <-got)
		require.Len(t, turns.waiting, 1)
		turns.give(1)
		require.NoError(t, <-got)
		turns.give(1)
		require.Zero(t, turns.used)

		// The turn can come at the moment of going away.
		require.NoError(t, turns.take(t.Context(), 1))
		w := turns.enter(1)
		turns.give(1)
		turns.leave(w)
		require.Zero(t, turns.used)
	})
}
