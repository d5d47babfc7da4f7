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

func TestListIsASortedList(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testList(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

// The seeds differ in how much they add at the end, add in between and remove
// in front.
func testList(t *testing.T, rng *rand.Rand) {
	var l list[protocol.Seq, *stub]
	var want []protocol.Seq
	atEnd, inFront := rng.IntN(4), rng.IntN(4)
	for step := range 12_000 {
		if grow := step%4000 < 2600; grow == (rng.IntN(8) > 0) || len(want) == 0 {
			k := protocol.Seq(rng.IntN(1 << 30))
			if rng.IntN(4) < atEnd && len(want) > 0 {
				k = want[len(want)-1] + 1 + protocol.Seq(rng.IntN(9))
			}
			if at, dup := slices.BinarySearch(want, k); !dup {
				want = slices.Insert(want, at, k)
				l.put(&stub{seq: k})
			}
			continue
		}
		at := rng.IntN(len(want))
		if rng.IntN(4) < inFront {
			at = 0
		}
		l.remove(want[at])
		l.remove(want[at]) // is not there any more
		want = slices.Delete(want, at, at+1)
		if step%1000 == 0 {
			compareList(t, &l, want)
		}
	}
	compareList(t, &l, want)
	for len(want) > 0 {
		l.remove(want[len(want)-1])
		want = want[:len(want)-1]
	}
	compareList(t, &l, want)
}

func compareList(t *testing.T, l *list[protocol.Seq, *stub], want []protocol.Seq) {
	t.Helper()
	require.Equal(t, len(want), l.n)
	at := 0
	for p := (place{}); ; p = l.next(p) {
		x, ok := l.at(p)
		if !ok {
			break
		}
		if x.seq != want[at] || l.rest(p) != len(want)-at || l.behind(x.seq) != l.next(p) || l.back(l.next(p), 1) != p {
			t.Fatalf("item %d of %d: %d at %v, want %d", at, len(want), x.seq, p, want[at])
		}
		at++
	}
	require.Equal(t, len(want), at)
	require.Equal(t, 0, l.rest(l.end()))
	if len(want) > 0 {
		require.Equal(t, want[0], l.first().seq)
		require.Equal(t, want[len(want)-1], l.last().seq)
	}
	for _, b := range l.blocks {
		require.NotEmpty(t, b)
		require.LessOrEqual(t, len(b), blockMax)
	}
	require.LessOrEqual(t, len(l.blocks), len(want)/(blockMax/8)+3, "blocks are joined")
}

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
	b.open(registry.Retention{}, &v)
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
	require.LessOrEqual(t, len(v.topics), maxEmpty)
	require.Equal(t, len(v.topics), v.names.n)
	require.Equal(t, len(v.topics), b.empty)
	require.Len(t, rows, len(v.topics))
	require.Empty(t, b.senders)
	for _, seq := range []protocol.Seq{1, 2, topics / 3, topics - 1, topics} {
		name := fmt.Sprint("t.", seq)
		require.GreaterOrEqual(t, v.markAt(v.topics[name]), seq)
	}
}
