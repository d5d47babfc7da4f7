package disklog_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// breaker makes a disk refuse operations of a kind on files of a name.
type breaker struct {
	broken atomic.Bool
	name   string
	kinds  []errorfs.OpKind
	err    error
	gate   sync.RWMutex // locked: they wait
}

var (
	writes = []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}
	syncs  = []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
)

// hold makes the operations wait until release is called.
func (b *breaker) hold() (release func()) {
	b.gate.Lock()
	return b.gate.Unlock
}

// breakable is a disk on which each file is a new one, so that none of the
// store's is overlooked.
type breakable struct{ vfs.FS }

func breakableFS(disk vfs.FS, i errorfs.Injector) vfs.FS { return breakable{errorfs.Wrap(disk, i)} }

func (f breakable) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(from); err != nil {
		return nil, err
	}
	return f.Create(to, c)
}

func (b *breaker) String() string { return "breaker" }

func (b *breaker) MaybeError(op errorfs.Op) error {
	if !strings.Contains(op.Path, b.name) || !slices.Contains(b.kinds, op.Kind) {
		return nil
	}
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.broken.Load() {
		return b.err
	}
	return nil
}

// A disk that refuses to write ends the log's life in this process. What it had
// acknowledged is read on, and is there at the next start.
func TestADiskThatRefusesToWrite(t *testing.T) {
	for _, test := range []struct {
		name, file string
		kinds      []errorfs.OpKind
		err        error
	}{
		{"the store's log is not written", ".log", writes, syscall.EIO},
		{"the store's log is not synced", ".log", syncs, syscall.EIO},
		{"the disk is full and nobody watches", ".log", writes, syscall.ENOSPC},
		{"the store's list of files is not written", "MANIFEST", writes, syscall.EIO},
		{"the store's list of files is not synced", "MANIFEST", syncs, syscall.EIO},
		{"no new file for the store's log", ".log", []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, syscall.EIO},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			b := &breaker{name: test.file, kinds: test.kinds, err: test.err}
			o := disklog.WithMemTable(disklog.Options{FS: breakableFS(disk, b), Retention: workKeep, Recent: -1, Reserve: -1}, 64<<10)
			l, err := disklog.Open("log", o)
			require.NoError(t, err)
			m, w := memlog.New(memlog.Options{Retention: workKeep}), newWork(4)
			for range 30 {
				both(t, l, m, w.next())
			}
			require.NoError(t, l.Ready())
			b.broken.Store(true)
			want, err := untilRefused(t, l, m, w)
			<-l.Failed()
			var failed *disklog.FailedError
			require.ErrorAs(t, l.Ready(), &failed)
			require.ErrorAs(t, err, &failed)
			require.Contains(t, failed.Hint(), "restart the registry")

			require.Equal(t, want, print(t, l), "readers go on")
			b.broken.Store(false)
			for range 3 {
				err := l.Append(&registry.Batch{Records: []*registry.Record{w.record()}})
				require.ErrorAs(t, err, &failed, "it does not come back to life")
				require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
			}
			require.Equal(t, want, print(t, l))
			require.ErrorAs(t, l.Purge("a", 1), &failed)
			require.ErrorAs(t, l.Backup("backup"), &failed)
			require.ErrorAs(t, l.Close(), &failed)
			require.ErrorIs(t, l.Append(&registry.Batch{}), protocol.ErrClosed)

			for _, unsynced := range []int{0, 100} {
				c := vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: w.rng}
				again := openLog(t, "log", disklog.Options{FS: disk.CrashClone(c), Retention: workKeep})
				if got := print(t, again); got != want {
					require.Equal(t, print(t, m), got, "the change that was refused is there whole")
				}
				require.Equal(t, l.Epoch(), again.Epoch())
			}
		})
	}
}

// untilRefused makes changes until one is refused, and returns what was there
// before that. The model has one more.
func untilRefused(t *testing.T, l *disklog.Log, m *memlog.Log, w *work) (before string, err error) {
	t.Helper()
	for range 2000 {
		before = print(t, m)
		do := w.next()
		require.NoError(t, do(m))
		if err := do(l); err != nil {
			return before, err
		}
	}
	t.Fatal("nothing was refused")
	return "", nil
}

// When the outcome cannot be told, those who wait are told so.
func TestARefusedSyncIsAnUnknownOutcome(t *testing.T) {
	b := &breaker{name: ".log", kinds: syncs, err: syscall.EIO}
	l, err := disklog.Open("log", disklog.Options{FS: breakableFS(vfs.NewMem(), b)})
	require.NoError(t, err)
	w := newWork(1)
	b.broken.Store(true)
	require.ErrorIs(t, l.Append(&registry.Batch{Records: []*registry.Record{w.record()}}), protocol.ErrUnknownOutcome)
	require.Zero(t, seqOf(l))
}

// Wherever the disk refuses while a log is made or opened, that ends, with an
// error or with a log that works; and later the folder can be opened.
func TestADiskThatRefusesWhileOpening(t *testing.T) {
	w := newWork(3)
	for _, old := range []bool{false, true} {
		refused := 0
		for index := int32(0); ; index++ {
			disk := vfs.NewCrashableMem()
			if old {
				l := openLog(t, "log", disklog.Options{FS: disk})
				do(t, l, newWork(1), 10)
				closeLog(t, l)
			}
			at := errorfs.OnIndex(index)
			l, err := disklog.Open("log", disklog.Options{FS: breakableFS(disk, at), Reserve: -1})
			if err == nil {
				if err := readEverything(l, seqOf(l)); err != nil {
					require.ErrorIs(t, err, errorfs.ErrInjected)
				}
			} else {
				refused++
			}
			if at.Int32.Load() >= 0 {
				break // there were no more operations
			}
			c := vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * int(index%2), RNG: w.rng}
			again := openLog(t, "log", disklog.Options{FS: disk.CrashClone(c)})
			w.seq = max(w.seq, seqOf(again))
			require.NoError(t, again.Append(&registry.Batch{Records: []*registry.Record{w.record()}}))
			closeLog(t, again)
		}
		require.Greater(t, refused, 10)
	}
}
