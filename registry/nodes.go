package registry

import (
	"crypto/ed25519"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// nodeTable knows every node that was ever admitted and not forgotten. A node id
// belongs to the key that was admitted with it first.
type nodeTable struct {
	nodesByID map[protocol.NodeID]protocol.Node
	nodeIDs   []protocol.NodeID // rising
	online    int               // nodes with a session

	spoken       map[protocol.NodeID]struct{} // nodes that have published
	crowdedUntil protocol.Time                // nobody is looked for who could go
}

func newNodeTable() nodeTable {
	return nodeTable{
		nodesByID: make(map[protocol.NodeID]protocol.Node),
		spoken:    make(map[protocol.NodeID]struct{}),
	}
}

// enroll begins a session of a node that may have one. The id is made from the
// key, or a real Pilot id.
func (b *broker) enroll(now protocol.Time, id protocol.NodeID, key ed25519.PublicKey, name string, tags []string) {
	n := b.nodesByID[id]
	n.ID, n.Key, n.Name, n.Tags = id, slices.Clone(key), name, slices.Clone(tags)
	n.Online++
	b.seen(now, n)
}

// leave ends a session that enroll began.
func (b *broker) leave(now protocol.Time, id protocol.NodeID) {
	n, ok := b.nodesByID[id]
	if !ok || n.Online == 0 {
		return
	}
	n.Online--
	b.seen(now, n)
}

func (b *broker) seen(now protocol.Time, n protocol.Node) {
	n.LastSeen = max(n.LastSeen, now)
	was, known := b.nodesByID[n.ID]
	b.putNode(n)
	b.stage(tableNodes, nodeKey(n.ID), nodeRow(&n), func() {
		if known {
			b.putNode(was)
		} else {
			b.dropNode(n.ID)
		}
	})
}

func (t *nodeTable) putNode(n protocol.Node) {
	was, known := t.nodesByID[n.ID]
	if !known {
		at, _ := slices.BinarySearch(t.nodeIDs, n.ID)
		t.nodeIDs = slices.Insert(t.nodeIDs, at, n.ID)
	}
	t.online += presence(n) - presence(was)
	t.nodesByID[n.ID] = n
}

func (t *nodeTable) dropNode(id protocol.NodeID) {
	t.online -= presence(t.nodesByID[id])
	delete(t.nodesByID, id)
	if at, ok := slices.BinarySearch(t.nodeIDs, id); ok {
		t.nodeIDs = slices.Delete(t.nodeIDs, at, at+1)
	}
}

// presence is 1 for a node with a session.
func presence(n protocol.Node) int { return int(min(n.Online, 1)) }

// nodes lists up to limit nodes by rising id behind after; with a topic only
// those that joined it. 0 = no limit.
func (b *broker) nodes(after protocol.NodeID, limit int, topic string) []protocol.Node {
	ids := b.nodeIDs
	if topic != "" {
		ids = b.joinedBy[topic]
	}
	at, found := slices.BinarySearch(ids, after)
	if found {
		at++
	}
	ids = ids[at:]
	if limit > 0 {
		ids = ids[:min(limit, len(ids))]
	}
	list := make([]protocol.Node, 0, len(ids))
	for _, id := range ids {
		n, ok := b.nodesByID[id]
		if !ok {
			n = protocol.Node{ID: id} // joined without a session here, as after an import
		}
		list = append(list, n)
	}
	return list
}

// nodeCount tells how many nodes are known and how many have a session.
func (b *broker) nodeCount() (known, online int) { return len(b.nodesByID), b.online }
