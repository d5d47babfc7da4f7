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
	exact   map[string]readers // by topic
	stems   map[string]readers // by pattern without its '*'
	inboxes map[protocol.NodeID]*inboxReaders
	members map[string]map[protocol.NodeID]struct{} // by topic: those of inboxes who joined it
	all     readers
	woken   map[string]struct{} // used by wake alone
}

type readers map[*subscription]struct{}

// inboxReaders are the open inboxes of one node. The topics are noted for the
// node and not for each inbox: both can be many.
type inboxReaders struct {
	readers readers
	joined  map[string]struct{}
	passed  int // topics of all that joined was before
}

// turn puts the topics in their place, which count behind since.
func (in *inboxReaders) turn(next map[string]struct{}, since protocol.Seq) {
	in.passed += len(in.joined)
	in.joined = next
	for sub := range in.readers {
		sub.inbox.change(in, since)
	}
}

func newIndex() *index {
	return &index{
		exact:   make(map[string]readers),
		stems:   make(map[string]readers),
		inboxes: make(map[protocol.NodeID]*inboxReaders),
		members: make(map[string]map[protocol.NodeID]struct{}),
		all:     make(readers),
		woken:   make(map[string]struct{}),
	}
}

func put[M ~map[V]struct{}, K, V comparable](m map[K]M, key K, v V) {
	if m[key] == nil {
		m[key] = make(M)
	}
	m[key][v] = struct{}{}
}

func remove[M ~map[V]struct{}, K, V comparable](m map[K]M, key K, v V) {
	delete(m[key], v)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

// add makes a subscription be woken from now on. joined is for inboxes: what the
// node has joined.
func (x *index) add(sub *subscription, joined map[string]struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all[sub] = struct{}{}
	if sub.source == protocol.SourceInbox {
		x.addInbox(sub, joined)
		return
	}
	if stem, star := strings.CutSuffix(sub.pattern, "*"); star {
		put(x.stems, stem, sub)
		return
	}
	put(x.exact, sub.pattern, sub)
}

func (x *index) addInbox(sub *subscription, joined map[string]struct{}) {
	node := sub.s.caller.Node
	in := x.inboxes[node]
	if in == nil {
		in = &inboxReaders{readers: make(readers), joined: joined}
		x.inboxes[node] = in
		for topic := range joined {
			put(x.members, topic, node)
		}
	}
	in.readers[sub] = struct{}{}
	sub.inbox = inboxTopics{joined: joined, passed: in.passed}
}

func (x *index) drop(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, sub)
	if sub.source == protocol.SourceInbox {
		x.dropInbox(sub)
		return
	}
	if stem, star := strings.CutSuffix(sub.pattern, "*"); star {
		remove(x.stems, stem, sub)
		return
	}
	remove(x.exact, sub.pattern, sub)
}

func (x *index) dropInbox(sub *subscription) {
	node := sub.s.caller.Node
	in := x.inboxes[node]
	delete(in.readers, sub)
	if len(in.readers) > 0 {
		return
	}
	delete(x.inboxes, node)
	for topic := range in.joined {
		remove(x.members, topic, node)
	}
}

// inboxTopics is what a subscription to an inbox reads. It is guarded by the index.
type inboxTopics struct {
	joined map[string]struct{}
	passed int // of the node, when joined was made

	// changed: behind since, next is in the place of joined.
	changed bool
	next    map[string]struct{}
	ahead   int // passed of next
	since   protocol.Seq
}

// heldTopics bounds what is kept of one node's former topics for readers that have
// not come so far: a client can have thousands that read nothing, and join between
// each two. Readers farther behind go on with the topics of now, as they do after a
// reconnect.
const heldTopics = 200_000

// rejoin is called when nodes have joined or left topics, which counts behind
// since. Of several changes that a slow reader has before it, all count from the
// first on.
func (x *index) rejoin(changed map[protocol.NodeID][]string, since protocol.Seq, joined func(protocol.NodeID) map[string]struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for node, topics := range changed {
		in := x.inboxes[node]
		if in == nil {
			continue
		}
		in.turn(joined(node), since)
		for _, topic := range topics {
			if _, ok := in.joined[topic]; ok {
				put(x.members, topic, node)
			} else {
				remove(x.members, topic, node)
			}
		}
		in.readers.wake() // so that they pass since soon
	}
}

// rejoinAll is rejoin when any node may have joined or left any topic.
func (x *index) rejoinAll(since protocol.Seq, joined func(protocol.NodeID) map[string]struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for node, in := range x.inboxes {
		for topic := range in.joined {
			remove(x.members, topic, node)
		}
		in.turn(joined(node), since)
		for topic := range in.joined {
			put(x.members, topic, node)
		}
	}
}

// wakeAll lets all readers look at the log.
func (x *index) wakeAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all.wake()
}

func (t *inboxTopics) change(in *inboxReaders, since protocol.Seq) {
	if !t.changed {
		t.changed, t.since = true, since
	}
	t.next, t.ahead = in.joined, in.passed
	if in.passed-t.passed > heldTopics {
		t.arrive()
	}
}

// arrive puts next in the place of joined.
func (t *inboxTopics) arrive() {
	*t = inboxTopics{joined: t.next, passed: t.ahead}
}

// topics is what an inbox reads behind at, and up to where.
func (x *index) topics(sub *subscription, at, upTo protocol.Seq) (map[string]struct{}, protocol.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := &sub.inbox
	if t.changed && at >= t.since {
		t.arrive()
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
			x.wakeInbox(r.To)
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
	for node := range x.members[topic] {
		x.wakeInbox(node)
	}
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

func (x *index) wakeInbox(node protocol.NodeID) {
	if in := x.inboxes[node]; in != nil {
		in.readers.wake()
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
