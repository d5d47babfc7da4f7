package election_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

func TestProfilesAreSafe(t *testing.T) {
	for name, timing := range map[string]election.Timing{
		"lan": election.LAN, "wan": election.WAN, "flaky": election.Flaky, "mixed": election.Mixed,
	} {
		require.NoError(t, timing.Validate(), name)
	}
	require.Error(t, election.Timing{}.Validate())
}

// R16, and the other inequalities: each field has a value that breaks one.
func TestEachInequalityIsChecked(t *testing.T) {
	for _, test := range []struct {
		want  string
		spoil func(*election.Timing)
	}{
		{"heartbeat is 0s", func(x *election.Timing) { x.Heartbeat = 0 }},
		{"lease is -1ns", func(x *election.Timing) { x.Lease = -1 }},
		{"one way is 0s", func(x *election.Timing) { x.OneWay = 0 }},
		{"stop is 0s", func(x *election.Timing) { x.Stop = 0 }},
		{"jitter (-1ns) or", func(x *election.Timing) { x.Jitter = -1 }},
		{"pause (-1ns) is", func(x *election.Timing) { x.Pause = -1 }},
		{"lease - stop >= 2*heartbeat + 2*one way + pause does not hold: 219ms < 220ms", func(x *election.Timing) { x.Stop += time.Millisecond }},
		{"two late heartbeats", func(x *election.Timing) { x.Heartbeat += time.Millisecond }},
		{"two late heartbeats", func(x *election.Timing) { x.Pause += time.Millisecond }},
		{"silence >= lease*1.01/0.99 + max(5ms, lease/50) does not hold: 332ms < 332.8", func(x *election.Timing) { x.Silence = 332 * time.Millisecond }},
		{"window >= jitter + 2*one way does not hold: 29ms < 30ms", func(x *election.Timing) { x.Window -= time.Millisecond }},
		{"does not hold: 30ms < 31ms", func(x *election.Timing) { x.Jitter += time.Millisecond }},
		{"rank >= 2*one way does not hold: 9ms < 10ms", func(x *election.Timing) { x.Rank = 9 * time.Millisecond }},
		{"more than 720h", func(x *election.Timing) { x.Silence = 1 << 62 }},
	} {
		timing := election.LAN
		test.spoil(&timing)
		require.ErrorContains(t, timing.Validate(), test.want)
		require.ErrorIs(t, timing.Validate(), protocol.ErrInvalid)
	}
	timing := election.LAN
	timing.Silence = 333 * time.Millisecond // 320 · 1.01 / 0.99 + 6.4
	require.NoError(t, timing.Validate())
}
