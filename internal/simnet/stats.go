package simnet

// Stats counts packets. Sent and Doubled together are Delivered, Lost and what
// is still under way.
type Stats struct {
	Sent      int // written to a socket
	Doubled   int // copies that Duplicate made
	Delivered int // put into the buffer of a socket
	Reordered int // of Delivered: after a packet that was sent later
	Lost      int // for whatever reason
	Overflow  int // of Lost: for want of room in a socket, a queue or a direction
}

// Stats counts the packets from one node to another since the network was made.
// "" stands for any node: Stats("a", "") is all that a sent, Stats("", "a") all
// that was sent to it, Stats("", "") everything.
func (n *Network) Stats(from, to string) Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum Stats
	for way, d := range n.directions {
		if (from == "" || from == way.from) && (to == "" || to == way.to) {
			sum.add(d.stats)
		}
	}
	return sum
}

func (s *Stats) add(t Stats) {
	s.Sent += t.Sent
	s.Doubled += t.Doubled
	s.Delivered += t.Delivered
	s.Reordered += t.Reordered
	s.Lost += t.Lost
	s.Overflow += t.Overflow
}

func (s *Stats) lose(overflowed bool) {
	s.Lost++
	if overflowed {
		s.Overflow++
	}
}
