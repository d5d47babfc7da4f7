package election

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// storm is a simulation in which something goes wrong once in a while.
type storm struct {
	*sim
	nodes  []*proc // the present process of each node
	names  int
	every  time.Duration // between two faults, on average
	twins  bool
	hard   bool          // more kinds of faults
	over   time.Duration // when the last fault is
	script int           // terms that scripts have used
}

// newStorm has n nodes and an observer.
func newStorm(seed uint64, n int, o simOptions) *storm {
	w := &storm{sim: newSim(seed, o), every: o.timing.Silence}
	for i := range n {
		w.nodes = append(w.nodes, w.start(i))
	}
	w.join("observer", firstNode+1000, 0, 0xbb)
	return w
}

func (w *storm) start(i int) *proc {
	w.names++
	node := firstNode + protocol.NodeID(i)
	p := w.member(fmt.Sprintf("n%d.%d", i, w.names), node, DefaultPriority(node.String()))
	p.rate = 1 + (w.rand.Float64()*2-1)*drift
	return p
}

// rage lets things go wrong for d.
func (w *storm) rage(d time.Duration) {
	end := w.now + d
	for w.now < end && len(w.broken) == 0 {
		w.run(w.between(0, 2*w.every))
		w.fault()
		if l := w.leader(); l != nil {
			l.write()
		}
	}
}

// calm waits until the last fault is over, a twin's death after nine silences,
// and the group has found its leader.
func (w *storm) calm() {
	w.run(12 * w.o.timing.Silence)
}

func (w *storm) fault() {
	f := w.o.timing.Silence
	i := w.rand.IntN(len(w.nodes))
	p := w.nodes[i]
	long := w.between(f/10, 3*f)
	kinds := 16
	if w.hard {
		kinds = 20
	}
	w.faults++
	w.over = max(w.over, w.now+long)
	switch w.rand.IntN(kinds) {
	case 0, 1:
		p.pause(long)
	case 2:
		p.cut(true, true, long)
	case 3:
		p.cut(true, false, long)
	case 4:
		p.cut(false, true, long)
	case 5, 6:
		w.trace("%s's connection drops", p.name)
		p.drop()
	case 7:
		w.kill(i, long)
	case 8:
		w.reg.restart(long/2, true)
	case 9:
		w.reg.restart(long/2, false)
	case 10:
		p.stallPush(long)
	case 11:
		if w.rand.IntN(2) == 0 {
			w.reg.purge()
		}
	case 12:
		if l := w.leader(); l != nil {
			l.happen(resignAsked{})
		}
	case 13:
		w.junk()
	case 14:
		p.happen(withdrawAsked{})
		w.in(long, func() { p.happen(campaignAsked{}) })
	case 15:
		if w.twins {
			w.names++
			t := w.member(fmt.Sprintf("n%d.%d (twin)", i, w.names), p.node, p.state.Priority)
			w.in(3*long, t.kill)
			w.over = max(w.over, w.now+3*long)
		}
	case 16:
		w.reg.step(w.between(-24*time.Hour, 24*time.Hour))
	case 17:
		p.slow(w.between(0, f/2), w.between(0, f/2), long)
	case 18:
		p.cut(true, true, 10*long) // far longer than a connection lasts
		w.over = max(w.over, w.now+10*long)
	case 19: // all at once, as when the registry's own link fails
		for _, p := range w.nodes {
			p.cut(w.rand.IntN(2) == 0, true, long)
		}
	}
}

// kill ends a node's process and starts another after d.
func (w *storm) kill(i int, d time.Duration) {
	w.nodes[i].kill()
	p := w.nodes[i]
	w.in(d, func() {
		if w.nodes[i] == p {
			w.nodes[i] = w.start(i)
		}
	})
}

// junk publishes plain messages.
func (w *storm) junk() {
	node := firstNode + 500 + protocol.NodeID(w.rand.IntN(3))
	w.script++
	k := w.reg.fence.K
	m := Message{Node: node.String(), Term: k + w.rand.Uint64N(5), Stamp: fmt.Sprint(w.script), Clock: float64(w.script)}
	m.Kind = Kind(1 + w.rand.IntN(4))
	m.Priority = w.rand.Int64N(1 << 33)
	if w.rand.IntN(4) == 0 {
		m.Term = w.rand.Uint64N(1 << 44)
	}
	if w.rand.IntN(4) == 0 {
		m.Node = (firstNode + 1).String() // names another
	}
	w.reg.plain(node, m)
}
