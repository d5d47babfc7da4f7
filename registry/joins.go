package registry

import (
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// inboxes know which topics each node has joined, and up to where it has cleared
// what they brought.
type inboxes struct {
	byNode   map[protocol.NodeID]*inbox
	joinedBy map[string][]protocol.NodeID // rising
	joins    int                          // topics of all nodes
}

type inbox struct {
	topics []string            // in byte order
	set    map[string]struct{} // the same for readers; nil until asked for
	cursor protocol.Seq
}

func newInboxes() inboxes {
	return inboxes{
		byNode:   make(map[protocol.NodeID]*inbox),
		joinedBy: make(map[string][]protocol.NodeID),
	}
}

// join adds topics to a node's inbox, or takes them out: all or, on an error,
// none. Who joins a swarm's config joins its status reports too.
func (b *broker) join(now protocol.Time, node protocol.NodeID, topics []string, leave bool) *protocol.Error {
	var fresh []string
	for _, t := range topics {
		if err := protocol.ValidTopic(t); err != nil {
			return refusal(err, protocol.ErrInvalid)
		}
		for _, t := range [2]string{t, statusTopic(t)} {
			if t != "" && b.hasJoined(node, t) == leave && !slices.Contains(fresh, t) {
				fresh = append(fresh, t)
			}
		}
	}
	if leave {
		for _, t := range fresh {
			b.takeOut(node, t)
			b.stage(tableJoins, joinKey(node, t), nil, func() { b.putIn(node, t) })
		}
		return nil
	}
	if fault := b.joinsFault(now, node, len(fresh)); fault != nil {
		return fault
	}
	for _, t := range fresh {
		b.putIn(node, t)
		b.stage(tableJoins, joinKey(node, t), joinRow(), func() { b.takeOut(node, t) })
	}
	return nil
}

// joinsFault is why a node cannot join so many topics more. Where everybody is let
// in, strangers that are long away make room.
func (b *broker) joinsFault(now protocol.Time, node protocol.NodeID, fresh int) *protocol.Error {
	have, room := len(b.topicsOf(node)), b.opts.maxAllJoins
	if b.opts.sparedJoins > 0 && !b.trusted(node) {
		room -= b.opts.sparedJoins
	}
	switch {
	case fresh == 0 || have+fresh <= b.opts.maxJoins && b.joins+fresh <= room:
		return nil
	case have+fresh > b.opts.maxJoins:
		return protocol.Errorf(protocol.ErrLimit, "%d topics joined, maximum %d", have, b.opts.maxJoins)
	case b.opts.sparedJoins > 0 && b.evictReaders(now):
		return b.joinsFault(now, node, fresh)
	case room < b.opts.maxAllJoins:
		return protocol.Errorf(protocol.ErrLimit, "the room in inboxes that is left is for nodes that an operator knows")
	}
	return protocol.Errorf(protocol.ErrLimit, "no room for another topic in an inbox: all nodes have joined %d", b.joins)
}

// statusTopic is where a swarm reports what it applied of the config on this
// topic; "" when the topic is no swarm's config.
func statusTopic(topic string) string {
	status := "config:status:" + protocol.Swarm(topic)
	if protocol.Swarm(topic) == "" || len(status) > protocol.MaxTopic {
		return ""
	}
	return status
}

func (x *inboxes) topicsOf(node protocol.NodeID) []string {
	if in := x.byNode[node]; in != nil {
		return in.topics
	}
	return nil
}

func (x *inboxes) hasJoined(node protocol.NodeID, topic string) bool {
	_, ok := slices.BinarySearch(x.topicsOf(node), topic)
	return ok
}

func (x *inboxes) inboxOf(node protocol.NodeID) *inbox {
	in := x.byNode[node]
	if in == nil {
		in = &inbox{}
		x.byNode[node] = in
	}
	return in
}

// setCursor moves a cursor without a look at what is right.
func (x *inboxes) setCursor(node protocol.NodeID, seq protocol.Seq) {
	x.inboxOf(node).cursor = seq
	x.dropEmpty(node)
}

// dropEmpty keeps nodes that come and go from leaving something behind.
func (x *inboxes) dropEmpty(node protocol.NodeID) {
	if in := x.byNode[node]; in != nil && len(in.topics) == 0 && in.cursor == 0 {
		delete(x.byNode, node)
	}
}

func (x *inboxes) putIn(node protocol.NodeID, topic string) {
	in := x.inboxOf(node)
	at, ok := slices.BinarySearch(in.topics, topic)
	if ok {
		return
	}
	in.topics, in.set = slices.Insert(in.topics, at, topic), nil
	x.joins++
	members := x.joinedBy[topic]
	at, _ = slices.BinarySearch(members, node)
	x.joinedBy[topic] = slices.Insert(members, at, node)
}

func (x *inboxes) takeOut(node protocol.NodeID, topic string) {
	in := x.inboxOf(node)
	if at, ok := slices.BinarySearch(in.topics, topic); ok {
		in.topics, in.set = slices.Delete(in.topics, at, at+1), nil
		x.joins--
	}
	x.dropEmpty(node)
	members := x.joinedBy[topic]
	if at, ok := slices.BinarySearch(members, node); ok {
		members = slices.Delete(members, at, at+1)
	}
	if len(members) == 0 {
		delete(x.joinedBy, topic)
	} else {
		x.joinedBy[topic] = members
	}
}

// joined lists up to limit topics that a node has joined, in byte order behind
// after. 0 = no limit.
func (x *inboxes) joined(node protocol.NodeID, after string, limit int) []string {
	topics := x.topicsOf(node)
	at, found := slices.BinarySearch(topics, after)
	if found {
		at++
	}
	topics = topics[at:]
	if limit > 0 {
		topics = topics[:min(limit, len(topics))]
	}
	return slices.Clone(topics)
}

// joinedSet is the topics that a node has joined, for a reader's Selection. The
// map never changes; a later join makes another.
func (x *inboxes) joinedSet(node protocol.NodeID) map[string]struct{} {
	in := x.byNode[node]
	if in == nil || len(in.topics) == 0 {
		return nil
	}
	if in.set == nil {
		in.set = make(map[string]struct{}, len(in.topics))
		for _, t := range in.topics {
			in.set[t] = struct{}{}
		}
	}
	return in.set
}

// cursor is up to where a node has cleared its inbox.
func (x *inboxes) cursor(node protocol.NodeID) protocol.Seq {
	if in := x.byNode[node]; in != nil {
		return in.cursor
	}
	return 0
}

// clearInbox moves the cursor, only ever forward and not beyond the log's head.
func (b *broker) clearInbox(node protocol.NodeID, upTo protocol.Seq) {
	was := b.cursor(node)
	upTo = min(upTo, b.seq)
	if upTo <= was {
		return
	}
	b.setCursor(node, upTo)
	b.stage(tableCursors, nodeKey(node), cursorRow(upTo), func() { b.setCursor(node, was) })
}
