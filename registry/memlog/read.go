package memlog

import (
	"sync"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// reading is one read in progress.
type reading struct{ retained.Reading[message] }

var readings = sync.Pool{New: func() any { return &reading{} }}

// Take implements retained.Taker.
func (r *reading) Take(block []message) int {
	for i, x := range block {
		if !r.Room(x.seq, len(x.record.Payload)) {
			return i
		}
		r.Page.Records = append(r.Page.Records, x.record)
	}
	return len(block)
}

// Read implements registry.Log. Readable is called under the log's lock, which
// lets writers in between while much of the log is looked at.
func (l *Log) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	return l.read(sel, after, upTo, page, (*Log).choose)
}

func (l *Log) choose(r *reading) {
	for l.view.Choose(&r.Reading) {
		l.mu.RUnlock()
		l.mu.RLock()
	}
}

// ReadNewest implements registry.Log.
func (l *Log) ReadNewest(sel *registry.Selection, after protocol.Seq, newest, perTopic int, page *registry.Page) error {
	return l.read(sel, after, ^protocol.Seq(0), page, func(l *Log, r *reading) {
		l.view.ChooseNewest(&r.Reading, newest, perTopic)
	})
}

func (l *Log) read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page, choose func(*Log, *reading)) error {
	r := readings.Get().(*reading)
	r.Start(r, sel, after, page)
	err := l.fill(r, upTo, choose)
	r.Reset()
	readings.Put(r)
	return err
}

// fill chooses the messages of a page.
func (l *Log) fill(r *reading, upTo protocol.Seq, choose func(*Log, *reading)) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return protocol.ErrClosed
	}
	l.view.Limit(&r.Reading, upTo)
	choose(l, r)
	l.view.Finish(&r.Reading)
	return nil
}
