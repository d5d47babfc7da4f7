package election

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

// Each rule that a walk can show to be needed: without it, something breaks
// within the bounds; with it, nothing does.
var walkRules = []struct {
	rule   string
	broken string // what breaks
	scenario
	spoil func(c *scenario)
}{
	{
		"R1 the raise is one step with the append", "a write of term 1 passes",
		scenario{begin: (*walker).led, faults: faults{Ticks: 5, Publishes: [2]int8{3, 1}, Writes: 1, Slow: 1}},
		func(c *scenario) { c.raiseLater = true },
	},
	{
		"R4 conditions keep their epoch", "a claim of term 2 is accepted after one of 2",
		scenario{begin: (*walker).flown, faults: faults{Ticks: 5, Publishes: [2]int8{1, 1}, Epochs: 1}},
		func(c *scenario) { c.renameEpoch = true },
	},
	{
		"R9 from the sending, not the ack", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 6, Publishes: [2]int8{2, 1}, Slow: 1}},
		func(c *scenario) { c.mutant = leaseFromAck },
	},
	{
		"R9 from the sending, not the reading", "two leases",
		scenario{begin: (*walker).empty, faults: faults{Ticks: 9, Publishes: [2]int8{1, 1}, Slow: 2}},
		func(c *scenario) { c.mutant = leaseFromReading },
	},
	{
		"R9 from the first sending", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 6, Publishes: [2]int8{1, 1}, Resend: 1, Slow: 1}},
		func(c *scenario) { c.sentAgain = true },
	},
	{
		"R11 a lease that is over is not revived", "was over and is led again",
		scenario{begin: (*walker).led, faults: faults{Ticks: 4, Publishes: [2]int8{2, 1}, Slow: 3}},
		func(c *scenario) { c.mutant = reviving },
	},
	{
		"R12 a term is led once", "term 1 is led twice",
		scenario{begin: (*walker).led, faults: faults{Ticks: 4, Publishes: [2]int8{2, 1}, Slow: 2}},
		func(c *scenario) { c.mutant = resuming },
	},
	{
		"R13 a claim is known by its key", "two leases",
		scenario{begin: (*walker).unread, faults: faults{Ticks: 8, Publishes: [2]int8{1, 2}}},
		func(c *scenario) { c.mutant = claimByTerm },
	},
	{
		"R14 another instance is another node", "term 1 is led twice",
		scenario{begin: (*walker).empty, faults: faults{Ticks: 5, Publishes: [2]int8{1, 1}, Slow: 2}, twins: true},
		func(c *scenario) { c.mutant = claimByNode },
	},
	{
		"R15 clocks count sleep", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 5, Publishes: [2]int8{1, 1}, Sleeps: 1}},
		func(c *scenario) { c.deafClock = true },
	},
	{
		"R16 silence outlasts a lease on a slow clock", "two leases",
		scenario{
			begin: (*walker).led, faults: faults{Ticks: 16, Publishes: [2]int8{1, 1}, Slow: 1},
			timing: Timing{Heartbeat: 3, Lease: 10, Silence: 14}, rates: [2]int64{90, 110},
		},
		func(c *scenario) { c.timing.Silence = 11 },
	},
	{
		"R20 everybody waits, also on an empty topic", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 3, Publishes: [2]int8{1, 1}, Epochs: 1}},
		func(c *scenario) { c.mutant = emptyAtOnce },
	},
	{
		"R21 no blind retry", "two leases",
		scenario{begin: (*walker).empty, faults: faults{Ticks: 5, Publishes: [2]int8{2, 2}, Slow: 2}},
		func(c *scenario) { c.mutant = retryAtOnce },
	},
	{
		"R21 told is not read", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 6, Publishes: [2]int8{1, 1}, Drop: 1, Purge: 1, Slow: 1}},
		func(c *scenario) { c.mutant = toldIsRead },
	},
	{
		"R24 the floor outlives the epoch", "and knew 1",
		scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{1, 1}, Epochs: 1}},
		func(c *scenario) { c.mutant = floorForgotten },
	},
	{
		"R27 the lease ends before the resign", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 3, Publishes: [2]int8{1, 1}, Resigns: 1, Slow: 1}},
		func(c *scenario) { c.mutant = resignFirst },
	},
	{
		"R28 only the leader's instance resigns", "two leases",
		scenario{begin: (*walker).led, faults: faults{Ticks: 3, Publishes: [2]int8{1, 1}, Foreign: 1}},
		func(c *scenario) { c.mutant = anyResign },
	},
	{
		"R34 plain claims do not depose", "has read 2",
		scenario{begin: (*walker).led, faults: faults{Ticks: 2, Publishes: [2]int8{1, 1}, Scripts: 1, Writes: 1, Slow: 1}},
		func(c *scenario) { c.mutant = plainDeposes },
	},
}

