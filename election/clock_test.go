package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The default clock is virtual where time is, so that tests of programs need no
// other one.
func TestTheClockIsVirtualInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClock()
		before := clock()
		time.Sleep(time.Hour)
		require.InDelta(t, time.Hour, clock()-before, float64(time.Second))
	})
}

// What the machine has slept counts, once, and noise does not.
func TestTheClockCountsWhatTheMachineSlept(t *testing.T) {
	var total time.Duration
	known := true
	s := sleep{read: func() (time.Duration, bool) { return total, known }}
	total = time.Minute // before the clock was made
	s.begin()
	require.Zero(t, s.since())
	for _, step := range []struct{ total, want time.Duration }{
		{time.Minute + napSize/2, 0},
		{time.Minute - napSize, 0},
		{time.Minute + time.Second, time.Second},
		{time.Minute + time.Second + napSize/2, time.Second},
		{time.Minute, time.Second}, // never back
		{time.Hour, time.Hour - time.Minute},
	} {
		total = step.total
		require.Equal(t, step.want, s.since())
	}
	known, total = false, 2*time.Hour
	require.Equal(t, time.Hour-time.Minute, s.since(), "no reading tells nothing")

	s = sleep{read: func() (time.Duration, bool) { return time.Hour, known }}
	s.begin()
	known = true
	require.Zero(t, s.since(), "it was not known when the clock was made")
}

// The system's own clocks agree but for what the machine has slept.
func TestTheSystemTellsWhatItSlept(t *testing.T) {
	first, ok := suspended()
	require.Equal(t, countsSuspend, ok)
	for range 1000 {
		if d, ok := suspended(); ok {
			require.InDelta(t, first, d, float64(napSize))
		}
	}
}

func BenchmarkClock(b *testing.B) {
	clock := newClock()
	b.ReportAllocs()
	for b.Loop() {
		clock()
	}
}
