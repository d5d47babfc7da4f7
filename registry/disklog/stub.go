package disklog

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// stub is what memory holds of a retained message: enough to select it and to
// apply retention, about 140 bytes with its places in the lists.
type stub struct {
	seq    protocol.Seq
	time   protocol.Time
	stream *stream
	slot   string
	sender protocol.NodeID
	size   uint32 // of the payload
	charge uint32 // what it counts against Retention.TotalBytes
	old    bool   // its row is of format 1

	// Owned by the writer, see books:
	gone  bool
	share *share

	recent atomic.Pointer[registry.Record] // set while among the newest
}

// Key, and what follows, is what package retained looks at.
func (s *stub) Key() protocol.Seq { return s.seq }
func (s *stub) At() protocol.Time { return s.time }
func (s *stub) Size() int         { return int(s.size) }

func (s *stub) Place() (topic string, to protocol.NodeID) { return s.stream.Topic, s.stream.To }

// row is the key of the row of its message.
func (s *stub) row(b []byte) []byte {
	if s.old {
		return seqKey(b, kindRecord, s.seq)
	}
	return runKey(b, s.seq, s.stream.Own.group)
}

// byRow is the order of the rows.
func byRow(a, b *stub) int {
	if a.old || b.old || a.seq/window != b.seq/window {
		return cmp.Compare(a.seq, b.seq) // those of format 1 are the oldest
	}
	return cmp.Or(cmp.Compare(a.stream.Own.group, b.stream.Own.group), cmp.Compare(a.seq, b.seq))
}

// memory is about what the record of a stub takes while it is recent.
func (s *stub) memory() int64 { return int64(s.charge) }

// stream is what is retained of one topic, or of the direct messages to one
// node, as readers see it.
type stream = retained.Stream[*stub, own]

// own is what else this log has of a stream.
type own struct {
	group uint8 // of its messages' rows

	// Owned by the writer, see books:
	marked protocol.Seq // the mark, with what the plans on their way take
	ledger *ledger      // nil when it counts no messages
}

func newStream(topic string, to protocol.NodeID) *stream {
	s := retained.NewStream[*stub, own](topic, to)
	name := []byte(topic)
	if to != 0 {
		name = binary.BigEndian.AppendUint32(nil, uint32(to))
	}
	s.Own.group = uint8(crc32.Checksum(name, castagnoli) % groups)
	return s
}

// view is what readers see.
type view struct {
	retained.View[*stub, own]
	recent recent
	disk   *moment // what the folder held then
}

func newView() view { return view{View: retained.NewView[*stub, own]()} }

func (v *view) put(x *stub) { v.Put(x.stream, x) }

func (v *view) remove(x *stub) {
	v.Remove(x.stream, x)
	v.recent.remove(x)
}

// recent keeps the newest records in memory, so that what is published goes to
// its readers without a look at the disk.
type recent struct {
	limit, bytes int64
	queue        []*stub
}

func (q *recent) put(x *stub, r *registry.Record) {
	if x.memory() > q.limit {
		return
	}
	x.recent.Store(r)
	q.queue = append(q.queue, x)
	q.bytes += x.memory()
	for q.bytes > q.limit {
		q.remove(q.queue[0])
		q.queue[0] = nil
		q.queue = q.queue[1:]
	}
}

func (q *recent) remove(x *stub) {
	if x.recent.Swap(nil) != nil {
		q.bytes -= x.memory()
	}
}
