package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// disk is a file system of 256 kB, in memory.
func disk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	testenv.Need(t, "mount", err == nil, "cannot mount a small disk: root may, or CAP_SYS_ADMIN")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// eat leaves no free block on a disk.
func eat(t testing.TB, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "big")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return path
}

// The target is on another disk than the state, and that is full, or read-only.
func TestDiskThatTakesNoMore(t *testing.T) {
	dir := disk(t)
	o := place(config.FileOptions{State: filepath.Join(t.TempDir(), "state")}, dir)
	f, err := config.OpenFile(o)
	require.NoError(t, err)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))

	big := eat(t, dir)
	err = f.Apply(t.Context(), document(t, 5, string(content(5))))
	require.ErrorIs(t, err, protocol.ErrStorageFull)
	var file *config.FileError
	require.ErrorAs(t, err, &file)
	require.Contains(t, file.Hint(), "free space on the disk that holds the file")
	wantFiles(t, dir, one, "1\n")
	wantCurrent(t, f, 1, one)
	wantClean(t, dir)

	require.NoError(t, os.Remove(big))
	require.NoError(t, f.Close()) // its locks are open for writing
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	f, err = config.OpenFile(o)
	require.NoError(t, err)
	err = f.Apply(t.Context(), document(t, 5, string(content(5))))
	require.ErrorIs(t, err, protocol.ErrDenied)
	require.ErrorContains(t, err, "read-only file system")
	wantFiles(t, dir, one, "1\n")
	wantCurrent(t, f, 1, one)
	require.NoError(t, f.Close())
	o.VersionFile = filepath.Join(dir, "new.txt") // it has no lock file yet
	_, err = config.OpenFile(o)
	require.ErrorIs(t, err, protocol.ErrDenied)
	o.VersionFile = ""

	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=256k"))
	f, err = config.OpenFile(o)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Apply(t.Context(), document(t, 5, string(content(5)))))
	wantFiles(t, dir, string(content(5)), "5\n")
}

// What fills the disk may be what the version did: the one before still comes
// back, since it was written there beforehand. The state is on that disk too.
func TestDiskThatTheVersionFilled(t *testing.T) {
	dir := disk(t)
	f := openFileIn(t, config.FileOptions{
		Health: &config.Health{Tries: 1, Check: func(_ context.Context, d *config.Document) error {
			if d.Version == 1 {
				return nil
			}
			eat(t, dir)
			return errors.New("disk full")
		}},
	}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	err := f.Apply(t.Context(), document(t, 5, string(content(5))))
	require.EqualError(t, err, "apply version 5: not healthy after 1 tries: disk full")
	wantFiles(t, dir, one, "1\n")
	wantCurrent(t, f, 1, one)
	wantClean(t, dir, filepath.Join(dir, "state"))
}
