package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func TestProgressReadsAsItWasWritten(t *testing.T) {
	p := &Progress{
		Version: 7, State: RolloutPaused, Step: 2, Reason: `"why"`, Who: "ci", Share: 0.25, Ending: RolloutComplete,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Labels: map[string]string{"zone": "a"},
	}
	got, err := ParseProgress(p.Append(nil))
	require.NoError(t, err)
	require.Equal(t, p, got)
	for payload, void := range map[string]Void{
		``:                               VoidMalformed,
		`{"type":"other"}`:               VoidType,
		`{"type":"rollout"}`:             VoidVersion,
		`{"type":"rollout","version":7}`: VoidMalformed,
		`{"type":"rollout","version":7,"state":"running","share":1.1}`:           VoidMalformed,
		`{"type":"rollout","version":7,"state":"running","share":1,"share":0.1}`: VoidMalformed,
		`{"type":"rollout","version":7,"share":1}`:                               VoidMalformed,
	} {
		_, err := ParseProgress([]byte(payload))
		require.ErrorIs(t, err, void, payload)
	}
}

// The same agents each time, about as many as the share says, and more with each
// step.
func TestTheReachedAreAShare(t *testing.T) {
	const nodes = 10_000
	for _, share := range []float64{0, 0.01, 0.25, 0.5, 1} {
		p := Progress{State: RolloutRunning, Share: share}
		wider := Progress{State: RolloutRunning, Share: min(1, share+0.1)}
		n := 0
		for i := range nodes {
			node := protocol.NodeID(1<<31 + i)
			if p.Reaches(node, nil) {
				n++
				require.True(t, wider.Reaches(node, nil))
			}
		}
		require.InDelta(t, share, float64(n)/nodes, 3*math.Sqrt(0.25/nodes))
	}
	p := Progress{State: RolloutRunning, Labels: map[string]string{"zone": "a", "disk": "ssd"}}
	require.True(t, p.Reaches(1, map[string]string{"zone": "a", "disk": "ssd", "more": ""}))
	require.False(t, p.Reaches(1, map[string]string{"zone": "a"}))
	p.Share = 1
	for state, reaches := range map[RolloutState]bool{
		RolloutRunning: true, RolloutPaused: true, RolloutComplete: true,
		RolloutRolledBack: false, RolloutSuperseded: false, "later": false,
	} {
		p.State = state
		require.Equal(t, reaches, p.Reaches(1, nil), state)
	}
}

func FuzzParseProgress(f *testing.F) {
	f.Add([]byte(`{"type":"rollout","version":7,"state":"running","step":1,"share":0.25,"labels":{"a":"b"},"since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"type":"rollout","version":7,"state":"x","share":1e-300}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := ParseProgress(payload)
		if err != nil {
			require.NotZero(t, voidOf(err))
			return
		}
		again, err := ParseProgress(p.Append(nil))
		require.NoError(t, err)
		if p.Since.Equal(again.Since) || p.Since.IsZero() {
			again.Since = p.Since
		}
		if len(p.Labels) == 0 {
			again.Labels = p.Labels
		}
		require.Equal(t, p, again)
	})
}
