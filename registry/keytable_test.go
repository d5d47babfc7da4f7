package registry

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// counterKey is a key as clients make it.
func counterKey(instance byte, n uint64) keyID {
	key := make([]byte, 24)
	key[0] = instance
	binary.BigEndian.PutUint64(key[16:], n)
	return keyOf(1, key)
}

// The table finds what a plain map would, whatever the counters do: two lanes
// that overtake each other, jumps in both directions, the ends of their range.
func TestKeyTableFindsWhatAMapWould(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		table, order := newKeyTable(), []keyID(nil)
		next := [3]uint64{1, 1<<64 - 300, 1 << 40}
		pick := func() keyID {
			i := rng.IntN(len(next))
			switch rng.IntN(10) {
			case 0:
				return counterKey(byte(i), rng.Uint64())
			case 1:
				return counterKey(byte(i), next[i]+rng.Uint64N(200)-100)
			case 2:
				return keyOf(protocol.NodeID(i), []byte{byte(rng.IntN(8))})
			}
			next[i]++
			return counterKey(byte(i), next[i])
		}
		held := func(id keyID) (keyRow, bool) {
			for n, known := range order {
				if known == id {
					return keyRow{id: id, seq: table.floorless() + protocol.Seq(n)}, true
				}
			}
			return keyRow{}, false
		}
		for range 2000 {
			id := pick()
			want, known := held(id)
			got, found := table.find(id)
			require.Equal(t, known, found, "seed %d: %v", seed, id)
			if found {
				require.Equal(t, want.seq, got.seq, "seed %d", seed)
				continue
			}
			table.add(keyRow{id: id, seq: protocol.Seq(table.next() + 1)})
			order = append(order, id)
			switch rng.IntN(12) {
			case 0:
				n := rng.IntN(min(3, len(order)) + 1)
				table.drop(n)
				order = order[:len(order)-n]
			case 1:
				limit := rng.IntN(120)
				before := table.live
				table.forget(limit, ^protocol.Seq(0), 0, 1<<20)
				order = order[before-table.live:]
				require.Len(t, order, min(before, limit))
			}
		}
		table.forget(0, ^protocol.Seq(0), 0, 1<<20)
		require.Empty(t, table.runs, "seed %d", seed)
		require.Empty(t, table.places, "seed %d", seed)
	}
}

// floorless is the seq of the oldest row in the test above, where seq is place
// plus one.
func (t *keyTable) floorless() protocol.Seq { return protocol.Seq(t.first + 1) }

// A client that leaves counters out cannot make the table hold more than a few
// words for each key.
func TestKeyTableHoldsLittleForHoles(t *testing.T) {
	for _, stride := range []uint64{2, 60, 1000, 1 << 50} {
		table := newKeyTable()
		for n := range uint64(10_000) {
			table.add(keyRow{id: counterKey(0, n*stride)})
		}
		words := 0
		for _, run := range table.runs {
			words += cap(run.places)
		}
		require.Less(t, words, 8*10_000, "stride %d", stride)
		require.Equal(t, 10_000, table.live)
	}
}
