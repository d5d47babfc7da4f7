package disklog_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

func TestABackupIsTheLogOfItsMoment(t *testing.T) {
	dir := t.TempDir()
	o := disklog.Options{Retention: workKeep}
	l := openLog(t, filepath.Join(dir, "log"), o)
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, l.SetKey(key))
	w := newWork(5)
	do(t, l, w, 60)
	want := print(t, l)
	require.NoError(t, l.Backup(filepath.Join(dir, "backup")))
	require.Error(t, l.Backup(filepath.Join(dir, "backup")), "one is there")
	do(t, l, w, 60)
	require.NotEqual(t, want, print(t, l))

	r, err := disklog.Check(filepath.Join(dir, "backup"), o)
	require.NoError(t, err)
	require.Empty(t, r.Faults)
	require.Equal(t, l.Epoch(), r.Epoch)
	require.True(t, r.HasKey)

	b := openLog(t, filepath.Join(dir, "backup"), o)
	require.Equal(t, want, print(t, b))
	require.NotEqual(t, l.Epoch().ID, b.Epoch().ID, "restored logs lack what came after the backup")
	require.Equal(t, key, b.Key())
	epoch := b.Epoch()
	do(t, b, w, 10)
	closeLog(t, b)
	require.Equal(t, epoch, openLog(t, filepath.Join(dir, "backup"), o).Epoch(), "a new epoch is taken once")
}

// A file that a check leaves behind belongs to who checks, and another user's
// registry cannot serve from the backup any more.
func TestACheckLeavesNothingInABackup(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "log"), disklog.Options{})
	do(t, l, newWork(1), 20)
	backup := filepath.Join(dir, "backup")
	require.NoError(t, l.Backup(backup))
	before := names(t, backup)
	r, err := disklog.Check(backup, disklog.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Faults)
	require.Equal(t, before, names(t, backup))
}

// names lists all that is below a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

func TestABackupWhileOthersWrite(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, filepath.Join(dir, "log"), disklog.WithMemTable(disklog.Options{Retention: registry.Retention{Messages: -1}}, 256<<10))
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		f := newFeeder(3, 500)
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := l.Append(f.next(20)); err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range 5 {
		from := seqOf(l)
		name := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, l.Backup(name))
		to := seqOf(l)
		b := openLog(t, name, disklog.Options{Retention: registry.Retention{Messages: -1}})
		head := seqOf(b)
		require.GreaterOrEqual(t, head, from)
		require.LessOrEqual(t, head, to+20)
		require.Equal(t, int(head), b.Stats().Messages)
		require.NoError(t, readEverything(b, head))
	}
	close(stop)
	require.NoError(t, <-ended)
}

func TestAnExportIsImportedWhole(t *testing.T) {
	for seed := range uint64(4) {
		o := disklog.Options{FS: vfs.NewMem(), Retention: workKeep}
		l := openLog(t, "log", o)
		do(t, l, newWork(seed), 80)
		var text bytes.Buffer
		require.NoError(t, l.Export(&text))
		require.NoError(t, disklog.Import("copy", bytes.NewReader(text.Bytes()), o))
		c := openLog(t, "copy", o)
		require.Equal(t, print(t, l), print(t, c))
		require.NotEqual(t, l.Epoch().ID, c.Epoch().ID)
		require.Nil(t, c.Key())
		r, err := openAndCheck(t, c, o)
		require.NoError(t, err)
		require.Empty(t, r.Faults)

		var again bytes.Buffer
		c = openLog(t, "copy", o)
		require.NoError(t, c.Export(&again))
		_, before, _ := strings.Cut(text.String(), "\n")
		_, after, _ := strings.Cut(again.String(), "\n")
		require.Equal(t, before, after, "all but the epoch")
	}
}

func openAndCheck(t *testing.T, l *disklog.Log, o disklog.Options) (*disklog.Report, error) {
	t.Helper()
	closeLog(t, l)
	return disklog.Check("copy", o)
}

func TestImportTakesAllOrNothing(t *testing.T) {
	l := openLog(t, "log", disklog.Options{FS: vfs.NewMem()})
	do(t, l, newWork(1), 20)
	var text bytes.Buffer
	require.NoError(t, l.Export(&text))
	lines := strings.SplitAfter(text.String(), "\n")
	last := lines[len(lines)-2]
	whole := text.String()
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "ends too early"},
		{"cut off", strings.TrimSuffix(whole, last), "ends too early"},
		{"a message is missing", strings.Join(lines[:len(lines)-3], "") + last, "not a line"},
		{"no head", strings.Join(lines[1:], ""), "line 1"},
		{"two heads", lines[0] + whole, "line 2"},
		{"not JSON", lines[0] + "hello\n", "line 2"},
		{"more than is known", lines[0] + `{"fence":{"topic":"a","k":1,"s":1,"new":1}}` + "\n", "unknown field"},
		{"a newer format", strings.Replace(lines[0], `"format":1`, `"format":2`, 1), "format 2"},
		{"no topic", lines[0] + `{"mark":{"seq":1}}`, "line 2"},
		{"a bad topic", lines[0] + `{"fence":{"topic":"a*b","k":1,"s":1}}`, "invalid topic"},
		{"a message that comes twice", strings.Join(lines[:len(lines)-2], "") + lines[len(lines)-3], "not a line"},
		{"more behind the end", whole + last, "not a line"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fs := vfs.NewMem()
			require.ErrorContains(t, disklog.Import("copy", strings.NewReader(test.text), disklog.Options{FS: fs}), test.want)
			left, err := fs.List("")
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	fs := vfs.NewMem()
	closeLog(t, openLog(t, "copy", disklog.Options{FS: fs}))
	require.ErrorContains(t, disklog.Import("copy", strings.NewReader(whole), disklog.Options{FS: fs}), "there is a log already")
}

// Import takes text from anywhere.
func FuzzImport(f *testing.F) {
	l := openLog(f, "log", disklog.Options{FS: vfs.NewMem()})
	w := newWork(2)
	for range 3 {
		require.NoError(f, w.next()(l))
	}
	var text bytes.Buffer
	require.NoError(f, l.Export(&text))
	head, _, _ := strings.Cut(text.String(), "\n")
	f.Add(head + "\n" + `{"end":{"messages":0}}`)
	f.Add(head + "\n" + `{"entry":{"table":"YQ==","key":"","value":""}}` + "\n" + `{"end":{"messages":0}}`)
	f.Add(head + "\n" + `{"message":{"seq":1,"time":1,"sender":1,"topic":"a","payload":"","key":"","digest":"AAAAAAAAAAAAAAAAAAAAAA==","epoch":"0000000000000001"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := disklog.Options{FS: vfs.NewMem()}
		if disklog.Import("copy", strings.NewReader(text), o) != nil {
			return
		}
		l, err := disklog.Open("copy", o)
		require.NoError(t, err)
		require.NoError(t, readEverything(l, seqOf(l)))
		require.NoError(t, l.Load(registry.State{Key: func(registry.KeyEntry) error { return nil }}))
		require.NoError(t, l.Close())
		require.NotEqual(t, protocol.EpochID(0), l.Epoch().ID)
	})
}
