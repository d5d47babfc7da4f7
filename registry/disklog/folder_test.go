package disklog_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// do carries out n changes of some work.
func do(t *testing.T, l registry.Log, w *work, n int) {
	t.Helper()
	for range n {
		require.NoError(t, w.next()(l))
	}
}

func closeLog(t *testing.T, l *disklog.Log) {
	t.Helper()
	require.NoError(t, l.Close())
}

// seqOf is the seq of the log's last message.
func seqOf(l registry.Log) protocol.Seq {
	head, _ := l.Head()
	return head
}

func TestAFolderIsOfOneProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "log")
	l := openLog(t, dir, disklog.Options{})
	_, err := disklog.Open(dir, disklog.Options{})
	var inUse *disklog.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Contains(t, inUse.Holder, fmt.Sprint("process ", os.Getpid()))
	_, err = disklog.Check(dir, disklog.Options{})
	require.ErrorAs(t, err, &inUse)
	require.ErrorContains(t, err, "in use by process")

	closeLog(t, l)
	again := openLog(t, dir, disklog.Options{})
	require.Equal(t, l.Epoch(), again.Epoch())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "the identity key lies in it")
}

func TestForeignFoldersAreLeftAlone(t *testing.T) {
	var foreign *disklog.ForeignError
	for _, test := range []struct{ name, file, text string }{
		{"things of others", "notes.txt", "mine"},
		{"another format file", "format", "of something else"},
		{"an empty format file", "format", ""},
		{"a format that never was", "format", "pilotgo registry log, format 0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600))
			_, err := disklog.Open(dir, disklog.Options{})
			require.ErrorAs(t, err, &foreign)
			_, err = disklog.Check(dir, disklog.Options{})
			require.ErrorAs(t, err, &foreign)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
	_, err := disklog.Check(filepath.Join(t.TempDir(), "nothing"), disklog.Options{})
	require.ErrorAs(t, err, &foreign)
}

func TestNewerFormatsAreRefused(t *testing.T) {
	dir := t.TempDir()
	closeLog(t, openLog(t, dir, disklog.Options{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "format"), []byte("pilotgo registry log, format 3\n"), 0o600))
	_, err := disklog.Open(dir, disklog.Options{})
	var newer *disklog.NewerFormatError
	require.ErrorAs(t, err, &newer)
	require.Equal(t, 3, newer.Have)
	require.Contains(t, newer.Hint(), "upgrade")
}

func TestAKeyIsFollowedByItsSuccessor(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, disklog.Options{})
	require.Nil(t, l.Key())
	keys := make([]ed25519.PrivateKey, protocol.MaxSuccessions+3)
	for i := range keys {
		keys[i] = ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%032d", i))
		require.NoError(t, l.SetKey(keys[i]))
		require.NoError(t, l.SetKey(keys[i])) // again is nothing new
		if i%10 == 0 {
			closeLog(t, l)
			l = openLog(t, dir, disklog.Options{})
		}
		require.Equal(t, keys[i], l.Key())
		require.Len(t, l.Successions(), min(i, protocol.MaxSuccessions))
	}
	last := keys[len(keys)-1].Public().(ed25519.PublicKey)
	require.True(t, protocol.Follows(keys[2].Public().(ed25519.PublicKey), last, l.Successions()))
	require.False(t, protocol.Follows(keys[1].Public().(ed25519.PublicKey), last, l.Successions()), "too old")
	require.ErrorIs(t, l.SetKey(nil), protocol.ErrInvalid)
	closeLog(t, l)
	require.ErrorIs(t, l.SetKey(keys[0]), protocol.ErrClosed)
}

// The store alone cannot tell that the end of its log is missing.
func TestALostTailBeginsANewEpoch(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := disklog.Options{FS: fs, Now: func() time.Time { return time.Unix(1e9, 0) }}
	l, err := disklog.Open("log", o)
	require.NoError(t, err)
	w := newWork(1)
	do(t, l, w, 5)
	early := fs.CrashClone(vfs.CrashCloneCfg{})
	do(t, l, w, 5)
	head, epoch := seqOf(l), l.Epoch()
	closeLog(t, l)

	copyFile(t, fs, early, "log/head") // of the end, to a store of the middle
	o.FS = early
	r, err := disklog.Check("log", o)
	require.NoError(t, err)
	require.Len(t, r.Faults, 1)
	require.Contains(t, r.Faults[0], fmt.Sprintf("and %d was acknowledged", head))

	for range 2 {
		l, err = disklog.Open("log", o)
		require.NoError(t, err)
		require.NotEqual(t, epoch.ID, l.Epoch().ID)
		require.Equal(t, uint64(1e9), l.Epoch().Born)
		require.Equal(t, head, seqOf(l), "no seq comes twice")
		next := l.Epoch()
		closeLog(t, l)
		l, err = disklog.Open("log", o)
		require.NoError(t, err)
		require.Equal(t, next, l.Epoch(), "once")
		closeLog(t, l)
	}
}

func copyFile(t *testing.T, from, to vfs.FS, name string) {
	t.Helper()
	in, err := from.Open(name)
	require.NoError(t, err)
	defer in.Close()
	info, err := in.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = in.ReadAt(b, 0)
	require.NoError(t, err)
	out, err := to.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = out.Write(b)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// files lists the store's files of a kind.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "store", pattern))
	require.NoError(t, err)
	return list
}

// spoil changes one byte of a file.
func spoil(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[at] ^= 0x10
	require.NoError(t, os.WriteFile(name, b, 0o600))
}

// lastLog is the newest file of the store's log, and where its records end: zeros
// are set aside behind them.
func lastLog(t *testing.T, dir string) (name string, end int) {
	t.Helper()
	logs := files(t, dir, "*.log")
	name = logs[len(logs)-1]
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return name, len(bytes.TrimRight(b, "\x00"))
}

// The store's log is longer than its records, where the system can do that: a sync
// has no new length to write.
func TestTheStoresLogHasItsLengthAhead(t *testing.T) {
	testenv.Need(t, "linux", runtime.GOOS == "linux", "elsewhere a file gets no length ahead")
	dir := t.TempDir()
	l := openLog(t, dir, disklog.Options{})
	f := newFeeder(1, 100)
	size := func() int64 {
		info, err := os.Stat(files(t, dir, "*.log")[0])
		require.NoError(t, err)
		return info.Size()
	}
	require.NoError(t, l.Append(f.next(1)))
	before := size()
	require.Greater(t, before, int64(1<<20))
	require.Less(t, before, int64(2<<20))
	for range 20 {
		require.NoError(t, l.Append(f.next(10)))
	}
	require.Equal(t, before, size())

	// What a crash leaves: the records, and zeros behind them.
	crashed := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.CopyFS(crashed, os.DirFS(dir)))
	again := openLog(t, crashed, disklog.Options{})
	require.Equal(t, seqOf(l), seqOf(again))
	require.Equal(t, l.Epoch(), again.Epoch())
}

