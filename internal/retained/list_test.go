package retained

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

type number int

func (n number) Key() int { return int(n) }

type numbers = List[int, number]

func TestListIsASortedList(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testList(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

// The seeds differ in how much they add at the end, add in between and remove
// in front.
func testList(t *testing.T, rng *rand.Rand) {
	var l numbers
	var want []int
	atEnd, inFront := rng.IntN(4), rng.IntN(4)
	for step := range 20_000 {
		if grow := step%4000 < 2600; grow == (rng.IntN(8) > 0) || len(want) == 0 {
			k := rng.IntN(1 << 30)
			if rng.IntN(4) < atEnd && len(want) > 0 {
				k = want[len(want)-1] + 1 + rng.IntN(9)
			}
			if at, dup := slices.BinarySearch(want, k); !dup {
				want = slices.Insert(want, at, k)
				l.Put(number(k))
			}
			continue
		}
		at := rng.IntN(len(want))
		if rng.IntN(4) < inFront {
			at = 0
		}
		l.Remove(want[at])
		l.Remove(want[at]) // is not there any more
		want = slices.Delete(want, at, at+1)
		if step%1000 == 0 {
			compareList(t, &l, want)
		}
	}
	compareList(t, &l, want)
	for len(want) > 0 {
		l.Remove(want[len(want)-1])
		want = want[:len(want)-1]
	}
	compareList(t, &l, want)
}

func compareList(t *testing.T, l *numbers, want []int) {
	t.Helper()
	require.Equal(t, len(want), l.Len())
	at := 0
	for p := (Place{}); ; p = l.Next(p) {
		x, ok := l.At(p)
		if !ok {
			break
		}
		if x.Key() != want[at] || l.Rest(p) != len(want)-at ||
			l.From(x.Key()) != p || l.Behind(x.Key()) != l.Next(p) || l.Back(l.Next(p), 1) != p {
			t.Fatalf("item %d of %d: %d at %v, want %d", at, len(want), x, p, want[at])
		}
		at++
	}
	require.Equal(t, len(want), at)
	require.Equal(t, 0, l.Rest(l.End()))
	require.Equal(t, Place{}, l.Back(l.End(), len(want)))
	require.Equal(t, Place{}, l.Back(l.End(), len(want)+5))
	if len(want) > 0 {
		require.EqualValues(t, want[0], l.First())
		require.EqualValues(t, want[len(want)-1], l.Last())
	}
	if n := len(want) / 3; n > 0 {
		x, _ := l.At(l.Back(l.End(), n))
		require.EqualValues(t, want[len(want)-n], x)
	}
	for _, b := range l.blocks {
		require.NotEmpty(t, b)
		require.LessOrEqual(t, len(b), blockMax)
	}
	require.LessOrEqual(t, len(l.blocks), len(want)/(blockMax/8)+3, "blocks are joined")
}

// A clone is not changed with the list, and all are gone through in order.
func TestListClone(t *testing.T) {
	var l numbers
	for k := range 1000 {
		l.Put(number(k))
	}
	c := l.Clone()
	for k := range 500 {
		l.Remove(2 * k)
	}
	require.Len(t, slices.Collect(c.All()), 1000)
	left := slices.Collect(l.All())
	require.Len(t, left, 500)
	require.True(t, slices.IsSorted(left))
	for first := range c.All() {
		require.Zero(t, first)
		break
	}
}

func TestListOfOneAllocatesNothing(t *testing.T) {
	testenv.Allocs(t)
	var l numbers
	k := 0
	l.Put(number(k))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		k++
		l.Put(number(k))
		l.Remove(k - 1)
	}))
}
