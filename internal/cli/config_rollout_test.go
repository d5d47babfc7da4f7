package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
)

// What was decided shows why a pause is refused.
func TestARolloutTellsThatItsEndIsDecided(t *testing.T) {
	st := config.RolloutStatus{Progress: config.Progress{
		Version: 7, State: config.RolloutRunning, Since: time.Unix(1, 0), Share: 0.1,
	}}
	const going = "version 7, canary, 10%: 0 reached, 0 run it, 0 failed, 0 to come"
	require.Equal(t, going, rolloutText(st))
	st.Ending, st.Reason = config.RolloutRolledBack, "too many failed"
	require.Equal(t, going+", about to end as rolled back: too many failed", rolloutText(st))
	require.Contains(t, string(rolloutFields("s", st).appendTo(nil)), `"ending":"rolled_back"`)
}
