package disklog

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Append implements registry.Log. It returns after one fsync.
//
// An error that is a protocol.ErrUnknownOutcome, and a *FailedError, comes when
// the disk refused to write: the batch may be there at the next Open, whole or
// not at all. The log takes nothing more then.
func (l *Log) Append(b *registry.Batch) error {
	return wait(l.Begin(b))
}

// Begin implements registry.PipelinedLog. Batches that are on their way together
// share fsyncs. It waits only when some sixty are on their way.
//
// An error on the channel is as that of Append.
func (l *Log) Begin(b *registry.Batch) (done <-chan error, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return nil, err
	}
	size, err := l.checkBatch(b)
	if err != nil {
		return nil, err
	}
	if err := l.room.check(size + l.committer.pending()); err != nil {
		return nil, err
	}
	l.books.begin()
	for _, r := range b.Records {
		l.books.add(r)
	}
	l.books.expire(l.books.plan.time)
	return l.carryOut(b, size)
}

// wait makes one call of the two halves of a change.
func wait(done <-chan error, err error) error {
	if err != nil {
		return err
	}
	return <-done
}

// checkBatch refuses a batch that cannot be stored, and tells about how much is
// to be written.
func (l *Log) checkBatch(b *registry.Batch) (size int64, err error) {
	last := l.books.head
	for _, r := range b.Records {
		if r.Seq <= last {
			return 0, fmt.Errorf("append seq %d behind %d", r.Seq, last)
		}
		if len(r.Slot) > protocol.MaxSlot || len(r.Key) > protocol.MaxKey || len(r.Payload) > protocol.MaxPayload {
			return 0, fmt.Errorf("append seq %d: slot, key or payload too large", r.Seq)
		}
		last = r.Seq
		size += retained.Charge(r)
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if len(e.Table) > maxTable {
			return 0, fmt.Errorf("append to a table with a name of %d bytes", len(e.Table))
		}
		size += int64(len(e.Key) + len(e.Value))
	}
	return size, nil
}

// Purge implements registry.Log. It works on a full disk too, and gives the
// space back there, in the background.
func (l *Log) Purge(topic string, upTo protocol.Seq) error {
	return l.drop(func() { l.books.purge(topic, upTo) })
}

// Expire implements registry.Log. On a full disk it is as Purge.
func (l *Log) Expire(now protocol.Time) error {
	return l.drop(func() { l.books.expire(now) })
}

// BeginPurge implements registry.PipelinedLog.
func (l *Log) BeginPurge(topic string, upTo protocol.Seq) (done <-chan error, err error) {
	return l.beginDrop(func() { l.books.purge(topic, upTo) })
}

// BeginExpire implements registry.PipelinedLog.
func (l *Log) BeginExpire(now protocol.Time) (done <-chan error, err error) {
	return l.beginDrop(func() { l.books.expire(now) })
}

// Retain changes what is kept, at once and from now on.
func (l *Log) Retain(r registry.Retention) error {
	return l.drop(func() {
		l.books.keep = r.WithDefaults()
		l.books.trim()
	})
}

// drop takes messages away, and on a full disk has the store give the space back.
func (l *Log) drop(f func()) error {
	if err := wait(l.beginChange(f)); err != nil {
		return err
	}
	l.reclaimIfFull()
	return nil
}

// beginDrop is the first half of drop. The second is not waited for where it is
// about space.
func (l *Log) beginDrop(f func()) (done <-chan error, err error) {
	dropped, err := l.beginChange(f)
	if err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return dropped, nil
	}
	told := make(chan error, 1)
	l.using.Go(func() {
		err := <-dropped
		told <- err
		if err == nil {
			l.reclaimIfFull()
		}
	})
	return told, nil
}

func (l *Log) reclaimIfFull() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.writable() != nil || l.room.check(l.committer.pending()) == nil {
		return
	}
	l.books.begin()
	l.books.remains.sweepAll(l.books.plan)
	swept, err := l.carryOut(nil, 0)
	if err == nil {
		l.reclaim(swept)
	}
}

func (l *Log) beginChange(f func()) (done <-chan error, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return nil, err
	}
	l.books.begin()
	f()
	return l.carryOut(nil, 0)
}

