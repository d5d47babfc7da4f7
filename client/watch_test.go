package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatch(t *testing.T) {
	type look struct {
		after          time.Duration // since the one before
		received, sent uint64
		silence        time.Duration
		owing          bool
	}
	const every = lookEvery
	for name, looks := range map[string][]look{
		"answers come":         {{every, 11, 21, 0, false}, {every, 12, 22, 0, false}},
		"nothing was sent":     {{every, 10, 20, every, false}, {every, 10, 20, 2 * every, false}},
		"one packet is no ask": {{every, 10, 21, every, false}},
		"nobody answers":       {{every, 10, 21, every, false}, {every, 10, 22, 2 * every, true}, {every, 10, 24, 3 * every, true}},
		"it is back":           {{every, 10, 22, every, true}, {every, 11, 23, 0, false}, {every, 11, 23, every, false}},
		"this process paused":  {{time.Hour, 10, 22, 2 * every, true}, {every, 11, 22, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1, 0)
			var w watch
			w.begin(now, 10, 20)
			for _, l := range looks {
				now = now.Add(l.after)
				w.look(now, l.received, l.sent)
				require.Equal(t, l.silence, w.silence)
				require.Equal(t, l.owing, w.owing(l.sent))
			}
		})
	}
}

// On a slow line more time is given than near by.
func TestSilenceIsMeasuredByTheLine(t *testing.T) {
	w := watch{silence: time.Second}
	require.True(t, w.silent(time.Second, 3, 10*time.Millisecond))
	require.False(t, w.silent(time.Second+1, 3, 10*time.Millisecond))
	require.True(t, w.silent(time.Millisecond, 2, 500*time.Millisecond))
	require.False(t, w.silent(time.Millisecond, 3, 500*time.Millisecond))
}
