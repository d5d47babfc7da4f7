package registry

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// A node may have thousands of topics and hundreds of open inboxes. What it joins
// then must not cost the product of both, since all publishes wait for it.
func TestManyInboxesOfManyTopics(t *testing.T) {
	joined := make(map[string]struct{})
	for i := range 10_000 {
		joined[fmt.Sprint("topic.", i)] = struct{}{}
	}
	s := &session{caller: Caller{Node: 1 << 31}}
	x := newIndex()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var subs []*subscription
	for range 1000 {
		sub := &subscription{s: s, source: protocol.SourceInbox, news: make(chan struct{}, 1)}
		x.add(sub, joined)
		subs = append(subs, sub)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))

	joins := func(topics map[string]struct{}) func(protocol.NodeID) map[string]struct{} {
		return func(protocol.NodeID) map[string]struct{} { return topics }
	}
	change := map[protocol.NodeID][]string{s.caller.Node: {"topic.0"}}
	woken := func(topic string) bool {
		for _, sub := range subs {
			select {
			case <-sub.news:
			default:
			}
		}
		x.wake([]*Record{{Message: protocol.Message{Topic: topic}}})
		n := 0
		for _, sub := range subs {
			n += len(sub.news)
		}
		require.Contains(t, []int{0, len(subs)}, n)
		return n > 0
	}
	require.True(t, woken("topic.0"))
	delete(joined, "topic.0")
	x.rejoin(change, 7, joins(joined))
	require.False(t, woken("topic.0"))
	require.True(t, woken("topic.1"))

	for _, sub := range subs {
		x.drop(sub)
	}
	require.Empty(t, x.members)
	require.Empty(t, x.inboxes)
	require.Zero(t, x.len())
}

// Inboxes that are not read, each opened between two joins, share what the node had
// joined as far as it is kept at all.
func TestStalledInboxesHoldFewTopics(t *testing.T) {
	s := &session{caller: Caller{Node: 1 << 31}}
	x := newIndex()
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprint("topic.", i)
	}
	joined := func() map[string]struct{} {
		set := make(map[string]struct{}, len(names))
		for _, name := range names {
			set[name] = struct{}{}
		}
		return set
	}
	change := map[protocol.NodeID][]string{s.caller.Node: {"topic.0"}}
	open := func() *subscription {
		sub := &subscription{s: s, source: protocol.SourceInbox, news: make(chan struct{}, 1)}
		x.add(sub, joined())
		return sub
	}
	first := open()
	before := heapHeld()
	var subs []*subscription
	for seq := range protocol.Seq(500) {
		subs = append(subs, open())
		x.rejoin(change, 10+seq, func(protocol.NodeID) map[string]struct{} { return joined() })
		_, upTo := x.topics(first, 0, 500)
		if seq < 30 {
			require.Equal(t, protocol.Seq(10), upTo, "it is behind by few")
		}
	}
	require.Less(t, heapHeld()-before, int64(heldTopics*100))
	_, upTo := x.topics(first, 0, 500)
	require.Equal(t, protocol.Seq(500), upTo)
	runtime.KeepAlive(subs)
}

func heapHeld() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
