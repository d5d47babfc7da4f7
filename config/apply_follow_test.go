//go:build unix

package config_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// following runs an agent with a File until it is stopped or the test ends.
func following(t *testing.T, reg *fakeregistry.Registry, dir string, o config.FileOptions, fo config.FollowOptions) (stop func()) {
	t.Helper()
	c := dial(t, reg, "agent")
	s := openSwarm(t, c)
	o.Retained = s.Get
	f, err := config.OpenFile(place(o, dir))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Follow(ctx, f, fo) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, f.Close())
		require.NoError(t, c.Close())
	}
	t.Cleanup(stop)
	return stop
}

// H14: what is in the file is what was published; and the recipe's rollback, by
// hand on one machine, holds against all that is published later.
func TestAFileFollowsASwarm(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		dir := t.TempDir()
		s := join(t, reg, "publisher")
		stop := following(t, reg, dir, config.FileOptions{}, config.FollowOptions{})
		publish(t, s, 100, one)
		settle()
		wantFiles(t, dir, one, "100\n")
		publish(t, s, 101, two)
		settle()
		publish(t, s, 102, `{"n":102}`)
		settle()
		wantFiles(t, dir, `{"n":102}`, "102\n")

		const byJQ = `{"B": 1, "a": 9007199254740992, "max": 18446744073709552000, "x": 1.0, "é": "\u0000"}`
		spoil(t, dir, byJQ+"\n", "100\n")
		publish(t, s, 103, `{"n":103}`)
		settle()
		wantFiles(t, dir, one, "100\n")
		require.True(t, onlyReport(t, reg).Pinned)
		stop()

		stop = following(t, reg, dir, config.FileOptions{}, config.FollowOptions{})
		publish(t, s, 104, `{"n":104}`)
		settle()
		wantFiles(t, dir, one, "100\n")
		stop()

		following(t, reg, dir, config.FileOptions{}, config.FollowOptions{Unpin: true})
		settle()
		wantFiles(t, dir, `{"n":104}`, "104\n")
		require.Equal(t, uint64(104), onlyReport(t, reg).Version)
	})
}

// H09: a registry that has lost its log takes nothing away, from an agent that
// runs or from one that starts.
func TestALostLogLeavesTheFile(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		dir := t.TempDir()
		stop := following(t, reg, dir, config.FileOptions{}, config.FollowOptions{})
		publish(t, join(t, reg, "publisher"), 100, one)
		settle()
		require.NoError(t, reg.RestartEmpty())
		settle()
		wantFiles(t, dir, one, "100\n")
		stop()
		following(t, reg, dir, config.FileOptions{}, config.FollowOptions{})
		settle()
		wantFiles(t, dir, one, "100\n")
		require.True(t, onlyReport(t, reg).Behind)
	})
}

// A document that a schema refuses is rejected, one that a command does not come
// up with has failed; neither stays.
func TestAFileTellsRejectedFromFailed(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		dir := t.TempDir()
		after := sh(`[ "$PILOTGO_VERSION" != 102 ] || { echo no such pool >&2; exit 1; }`)
		following(t, reg, dir, config.FileOptions{
			Validator: &config.Schema{JSON: []byte(`{"required":["n"]}`)}, After: &after,
		}, config.FollowOptions{})
		s := join(t, reg, "publisher")
		publish(t, s, 100, `{"n":1}`)
		settle()
		publish(t, s, 101, `{}`)
		settle()
		r := onlyReport(t, reg)
		require.Equal(t, config.StateRejected, r.State)
		require.Equal(t, `document: required: missing properties: ["n"]`, r.Error)
		publish(t, s, 102, `{"n":2}`)
		settle()
		r = onlyReport(t, reg)
		require.Equal(t, config.StateFailed, r.State)
		require.Equal(t, "apply version 102: command sh: exit status 1: no such pool", r.Error)
		wantFiles(t, dir, `{"n":1}`, "100\n")
		publish(t, s, 103, `{"n":3}`)
		settle()
		wantFiles(t, dir, `{"n":3}`, "103\n")
	})
}

func onlyReport(t *testing.T, reg *fakeregistry.Registry) config.Report {
	t.Helper()
	all := reports(t, reg)
	require.Len(t, all, 1)
	for _, r := range all {
		return r
	}
	return config.Report{}
}
