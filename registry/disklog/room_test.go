package disklog_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// tightFS is a disk of which the test says how much is left.
type tightFS struct {
	vfs.FS

	mu    sync.Mutex
	avail int64
	taken map[string]int64 // by file
	lies  bool             // about what is left, as where there is a quota
}

func newTightFS() *tightFS {
	return &tightFS{FS: vfs.NewMem(), avail: 1 << 30, taken: make(map[string]int64)}
}

func (f *tightFS) set(avail int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.avail = avail
}

func (f *tightFS) take(name string, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > f.avail {
		return syscall.ENOSPC
	}
	f.avail -= n
	f.taken[name] += n
	return nil
}

func (f *tightFS) free(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.avail += f.taken[name]
	delete(f.taken, name)
}

// tables is how much the store's tables take.
func (f *tightFS) tables() (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, size := range f.taken {
		if strings.HasSuffix(name, ".sst") {
			n += size
		}
	}
	return n
}

func (f *tightFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lies {
		return vfs.DiskUsage{AvailBytes: 1 << 50}, nil
	}
	return vfs.DiskUsage{AvailBytes: uint64(max(0, f.avail))}, nil
}

func (f *tightFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.free(name)
	file, err := f.FS.Create(name, c)
	return &tightFile{file, f, name}, err
}

func (f *tightFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return &tightFile{file, f, to}, err
}

func (f *tightFS) Remove(name string) error {
	err := f.FS.Remove(name)
	if err == nil {
		f.free(name)
	}
	return err
}

type tightFile struct {
	vfs.File
	fs   *tightFS
	name string
}

func (f *tightFile) Write(p []byte) (int, error) {
	if err := f.fs.take(f.name, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *tightFile) Preallocate(_, n int64) error { return f.fs.take(f.name, n) }

const reserve = 16 << 20

// both carries out a change on a log and on its model.
func both(t *testing.T, l *disklog.Log, m *memlog.Log, do func(registry.Log) error) {
	t.Helper()
	require.NoError(t, do(m))
	require.NoError(t, do(l))
}

// refused carries out an append that there is no room for.
func refused(t *testing.T, l *disklog.Log, w *work) {
	t.Helper()
	before := print(t, l)
	err := l.Append(&registry.Batch{
		Records: []*registry.Record{w.record()},
		Entries: []registry.Entry{{Table: "nodes", Key: "full", Value: []byte{1}}},
	})
	require.ErrorIs(t, err, protocol.ErrStorageFull)
	require.Equal(t, before, print(t, l))
}

func TestAFullDiskRefusesAppendsAndReads(t *testing.T) {
	fs := newTightFS()
	o := disklog.Options{FS: fs, Retention: workKeep, Reserve: reserve, Recent: -1}
	l, err := disklog.Open("log", o)
	require.NoError(t, err)
	m, w := memlog.New(memlog.Options{Retention: workKeep}), newWork(1)
	for range 30 {
		both(t, l, m, w.next())
	}
	require.NoError(t, l.Ready())
	fs.set(reserve - 1)

	// Who is told knows where the log is only if they are the operator.
	var full *disklog.FullError
	require.ErrorAs(t, l.Ready(), &full)
	require.Contains(t, full.Error(), full.Dir)
	require.NotEmpty(t, full.Hint())
	var told *protocol.Error
	require.ErrorAs(t, l.Ready(), &told)
	require.Equal(t, "no space for the log", told.Detail)
	for range 3 {
		require.ErrorIs(t, l.Ready(), protocol.ErrStorageFull)
		refused(t, l, w)
	}
	both(t, l, m, func(l registry.Log) error { return l.Purge("a", w.seq) })
	both(t, l, m, func(l registry.Log) error { return l.Expire(w.now + 1e9) })
	require.Equal(t, print(t, m), print(t, l))
	fs.set(1 << 30)
	require.NoError(t, l.Ready())
	for range 30 {
		both(t, l, m, w.next())
	}
	require.Equal(t, print(t, m), print(t, l))
	closeLog(t, l)
	require.ErrorIs(t, l.Ready(), protocol.ErrClosed)
	require.Equal(t, print(t, m), print(t, openLog(t, "log", o)))
}

// The disk fills between two looks at it, or there is less than it says.
func TestTheBallastMakesWay(t *testing.T) {
	fs := newTightFS()
	o := disklog.Options{FS: fs, Retention: workKeep, Reserve: reserve, Recent: -1}
	l, err := disklog.Open("log", o)
	require.NoError(t, err)
	m, w := memlog.New(memlog.Options{Retention: workKeep}), newWork(2)
	for range 20 {
		both(t, l, m, w.next())
	}
	fs.lies = true
	fs.set(0)
	r := w.record()
	both(t, l, m, func(l registry.Log) error { return l.Append(&registry.Batch{Records: []*registry.Record{r}}) })
	for range 3 {
		refused(t, l, w)
	}
	require.Equal(t, print(t, m), print(t, l))
	fs.set(1 << 30)
	for range 20 {
		both(t, l, m, w.next())
	}
	require.Equal(t, print(t, m), print(t, l))
	closeLog(t, l)
	require.Equal(t, print(t, m), print(t, openLog(t, "log", o)))
}

// What is purged from a full disk makes room for what comes.
func TestAPurgeMakesRoom(t *testing.T) {
	for name, purge := range map[string]func(*disklog.Log, string, protocol.Seq) error{
		"whole": (*disklog.Log).Purge,
		"begun": func(l *disklog.Log, topic string, upTo protocol.Seq) error {
			done, err := l.BeginPurge(topic, upTo)
			require.NoError(t, err)
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) { testPurgeMakesRoom(t, purge) })
	}
}

func testPurgeMakesRoom(t *testing.T, purge func(*disklog.Log, string, protocol.Seq) error) {
	const payload, records = 4096, 2000
	fs := newTightFS()
	// The purge fits into the table in memory. Tables that are written during it keep
	// what readers of the moment before may read, and the store gives that back later.
	l, err := disklog.Open("log", disklog.WithMemTable(disklog.Options{FS: fs, Reserve: reserve, Recent: -1, Retention: registry.Retention{Messages: -1}}, 2<<20))
	require.NoError(t, err)
	f := newFeeder(1, payload)
	rng := rand.New(rand.NewPCG(1, 1))
	for range records {
		b := f.next(1)
		for i := range f.payload {
			f.payload[i] = byte(rng.Uint32()) // does not shrink
		}
		require.NoError(t, l.Append(b))
	}
	before := fs.tables()
	require.Greater(t, before, int64(payload*records/4))
	fs.set(0)
	require.ErrorIs(t, l.Append(f.next(1)), protocol.ErrStorageFull)
	require.NoError(t, purge(l, f.topics[0], records-10))
	l.Wait()
	closeLog(t, l) // ends the removing of files
	require.Less(t, fs.tables(), before/4)
}
