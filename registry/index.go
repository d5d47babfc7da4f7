package registry

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// index finds the subscriptions that a message concerns, without asking each.
type index struct {
	mu      sync.Mutex
	exact   map[string]readers          // by topic; of inboxes, each joined one
	stems   map[string]readers          // by pattern without its '*'
	inboxes map[protocol.NodeID]readers // by node
	all     readers
	woken   map[string]struct{} // used by wake alone
}

type readers map[*subscription]struct{}

func newIndex() *index {
	return &index{
		exact:   make(map[string]readers),
		stems:   make(map[string]readers),
		inboxes: make(map[protocol.NodeID]readers),
		all:     make(readers),
		woken:   make(map[string]struct{}),
	}
}

func put[K comparable](m map[K]readers, key K, sub *subscription) {
	if m[key] == nil {
		m[key] = make(readers)
	}
	m[key][sub] = struct{}{}
}

func remove[K comparable](m map[K]readers, key K, sub *subscription) {
	delete(m[key], sub)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

// add makes a subscription be woken from now on. joined is for inboxes.
func (x *index) add(sub *subscription, joined map[string]struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all[sub] = struct{}{}
	if sub.source == protocol.SourceInbox {
		put(x.inboxes, sub.s.caller.Node, sub)
		x.listen(sub, nil, joined)
		sub.inbox.joined = joined
		return
	}
	if stem, star := strings.CutSuffix(sub.pattern, "*"); star {
		put(x.stems, stem, sub)
		return
	}
	put(x.exact, sub.pattern, sub)
}

func (x *index) drop(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, sub)
	if sub.source == protocol.SourceInbox {
		remove(x.inboxes, sub.s.caller.Node, sub)
		x.listen(sub, sub.inbox.newest(), nil)
		return
	}
	if stem, star := strings.CutSuffix(sub.pattern, "*"); star {
		remove(x.stems, stem, sub)
		return
	}
	remove(x.exact, sub.pattern, sub)
}

// listen moves an inbox from one set of topics to another.
func (x *index) listen(sub *subscription, from, to map[string]struct{}) {
	for topic := range from {
		if _, ok := to[topic]; !ok {
			remove(x.exact, topic, sub)
		}
	}
	for topic := range to {
		if _, ok := from[topic]; !ok {
			put(x.exact, topic, sub)
		}
	}
}

// inboxTopics is what a subscription to an inbox reads. It is guarded by the index.
type inboxTopics struct {
	joined map[string]struct{}

	// changed: behind since, next is in the place of joined.
	changed bool
	next    map[string]struct{}
	since   protocol.Seq
}

func (t *inboxTopics) newest() map[string]struct{} {
	if t.changed {
		return t.next
	}
	return t.joined
}

// rejoin is called when nodes have joined or left topics, which counts behind
// since. Of several changes that a slow reader has before it, all count from the
// first on.
func (x *index) rejoin(nodes map[protocol.NodeID]struct{}, since protocol.Seq, joined func(protocol.NodeID) map[string]struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for node := range nodes {
		for sub := range x.inboxes[node] {
			t := &sub.inbox
			now := joined(node)
			x.listen(sub, t.newest(), now)
			if !t.changed {
				t.changed, t.since = true, since
			}
			t.next = now
			sub.wake() // so that it passes since soon
		}
	}
}

// topics is what an inbox reads behind at, and up to where.
func (x *index) topics(sub *subscription, at, upTo protocol.Seq) (map[string]struct{}, protocol.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := &sub.inbox
	if t.changed && at >= t.since {
		t.joined, t.changed, t.next = t.next, false, nil
	}
	if t.changed {
		upTo = min(upTo, t.since)
	}
	return t.joined, upTo
}

// wake lets the readers of records look at the log.
func (x *index) wake(records []*Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) == 0 {
		return
	}
	last := ""
	for _, r := range records {
		switch {
		case r.To != 0:
			x.inboxes[r.To].wake()
		case r.Topic == last:
		default:
			last = r.Topic
			if _, again := x.woken[last]; !again {
				x.woken[last] = struct{}{}
				x.wakeTopic(last)
			}
		}
	}
	clear(x.woken)
}

// wakeTopic tries each stem that a pattern matching the topic can have.
func (x *index) wakeTopic(topic string) {
	x.exact[topic].wake()
	if len(x.stems) == 0 {
		return
	}
	x.stems[""].wake()
	for i := 1; i < len(topic)-1; i++ {
		if topic[i] == '.' || topic[i] == ':' {
			x.stems[topic[:i+1]].wake()
		}
	}
}

func (r readers) wake() {
	for sub := range r {
		sub.wake()
	}
}

// list is every open subscription, in no order.
func (x *index) list() []*subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.all))
}

func (x *index) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all)
}
