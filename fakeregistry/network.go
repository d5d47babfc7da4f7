package fakeregistry

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/internal/simnet"
)

// Link is how packets travel in one direction between two nodes. Loss,
// Duplicate and Reorder are probabilities per packet, from 0 to 1.
type Link struct {
	// Latency is the time a packet takes.
	Latency time.Duration

	// Jitter adds a random time below it to each packet's Latency. Order is kept.
	Jitter time.Duration

	// Loss is how often a packet is lost.
	Loss float64

	// Duplicate is how often a packet arrives twice.
	Duplicate float64

	// Reorder is how often a packet is held back for one more Latency, at least a
	// millisecond, while those behind it pass.
	Reorder float64

	// Bandwidth is in bytes a second; 0 means no limit. A packet that would wait
	// more than 200 ms for the line is lost.
	Bandwidth int
}

// SetLink says how packets that are sent from now on travel from one node to
// another; the other direction is not concerned. "" stands for any node. The
// most specific link counts, whole: one for both nodes, else one for the
// sender, else one for the receiver, else one for ("", "").
func (r *Registry) SetLink(from, to string, l Link) {
	r.fault("link", from+" -> "+to, from, to)
	r.wires.setLink(way{from, to}, l)
}

// Partition cuts nodes off from the registry, or one node from another: black
// holes, no reset, no close. Nothing gets through any more once it has
// returned, not even what is under way.
//
//	reg.Partition("a", fakeregistry.Host)
func (r *Registry) Partition(a, b string) {
	r.fault("partition", a+" <-> "+b, a, b)
	r.wires.cut(way{a, b}, way{b, a})
}

// PartitionOneWay cuts only the packets from one node to another.
func (r *Registry) PartitionOneWay(from, to string) {
	r.fault("partition", from+" -> "+to, from, to)
	r.wires.cut(way{from, to})
}

// Isolate cuts a node off from all others. Heal(node, "") takes it back.
func (r *Registry) Isolate(node string) { r.Partition(node, "") }

// Heal takes back the Partition, or the PartitionOneWay in either direction,
// that named this a and b.
func (r *Registry) Heal(a, b string) {
	r.fault("heal", a+" <-> "+b, a, b)
	r.wires.heal(way{a, b}, way{b, a})
}

// HealAll takes back all partitions. Links stay as they are.
func (r *Registry) HealAll() {
	r.events.fault("heal", "all")
	r.wires.healAll()
}

// way is a direction between two nodes; "" stands for any.
type way struct{ from, to string }

// wires is the simulated network with one more kind of name. A peer that came in
// by the common port of a process is a node named after its socket; only later
// it tells who it is. From then on the faults of that name are its own.
type wires struct {
	net *simnet.Network

	mu    sync.Mutex
	at    map[netip.Addr]place
	known map[string][]string // nodes of peers, by the name they told
	links map[way]Link
	cuts  map[way]bool
}

func newWires(o Options) *wires {
	return &wires{
		net:   simnet.New(simnet.Options{Latency: o.Latency, Seed: o.Seed}),
		at:    make(map[netip.Addr]place),
		known: make(map[string][]string),
		links: make(map[way]Link),
		cuts:  make(map[way]bool),
	}
}

// place is the node at an address. A nameless one is called after its socket.
type place struct {
	node     string
	nameless bool
}

func (w *wires) listen(p place) net.PacketConn {
	pc := w.net.Listen(p.node)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[addrOf(pc.LocalAddr())] = p
	return pc
}

func addrOf(a net.Addr) netip.Addr {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return u.AddrPort().Addr().Unmap()
}

func (w *wires) place(a net.Addr) place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[addrOf(a)]
}

// name tells that a node is also called by a name, and makes the name's faults
// its own.
func (w *wires) name(node, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name == Host || name == node || slices.Contains(w.known[name], node) {
		return
	}
	w.known[name] = append(w.known[name], node)
	for d, l := range w.links {
		for _, e := range w.expand(d) {
			w.net.SetLink(e.from, e.to, simnet.Link(l))
		}
	}
	for d := range w.cuts {
		for _, e := range w.expand(d) {
			w.net.PartitionOneWay(e.from, e.to)
		}
	}
}

// forget drops what name told of a node that is gone.
func (w *wires) forget(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, nodes := range w.known {
		if nodes = slices.DeleteFunc(nodes, func(n string) bool { return n == node }); len(nodes) == 0 {
			delete(w.known, name)
		} else {
			w.known[name] = nodes
		}
	}
	maps.DeleteFunc(w.at, func(_ netip.Addr, p place) bool { return p.node == node })
}

// expand puts nodes for names; under mu.
func (w *wires) expand(d way) []way {
	var all []way
	for _, from := range slices.Concat(w.known[d.from], []string{d.from}) {
		for _, to := range slices.Concat(w.known[d.to], []string{d.to}) {
			all = append(all, way{from, to})
		}
	}
	return all
}

func (w *wires) setLink(d way, l Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[d] = l
	for _, e := range w.expand(d) {
		w.net.SetLink(e.from, e.to, simnet.Link(l))
	}
}

// resetLinks makes every link what it was at first.
func (w *wires) resetLinks(latency time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.links {
		for _, e := range w.expand(d) {
			w.net.SetLink(e.from, e.to, simnet.Link{Latency: latency})
		}
	}
	clear(w.links)
}

func (w *wires) cut(ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range ways {
		w.cuts[d] = true
		for _, e := range w.expand(d) {
			w.net.PartitionOneWay(e.from, e.to)
		}
	}
}

func (w *wires) heal(ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range ways {
		delete(w.cuts, d)
		for _, e := range w.expand(d) {
			w.net.Heal(e.from, e.to)
		}
	}
}

func (w *wires) healAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cuts)
	w.net.HealAll()
}
