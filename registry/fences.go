package registry

import "github.com/pilotgo/pilotgo/protocol"

// fenceTable knows the fence of each topic that has one. Fences are never
// forgotten, so no node may make more than its share of them.
type fenceTable struct {
	fences map[string]protocol.Fence
	madeBy map[protocol.NodeID]int // fences; those from before the load, and of other registries, are nobody's
}

func newFenceTable() fenceTable {
	return fenceTable{fences: make(map[string]protocol.Fence), madeBy: make(map[protocol.NodeID]int)}
}

func (t *fenceTable) hasFence(topic string) bool {
	_, ok := t.fences[topic]
	return ok
}

// fencesFault is why a node cannot make so many fences more.
func (b *broker) fencesFault(node protocol.NodeID, fresh int) *protocol.Error {
	switch {
	case fresh == 0:
		return nil
	case b.madeBy[node]+fresh > b.opts.nodeFences:
		return protocol.Errorf(protocol.ErrLimit, "this node has made %d fences, maximum %d", b.madeBy[node], b.opts.nodeFences)
	case len(b.fences)+fresh > b.opts.maxFences:
		return protocol.Errorf(protocol.ErrLimit, "no room for another topic with a fence")
	case b.opts.spared > 0 && len(b.fences)+fresh > b.opts.maxFences-b.opts.spared && !b.trusted(node):
		return protocol.Errorf(protocol.ErrLimit, "the room for fences that is left is for nodes that an operator knows")
	}
	return nil
}

// trusted reports whether an operator has vouched for a node.
func (b *broker) trusted(node protocol.NodeID) bool {
	key := protocol.KeyHashOf(b.nodesByID[node].Key)
	_, listed := b.opts.listed[key]
	return listed || b.vouchedFor(key)
}

// fence is the state of a topic's fence by what is settled.
func (b *broker) fence(topic string) protocol.Fence {
	for _, s := range b.sealed {
		if was, moved := s.were[topic]; moved {
			return was
		}
	}
	if was, moved := b.step.were[topic]; moved {
		return was
	}
	return b.fences[topic]
}

// setFence is the operator's reset: it puts K to any value, also a lower one, and
// leaves S.
func (b *broker) setFence(node protocol.NodeID, topic string, epoch protocol.EpochID, k uint64) (protocol.Fence, *protocol.Error) {
	f := b.fences[topic]
	switch err := protocol.ValidTopic(topic); {
	case err != nil:
		return f, refusal(err, protocol.ErrInvalid)
	case k > protocol.MaxTerm:
		return f, protocol.Errorf(protocol.ErrInvalid, "fence value %d, maximum %d", k, uint64(protocol.MaxTerm))
	case epoch != b.epoch.ID:
		return f, &protocol.Error{
			Code: protocol.ErrWrongEpoch, Detail: "the log's is " + b.epoch.ID.String(),
			Topic: topic, Epoch: b.epoch.ID, Fence: f,
		}
	}
	if !b.hasFence(topic) {
		if fault := b.fencesFault(node, 1); fault != nil {
			return f, fault
		}
	}
	f.K = k
	b.moveFence(node, topic, f)
	return f, nil
}

// testConditions tells the first condition that does not hold. Nothing changes.
func (b *broker) testConditions(p *protocol.Publish) *protocol.Refuse {
	for i := range p.Conditions {
		c := &p.Conditions[i]
		f := b.fences[c.Topic]
		if code := verdict(c, b.epoch.ID, f); code != 0 {
			return &protocol.Refuse{N: p.N, Code: code, Topic: c.Topic, Epoch: b.epoch.ID, Fence: f}
		}
	}
	return nil
}

// verdict is why a condition refuses, or 0.
func verdict(c *protocol.Condition, epoch protocol.EpochID, f protocol.Fence) protocol.Code {
	switch {
	case c.Epoch != epoch:
		return protocol.ErrWrongEpoch
	case c.Term < f.K,
		c.Term > f.K && c.Raise == 0,
		c.Raise != 0 && !c.HasExpect && c.Raise <= f.K:
		return protocol.ErrStaleTerm
	case c.HasExpect && c.Expect != f.S:
		return protocol.ErrConflict
	}
	return 0
}

// passConditions moves the fences past an accepted message. S tells of messages
// on the fence's own topic only: a claimant reads no other.
func (b *broker) passConditions(sender protocol.NodeID, p *protocol.Publish, seq protocol.Seq) {
	for i := range p.Conditions {
		c := &p.Conditions[i]
		was := b.fences[c.Topic]
		f := was
		f.K = max(f.K, c.Raise)
		if c.Topic == p.Topic {
			f.S = seq
		}
		if f != was {
			b.moveFence(sender, c.Topic, f)
		}
	}
}

func (b *broker) moveFence(node protocol.NodeID, topic string, f protocol.Fence) {
	was, old := b.fences[topic]
	b.fences[topic] = f
	s := b.step
	if _, moved := s.were[topic]; !moved {
		s.were[topic] = was
	}
	s.Fences = append(s.Fences, FenceEntry{topic, f})
	if old {
		s.undo = append(s.undo, func() { b.fences[topic] = was })
		return
	}
	b.madeBy[node]++
	s.undo = append(s.undo, func() {
		delete(b.fences, topic)
		b.madeBy[node]--
	})
}

func marks(list []protocol.Condition) []protocol.Mark {
	if len(list) == 0 {
		return nil
	}
	m := make([]protocol.Mark, len(list))
	for i := range list {
		m[i] = protocol.Mark{Topic: list[i].Topic, Term: list[i].Term}
	}
	return m
}