// reclaim makes the store give back what was removed. It does so by itself when
// there are appends, which a full disk refuses, and soon with what lies in its
// lowest level already. One at a time, until Close.
func (l *Log) reclaim(swept <-chan error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed || !l.reclaiming.CompareAndSwap(false, true) {
		return
	}
	l.using.Go(func() {
		defer l.reclaiming.Store(false)
		err := <-swept
		if err == nil {
			err = l.alarm.guard(l.compact)
		}
		if err != nil && l.ctx.Err() == nil {
			l.o.Logger.Warn("log: no space given back", "dir", l.dir, "error", err)
		}
	})
}

func (l *Log) compact() error {
	l.committer.bury() // or it would keep what the last moment had
	return l.db.Compact(l.ctx, []byte{kindDead}, []byte{kindRun + 1}, false)
}

// carryOut sends the plan on its way, and the batch that it is for, if there is
// one.
func (l *Log) carryOut(b *registry.Batch, size int64) (done <-chan error, err error) {
	x := &change{size: max(size, 1), plan: l.books.finish(), batch: b, done: make(chan error, 1)}
	if b == nil && x.plan.idle() && l.committer.pending() == 0 {
		x.done <- nil
		return x.done, nil
	}
	x.rows = l.db.NewBatch()
	if err := l.write(x.rows, x.plan, b); err != nil {
		l.alarm.fail(err) // the books are ahead of the disk now
		return nil, l.alarm.err.Load()
	}
	if err := l.committer.begin(x); err != nil {
		return nil, err
	}
	return x.done, nil
}

// show makes readers see what is on the disk.
func (l *Log) show(x *change) {
	if x.plan == nil {
		x.disk.release()
		return
	}
	l.mu.Lock()
	before := l.view.disk
	l.view.disk = x.disk
	l.view.apply(x.plan)
	if b := x.batch; b != nil {
		for _, r := range b.Records {
			l.keys.add(r.Seq)
		}
		l.keys.forget(b.KeyFloor)
	}
	l.mu.Unlock()
	before.release()
	l.witness.note(l.epoch.ID, x.plan.head)
}

// write puts all rows of a change into one batch of the store.
func (l *Log) write(rows *pebble.Batch, p *plan, b *registry.Batch) error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(l.writeRemains(rows, p))
	add(l.writeIndex(rows, p))
	add(l.writeRecords(rows, p))
	for s, seq := range p.marks {
		add(rows.Set(markKey(s), numbersRow(uint64(seq)), nil))
	}
	for _, s := range p.merged {
		add(rows.Delete(markKey(s), nil))
	}
	if len(p.merged) > 0 {
		add(rows.Set(keyForgotten, numbersRow(uint64(p.forgotten)), nil))
	}
	if p.head != p.before {
		add(rows.Set(keyHead, numbersRow(uint64(p.head), uint64(p.time)), nil))
	}
	if b != nil {
		add(l.writeState(rows, b))
	}
	return errors.Join(errs...)
}

// writeIndex and writeRecords go through the rows in about the order of their
// keys, each on its own, which the store's tables in memory reward. They rely on
// each row having been written once.
func (l *Log) writeIndex(rows *pebble.Batch, p *plan) error {
	var key [9]byte
	for _, x := range p.added {
		l.batch = appendIndex(l.batch[:0], x)
		if err := rows.Set(seqKey(key[:], kindIndex, x.seq), l.batch, nil); err != nil {
			return err
		}
	}
	return nil
}

// writeRemains notes what has gone, and removes what is not to remain.
func (l *Log) writeRemains(rows *pebble.Batch, p *plan) error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, x := range p.removed {
		if x.old {
			add(rows.SingleDelete(seqKey(nil, kindIndex, x.seq), nil))
			add(rows.SingleDelete(x.row(nil), nil))
		}
	}
	for _, s := range p.sweeps {
		add(s.write(rows))
	}
	for _, n := range p.notes {
		key, row := deadRow(n)
		add(rows.Set(key, row, nil))
	}
	return errors.Join(errs...)
}

