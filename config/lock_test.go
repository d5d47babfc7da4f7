//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

func TestOneAgentPerFile(t *testing.T) {
	dir := t.TempDir()
	first := openFileIn(t, config.FileOptions{}, dir)
	for name, o := range map[string]config.FileOptions{
		"all":     {},
		"target":  {State: filepath.Join(dir, "other.state"), VersionFile: filepath.Join(dir, "other.txt")},
		"version": {State: filepath.Join(dir, "other.state"), Target: filepath.Join(dir, "other.json"), VersionFile: filepath.Join(dir, "app-version.txt")},
		"state":   {Target: filepath.Join(dir, "other.json")},
	} {
		o.Swarm = "other"
		if name == "all" {
			o.Swarm = "workers"
		}
		_, err := config.OpenFile(place(o, dir))
		var locked *config.LockedError
		require.ErrorAs(t, err, &locked, name)
		require.ErrorIs(t, err, protocol.ErrConflict)
		require.Equal(t, os.Getpid(), locked.Holder.PID)
		require.Equal(t, "workers", locked.Holder.Swarm)
		require.WithinDuration(t, time.Now(), locked.Holder.Since, time.Minute)
		require.Contains(t, err.Error(), "in use by another agent (process ")
	}
	require.NoError(t, first.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, first.Close())

	second := openFileIn(t, config.FileOptions{}, dir)
	wantCurrent(t, second, 1, one)
}

// What a lock file says is for people, and whoever can write there may say anything.
func TestHolderMayBeUnknown(t *testing.T) {
	dir := t.TempDir()
	openFileIn(t, config.FileOptions{}, dir)
	for _, text := range []string{"", "{", "[1]", `{"pid":"x"}`} {
		for _, name := range []string{filepath.Join("state", ".app.json.lock"), filepath.Join("state", ".app.json.lock.holder")} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
		}
		_, err := config.OpenFile(place(config.FileOptions{}, dir))
		require.EqualError(t, err, "config file "+filepath.Join(dir, "state", "app.json")+": in use by another agent")
	}
}