// written makes a log, closed without a flush or with.
func written(t *testing.T, flushed bool) (dir string, head protocol.Seq) {
	t.Helper()
	dir = t.TempDir()
	l, err := disklog.Open(dir, disklog.Options{Retention: registry.Retention{Messages: -1}})
	require.NoError(t, err)
	f := newFeeder(3, 1000)
	for range 100 {
		require.NoError(t, l.Append(f.next(10)))
	}
	closeLog(t, l)
	if flushed { // opening does
		closeLog(t, openLog(t, dir, disklog.Options{}))
	}
	return dir, f.seq
}

func TestDamageIsToldApart(t *testing.T) {
	var damaged *disklog.DamagedError
	t.Run("in the middle of the store's log", func(t *testing.T) {
		dir, _ := written(t, false)
		last, end := lastLog(t, dir)
		spoil(t, last, end/2)
		_, err := disklog.Open(dir, disklog.Options{})
		require.ErrorAs(t, err, &damaged)
		require.Contains(t, damaged.Hint(), "newest backup")
		_, err = disklog.Check(dir, disklog.Options{})
		require.ErrorAs(t, err, &damaged)
	})
	t.Run("the end of the store's log is cut off", func(t *testing.T) {
		dir, head := written(t, false)
		before, err := disklog.Check(dir, disklog.Options{})
		require.NoError(t, err)
		last, end := lastLog(t, dir)
		require.NoError(t, os.Truncate(last, int64(end/2)))
		l := openLog(t, dir, disklog.Options{})
		require.NotEqual(t, before.Epoch.ID, l.Epoch().ID)
		require.Equal(t, head, seqOf(l))
		require.Less(t, l.Stats().Messages, 1000)
		require.Greater(t, l.Stats().Messages, 100)
	})
	t.Run("the store's log is gone", func(t *testing.T) {
		dir, _ := written(t, false)
		before, err := disklog.Check(dir, disklog.Options{})
		require.NoError(t, err)
		for _, name := range files(t, dir, "*.log") {
			require.NoError(t, os.Remove(name))
		}
		l := openLog(t, dir, disklog.Options{})
		require.NotEqual(t, before.Epoch.ID, l.Epoch().ID)
	})
	t.Run("a table", func(t *testing.T) {
		dir, head := written(t, true)
		for _, name := range files(t, dir, "*.sst") {
			info, err := os.Stat(name)
			require.NoError(t, err)
			spoil(t, name, int(info.Size()*3/4)) // among the messages
		}
		r, err := disklog.Check(dir, disklog.Options{})
		require.NoError(t, err)
		require.NotEmpty(t, r.Faults)
		require.Contains(t, r.Faults[0], "checksum")
		l := openLog(t, dir, disklog.Options{})
		require.ErrorAs(t, readEverything(l, head), &damaged)
	})
	t.Run("a table is gone", func(t *testing.T) {
		dir, _ := written(t, true)
		for _, name := range files(t, dir, "*.sst") {
			require.NoError(t, os.Remove(name))
		}
		_, err := disklog.Open(dir, disklog.Options{})
		require.ErrorAs(t, err, &damaged)
	})
	t.Run("the store is gone", func(t *testing.T) {
		dir, _ := written(t, true)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "store")))
		_, err := disklog.Open(dir, disklog.Options{})
		require.ErrorAs(t, err, &damaged)
		_, err = disklog.Check(dir, disklog.Options{})
		require.ErrorAs(t, err, &damaged)
	})
}

