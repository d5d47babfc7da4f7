package disklog

import (
	"sync/atomic"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// stub is what memory holds of a retained message: enough to select it and to
// apply retention, about 130 bytes with its places in the lists.
type stub struct {
	seq    protocol.Seq
	time   protocol.Time
	stream *stream
	slot   string
	sender protocol.NodeID
	size   uint32 // of the payload
	charge uint32 // what it counts against Retention.TotalBytes

	// Owned by the writer, see books:
	gone  bool
	share *share

	recent atomic.Pointer[registry.Record] // set while among the newest
}

func (s *stub) key() protocol.Seq { return s.seq }

// chargeOf is what a record counts against Retention.TotalBytes: as in memory,
// so that both logs keep the same.
func chargeOf(r *registry.Record) uint32 {
	names := len(r.Topic)
	for i := range r.Fences {
		names += len(r.Fences[i].Topic)
	}
	return uint32(len(r.Payload) + max(registry.RecordOverhead, registry.RecordOverhead/2+2*names))
}

// memory is about what the record of a stub takes while it is recent.
func (s *stub) memory() int64 { return int64(s.charge) }

// stream is what is retained of one topic, or of the direct messages to one
// node, as readers see it. Streams without messages are kept for their mark.
type stream struct {
	topic    string
	to       protocol.NodeID
	versions bool // a swarm's config: kept by number, not by age

	stubs list[protocol.Seq, *stub]
	bytes int64

	// evicted is the mark: the highest seq that retention or a purge took, from
	// whichever sender.
	evicted protocol.Seq

	ledger *ledger // the writer's; nil when it counts no messages
}

func newStream(topic string, to protocol.NodeID) *stream {
	return &stream{topic: topic, to: to, versions: to == 0 && registry.HasVersions(topic)}
}

func (s *stream) key() string { return s.topic }

func (s *stream) stats() registry.TopicStats {
	t := registry.TopicStats{Topic: s.topic, Messages: s.stubs.n, Bytes: s.bytes}
	if s.stubs.n > 0 {
		t.First, t.Last = s.stubs.first().seq, s.stubs.last().seq
	}
	return t
}

// view is what readers see: all of it is of one moment.
type view struct {
	head protocol.Seq
	time protocol.Time

	all    list[protocol.Seq, *stub]
	names  list[string, *stream] // topics in byte order, also empty ones with a mark
	topics map[string]*stream    // the same
	direct map[protocol.NodeID]*stream

	bytes     int64
	filled    int          // topics with messages
	evicted   protocol.Seq // highest mark of a topic
	forgotten protocol.Seq // stands for the marks of streams that are not kept

	recent recent
	disk   *moment // what the folder held then
}

func newView() view {
	return view{topics: make(map[string]*stream), direct: make(map[protocol.NodeID]*stream)}
}

func (v *view) stream(topic string, to protocol.NodeID) *stream {
	if to != 0 {
		return v.direct[to]
	}
	return v.topics[topic]
}

func (v *view) enter(s *stream) {
	if s.to != 0 {
		v.direct[s.to] = s
		return
	}
	v.topics[s.topic] = s
	v.names.put(s)
	v.evicted = max(v.evicted, s.evicted)
}

func (v *view) leave(s *stream) {
	if s.to != 0 {
		delete(v.direct, s.to)
		return
	}
	delete(v.topics, s.topic)
	v.names.remove(s.topic)
}

func (v *view) put(x *stub) {
	s := x.stream
	if s.stubs.n == 0 && s.to == 0 {
		v.filled++
	}
	v.all.put(x)
	s.stubs.put(x)
	s.bytes += int64(x.size)
	v.bytes += int64(x.size)
}

func (v *view) remove(x *stub) {
	s := x.stream
	v.all.remove(x.seq)
	s.stubs.remove(x.seq)
	s.bytes -= int64(x.size)
	v.bytes -= int64(x.size)
	if s.stubs.n == 0 && s.to == 0 {
		v.filled--
	}
	v.recent.remove(x)
}

func (v *view) mark(s *stream, seq protocol.Seq) {
	s.evicted = max(s.evicted, seq)
	if s.to == 0 {
		v.evicted = max(v.evicted, seq)
	}
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
