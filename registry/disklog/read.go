package disklog

import (
	"sync"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Read implements registry.Log. Readable is called under the lock of readers.
//
// Which messages make the page is decided in memory: one topic is read in place,
// some topics are merged, what is left scans the log and lets the writer in
// between. Only then, and without a lock, come those that are not among the
// newest from the disk.
func (l *Log) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	r := newReading(sel, after, page)
	defer r.free()
	disk, err := l.choose(r, upTo, func(v *view) {
		for v.Choose(&r.Reading) {
			l.mu.RUnlock()
			l.mu.RLock()
		}
	})
	if err != nil {
		return err
	}
	defer l.using.Done()
	defer disk.release()
	return l.fetch(r, disk)
}

// ReadNewest implements registry.Log.
func (l *Log) ReadNewest(sel *registry.Selection, after protocol.Seq, newest, perTopic int, page *registry.Page) error {
	r := newReading(sel, after, page)
	defer r.free()
	disk, err := l.choose(r, ^protocol.Seq(0), func(v *view) {
		v.ChooseNewest(&r.Reading, newest, perTopic)
	})
	if err != nil {
		return err
	}
	defer l.using.Done()
	defer disk.release()
	return l.fetch(r, disk)
}

// choose picks the messages of a page. They are in the moment that it returns,
// which the caller releases, telling using afterwards.
func (l *Log) choose(r *reading, upTo protocol.Seq, choose func(*view)) (*moment, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, protocol.ErrClosed
	}
	l.using.Add(1)
	disk := l.view.disk
	disk.refs.Add(1)
	// What is chosen later on is of this moment too: upTo bounds it to what was
	// there, and what is gone meanwhile is not chosen.
	l.view.Limit(&r.Reading, upTo)
	choose(&l.view)
	l.view.Finish(&r.Reading)
	return disk, nil
}

// reading is one read in progress.
type reading struct {
	retained.Reading[*stub]
	stubs []*stub
}

var readings = sync.Pool{New: func() any { return &reading{} }}

func newReading(sel *registry.Selection, after protocol.Seq, page *registry.Page) *reading {
	r := readings.Get().(*reading)
	r.Start(r, sel, after, page)
	return r
}

func (r *reading) free() {
	r.Reset()
	clear(r.stubs)
	r.stubs = r.stubs[:0]
	if cap(r.stubs) > 1<<16 {
		r.stubs = nil
	}
	readings.Put(r)
}

// Take implements retained.Taker.
func (r *reading) Take(block []*stub) int {
	for i, x := range block {
		if !r.Room(x.seq, int(x.size)) {
			return i
		}
		r.stubs = append(r.stubs, x)
	}
	return len(block)
}
