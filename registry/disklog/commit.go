package disklog

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/registry"
)

// change is what goes to the disk in one step, and then to readers.
type change struct {
	rows  *pebble.Batch
	size  int64           // about
	plan  *plan           // nil where readers see nothing of it
	batch *registry.Batch // that it is for, or nil
	disk  *moment         // has it, and nothing that comes behind it
	done  chan error      // holds one value
}

// onTheWay is how many changes one goroutine holds for the next.
const onTheWay = 32

// committer takes changes to the disk, and to readers, in the order in which
// they are begun. One goroutine writes a change to the store and keeps the moment
// of it; another waits until that is on the disk, and shows it. So the next
// change is written while the disk is at work, and the disk syncs all that has
// been written meanwhile at once.
//
// The store may stop either goroutine for good. A third, which never calls the
// store, then tells those who wait.
type committer struct {
	db    *pebble.DB
	alarm *alarm
	show  func(*change) // called in order by one goroutine

	in      chan *change
	written chan *change
	ended   chan struct{} // closed when written has ended, and nobody works any more
	told    chan struct{} // closed when watch has ended

	mu      sync.Mutex
	begun   []*change // and neither shown nor failed, in order
	size    int64     // of these
	over    bool      // all have failed that were begun
	retired []*moment

	burying sync.Mutex // locked before mu
}

func newCommitter(db *pebble.DB, alarm *alarm, show func(*change)) *committer {
	c := &committer{
		db: db, alarm: alarm, show: show,
		in: make(chan *change, onTheWay), written: make(chan *change, onTheWay), ended: make(chan struct{}), told: make(chan struct{}),
	}
	go c.write()
	go c.await()
	go c.watch()
	return c
}

// begin takes a change, of which done tells. It waits only while very many are on
// their way. On an error nothing of the change is stored.
func (c *committer) begin(x *change) error {
	c.mu.Lock()
	over := c.over
	if !over {
		c.begun = append(c.begun, x)
		c.size += x.size
	}
	c.mu.Unlock()
	if over {
		return c.alarm.err.Load()
	}
	select {
	case c.in <- x:
	case <-c.alarm.failed: // watch tells it
	}
	return nil
}

// take takes a change out of those begun, unless it has failed.
func (c *committer) take(x *change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.begun = slices.Delete(c.begun, 0, 1) // it is the first
	c.size -= x.size
	return true
}

// pending is about how much is on its way.
func (c *committer) pending() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// next is nil at the end, and when the disk has failed.
func (c *committer) next(from chan *change) *change {
	select {
	case x := <-from:
		return x
	case <-c.alarm.failed:
		return nil
	}
}

func (c *committer) write() {
	defer close(c.written)
	defer c.alarm.catch()
	for x := c.next(c.in); x != nil; x = c.next(c.in) {
		if err := c.db.ApplyNoSyncWait(x.rows, pebble.Sync); err != nil {
			c.alarm.fail(err)
			return
		}
		x.disk = c.moment()
		select {
		case c.written <- x:
		case <-c.alarm.failed:
			return
		}
		c.bury()
	}
}

func (c *committer) await() {
	defer close(c.ended)
	defer c.alarm.catch()
	for x := c.next(c.written); x != nil; x = c.next(c.written) {
		if err := x.rows.SyncWait(); err != nil {
			c.alarm.fail(err)
			return
		}
		if !c.take(x) {
			return
		}
		c.show(x)
		x.done <- nil
		_ = x.rows.Close() // only gives memory back
	}
}

// watch tells those who wait when the disk has failed.
func (c *committer) watch() {
	defer close(c.told)
	select {
	case <-c.alarm.failed:
	case <-c.ended:
	}
	failed := c.alarm.err.Load()
	if failed == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, x := range c.begun {
		x.done <- uncertain(failed)
	}
	c.begun, c.size = nil, 0
}

// set writes rows of which readers see nothing. After an error it is not known
// whether they are on the disk.
func (c *committer) set(rows *pebble.Batch) error {
	x := &change{rows: rows, size: int64(rows.Len()), done: make(chan error, 1)}
	if err := c.begin(x); err != nil {
		return err
	}
	return <-x.done
}

// close ends the goroutines once all that was begun is done; nothing is begun
// any more. It returns a failure of the disk, and then the store is left as it is,
// and with it whom it has stopped.
func (c *committer) close() error {
	close(c.in)
	<-c.told
	if failed := c.alarm.err.Load(); failed != nil {
		return failed
	}
	return nil
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

// bury closes the moments that nobody reads any more: on return all that were
// released before the call, also those that another call is at.
func (c *committer) bury() {
	c.burying.Lock()
	defer c.burying.Unlock()
	c.mu.Lock()
	list := c.retired
	c.retired = nil
	c.mu.Unlock()
	for _, m := range list {
		_ = m.Close() // fails only when it is closed already
	}
}
