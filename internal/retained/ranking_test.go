package retained

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// The first has most bytes, and of equals the lowest id, whatever has changed.
func TestRankingHasTheLargestFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	all := make(map[protocol.NodeID]*Account[int])
	for id := range protocol.NodeID(20) {
		all[id] = &Account[int]{ID: id, Bytes: int64(rng.IntN(6))}
	}
	r := RankingOf(len(all), maps.Values(all))
	for range 5000 {
		id := protocol.NodeID(rng.IntN(30))
		a := all[id]
		switch {
		case a == nil:
			a = &Account[int]{ID: id, Bytes: int64(rng.IntN(6))}
			all[id] = a
			r.Enter(a)
		case rng.IntN(4) == 0 && len(all) > 1:
			delete(all, id)
			r.Exit(a)
		default:
			a.Bytes = int64(rng.IntN(6))
			r.Moved(a)
		}
		require.Equal(t, len(all), r.Len())
		first := r.First()
		for _, b := range all {
			if b.Bytes > first.Bytes || b.Bytes == first.Bytes && b.ID < first.ID {
				t.Fatalf("%+v is first, not %+v", first, b)
			}
		}
	}
}

func TestANilRankingIsNotKeptUp(t *testing.T) {
	var r *Ranking[int]
	a := &Account[int]{}
	require.NotPanics(t, func() {
		r.Enter(a)
		r.Moved(a)
		r.Exit(a)
	})
}
