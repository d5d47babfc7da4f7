package simnet

import (
	"container/heap"
	"net/netip"
	"time"
)

// flight is a packet under way.
type flight struct {
	way  pair
	to   netip.AddrPort
	due  time.Time
	sent uint64 // counts up over the network: the order of packets due together
	datagram
}

// send takes the data over.
func (n *Network) send(c *conn, to netip.AddrPort, data []byte) error {
	n.mu.Lock()
	err := c.writable()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	way := pair{c.node, n.nodeAt(to.Addr())}
	rules := n.drops
	n.mu.Unlock()
	if err != nil {
		return err
	}
	drop := dropped(Packet{From: way.from, To: way.to, Data: data}, rules)

	n.mu.Lock()
	defer n.mu.Unlock()
	// Closed while the rules were asked: gone like any packet under way.
	if n.closed {
		return nil
	}
	n.launch(flight{way: way, to: to, datagram: datagram{c.addr, data}}, drop)
	n.settle()
	return nil
}

func (n *Network) launch(f flight, drop bool) {
	d := n.direction(f.way)
	d.stats.Sent++
	fate := d.send(n.link(f.way), time.Now(), len(f.data), drop || n.cut(f.way))
	if fate.lost {
		d.stats.lose(fate.overflowed)
		return
	}
	f.due = fate.due
	n.push(d, f)
	if fate.doubled {
		d.stats.Doubled++
		n.push(d, f)
	}
}

func (n *Network) push(d *direction, f flight) {
	d.underWay++
	n.sent++
	f.sent = n.sent
	heap.Push(&n.air, &f)
}

// arrive is the ring of the arrival alarm.
func (n *Network) arrive() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.settle()
	}
}

// settle delivers what is due and sets the alarm for the rest.
func (n *Network) settle() {
	now := time.Now()
	for len(n.air) > 0 && !n.air[0].due.After(now) {
		n.deliver(heap.Pop(&n.air).(*flight))
	}
	if len(n.air) > 0 {
		n.arrival.set(n.air[0].due.Sub(now))
	}
}

func (n *Network) deliver(f *flight) {
	d := n.directions[f.way]
	d.underWay--
	c, ok := n.conns[f.to]
	if !ok || n.cut(f.way) {
		d.stats.lose(false)
		return
	}
	if !c.receive(f.datagram) {
		d.stats.lose(true)
		return
	}
	d.stats.Delivered++
	if f.sent < d.newest {
		d.stats.Reordered++
	}
	d.newest = max(d.newest, f.sent)
}

// flights is a heap, the next to arrive first.
type flights []*flight

func (fs flights) Len() int { return len(fs) }

func (fs flights) Less(i, j int) bool {
	if c := fs[i].due.Compare(fs[j].due); c != 0 {
		return c < 0
	}
	return fs[i].sent < fs[j].sent
}

func (fs flights) Swap(i, j int) { fs[i], fs[j] = fs[j], fs[i] }

func (fs *flights) Push(x any) { *fs = append(*fs, x.(*flight)) }

func (fs *flights) Pop() any {
	last := len(*fs) - 1
	f := (*fs)[last]
	(*fs)[last] = nil
	*fs = (*fs)[:last]
	return f
}
