package disklog

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Append implements registry.Log. It returns after one fsync.
//
// An error that is a protocol.ErrUnknownOutcome, and a *FailedError, comes when
// the disk refused to write: the batch may be there at the next Open, whole or
// not at all. The log takes nothing more then.
func (l *Log) Append(b *registry.Batch) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	size, err := l.checkBatch(b)
	if err != nil {
		return err
	}
	if err := l.room.check(size); err != nil {
		return err
	}
	l.books.begin()
	for _, r := range b.Records {
		l.books.add(r)
	}
	l.books.expire(l.books.plan.time)
	return l.carryOut(b)
}

// checkBatch refuses a batch that cannot be stored, and tells about how much is
// to be written.
func (l *Log) checkBatch(b *registry.Batch) (size int64, err error) {
	last := l.view.head
	for _, r := range b.Records {
		if r.Seq <= last {
			return 0, fmt.Errorf("append seq %d behind %d", r.Seq, last)
		}
		if len(r.Slot) > protocol.MaxSlot || len(r.Key) > protocol.MaxKey || len(r.Payload) > protocol.MaxPayload {
			return 0, fmt.Errorf("append seq %d: slot, key or payload too large", r.Seq)
		}
		last = r.Seq
		size += int64(chargeOf(r))
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
	return l.change(func() { l.books.purge(topic, upTo) })
}

// Expire implements registry.Log. On a full disk it is as Purge.
func (l *Log) Expire(now protocol.Time) error {
	return l.change(func() { l.books.expire(now) })
}

// Retain changes what is kept, at once and from now on.
func (l *Log) Retain(r registry.Retention) error {
	return l.change(func() {
		l.books.keep = r.WithDefaults()
		l.books.trim()
	})
}

func (l *Log) change(f func()) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	l.books.begin()
	f()
	err := l.carryOut(nil)
	if err == nil && l.room.check(0) != nil {
		l.reclaim()
	}
	return err
}

// reclaim makes the store give back what was removed. It does so by itself when
// there are appends, which a full disk refuses. One at a time, until Close.
func (l *Log) reclaim() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed || !l.reclaiming.CompareAndSwap(false, true) {
		return
	}
	l.using.Go(func() {
		defer l.reclaiming.Store(false)
		err := l.alarm.guard(func() error {
			l.committer.bury() // or it would keep what the last moment had
			return l.db.Compact(l.ctx, []byte{kindIndex}, []byte{kindRecord + 1}, false)
		})
		if err != nil && l.ctx.Err() == nil {
			l.o.Logger.Warn("log: no space given back", "dir", l.dir, "error", err)
		}
	})
}

// carryOut writes the plan and the batch that it is for, if there is one, and
// then lets readers see it.
func (l *Log) carryOut(b *registry.Batch) error {
	p := l.books.finish()
	if b == nil && p.idle() {
		return nil
	}
	rows := l.db.NewBatch()
	err := l.write(rows, p, b)
	var disk *moment
	if err == nil {
		disk, err = l.committer.commit(rows)
	}
	if err != nil {
		l.alarm.fail(err) // the books are ahead of the disk now
		return uncertain(l.alarm.err.Load())
	}
	_ = rows.Close() // only gives memory back
	l.show(p, b, disk)
	return nil
}

// show makes readers see what was written.
func (l *Log) show(p *plan, b *registry.Batch, disk *moment) {
	l.mu.Lock()
	before := l.view.disk
	l.view.disk = disk
	l.view.apply(p)
	if b != nil {
		for _, r := range b.Records {
			l.keys.add(r.Seq)
		}
		l.keys.forget(b.KeyFloor)
	}
	l.mu.Unlock()
	before.release()
	l.witness.note(l.epoch.ID, p.head)
}

// write puts all rows of a change into one batch of the store.
func (l *Log) write(rows *pebble.Batch, p *plan, b *registry.Batch) error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	before := l.view.head
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
	if p.head != before {
		add(rows.Set(keyHead, numbersRow(uint64(p.head), uint64(p.time)), nil))
	}
	if b != nil {
		add(l.writeState(rows, b))
	}
	return errors.Join(errs...)
}

// writeIndex and writeRecords go through the rows in about the order of their
// keys, each on its own, which the store's tables in memory reward. They rely on
// each row having been written once, and leave out what a later message of the
// batch has replaced already.
func (l *Log) writeIndex(rows *pebble.Batch, p *plan) error {
	if err := l.removeRows(rows, p, kindIndex); err != nil {
		return err
	}
	var key [9]byte
	for _, x := range p.added {
		if x.gone {
			continue
		}
		l.batch = appendIndex(l.batch[:0], x)
		if err := rows.Set(seqKey(key[:], kindIndex, x.seq), l.batch, nil); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) writeRecords(rows *pebble.Batch, p *plan) error {
	if err := l.removeRows(rows, p, kindRecord); err != nil {
		return err
	}
	var key [9]byte
	for i, x := range p.added {
		if x.gone {
			continue
		}
		l.batch = appendRecord(l.batch[:0], p.records[i])
		if err := rows.Set(seqKey(key[:], kindRecord, x.seq), l.batch, nil); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) removeRows(rows *pebble.Batch, p *plan, kind byte) error {
	var key [9]byte
	for _, x := range p.removed {
		if x.seq > l.view.head {
			continue
		}
		if err := rows.SingleDelete(seqKey(key[:], kind, x.seq), nil); err != nil {
			return err
		}
	}
	return nil
}

// trimEvery is how many keys are forgotten before their rows are removed, all
// of them with one row.
const trimEvery = 1 << 16

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
		if err := rows.Set(seqKey(from[:], kindKeys, b.Records[0].Seq), l.batch, nil); err != nil {
			return err
		}
	}
	if b.KeyFloor <= l.keys.floor {
		return nil
	}
	if err := rows.Set(keyFloor, numbersRow(uint64(b.KeyFloor)), nil); err != nil {
		return err
	}
	if b.KeyFloor < l.trimmed+trimEvery {
		return nil
	}
	end, err := l.rowOfKey(b.KeyFloor)
	if err != nil || end <= l.trimmed {
		return err
	}
	if err := rows.DeleteRange(seqKey(from[:], kindKeys, l.trimmed), seqKey(to[:], kindKeys, end), nil); err != nil {
		return err
	}
	l.trimmed = end
	return nil
}

// rowOfKey finds where the row begins in which a seq's key is or would be.
func (l *Log) rowOfKey(seq protocol.Seq) (protocol.Seq, error) {
	it, err := l.view.disk.NewIter(&pebble.IterOptions{LowerBound: []byte{kindKeys}, UpperBound: []byte{kindKeys + 1}})
	if err != nil {
		return 0, err
	}
	var first protocol.Seq
	if it.SeekLT(seqKey(nil, kindKeys, seq+1)) {
		first, err = cutSeqKey(it.Key())
	}
	return first, errors.Join(err, it.Close())
}
