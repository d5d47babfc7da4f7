package config_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// reportAs reports as the recipe's scripts do.
func reportAs(t *testing.T, c *client.Client, version int) {
	t.Helper()
	_, err := c.PublishTo(t.Context(), status, fmt.Appendf(nil, `{"agent":"","applied_version":%d}`, version))
	require.NoError(t, err)
}

// states lists the agents of a list, by name.
func states(list []config.AgentStatus) string {
	var out []string
	for _, name := range []string{"a", "b", "c", "d", "s", "x"} {
		for _, a := range list {
			if a.Node == fakeregistry.NodeID(name) {
				out = append(out, name+" "+string(a.State))
			}
		}
	}
	return strings.Join(out, ", ")
}

func compliance(t *testing.T, s *config.Swarm, o config.ComplianceOptions) config.Compliance {
	t.Helper()
	c, err := s.Compliance(t.Context(), o)
	require.NoError(t, err)
	return c
}

func nodes(names ...string) (list []protocol.NodeID) {
	for _, n := range names {
		list = append(list, fakeregistry.NodeID(n))
	}
	return list
}

// H15: repeats, a late report, a refusal, and one that is gone.
func TestComplianceCountsAgents(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"v":1}`)
		publish(t, s, 2, `{"v":2}`)
		repeats, late := dial(t, reg, "a"), dial(t, reg, "b")
		for range 5 {
			reportAs(t, repeats, 2)
		}
		reportAs(t, late, 2)
		reportAs(t, late, 1)
		follow(t, reg, "c", applying(1, `{"v":1}`), func(a *agent) {
			a.o.Validators = []config.Validator{config.ValidatorFunc(func(context.Context, *config.Document) error {
				return errors.New("no")
			})}
		})
		gone := follow(t, reg, "d")
		settle()
		require.Equal(t, "a applied, b applied, c rejected, d applied", states(compliance(t, s, config.ComplianceOptions{}).Agents))
		gone.stop()
		pass(10 * time.Minute)

		c := compliance(t, s, config.ComplianceOptions{Members: nodes("a", "b", "c", "d")})
		require.Equal(t, uint64(2), c.Version)
		require.Equal(t, "a applied, b applied, c rejected, d stale", states(c.Agents))
		require.InDelta(t, 0.5, c.Share, 0)
		require.Equal(t, map[config.AgentState]int{config.StateApplied: 2, config.StateRejected: 1, config.StateStale: 1}, c.Counts)
		require.Empty(t, c.Unknown)
		for _, a := range c.Agents {
			switch a.Node {
			case fakeregistry.NodeID("a"):
				require.True(t, a.Script)
				require.Greater(t, a.Age, 10*time.Minute)
			case fakeregistry.NodeID("c"):
				require.Equal(t, "no", a.Error)
				require.Equal(t, []uint64{1, 2}, []uint64{a.AppliedVersion, a.Version})
				require.Less(t, a.Age, time.Minute+time.Second, "it goes on reporting")
			}
		}

		c = compliance(t, s, config.ComplianceOptions{Members: nodes("a", "x"), StaleAfter: time.Minute})
		require.Equal(t, "a stale, x pending", states(c.Agents))
		require.Equal(t, "b stale, c rejected, d stale", states(c.Unknown))
		require.Zero(t, c.Share)

		c = compliance(t, s, config.ComplianceOptions{Version: 1})
		require.Equal(t, "a pending, b pending, c applied, d stale", states(c.Agents))
	})
}

func TestComplianceWithoutAVersion(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		require.Equal(t, config.Compliance{Counts: map[config.AgentState]int{}}, compliance(t, s, config.ComplianceOptions{}))
		follow(t, reg, "a", applying(7, `{}`))
		settle()
		c := compliance(t, s, config.ComplianceOptions{})
		require.Len(t, c.Agents, 1)
		require.True(t, c.Agents[0].Behind)
		require.Equal(t, uint64(7), c.Agents[0].AppliedVersion)
		_, err := s.WaitFor(t.Context(), 0, 1, config.ComplianceOptions{})
		require.ErrorIs(t, err, protocol.ErrNotFound)
	})
}

// Reports are of who sent them, whatever they say; what a trusted relay passes on
// is of its origin.
func TestComplianceGoesByTheSender(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 3, `{}`)
		origin := fakeregistry.NodeID("s")
		_, err := reg.Inject(t.Context(),
			fakeregistry.Raw{From: "x", Topic: status, Payload: fmt.Appendf(nil, `{"agent":"%d","applied_version":3}`, origin)},
			fakeregistry.Raw{From: "x", Topic: status, Payload: []byte(`{"applied_version":3}`), Origin: origin},
			fakeregistry.Raw{From: "x", Topic: status, Payload: []byte(`nonsense`)},
		)
		require.NoError(t, err)
		c := compliance(t, s, config.ComplianceOptions{})
		require.Equal(t, "x applied", states(c.Agents))
		require.Equal(t, 1, c.Void)
		c = compliance(t, s, config.ComplianceOptions{Relays: nodes("x")})
		require.Equal(t, "s applied, x applied", states(c.Agents))
	})
}

// Programs count their reports, so that one that is late does not turn them back.
func TestALateReportOfAProgramIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 3, `{}`)
		for _, r := range []config.Report{
			{AppliedVersion: 3, State: config.StateApplied, Version: 3, Instance: "i", Number: 2},
			{AppliedVersion: 2, State: config.StatePending, Version: 3, Instance: "i", Number: 1},
		} {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "a", Topic: status, Payload: r.Append(nil)})
			require.NoError(t, err)
		}
		require.Equal(t, "a applied", states(compliance(t, s, config.ComplianceOptions{}).Agents))
		again := config.Report{AppliedVersion: 2, State: config.StatePending, Version: 3, Instance: "j", Number: 1}
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "a", Topic: status, Payload: again.Append(nil)})
		require.NoError(t, err)
		require.Equal(t, "a pending", states(compliance(t, s, config.ComplianceOptions{}).Agents), "another process may really be at an older one")
	})
}

func TestAnotherContentIsNotCompliant(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		follow(t, reg, "a", applying(3, `{"other":1}`))
		settle()
		publish(t, s, 3, `{}`)
		settle()
		require.Equal(t, "a failed", states(compliance(t, s, config.ComplianceOptions{}).Agents))
	})
}

func TestWaitFor(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{}`)
		slow := func(d time.Duration) func(*agent) { return func(a *agent) { a.delay = d } }
		follow(t, reg, "a")
		follow(t, reg, "b", slow(10*time.Second))
		follow(t, reg, "c", slow(time.Minute))
		pass(2 * time.Minute)

		publish(t, s, 2, `{}`)
		began := time.Now()
		c, err := s.WaitFor(t.Context(), 2, 0.66, config.ComplianceOptions{})
		require.NoError(t, err)
		require.Equal(t, "a applied, b applied, c pending", states(c.Agents))
		require.InDelta(t, 10, time.Since(began).Seconds(), 1)
		c, err = s.WaitFor(t.Context(), 0, 1, config.ComplianceOptions{})
		require.NoError(t, err)
		require.InDelta(t, 60, time.Since(began).Seconds(), 1)
		require.InDelta(t, 1, c.Share, 0)
		_, err = s.WaitFor(t.Context(), 2, 1, config.ComplianceOptions{})
		require.NoError(t, err, "it is so already")

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err = s.WaitFor(ctx, 2, 1, config.ComplianceOptions{Members: nodes("a", "x")})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "a applied, x pending", states(c.Agents))
		for _, share := range []float64{0, -1, 1.01} {
			_, err = s.WaitFor(t.Context(), 2, share, config.ComplianceOptions{})
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
	})
}

