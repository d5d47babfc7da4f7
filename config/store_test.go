//go:build unix

package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

func TestModesAreKept(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	target := filepath.Join(dir, "app.json")
	require.NoError(t, os.WriteFile(target, []byte("{}"), 0o600))
	require.NoError(t, os.Chmod(target, 0o640))
	f := openFileIn(t, config.FileOptions{}, dir)
	for n := range uint64(2) {
		require.NoError(t, f.Apply(t.Context(), document(t, n+1, one)))
		wantMode(t, target, 0o640)
		wantMode(t, filepath.Join(dir, "app-version.txt"), 0o644)
	}
	require.NoError(t, f.Close())

	private := t.TempDir()
	f = openFileIn(t, config.FileOptions{Mode: 0o600}, private)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	wantMode(t, filepath.Join(private, "app.json"), 0o600)
	wantMode(t, filepath.Join(private, "app-version.txt"), 0o600)
}

func wantMode(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, mode, info.Mode(), path)
}

func TestOwnersAreKept(t *testing.T) {
	testenv.Need(t, "root", os.Geteuid() == 0, "only root gives files away")
	dir := t.TempDir()
	target := filepath.Join(dir, "app.json")
	require.NoError(t, os.WriteFile(target, []byte("{}"), 0o640))
	require.NoError(t, os.Chown(target, 1234, 2345))
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	info, err := os.Stat(target)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{1234, 2345, 0o640}, []uint32{stat.Uid, stat.Gid, uint32(info.Mode())})
}

func TestSymlinkIsFollowedOnce(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	link, target := filepath.Join(dir, "app.json"), filepath.Join(far, "real.json")
	rel, err := filepath.Rel(dir, target)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(rel, link))
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one))) // it dangled
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, one, string(got))
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, rel, to)

	// Whoever names the file itself meets the same lock.
	_, err = config.OpenFile(config.FileOptions{Swarm: "other", Target: target, State: filepath.Join(far, "state")})
	require.ErrorIs(t, err, protocol.ErrConflict)

	second := filepath.Join(dir, "second.json")
	require.NoError(t, os.Symlink(link, second))
	_, err = config.OpenFile(config.FileOptions{Swarm: "other", Target: second, State: filepath.Join(far, "state")})
	require.ErrorIs(t, err, protocol.ErrInvalid)
	require.ErrorContains(t, err, "leads to another symlink")
}

// In a folder for all, such as /tmp, a symlink of a stranger would choose what a
// privileged agent writes.
func TestSymlinkOfAStranger(t *testing.T) {
	testenv.Need(t, "root", os.Geteuid() == 0, "only root can make a symlink of another user's")
	dir, far := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	link := filepath.Join(dir, "app.json")
	require.NoError(t, os.Symlink(filepath.Join(far, "passwd"), link))
	require.NoError(t, os.Lchown(link, 1234, 1234))
	_, err := config.OpenFile(config.FileOptions{Swarm: "a", Target: link, State: filepath.Join(far, "state")})
	require.ErrorIs(t, err, protocol.ErrDenied)

	// Nor does a lock file lead anywhere.
	victim := filepath.Join(far, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, ".b.json.lock")))
	_, err = config.OpenFile(config.FileOptions{Swarm: "a", Target: filepath.Join(dir, "b.json"), State: filepath.Join(far, "state")})
	require.Error(t, err)
	got, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(got))
}

// A file of a stranger there would stay his, and so would its content.
func TestTargetOfAStranger(t *testing.T) {
	testenv.Need(t, "root", os.Geteuid() == 0, "only root can make a file of another user's")
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	o := config.FileOptions{Swarm: "a", Target: filepath.Join(dir, "app.json"), State: filepath.Join(t.TempDir(), "state")}
	for _, name := range []string{"app.json", "app-version.txt"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte("1"), 0o666))
		require.NoError(t, os.Chown(file, 1234, 1234))
		_, err := config.OpenFile(o)
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.ErrorContains(t, err, name+": it is of user 1234, in a folder for all")
		require.NoError(t, os.Remove(file))
	}
	f, err := config.OpenFile(o)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, os.Chown(filepath.Join(dir, "app.json"), 1234, 1234))
	require.ErrorIs(t, f.Apply(t.Context(), document(t, 2, two)), protocol.ErrDenied)
}

// A named pipe in the place of a file of ours is no reason to wait.
func TestPipesHoldUpNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	state := filepath.Join(dir, "state", "app.json")
	require.NoError(t, syscall.Mkfifo(state, 0o600))
	_, err := config.OpenFile(place(config.FileOptions{}, dir))
	require.ErrorIs(t, err, protocol.ErrConflict)
	require.NoError(t, os.Remove(state))

	lock := filepath.Join(dir, ".app.json.lock")
	require.NoError(t, os.Remove(lock))
	require.NoError(t, syscall.Mkfifo(lock, 0o600))
	_, err = config.OpenFile(place(config.FileOptions{}, dir))
	require.ErrorIs(t, err, protocol.ErrConflict)
	require.ErrorContains(t, err, "is no regular file")
}

// A state is found behind a symlink, which stays.
func TestStateBehindASymlink(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	link := filepath.Join(dir, "state", "app.json")
	require.NoError(t, os.WriteFile(filepath.Join(far, "real.json"), []byte(`{"format":1,"swarm":"workers"}`), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(far, "real.json"), link))
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Close())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink)
	wantCurrent(t, openFileIn(t, config.FileOptions{}, dir), 1, one)
	wantClean(t, far)
}

func TestTargetsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, test := range []struct {
		target string
		code   protocol.Code
		text   string
	}{
		{"folder", protocol.ErrConflict, "is a folder"},
		{"fifo", protocol.ErrConflict, "is no regular file"},
		{"none/app.json", protocol.ErrNotFound, "no folder " + filepath.Join(dir, "none")},
		{"file/app.json", protocol.ErrNotFound, "not a directory"},
	} {
		o := config.FileOptions{Swarm: "a", Target: filepath.Join(dir, test.target), VersionFile: config.NoVersionFile, State: filepath.Join(dir, "state")}
		_, err := config.OpenFile(o)
		var typed *config.FileError
		require.ErrorAs(t, err, &typed, test.target)
		require.Equal(t, test.code, typed.Code, test.target)
		require.ErrorIs(t, err, test.code)
		require.ErrorContains(t, err, test.text)
		require.NotEmpty(t, typed.Hint(), test.target)
	}
}

// A folder that comes to stand where the target was: nothing changes.
func TestTargetThatBecomesAFolder(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	target := filepath.Join(dir, "app.json")
	require.NoError(t, os.Remove(target))
	require.NoError(t, os.Mkdir(target, 0o755))
	err := f.Apply(t.Context(), document(t, 2, two))
	require.ErrorIs(t, err, protocol.ErrConflict)
	require.NotErrorIs(t, err, protocol.ErrInvalid, "no fault of the document's")
	require.NoError(t, os.Remove(target))
	wantCurrent(t, f, 1, one)
	wantFiles(t, dir, one, "1\n")
	wantClean(t, dir, filepath.Join(dir, "state"))
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	keep := []string{"app.json.pilotgo-1", ".app.json.pilotgo-x1", ".app.json.123", ".other.json.pilotgo-1", ".app.json.pilotgo-"}
	gone := []string{".app.json.pilotgo-12345", ".app-version.txt.pilotgo-7", "state/.app.json.99"}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	for _, name := range append(keep, gone...) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	openFileIn(t, config.FileOptions{}, dir)
	for _, name := range keep {
		require.FileExists(t, filepath.Join(dir, name))
	}
	for _, name := range gone {
		require.NoFileExists(t, filepath.Join(dir, name))
	}
}

// A state that is damaged, or of another build or swarm, is never taken for none.
func TestStateThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Close())
	state := filepath.Join(dir, "state", "app.json")
	good, err := os.ReadFile(state)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		text string
		code protocol.Code
	}{
		"empty":        {"", protocol.ErrMalformed},
		"half":         {string(good[:len(good)/2]), protocol.ErrMalformed},
		"no state":     {"{}", protocol.ErrMalformed},
		"newer":        {strings.Replace(string(good), `"format":1`, `"format":2`, 1), protocol.ErrVersion},
		"other swarm":  {strings.Replace(string(good), "workers", "walkers", 1), protocol.ErrConflict},
		"other digest": {strings.Replace(string(good), "sha256:", "sha256:0", 1), protocol.ErrMalformed},
		"version":      {strings.Replace(string(good), `"version":1`, `"version":9007199254740992`, 1), protocol.ErrMalformed},
		"highest":      {strings.Replace(string(good), `"highest":1`, `"highest":9007199254740992`, 1), protocol.ErrMalformed},
		"no version":   {strings.Replace(string(good), `"version":1`, `"version":0`, 1), protocol.ErrMalformed},
	} {
		require.NotEqual(t, string(good), test.text, name)
		require.NoError(t, os.WriteFile(state, []byte(test.text), 0o600))
		_, err := config.OpenFile(place(config.FileOptions{}, dir))
		var typed *config.FileError
		require.ErrorAs(t, err, &typed, name)
		require.Equal(t, test.code, typed.Code, name)
		require.NotEmpty(t, typed.Hint())
		wantFiles(t, dir, one, "1\n")
	}
	require.NoError(t, os.WriteFile(state, good, 0o600))
	wantCurrent(t, openFileIn(t, config.FileOptions{}, dir), 1, one)
}

// A state of the first format opens for ever.
func TestStateOfFormatOne(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", "state-1.json"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state", "app.json"), text, 0o600))
	f := openFileIn(t, config.FileOptions{}, dir)
	a := wantCurrent(t, f, 2, `{"a":2}`) // 3 was begun, and had failed
	require.True(t, a.Pinned)
	require.Equal(t, uint64(9), a.Highest)
	require.Equal(t, protocol.EpochID(0xfedcba9876543210), a.Epoch)
	wantFiles(t, dir, `{"a":2}`, "2\n")
	spoil(t, dir, `{"a": 1}`, "1\n")
	wantCurrent(t, f, 1, `{"a":1}`)
}

func FuzzState(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "state-1.json"))
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"format":1,"swarm":"workers","undo":true,"next":null,"before":{"content":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		again, err := config.ReparseState(text, "workers")
		if err != nil {
			require.NotEqual(t, protocol.ErrInternal, protocol.CodeOf(err), "%v", err)
			return
		}
		twice, err := config.ReparseState(again, "workers")
		require.NoError(t, err)
		require.Equal(t, string(again), string(twice))
	})
}
