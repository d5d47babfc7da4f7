package disklog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Options of a log. The zero value is a log with the default retention.
type Options struct {
	Retention registry.Retention

	// Recent is how many bytes of the newest records stay in memory, so that what
	// is published goes to its readers without a look at the disk. 0 = 64 MiB,
	// below 0 none.
	Recent int64

	// Cache bounds the memory for blocks read from the disk. 0 = 64 MiB.
	Cache int64

	// Reserve is how many bytes are kept free on the disk: appends that would go
	// into it are refused with protocol.ErrStorageFull. The store needs them for
	// its work in the background. 0 = 256 MiB, below 0 nothing is watched, and a
	// full disk ends the log's life in this process.
	Reserve int64

	// Now is the clock for the births of epochs; time.Now by default.
	Now func() time.Time

	Logger *slog.Logger // few lines, and never a payload; nil is silent

	// FS is the file system, for tests; the machine's by default.
	FS vfs.FS

	memTable uint64 // for tests
}

func (o Options) withDefaults() Options {
	or := func(n, standard int64) int64 { return max(0, cmp.Or(n, standard)) }
	o.Recent = or(o.Recent, 64<<20)
	o.Cache = or(o.Cache, 64<<20)
	o.Reserve = or(o.Reserve, 256<<20)
	o.memTable = cmp.Or(o.memTable, memTable)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// Log is a registry.Log in a folder.
type Log struct {
	dir    string
	o      Options
	folder *folder
	room   *room
	alarm  *alarm
	db     *pebble.DB
	epoch  protocol.Epoch

	copying sync.Mutex // held by Backup

	// One change begins at a time: what the writer has.
	writing  sync.Mutex
	books    books
	identity identity
	keyRows  keyRows
	batch    []byte // reused for rows
	order    grouping

	// While the log is opened: the dead whose rows remain.
	graves graveyard
	dead   []*stub

	// Changes end one at a time too, and are shown: see show.
	committer *committer
	witness   *witness

	helpers chan struct{} // a token for each goroutine that helps a reader

	mu      sync.RWMutex
	closed  bool
	closing sync.Once
	using   sync.WaitGroup // reads and reclaim; added to under mu unless closed
	view    view
	keys    runs

	ctx        context.Context // of reclaim; ends with Close
	cancel     context.CancelFunc
	reclaiming atomic.Bool
}

var _ registry.PipelinedLog = (*Log)(nil)

// Open opens the log in a folder. One that is not there or is empty is made.
//
// The errors are *InUseError, *ForeignError, *NewerFormatError and
// *DamagedError, or the system's.
func Open(dir string, opts Options) (*Log, error) {
	l, err := open(dir, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	if err := l.begin(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// open takes the folder and opens the store.
func open(dir string, o Options) (*Log, error) {
	dir = o.FS.PathJoin(dir) // without a slash behind it
	l := &Log{
		dir: dir, o: o, room: newRoom(o.FS, dir, o.Reserve), alarm: newAlarm(dir, o.Logger),
		helpers: make(chan struct{}, helpers), view: newView(),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	folder, err := openFolder(&stopFS{l.room.fs, l.alarm}, dir, true)
	if err != nil {
		return nil, err
	}
	l.folder = folder
	l.db, err = openStore(folder, o, l.alarm, false)
	if err != nil {
		return nil, errors.Join(err, folder.close())
	}
	l.committer = newCommitter(l.db, l.alarm, l.show)
	l.view.disk = l.committer.moment()
	return l, nil
}

func openStore(f *folder, o Options, a *alarm, readOnly bool) (*pebble.DB, error) {
	cache := pebble.NewCache(o.Cache + 2*memTable) // which tables in memory are taken off
	defer cache.Unref()
	opts := storeOptions(f, o, a, cache)
	opts.ReadOnly = readOnly
	opts.ErrorIfNotExists = !f.fresh
	var db *pebble.DB
	err := a.guard(func() (err error) {
		db, err = pebble.Open(f.path(dirStore), opts)
		return err
	})
	if err != nil && (pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, pebble.ErrDBDoesNotExist)) {
		return nil, &DamagedError{f.dir, err}
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// begin reads what the store holds, and takes a new epoch where this is not the
// log that clients knew.
func (l *Log) begin() error {
	if err := l.load(); err != nil {
		return l.damaged(err)
	}
	if err := l.chooseEpoch(); err != nil {
		return err
	}
	w, err := l.folder.openWitness()
	if err != nil {
		return err
	}
	l.witness = w
	if l.folder.fresh || l.folder.old {
		if err := l.folder.setFormat(""); err != nil {
			return err
		}
	}
	l.books.open(l.o.Retention, &l.view, l.dead)
	l.graves, l.dead = nil, nil
	l.books.trim()
	return wait(l.carryOut(nil, 0))
}

// chooseEpoch begins a new one in a new log, in a restored one, and in one that
// has lost acknowledged messages.
func (l *Log) chooseEpoch() error {
	noted := l.folder.readWitness(l.epoch.ID)
	lost := noted > l.view.Head
	restored := l.folder.has(fileRestored)
	if l.epoch.ID != 0 && !lost && !restored {
		return nil
	}
	if l.epoch.ID != 0 {
		l.o.Logger.Warn("log begins a new epoch", "dir", l.dir, "restored", restored, "lost", lost, "head", l.view.Head, "was", noted)
	}
	b := l.db.NewBatch()
	l.epoch = newEpoch(l.o.Now())
	l.view.Head = max(l.view.Head, noted) // no seq comes twice
	err := errors.Join(
		b.Set(keyEpoch, numbersRow(uint64(l.epoch.ID), l.epoch.Born), nil),
		b.Set(keyHead, numbersRow(uint64(l.view.Head), uint64(l.view.Time)), nil),
	)
	if err == nil {
		err = l.committer.set(b)
	}
	if err == nil && restored {
		err = l.folder.fs.Remove(l.folder.path(fileRestored))
	}
	return err
}

func newEpoch(now time.Time) protocol.Epoch {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return protocol.Epoch{ID: protocol.EpochID(binary.BigEndian.Uint64(b[:]) | 1), Born: uint64(now.Unix())}
}

// Epoch implements registry.Log.
func (l *Log) Epoch() protocol.Epoch { return l.epoch }

// Head implements registry.Log.
func (l *Log) Head() (protocol.Seq, protocol.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.view.Head, l.view.Time
}

// Topic implements registry.Log.
func (l *Log) Topic(topic string) registry.TopicStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.view.TopicStats(topic)
}

// Topics implements registry.Log.
func (l *Log) Topics(after string, limit int) ([]registry.TopicStats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, protocol.ErrClosed
	}
	return l.view.TopicsPage(after, limit), nil
}

// Stats implements registry.Log.
func (l *Log) Stats() registry.LogStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.view.Stats()
	s.Keys = l.keys.n
	return s
}

// Close implements registry.Log. It waits for calls under way, and for batches on
// their way. After a FailedError the folder stays taken until the process ends.
func (l *Log) Close() error {
	var err error
	l.closing.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.cancel()
		l.using.Wait()
		l.writing.Lock()
		defer l.writing.Unlock()
		if failed := l.alarm.err.Load(); failed != nil {
			err = failed
			return
		}
		err = l.release()
	})
	return err
}

func (l *Log) release() error {
	if failed := l.committer.close(); failed != nil {
		return failed
	}
	l.view.disk.release()
	err := l.alarm.guard(func() error {
		l.committer.bury()
		return l.db.Close()
	})
	if l.witness != nil {
		err = errors.Join(err, l.witness.file.Sync(), l.witness.file.Close())
	}
	return errors.Join(err, l.folder.close())
}

// use keeps the log open until done is called.
func (l *Log) use() (disk *moment, done func(), err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, nil, protocol.ErrClosed
	}
	l.using.Add(1)
	disk = l.view.disk
	disk.refs.Add(1)
	return disk, func() {
		disk.release()
		l.using.Done()
	}, nil
}

// writable is called with writing held.
func (l *Log) writable() error {
	l.mu.RLock()
	closed := l.closed
	l.mu.RUnlock()
	if closed {
		return protocol.ErrClosed
	}
	if failed := l.alarm.err.Load(); failed != nil {
		return failed
	}
	return nil
}

// Failed is closed when the disk has failed: see FailedError, which Ready
// returns from then on. Who serves the log does best to end its process then.
func (l *Log) Failed() <-chan struct{} { return l.alarm.failed }

// Ready tells why Append would be refused now whatever it brings; nil when it
// would not. It does not wait for the disk's writes.
func (l *Log) Ready() error {
	if !l.writing.TryLock() {
		// A change is under way, which was not refused unless the disk fails under it.
		if failed := l.alarm.err.Load(); failed != nil {
			return failed
		}
		return nil
	}
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	return l.room.check(0)
}

// row tells of a row that could not be read, or is not what was written.
func (l *Log) row(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errRow), errors.Is(err, errMissing), errors.Is(err, protocol.ErrMalformed), pebble.IsCorruptionError(err):
		return &DamagedError{l.dir, fmt.Errorf("%s: %w", what, err)}
	}
	return fmt.Errorf("log %s: %s: %w", l.dir, what, err)
}
