package memlog

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// However many topics come and go, what is kept of them is bounded, and a
// reader is told of at least every gap there is.
func TestMarksOfManyTopicsAreMerged(t *testing.T) {
	l := New(Options{Retention: registry.Retention{Messages: -1}})
	const topics = maxEmpty + maxEmpty/2
	name := func(i protocol.Seq) string { return fmt.Sprint("t.", i) }
	for seq := protocol.Seq(1); seq <= topics; seq++ {
		r := &registry.Record{Message: protocol.Message{Seq: seq, Time: 1, Sender: 1, Topic: name(seq)}}
		require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
		require.NoError(t, l.Purge(r.Topic, seq))
	}
	require.LessOrEqual(t, len(l.view.Topics), maxEmpty)
	require.Equal(t, len(l.view.Topics), l.empty)
	require.Empty(t, l.senders)

	for _, seq := range []protocol.Seq{1, 2, topics / 3, topics - 1, topics} {
		for _, pattern := range []string{name(seq), "t.*", "*"} {
			page := registry.Page{}
			require.NoError(t, l.Read(&registry.Selection{Pattern: pattern}, 0, topics, &page))
			require.GreaterOrEqual(t, page.Evicted, seq, "pattern %s", pattern)
			require.LessOrEqual(t, page.Evicted, protocol.Seq(topics))
		}
	}
	page := registry.Page{}
	require.NoError(t, l.Read(&registry.Selection{Pattern: name(topics)}, topics, topics, &page))
	require.Zero(t, page.Evicted, "a reader at the head is told of none")

	// A topic that comes back has lost what it had.
	require.NotContains(t, l.view.Topics, name(1))
	r := &registry.Record{Message: protocol.Message{Seq: topics + 1, Time: 1, Sender: 1, Topic: name(1)}}
	require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
	require.NoError(t, l.Read(&registry.Selection{Pattern: name(1)}, 0, topics+1, &page))
	require.GreaterOrEqual(t, page.Evicted, protocol.Seq(1))
}

func TestRetainTrims(t *testing.T) {
	l := New(Options{})
	for seq := protocol.Seq(1); seq <= 100; seq++ {
		r := &registry.Record{Message: protocol.Message{Seq: seq, Time: protocol.Time(seq), Sender: protocol.NodeID(1 + seq%2), Topic: "a"}}
		require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
	}
	l.Retain(registry.Retention{Messages: 10})
	require.Equal(t, registry.TopicStats{Topic: "a", Messages: 20, First: 81, Last: 100}, l.Topic("a"))
	l.Retain(registry.Retention{Age: 5})
	require.Equal(t, registry.TopicStats{Topic: "a", Messages: 6, First: 95, Last: 100}, l.Topic("a"))
}

// Senders that have nothing left in a full log are forgotten.
func TestRankingsAreOfThoseWhoHaveSomething(t *testing.T) {
	l := New(Options{Retention: registry.Retention{TopicBytes: 1000, TotalBytes: 20 * (100 + registry.RecordOverhead)}})
	for seq := protocol.Seq(1); seq <= 1000; seq++ {
		r := &registry.Record{Message: protocol.Message{Seq: seq, Time: 1, Sender: protocol.NodeID(1 + seq/3), Topic: fmt.Sprint(seq % 2)}}
		r.Payload = make([]byte, 90+seq%20)
		require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
	}
	require.Equal(t, len(l.senders), l.largest.Len())
	for _, s := range l.view.Topics {
		require.Equal(t, len(s.Own.shares), s.Own.largest.Len())
		require.LessOrEqual(t, s.Bytes, int64(1000))
	}
	require.LessOrEqual(t, l.view.All.Len(), 20)
}

// Messages without a payload, with topics as long as can be, are not for free.
func TestLongNamesCount(t *testing.T) {
	const total = 1 << 20
	l := New(Options{Retention: registry.Retention{TotalBytes: total}})
	long := strings.Repeat("x", protocol.MaxTopic-2)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for seq := protocol.Seq(1); seq <= 2000; seq++ {
		topic := fmt.Sprint(long, seq%50)
		r := &registry.Record{Message: protocol.Message{
			Seq: seq, Time: 1, Sender: 1 << 31, Topic: topic,
			Fences: []protocol.Mark{{Topic: topic, Term: 1}, {Topic: topic[1:], Term: 1}},
		}}
		r.Seal()
		require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{r}}))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Positive(t, l.view.All.Len())
	require.Less(t, after.HeapAlloc-before.HeapAlloc, uint64(2*total))
	runtime.KeepAlive(l)
}