func TestWaitingEndsWhenAnotherVersionComes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{}`)
		other := join(t, reg, "other")
		time.AfterFunc(time.Minute, func() {
			_, _ = other.Publish(t.Context(), []byte(`{"v":2}`), config.PublishOptions{Version: 2})
		})
		_, err := s.WaitFor(t.Context(), 1, 1, config.ComplianceOptions{Members: nodes("x")})
		var superseded *config.SupersededError
		require.ErrorAs(t, err, &superseded)
		require.Equal(t, config.SupersededError{Swarm: swarm, Version: 1, Latest: 2}, *superseded)
	})
}

func TestWhatCannotBeMeasured(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		publish(t, s, 7, `{}`)
		_, err := s.Compliance(t.Context(), config.ComplianceOptions{StaleAfter: -1})
		require.ErrorIs(t, err, protocol.ErrInvalid)
		for _, o := range []config.ComplianceOptions{{StaleAfter: -1}, {Version: 6}} {
			_, err = s.WaitFor(t.Context(), 7, 1, o)
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
		for _, share := range []float64{0, -1, 1.1, math.NaN()} {
			_, err = s.WaitFor(t.Context(), 7, share, config.ComplianceOptions{})
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
		for _, err := range s.History(t.Context(), config.HistoryOptions{Limit: -1}) {
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
	})
}