// walkLimit bounds a walk that should have ended long before.
const walkLimit = 1_000_000

func TestWalkRules(t *testing.T) {
	for _, r := range walkRules {
		t.Run(r.rule, func(t *testing.T) {
			w := newWalker(r.scenario)
			require.Empty(t, w.walk(walkLimit))
			require.Less(t, w.states, walkLimit)

			broken := r.scenario
			r.spoil(&broken)
			b := newWalker(broken)
			trace := b.walk(walkLimit)
			require.Contains(t, trace, r.broken)
			t.Logf("nothing in %d states; without the rule, after %d:\n%s", w.states, b.states, trace)
		})
	}
}

// Walks of what may go wrong together, complete within their bounds. With
// PILOTGO_TEST_BUDGET the bounds are wider, and each walk ends when its share of
// the time is over.
var walks = []struct {
	name string
	scenario
}{
	{"late", scenario{begin: (*walker).led, faults: faults{Ticks: 7, Publishes: [2]int8{2, 2}, Writes: 1, Slow: 2}}},
	{"boot", scenario{begin: (*walker).empty, faults: faults{Ticks: 7, Publishes: [2]int8{2, 1}, Slow: 2}}},
	{"lost and sent again", scenario{begin: (*walker).led, faults: faults{Ticks: 9, Publishes: [2]int8{2, 2}, Lose: 1, Resend: 1, Slow: 1}}},
	{"links drop", scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{2, 2}, Drop: 1, Slow: 1}}},
	{"links drop twice", scenario{begin: (*walker).led, faults: faults{Ticks: 9, Publishes: [2]int8{2, 2}, Drop: 2}}},
	{"the log is lost", scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{2, 1}, Epochs: 1, Slow: 1}}},
	{"purges", scenario{begin: (*walker).led, faults: faults{Ticks: 6, Publishes: [2]int8{1, 1}, Drop: 1, Purge: 1, Slow: 1}}},
	{"scripts", scenario{begin: (*walker).led, faults: faults{Ticks: 7, Publishes: [2]int8{2, 2}, Scripts: 2, Writes: 1, Slow: 1}}},
	{"another process resigns", scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{2, 2}, Foreign: 1, Writes: 1, Slow: 1}}},
	{"resigns", scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{3, 3}, Resigns: 1, Slow: 1}}},
	{"withdraws", scenario{begin: (*walker).led, faults: faults{Ticks: 8, Publishes: [2]int8{3, 3}, Withdraws: 1, Slow: 1}}},
	{"twins", scenario{begin: (*walker).empty, faults: faults{Ticks: 8, Publishes: [2]int8{2, 2}, Slow: 2}, twins: true}},
	{"sleeps", scenario{begin: (*walker).led, faults: faults{Ticks: 7, Publishes: [2]int8{2, 2}, Sleeps: 1, Slow: 1}}},
	{"all at once", scenario{begin: (*walker).led, faults: faults{
		Ticks: 4, Publishes: [2]int8{1, 1}, Resigns: 1, Drop: 1, Epochs: 1, Purge: 1, Scripts: 1, Lose: 1,
	}}},
}

func TestWalksFindNothing(t *testing.T) {
	t.Parallel()
	budget := testenv.Budget(t, 0)
	var states, claims, handovers, lost, refused int
	for _, c := range walks {
		if budget > 0 {
			c.faults.Ticks += 2
			c.faults.Slow++
		}
		w := newWalker(c.scenario)
		if budget > 0 {
			w.until = time.Now().Add(budget / time.Duration(len(walks)))
		}
		require.Empty(t, w.walk(walkLimit<<6), c.name)
		require.NotZero(t, w.leads, c.name)
		t.Logf("%-24s %7d states, complete: %v", c.name, w.states, !w.cut)
		states += w.states
		claims += w.claims
		handovers += w.handovers
		lost += w.lost
		refused += w.refused
	}
	t.Logf("%d states, %d claims, %d handovers, %d leaderships lost, %d publishes refused", states, claims, handovers, lost, refused)
	require.Greater(t, states, 100_000, "the walk reaches too little")
	for _, n := range []int{claims, handovers, lost, refused} {
		require.Greater(t, n, 5_000, "the walk reaches too little")
	}
}
