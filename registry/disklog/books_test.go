package disklog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Whatever goes and in which order, the oldest that is there comes first, and
// what has gone takes no memory for long.
func TestFifoForgetsWhatHasGone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q fifo
	var want []*stub
	for seq := range protocol.Seq(20_000) {
		x := &stub{seq: seq}
		q.put(x)
		want = append(want, x)
		for len(want) > 0 && rng.IntN(100) < 49 {
			at := rng.IntN(len(want))
			want[at].gone = true
			want = slices.Delete(want, at, at+1)
			q.left()
		}
		require.Equal(t, len(want), q.live)
		require.LessOrEqual(t, len(q.items), 2*q.live+33)
		if len(want) > 0 {
			require.Same(t, want[0], q.first())
		} else {
			require.Nil(t, q.first())
		}
	}
}

func TestRunsCountSeqs(t *testing.T) {
	var r runs
	for _, seq := range []protocol.Seq{1, 2, 3, 5, 6, 9} {
		r.add(seq)
	}
	for _, test := range []struct {
		floor protocol.Seq
		n     int
	}{{0, 6}, {2, 4}, {1, 4}, {4, 3}, {5, 2}, {8, 1}, {20, 0}} {
		r.forget(test.floor)
		require.Equal(t, test.n, r.n, "above %d", test.floor)
	}
	r.add(20) // not above the floor
	require.Zero(t, r.n)
	r.add(21)
	require.Equal(t, 1, r.n)
}

// However many topics come and go, what is kept of them is bounded, on the disk
// too, and a reader is told of at least every gap there is.
func TestMarksOfManyStreamsAreMerged(t *testing.T) {
	v := newView()
	var b books
	b.open(registry.Retention{}, &v, nil)
	const topics = maxEmpty + 2000
	rows := make(map[string]bool) // marks on the disk
	for seq := protocol.Seq(1); seq <= topics; seq++ {
		name := fmt.Sprint("t.", seq)
		b.begin()
		b.add(record(func(r *registry.Record) { r.Seq, r.Topic, r.Slot, r.Fences = seq, name, "", nil }))
		v.apply(b.finish())
		b.begin()
		b.purge(name, seq)
		p := b.finish()
		for s := range p.marks {
			rows[string(markKey(s))] = true
		}
		for _, s := range p.merged {
			delete(rows, string(markKey(s)))
		}
		v.apply(p)
	}
	require.LessOrEqual(t, len(v.Topics), maxEmpty)
	require.Equal(t, len(v.Topics), b.empty)
	require.Len(t, rows, len(v.Topics))
	require.Empty(t, b.senders)
	for _, seq := range []protocol.Seq{1, 2, topics / 3, topics - 1, topics} {
		name := fmt.Sprint("t.", seq)
		require.GreaterOrEqual(t, v.MarkOf(&registry.Selection{Pattern: name}, 0), seq)
	}
}