func readEverything(l registry.Log, head protocol.Seq) error {
	page := registry.Page{MaxRecords: 100}
	for at := protocol.Seq(0); at < head; at = page.Scanned {
		if err := l.Read(&registry.Selection{Pattern: "*"}, at, head, &page); err != nil {
			return err
		}
	}
	return nil
}

// The identity key lies in the store. The folder may have been made by hand, or
// copied from a backup without its modes.
func TestAStoreThatOthersMayReadIsTakenFromThem(t *testing.T) {
	testenv.Need(t, "modes", runtime.GOOS != "windows", "modes mean nothing on Windows")
	dir := filepath.Join(t.TempDir(), "log")
	store := filepath.Join(dir, "store")
	perm := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	l := openLog(t, dir, disklog.Options{})
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, l.Backup(backup))
	require.Equal(t, os.FileMode(0o700), perm(filepath.Join(backup, "store")))
	closeLog(t, l)

	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Chmod(store, 0o777))
	_, err := disklog.Check(dir, disklog.Options{})
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o777), perm(store), "a check changes nothing")
	openLog(t, dir, disklog.Options{})
	require.Equal(t, os.FileMode(0o700), perm(store))
}

// What is left of a store that was not finished is removed, so it must not be a
// link to something else.
func TestAnUnfinishedStoreThatIsALinkIsLeftAlone(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	letter := filepath.Join(other, "letter")
	require.NoError(t, os.WriteFile(letter, []byte("Dear Sir or Madam"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "format"), []byte("pilotgo registry log, format 1, unfinished\n"), 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, "store")))
	_, err := disklog.Open(dir, disklog.Options{})
	var foreign *disklog.ForeignError
	require.ErrorAs(t, err, &foreign)
	require.FileExists(t, letter)
}

func TestALockThatCannotBeHadIsNotAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	closeLog(t, openLog(t, dir, disklog.Options{}))
	lock := filepath.Join(dir, "store", "LOCK")
	require.NoError(t, os.Remove(lock))
	require.NoError(t, os.Mkdir(lock, 0o700)) // as good as one that may not be written
	_, err := disklog.Open(dir, disklog.Options{})
	var inUse *disklog.InUseError
	require.False(t, errors.As(err, &inUse), "%v", err)
	var file *os.PathError
	require.ErrorAs(t, err, &file)
}

// Shells complete names of folders with a slash.
func TestASlashBehindAFolderMeansNothing(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) + string(filepath.Separator) }
	l := openLog(t, name("log"), disklog.Options{})
	do(t, l, newWork(3), 20)
	require.NoError(t, l.Backup(name("backup")))
	var out bytes.Buffer
	require.NoError(t, l.Export(&out))
	require.NoError(t, os.Mkdir(name("imported"), 0o755))
	require.NoError(t, disklog.Import(name("imported"), &out, disklog.Options{}))
	for _, s := range []string{"log", "backup", "imported"} {
		require.FileExists(t, filepath.Join(dir, s, "format"))
		require.NoDirExists(t, filepath.Join(dir, s, ".partial"))
	}
}

// Each error that a folder can give has a word for programs and says what to do.
func TestErrorsOfFoldersSayWhatToDo(t *testing.T) {
	for _, err := range []interface {
		error
		Name() string
		Hint() string
	}{
		&disklog.InUseError{Dir: "d"}, &disklog.ForeignError{Dir: "d"}, &disklog.NewerFormatError{Dir: "d"},
		&disklog.DamagedError{Dir: "d", Err: errors.New("bad")},
	} {
		require.NotEmpty(t, err.Name())
		require.NotEmpty(t, err.Hint())
		require.NotContains(t, err.Error(), err.Hint())
	}
}
