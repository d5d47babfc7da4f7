package config_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// keep runs a follower that keeps a file, and tells how to stop it.
func keep(t *testing.T, s *config.Swarm, o config.FileOptions) (stop func()) {
	t.Helper()
	file, err := config.OpenFile(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Follow(ctx, file, config.FollowOptions{Retry: time.Hour, MaxRetry: time.Hour}) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, file.Close())
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

// H13: a version that could not be applied leaves the file as it was, and all can
// see why.
func TestAFailedApplyIsSeenByAll(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "swarm-config.json")
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"v":1}`)
		a := openSwarm(t, dial(t, reg, "a"))
		stop := keep(t, a, config.FileOptions{
			Swarm: swarm, Target: target, State: filepath.Join(dir, "state"),
			After: &config.Exec{Command: "sh", Args: []string{"-c", `! grep -q bad "$PILOTGO_FILE"`}},
		})
		defer func() { stop() }()
		settle()
		require.Equal(t, `{"v":1}`, text(t, target))
		require.Equal(t, "a applied", states(compliance(t, s, config.ComplianceOptions{}).Agents))

		publish(t, s, 2, `{"v":"bad"}`)
		settle()
		require.Equal(t, `{"v":1}`, text(t, target))
		c := compliance(t, s, config.ComplianceOptions{})
		require.Equal(t, "a failed", states(c.Agents))
		require.Equal(t, uint64(1), c.Agents[0].AppliedVersion)
		require.NotEmpty(t, c.Agents[0].Error)

		publish(t, s, 3, `{"v":3}`)
		settle()
		require.Equal(t, `{"v":3}`, text(t, target))
		require.Equal(t, "a applied", states(compliance(t, s, config.ComplianceOptions{}).Agents))
	})
}

// H09, H11 with files: what is on the disk outlives the agent and the registry's
// log, and the recipe's own rollback pins.
func TestFilesOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	target, version := filepath.Join(dir, "swarm-config.json"), filepath.Join(dir, "swarm-config-version.txt")
	o := config.FileOptions{Swarm: swarm, Target: target, State: filepath.Join(dir, "state")}
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 6, `{"v":6}`)
		a := openSwarm(t, dial(t, reg, "a"))
		stop := keep(t, a, o)
		settle()
		publish(t, s, 7, `{"v":7}`)
		settle()
		stop()
		require.Equal(t, `{"v":7}`, text(t, target))
		require.Equal(t, "7\n", text(t, version))

		// The recipe rolls back: both files, and nothing else.
		require.NoError(t, os.WriteFile(target, []byte("{\"v\":6}\n"), 0o644))
		require.NoError(t, os.WriteFile(version, []byte("6\n"), 0o644))
		stop = keep(t, a, o)
		settle()
		publish(t, s, 8, `{"v":8}`)
		settle()
		c := compliance(t, s, config.ComplianceOptions{})
		require.True(t, c.Agents[0].Pinned)
		require.Equal(t, uint64(6), c.Agents[0].AppliedVersion)
		stop()

		file, err := config.OpenFile(o)
		require.NoError(t, err)
		require.NoError(t, file.Pin(t.Context(), false))
		require.NoError(t, file.Close())
		reg.RestartEmpty()
		stop = keep(t, a, o)
		defer stop()
		pass(time.Minute)
		require.JSONEq(t, `{"v":6}`, text(t, target))
		c = compliance(t, s, config.ComplianceOptions{})
		require.True(t, c.Agents[0].Behind)
	})
}
