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
	blockSize    = 8 << 10
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

// guard runs what the store may stop for good.
func (a *alarm) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if x := recover(); x != nil {
				a.fail(fmt.Errorf("%v", x))
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-a.failed:
		return a.err.Load()
	}
}

// committer writes batches on a goroutine of its own, which the store may stop
// for good.
type committer struct {
	db    *pebble.DB
	alarm *alarm
	in    chan *pebble.Batch
	out   chan committed
	ended chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	retired []*moment
}

// committed is what became of a batch.
type committed struct {
	moment *moment // with the batch
	err    error
}

func newCommitter(db *pebble.DB, alarm *alarm) *committer {
	c := &committer{db: db, alarm: alarm, in: make(chan *pebble.Batch), out: make(chan committed), ended: make(chan struct{})}
	go c.run()
	return c
}

func (c *committer) run() {
	defer close(c.ended)
	// The store panics where it could not write its log, with locks held.
	defer func() {
		if x := recover(); x != nil {
			c.alarm.fail(fmt.Errorf("%v", x))
		}
	}()
	for b := range c.in {
		done := committed{}
		if done.err = c.db.Apply(b, pebble.Sync); done.err == nil {
			done.moment = c.moment()
		}
		c.bury()
		select {
		case c.out <- done:
		case <-c.alarm.failed:
			return
		}
	}
	c.bury()
}

// commit returns once the batch is on the disk, with the moment of that. After
// an error that is a FailedError it is not known whether it is, and the batch is
// still in use.
func (c *committer) commit(b *pebble.Batch) (*moment, error) {
	select {
	case c.in <- b:
	case <-c.alarm.failed:
		return nil, c.alarm.err.Load()
	}
	select {
	case done := <-c.out:
		return done.moment, done.err
	case <-c.alarm.failed:
		return nil, c.alarm.err.Load()
	}
}

// set is commit for rows of which readers see nothing.
func (c *committer) set(b *pebble.Batch) error {
	m, err := c.commit(b)
	if err == nil {
		m.release()
	}
	return err
}

// close ends the goroutine; it is not called after a failure.
func (c *committer) close() {
	close(c.in)
	<-c.ended
}

// moment is the store as of one change. Readers hold on to the one that their
// view belongs to, so what they selected is there when they read it.
type moment struct {
	*pebble.Snapshot
	refs  atomic.Int32
	owner *committer
}

func (c *committer) moment() *moment {
	m := &moment{Snapshot: c.db.NewSnapshot(), owner: c}
	m.refs.Store(1)
	return m
}

// release leaves the closing to the committer: it takes a lock of the store.
func (m *moment) release() {
	if m.refs.Add(-1) > 0 {
		return
	}
	m.owner.mu.Lock()
	m.owner.retired = append(m.owner.retired, m)
	m.owner.mu.Unlock()
}

// bury closes the moments that nobody reads any more.
func (c *committer) bury() {
	c.mu.Lock()
	list := c.retired
	c.retired = nil
	c.mu.Unlock()
	for _, m := range list {
		_ = m.Close() // fails only when it is closed already
	}
}
