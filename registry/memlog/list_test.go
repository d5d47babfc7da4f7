package memlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

func TestListIsASortedList(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testList(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

// The seeds differ in how much they add at the end, add in between and remove
// in front.
func testList(t *testing.T, rng *rand.Rand) {
	var l list[int, string]
	var want []int
	atEnd, inFront := rng.IntN(4), rng.IntN(4)
	for step := range 20_000 {
		grow := step%4000 < 2600
		switch {
		case grow == (rng.IntN(8) > 0) || len(want) == 0:
			k := rng.IntN(1 << 30)
			if rng.IntN(4) < atEnd && len(want) > 0 {
				k = want[len(want)-1] + 1 + rng.IntN(9)
			}
			if at, dup := slices.BinarySearch(want, k); !dup {
				want = slices.Insert(want, at, k)
				l.put(k, fmt.Sprint(k))
			}
		default:
			at := rng.IntN(len(want))
			if rng.IntN(4) < inFront {
				at = 0
			}
			l.remove(want[at])
			l.remove(want[at]) // is not there any more
			want = slices.Delete(want, at, at+1)
		}
		if step%1000 == 0 {
			compareList(t, &l, want)
		}
	}
	for len(want) > 0 {
		l.remove(want[len(want)-1])
		want = want[:len(want)-1]
	}
	compareList(t, &l, want)
}

func compareList(t *testing.T, l *list[int, string], want []int) {
	t.Helper()
	require.Equal(t, len(want), l.n)
	at := 0
	for p := (place{}); l.at(p) != nil; p = l.next(p) {
		x := l.at(p)
		if x.key != want[at] || x.value != fmt.Sprint(want[at]) || l.rest(p) != len(want)-at ||
			l.from(x.key) != p || l.behind(x.key) != l.next(p) || l.back(l.next(p), 1) != p {
			t.Fatalf("item %d of %d: %v at %v, want %d", at, len(want), x, p, want[at])
		}
		at++
	}
	require.Equal(t, len(want), at)
	require.Equal(t, 0, l.rest(l.end()))
	if len(want) == 0 {
		require.Nil(t, l.first())
		require.Nil(t, l.last())
		return
	}
	require.Equal(t, want[0], l.first().key)
	require.Equal(t, want[len(want)-1], l.last().key)
	require.Equal(t, place{}, l.back(l.end(), len(want)))
	require.Equal(t, place{}, l.back(l.end(), len(want)+5))
	if n := len(want) / 3; n > 0 {
		require.Equal(t, want[len(want)-n], l.at(l.back(l.end(), n)).key)
	}
	for _, b := range l.blocks {
		require.NotEmpty(t, b)
		require.LessOrEqual(t, len(b), blockMax)
	}
	require.LessOrEqual(t, len(l.blocks), len(want)/(blockMax/8)+3, "blocks are joined")
}

func TestListOfOneAllocatesNothing(t *testing.T) {
	testenv.Allocs(t)
	var l list[int, string]
	k := 0
	l.put(k, "")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		k++
		l.put(k, "")
		l.remove(k - 1)
	}))
}
