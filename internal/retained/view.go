package retained

import (
	"iter"
	"maps"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Stream is what is retained of one topic, or of the direct messages to one node.
// Streams without messages are kept for their mark. Own is what else the log
// keeps of it.
type Stream[V Message, O any] struct {
	Topic    string
	To       protocol.NodeID
	Versions bool // a swarm's config: kept by number, not by age

	Messages List[protocol.Seq, V]
	Bytes    int64

	// Evicted is the mark: the highest seq that retention or a purge took, from
	// whichever sender. A selection has no senders, so it needs no mark of each.
	Evicted protocol.Seq

	Own O
}

// NewStream makes a stream that no view has yet.
func NewStream[V Message, O any](topic string, to protocol.NodeID) *Stream[V, O] {
	return &Stream[V, O]{Topic: topic, To: to, Versions: to == 0 && registry.HasVersions(topic)}
}

// Key is the topic.
func (s *Stream[V, O]) Key() string { return s.Topic }

func (s *Stream[V, O]) stats() registry.TopicStats {
	t := registry.TopicStats{Topic: s.Topic, Messages: s.Messages.n, Bytes: s.Bytes}
	if s.Messages.n > 0 {
		t.First, t.Last = s.Messages.First().Key(), s.Messages.Last().Key()
	}
	return t
}

// View is what readers see: all of it is of one moment.
type View[V Message, O any] struct {
	Head protocol.Seq
	Time protocol.Time

	All       List[protocol.Seq, V]
	Bytes     int64        // of payload
	Evicted   protocol.Seq // highest mark of a topic
	Forgotten protocol.Seq // stands for the marks of streams that are not kept

	// For looking only; Enter and Leave change them.
	Topics map[string]*Stream[V, O]
	Direct map[protocol.NodeID]*Stream[V, O]

	names  List[string, *Stream[V, O]] // Topics in byte order
	filled int                         // topics with messages
}

// NewView is one of a log that never had a message.
func NewView[V Message, O any]() View[V, O] {
	return View[V, O]{Topics: make(map[string]*Stream[V, O]), Direct: make(map[protocol.NodeID]*Stream[V, O])}
}

// Stream finds that of a topic, or of the direct messages to a node, if it is
// kept.
func (v *View[V, O]) Stream(topic string, to protocol.NodeID) *Stream[V, O] {
	if to != 0 {
		return v.Direct[to]
	}
	return v.Topics[topic]
}

// Streams goes through all in no order. Leave may be called meanwhile.
func (v *View[V, O]) Streams() iter.Seq[*Stream[V, O]] {
	return func(yield func(*Stream[V, O]) bool) {
		for s := range maps.Values(v.Topics) {
			if !yield(s) {
				return
			}
		}
		maps.Values(v.Direct)(yield)
	}
}

// Enter adds a stream without messages.
func (v *View[V, O]) Enter(s *Stream[V, O]) {
	if s.To != 0 {
		v.Direct[s.To] = s
		return
	}
	v.Topics[s.Topic] = s
	v.names.Put(s)
	v.Evicted = max(v.Evicted, s.Evicted)
}

// Leave takes out a stream without messages.
func (v *View[V, O]) Leave(s *Stream[V, O]) {
	if s.To != 0 {
		delete(v.Direct, s.To)
		return
	}
	delete(v.Topics, s.Topic)
	v.names.Remove(s.Topic)
}

// Put adds a message to its stream.
func (v *View[V, O]) Put(s *Stream[V, O], x V) {
	if s.Messages.n == 0 && s.To == 0 {
		v.filled++
	}
	v.All.Put(x)
	s.Messages.Put(x)
	s.Bytes += int64(x.Size())
	v.Bytes += int64(x.Size())
}

// Remove takes a message out of its stream.
func (v *View[V, O]) Remove(s *Stream[V, O], x V) {
	v.All.Remove(x.Key())
	s.Messages.Remove(x.Key())
	s.Bytes -= int64(x.Size())
	v.Bytes -= int64(x.Size())
	if s.Messages.n == 0 && s.To == 0 {
		v.filled--
	}
}

// Mark raises the mark of a stream.
func (v *View[V, O]) Mark(s *Stream[V, O], seq protocol.Seq) {
	s.Evicted = max(s.Evicted, seq)
	if s.To == 0 {
		v.Evicted = max(v.Evicted, seq)
	}
}

// TopicStats is for registry.Log's Topic.
func (v *View[V, O]) TopicStats(topic string) registry.TopicStats {
	if s := v.Topics[topic]; s != nil {
		return s.stats()
	}
	return registry.TopicStats{Topic: topic}
}

// TopicsPage is for registry.Log's Topics.
func (v *View[V, O]) TopicsPage(after string, limit int) []registry.TopicStats {
	var page []registry.TopicStats
	for p := v.names.Behind(after); len(page) < limit || limit <= 0; p = v.names.Next(p) {
		s, ok := v.names.At(p)
		if !ok {
			break
		}
		if s.Messages.n > 0 {
			page = append(page, s.stats())
		}
	}
	return page
}

// Stats is for registry.Log's Stats, and leaves out the keys.
func (v *View[V, O]) Stats() registry.LogStats {
	return registry.LogStats{Topics: v.filled, Messages: v.All.n, Bytes: v.Bytes}
}

// eachMatch goes through the topics of a pattern, also the empty ones.
func (v *View[V, O]) eachMatch(pattern string, do func(*Stream[V, O]) bool) {
	if pattern == "" {
		return
	}
	stem, star := strings.CutSuffix(pattern, "*")
	if !star {
		if s := v.Topics[pattern]; s != nil {
			do(s)
		}
		return
	}
	for p := v.names.Behind(stem); ; p = v.names.Next(p) {
		s, ok := v.names.At(p)
		if !ok || !strings.HasPrefix(s.Topic, stem) || !do(s) {
			return
		}
	}
}

// MarkOf is the highest mark of a selection, 0 when it is not behind after.
func (v *View[V, O]) MarkOf(sel *registry.Selection, after protocol.Seq) protocol.Seq {
	mark := protocol.Seq(0)
	if sel.Direct != 0 {
		mark = v.markAt(v.Direct[sel.Direct])
	}
	// Readers near the head end here.
	if v.Evicted > after {
		for topic := range sel.Topics {
			if sel.Readable == nil || sel.Readable(topic) {
				mark = max(mark, v.markAt(v.Topics[topic]))
			}
		}
		mark = max(mark, v.patternMark(sel))
	}
	if mark <= after {
		return 0
	}
	return mark
}

func (v *View[V, O]) markAt(s *Stream[V, O]) protocol.Seq {
	if s == nil {
		return v.Forgotten
	}
	return s.Evicted
}

// markMost is how many topics of a prefix there are whose marks are compared.
const markMost = 1024

func (v *View[V, O]) patternMark(sel *registry.Selection) protocol.Seq {
	if sel.Pattern == "" {
		return 0
	}
	if protocol.IsExact(sel.Pattern) {
		if sel.Readable != nil && !sel.Readable(sel.Pattern) {
			return 0
		}
		return v.markAt(v.Topics[sel.Pattern])
	}
	mark, left := v.Forgotten, markMost
	v.eachMatch(sel.Pattern, func(s *Stream[V, O]) bool {
		if left--; left < 0 {
			mark = max(v.Evicted, v.Forgotten)
			return false
		}
		if sel.Readable == nil || sel.Readable(s.Topic) {
			mark = max(mark, s.Evicted)
		}
		return true
	})
	return mark
}
