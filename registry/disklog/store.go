package disklog

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// What the store may use; doc.go tells why.
const (
	memTable     = 32 << 20
	memTables    = 8 // before a publish waits for a flush
	l0Compaction = 8
	l0Stop       = 1000 // practically never: files of level 0 before a publish waits
	blockSize    = 4 << 10
	tableSize    = 16 << 20
	openFiles    = 500
	deletionRate = 64 << 20 // bytes a second of files that are not needed any more
)

func storeOptions(f *folder, o Options, alarm *alarm, cache *pebble.Cache) *pebble.Options {
	opts := &pebble.Options{
		FS:                          f.fs,
		Lock:                        f.lock,
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatValueSeparation,
		MemTableSize:                o.memTable,
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       l0Compaction,
		L0StopWritesThreshold:       l0Stop,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                openFiles,
		TargetByteDeletionRate:      deletionRate,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, 1 },
		Logger:                      alarm,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { o.Logger.Warn("log: work in the background failed", "dir", f.dir, "error", err) },
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				o.Logger.Error("log is damaged", "dir", f.dir, "file", i.Path, "error", i.Details)
			},
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
				o.Logger.Warn("log: publishes wait for the disk", "dir", f.dir, "reason", i.Reason)
			},
		},
	}
	for i := range opts.TargetFileSizes {
		opts.TargetFileSizes[i] = tableSize
		opts.Levels[i].BlockSize = blockSize
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	return opts
}

// alarm is the store's logger. The store says "fatal" where it does not know
// what its files hold and expects the process to end there. This one stops the
// goroutine that says so, for good, and tells the log, which writes nothing from
// then on and still reads.
type alarm struct {
	dir    string
	log    *slog.Logger
	once   sync.Once
	err    atomic.Pointer[FailedError]
	failed chan struct{} // closed when err is set
}

func newAlarm(dir string, log *slog.Logger) *alarm {
	return &alarm{dir: dir, log: log, failed: make(chan struct{})}
}

func (a *alarm) fail(err error) {
	a.once.Do(func() {
		a.err.Store(&FailedError{a.dir, err})
		a.log.Error("log failed", "dir", a.dir, "error", err)
		close(a.failed)
	})
}

// Infof implements pebble.Logger; nobody reads these lines.
func (a *alarm) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (a *alarm) Errorf(format string, args ...any) {
	a.log.Warn("log", "dir", a.dir, "store", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It does not return.
func (a *alarm) Fatalf(format string, args ...any) {
	a.stop(fmt.Errorf(format, args...))
}

// catch is deferred where the store works: it panics where it could not write its
// log, with locks held.
func (a *alarm) catch() {
	if x := recover(); x != nil {
		a.fail(fmt.Errorf("%v", x))
	}
}

// guard runs what the store may stop for good.
func (a *alarm) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer a.catch()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-a.failed:
		return a.err.Load()
	}
}
