package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aLease is one of 1 s whose command is asked to stop 300 ms before the end.
func aLease() keeper {
	ms := time.Millisecond
	return keeper{
		terms: terms{Signal: "TERM", Stop: 300 * ms, Grace: 200 * ms, Margin: 50 * ms},
		until: at(1000),
	}
}

func at(ms int) reading { return reading(ms) * reading(time.Millisecond) }

func TestKeeperEndsACommandBeforeTheLease(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*keeper)
		warned int // ms
		killed int
	}{
		{"unrenewed", func(*keeper) {}, 700, 900},
		{"renewed", func(k *keeper) { k.obey(order{Until: at(1500)}, at(400)) }, 1200, 1400},
		{"renewed to earlier", func(k *keeper) { k.obey(order{Until: at(500)}, at(400)) }, 700, 900},
		{"asked", func(k *keeper) { k.obey(order{Stop: true}, at(100)) }, 100, 300},
		{"asked twice", func(k *keeper) {
			k.obey(order{Stop: true}, at(100))
			k.obey(order{Stop: true}, at(250))
		}, 100, 300},
		{"asked late", func(k *keeper) { k.obey(order{Stop: true}, at(850)) }, 700, 900},
		{"renewed behind its end", func(k *keeper) {
			k.obey(order{Stop: true}, at(100))
			k.obey(order{Until: at(9000)}, at(110))
		}, 100, 300},
		{"grace beyond the margin", func(k *keeper) { k.Grace = time.Hour }, 700, 950},
		{"no grace", func(k *keeper) { k.Grace = 0 }, 700, 700},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := aLease()
			test.change(&k)
			require.Equal(t, keep, k.due(at(test.warned)-1))
			require.Equal(t, time.Duration(1), k.next(at(test.warned)-1))
			if test.warned < test.killed {
				require.Equal(t, warn, k.due(at(test.warned)))
			}
			k.warned = true
			require.Equal(t, keep, k.due(at(test.killed)-1))
			require.Equal(t, time.Duration(1), k.next(at(test.killed)-1))
			require.Equal(t, kill, k.due(at(test.killed)))
			require.Equal(t, kill, k.due(at(1_000_000)), "after a suspend")
		})
	}
}

// Whatever is ordered, a command is killed before the latest end of a lease that
// was told while it was not being stopped.
func TestKeeperNeverOutlastsTheLease(t *testing.T) {
	for seed := range 2000 {
		k := aLease()
		latest := k.until
		for i, now := 0, reading(0); i < 6; i++ {
			step := (seed*7919 + i*104729) % 400
			now += at(step)
			o := order{Until: now + at(step*3), Stop: step%11 == 0}
			if due := k.due(now); due == kill {
				break
			} else if due == warn {
				k.warned = true
			}
			if k.asked == 0 && !k.warned && !o.Stop {
				latest = max(latest, o.Until)
			}
			k.obey(o, now)
			require.LessOrEqual(t, k.killAt(), latest-reading(k.Margin), "seed %d", seed)
		}
	}
}

func TestGuardWithoutALeaseRunsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		orders string
		code   int
	}{
		"no orders":       {"", exitCannotRun},
		"no terms":        {`{"until":9223372036854775807}` + "\n", exitCannotRun},
		"not even orders": {"nonsense\n", exitCannotRun},
		"an old lease":    {`{"until":1,"terms":{"signal":"TERM"}}` + "\n", exitOK},
		"stopped before": {`{"until":1,"terms":{"signal":"TERM"}}` + "\n" + `{"stop":true}` + "\n" +
			`{"until":9223372036854775807}` + "\n", exitOK},
	} {
		var out strings.Builder
		require.Equal(t, test.code, guard(strings.NewReader(test.orders), []string{"echo", "ran"}, &out, &out), name)
		require.Empty(t, out.String(), name)
	}
}

// A guard that came to run late goes by the renewals that have come meanwhile.
func TestGuardBeginsWithARenewedLease(t *testing.T) {
	k := aLease()
	orders := make(chan order, 3)
	orders <- order{Until: clock() - 1}
	orders <- order{Until: clock() + reading(time.Hour)}
	require.True(t, k.begins(orders))
	require.Empty(t, orders)
}

func TestEndOfALeaseErrsToTheEarlySide(t *testing.T) {
	before := clock()
	end := endOf(slowLease{})
	require.LessOrEqual(t, end, clock())
	require.GreaterOrEqual(t, end, before)
}

// slowLease is asked by a process that is paused meanwhile.
type slowLease struct{}

func (slowLease) Left() time.Duration {
	for began := clock(); clock() == began; {
		continue
	}
	return 0
}
