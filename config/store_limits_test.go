//go:build unix

package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
)

// output is what a child prints.
func (c child) output(t *testing.T) string {
	t.Helper()
	out, err := c.command(t).Output()
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return string(out)
}

// applied makes a folder in which version 1 is applied.
func applied(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f := openFileIn(t, killed(dir), dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, string(content(1)))))
	require.NoError(t, f.Close())
	return dir
}

// wantVersion1 finds everything as applied left it.
func wantVersion1(t *testing.T, dir string) {
	t.Helper()
	wantClean(t, dir, filepath.Join(dir, "state"))
	wantFiles(t, dir, string(content(1)), "1\n")
	f := openFileIn(t, config.FileOptions{}, dir)
	defer f.Close()
	wantCurrent(t, f, 1, string(content(1)))
}

// Version 5 has 40 kB, the state with it and version 1 some 65.
func TestWriteThatFailsChangesNothing(t *testing.T) {
	for name, limit := range map[string]uint64{"content": 20_000, "state": 50_000} {
		t.Run(name, func(t *testing.T) {
			dir := applied(t)
			out := child{Dir: dir, First: 5, Count: 1, FileSize: limit}.output(t)
			require.Contains(t, out, "error storage_full apply version 5: config file "+dir)
			require.Contains(t, out, "file too large")
			wantVersion1(t, dir)
			require.Equal(t, "ok 5\n", child{Dir: dir, First: 5, Count: 1, FileSize: 80_000}.output(t))
		})
	}
}

// The folder of the target cannot be written to; that of the state can.
func TestFolderThatMayNotBeWritten(t *testing.T) {
	dir := applied(t)
	c := child{Dir: dir, First: 5, Count: 1}
	if os.Geteuid() == 0 { // whom no mode stops
		c.User = 65534
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
		for _, name := range []string{"state", "state/app.json", "state/.app.json.lock"} {
			require.NoError(t, os.Chown(filepath.Join(dir, name), c.User, c.User))
		}
	}
	require.NoError(t, os.Chmod(dir, 0o555))
	out := c.output(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	require.Contains(t, out, "error permission_denied apply version 5: config file "+dir)
	wantVersion1(t, dir)
}

// Before the first version there are no locks and no state.
func TestNewFolderThatMayNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	c := child{Dir: dir, First: 5, Count: 1}
	if os.Geteuid() == 0 {
		c.User = 65534
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	require.NoError(t, os.Chmod(dir, 0o555))
	out := c.output(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	require.Contains(t, out, "error permission_denied config file "+dir)
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, list)
}
