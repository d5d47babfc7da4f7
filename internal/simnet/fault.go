package simnet

import "slices"

// Partition cuts a and b off from each other. Once it has returned nothing gets
// through any more, not even what is under way; only what a socket holds already is still
// read. "" stands for any node, but a node always reaches itself.
func (n *Network) Partition(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pair{a, b}] = true
	n.cuts[pair{b, a}] = true
}

// PartitionOneWay cuts only the packets from one node to another.
func (n *Network) PartitionOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pair{from, to}] = true
}

// Isolate cuts a node off from all others. Heal(node, "") takes it back.
func (n *Network) Isolate(node string) { n.Partition(node, "") }

// Heal takes back the Partition, or the PartitionOneWay in either direction,
// that named this a and b. Other cuts hold: after Isolate("a"), Heal("a", "b")
// lets nothing through.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, pair{a, b})
	delete(n.cuts, pair{b, a})
}

// HealAll takes back all cuts. Links and rules of Drop stay as they are.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
}

func (n *Network) cut(way pair) bool {
	if way.from == way.to {
		return false
	}
	return n.cuts[way] || n.cuts[pair{way.from, ""}] || n.cuts[pair{"", way.to}] || n.cuts[pair{}]
}

// Packet is a datagram that has been sent.
type Packet struct {
	From, To string // nodes
	Data     []byte // to be read only
}

type dropRule struct{ drop func(Packet) bool }

// Drop loses the packets for which drop returns true, until stop is called. It
// is asked as each packet is sent, before cuts and chance, in the goroutine of
// the sender: it may be called from several at once, and may call the network.
// With several rules each is asked, in the order they were made, until one
// drops; a rule that returns false is a tap.
func (n *Network) Drop(drop func(Packet) bool) (stop func()) {
	rule := &dropRule{drop}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drops = append(slices.Clip(n.drops), rule)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.drops = slices.DeleteFunc(slices.Clone(n.drops), func(r *dropRule) bool { return r == rule })
	}
}

func dropped(p Packet, rules []*dropRule) bool {
	return slices.ContainsFunc(rules, func(r *dropRule) bool { return r.drop(p) })
}
