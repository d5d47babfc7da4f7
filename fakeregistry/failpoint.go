package fakeregistry

import (
	"slices"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// Point is a moment in the life of a publish at which a Failpoint can act.
type Point string

// The points, in their order.
const (
	BeforeStore Point = "before_store" // decided, and not yet in the log
	AfterStore  Point = "after_store"  // in the log, and nobody has been told
	BeforeAck   Point = "before_ack"   // the answer is about to leave
	AfterAck    Point = "after_ack"    // the answer was handed to the connection
)

// Points lists all points in their order.
func Points() []Point { return []Point{BeforeStore, AfterStore, BeforeAck, AfterAck} }

// Hit is what a failpoint sees.
type Hit struct {
	Point Point
	Node  string // sender, as faults name it
	Topic string
	Seq   protocol.Seq
}

// Failpoint calls Do when a publish comes to a point.
type Failpoint struct {
	Point Point
	Node  string // sender; empty: any
	Topic string // pattern; empty: any, and direct messages
	Skip  int    // so many pass before
	Times int    // so many hit; 0 is one, below 0 all until stop is called

	// Do runs where the registry does this work and holds it up, so it must not
	// wait for the registry: Crash, Disconnect and all faults that only set
	// something are allowed; Stop, Start, Restart and Shutdown are not. Before
	// the store an error refuses the publish, and all that is stored with it;
	// elsewhere errors mean nothing. A publish whose answer Do must keep from
	// leaving at BeforeAck is one for Crash or OnAck.
	Do func(Hit) error
}

// failpoints are the Failpoints that are not used up.
type failpoints struct {
	mu   sync.Mutex
	list []*Failpoint
}

func (f *failpoints) add(x Failpoint) (stop func()) {
	if x.Times == 0 {
		x.Times = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &x)
	return func() { f.remove(&x) }
}

func (f *failpoints) remove(x *Failpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, func(y *Failpoint) bool { return x == y })
}

func (f *failpoints) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

// any tells whether a hit can do anything; most of the time it cannot.
func (f *failpoints) any(p Point) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.list, func(x *Failpoint) bool { return x.Point == p })
}

// hit calls what is due, outside the lock, and returns the first error.
func (f *failpoints) hit(h Hit, who names) error {
	var first error
	for _, do := range f.due(h, who) {
		if err := do(h); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (f *failpoints) due(h Hit, who names) []func(Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []func(Hit) error
	for _, x := range slices.Clone(f.list) {
		if x.Point != h.Point || !who.has(x.Node) || x.Topic != "" && !protocol.Match(x.Topic, h.Topic) {
			continue
		}
		if x.Skip > 0 {
			x.Skip--
			continue
		}
		due = append(due, x.Do)
		if x.Times--; x.Times == 0 {
			f.list = slices.DeleteFunc(f.list, func(y *Failpoint) bool { return x == y })
		}
	}
	return due
}
