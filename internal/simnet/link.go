package simnet

import (
	"math/rand/v2"
	"time"
)

const (
	// maxUnderWay is how many packets a direction carries at once.
	maxUnderWay = 16384

	// maxQueue is how long a packet waits for a line that is busy. A longer
	// queue would not lose less, only later.
	maxQueue = 200 * time.Millisecond
)

// Link is how packets travel in one direction between two nodes. Loss,
// Duplicate and Reorder are probabilities per packet: at or below 0 never, at
// or above 1 always.
type Link struct {
	// Latency is the time a packet takes. One that changes under way does not
	// concern the packets that have left.
	Latency time.Duration

	// Jitter adds a random time below it to each packet's Latency. Order is
	// kept: a late packet keeps those behind it waiting.
	Jitter time.Duration

	// Loss is how often a packet is lost.
	Loss float64

	// Duplicate is how often a packet arrives twice, at the same moment.
	Duplicate float64

	// Reorder is how often a packet is held back for one more Latency, at least
	// a millisecond, while those behind it pass.
	Reorder float64

	// Bandwidth is in bytes a second; 0 means no limit. A packet that would wait
	// more than 200 ms for the line is lost.
	Bandwidth int
}

// SetLink says how packets that are sent from now on travel from one node to
// another; the other direction is not concerned. "" stands for any node. The
// most specific link counts, whole: one for both nodes, else one for the
// sender, else one for the receiver, else one for ("", "").
func (n *Network) SetLink(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[pair{from, to}] = l
}

func (n *Network) link(way pair) Link {
	for _, p := range [...]pair{way, {way.from, ""}, {"", way.to}} {
		if l, ok := n.links[p]; ok {
			return l
		}
	}
	return n.links[pair{}]
}

// direction is what is known of the packets from one node to another.
type direction struct {
	chance *rand.Rand
	stats  Stats

	link Link      // of the last packet
	last time.Time // when the last packet on link arrives
	free time.Time // when the line of link is free again

	underWay int
	newest   uint64 // number of the newest packet that has arrived
}

// fate is what becomes of a packet.
type fate struct {
	lost, overflowed, doubled bool
	due                       time.Time
}

// send decides about a packet of this size, which may be lost already.
func (d *direction) send(l Link, now time.Time, size int, gone bool) fate {
	// All draws come first, so that those of the next packet depend on neither
	// l nor gone.
	lost := d.chance.Float64() < l.Loss
	doubled := d.chance.Float64() < l.Duplicate
	held := d.chance.Float64() < l.Reorder
	jitter := time.Duration(d.chance.Float64() * float64(l.Jitter))

	if l != d.link {
		d.link, d.last, d.free = l, time.Time{}, time.Time{}
	}
	if gone || lost {
		return fate{lost: true}
	}
	left, ok := d.leave(now, size)
	if !ok || d.underWay >= maxUnderWay {
		return fate{lost: true, overflowed: true}
	}
	due := left.Add(l.Latency + jitter)
	if held {
		return fate{doubled: doubled, due: due.Add(max(l.Latency, time.Millisecond))}
	}
	d.last = later(due, d.last)
	return fate{doubled: doubled, due: d.last}
}

// leave returns when the last byte of a packet is on the line, or false if the
// queue before the line is full.
func (d *direction) leave(now time.Time, size int) (time.Time, bool) {
	if d.link.Bandwidth <= 0 {
		return now, true
	}
	start := later(now, d.free)
	if start.Sub(now) > maxQueue {
		return time.Time{}, false
	}
	d.free = start.Add(time.Duration(float64(size) / float64(d.link.Bandwidth) * float64(time.Second)))
	return d.free, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