// grouping goes through messages in about the order of their rows.
type grouping struct {
	first [groups]int32 // of each group, counted from 1; 0 is none
	next  []int32       // behind each message, likewise
}

// of hands over their indexes.
func (o *grouping) of(stubs []*stub) iter.Seq[int] {
	clear(o.first[:])
	o.next = slices.Grow(o.next[:0], len(stubs))[:len(stubs)]
	for i, x := range slices.Backward(stubs) {
		first := &o.first[x.stream.Own.group]
		o.next[i], *first = *first, int32(i)+1
	}
	return func(yield func(int) bool) {
		for _, at := range o.first {
			for ; at > 0; at = o.next[at-1] {
				if !yield(int(at) - 1) {
					return
				}
			}
		}
	}
}

// sort puts messages of one window, which are in log order, in that of their rows.
func (o *grouping) sort(stubs []*stub) []*stub {
	sorted := make([]*stub, 0, len(stubs))
	for i := range o.of(stubs) {
		sorted = append(sorted, stubs[i])
	}
	return sorted
}

func (l *Log) writeRecords(rows *pebble.Batch, p *plan) error {
	var key [16]byte
	for i := range l.order.of(p.added) {
		l.batch = appendRecord(l.batch[:0], p.records[i])
		if err := rows.Set(p.added[i].row(key[:]), l.batch, nil); err != nil {
			return err
		}
	}
	return nil
}

// writeState writes what a batch has besides messages.
func (l *Log) writeState(rows *pebble.Batch, b *registry.Batch) error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for i := range b.Fences {
		f := &b.Fences[i]
		add(rows.Set(fenceKey(f.Topic), numbersRow(f.Fence.K, uint64(f.Fence.S)), nil))
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.Value == nil {
			add(rows.Delete(entryKey(e.Table, e.Key), nil))
		} else {
			add(rows.Set(entryKey(e.Table, e.Key), entryRow(e.Value), nil))
		}
	}
	add(l.writeKeys(rows, b))
	return errors.Join(errs...)
}

// writeKeys writes the keys of a batch as one row, and removes rows of which all
// keys are forgotten.
func (l *Log) writeKeys(rows *pebble.Batch, b *registry.Batch) error {
	var from, to [9]byte
	if len(b.Records) > 0 {
		l.batch = l.batch[:0]
		for _, r := range b.Records {
			l.batch = appendKey(l.batch, r)
		}
		first := b.Records[0].Seq
		if err := rows.Set(seqKey(from[:], kindKeys, first), l.batch, nil); err != nil {
			return err
		}
		l.keyRows.add(first)
	}
	if b.KeyFloor <= l.keyRows.floor {
		return nil
	}
	if err := rows.Set(keyFloor, numbersRow(uint64(b.KeyFloor)), nil); err != nil {
		return err
	}
	first, end := l.keyRows.forget(b.KeyFloor)
	if first == end {
		return nil
	}
	return rows.DeleteRange(seqKey(from[:], kindKeys, first), seqKey(to[:], kindKeys, end), nil)
}

// keyRows is what the writer knows of the rows of keys.
type keyRows struct {
	floor  protocol.Seq   // as of the newest change
	from   protocol.Seq   // before this all rows have been removed
	starts []protocol.Seq // where some rows begin, at least startEvery apart
}

const (
	// trimEvery is how many keys are forgotten before their rows are removed, all
	// of them with one row.
	trimEvery  = 1 << 16
	startEvery = 1 << 12
)

// add is told of a row behind all others.
func (k *keyRows) add(first protocol.Seq) {
	if n := len(k.starts); n == 0 || first >= k.starts[n-1]+startEvery {
		k.starts = append(k.starts, first)
	}
}

// forget raises the floor, and tells from where to where rows are to be removed.
// Of these all keys are forgotten.
func (k *keyRows) forget(floor protocol.Seq) (from, to protocol.Seq) {
	k.floor = floor
	n, _ := slices.BinarySearch(k.starts, floor+1)
	if floor < k.from+trimEvery || n == 0 || k.starts[n-1] <= k.from {
		return k.from, k.from
	}
	from, k.from = k.from, k.starts[n-1]
	k.starts = slices.Clone(k.starts[n-1:])
	return from, k.from
}
