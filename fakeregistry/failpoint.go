package fakeregistry

import (
	"fmt"
	"math"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
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

// Hit is what a failpoint sees. The message is the registry's.
type Hit struct {
	Point Point
	Node  string // sender, as inspection names it
	*protocol.Message
}

// Failpoint calls Do when a publish comes to a point.
type Failpoint struct {
	Point Point
	Node  string // sender; empty: any
	Topic string // pattern; empty: any, and direct messages

	// If, when not nil, is asked about each message that the rest matches. It may
	// look at it, and call nothing here.
	If func(*protocol.Message) bool

	Skip  int // so many pass before
	Times int // so many hit; 0 is one, below 0 all until stop is called

	// Do runs where the registry does this work and holds it up, so it must not
	// wait for the registry: Crash, CrashFor, Disconnect, inspection of the log
	// and all faults that only set something are allowed; Stop, Start, Restart,
	// Shutdown and Inject are not. Before the store an error refuses the publish,
	// and all that would be stored with it; elsewhere errors mean nothing.
	Do func(Hit) error
}

// At sets a failpoint, until it was hit as often as it says or stop is called.
//
//	reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Do: func(fakeregistry.Hit) error {
//		reg.Crash() // in the log, and nobody knows
//		return nil
//	}})
func (r *Registry) At(f Failpoint) (stop func()) {
	r.fault("failpoint", fmt.Sprintf("%s of %q on %q", f.Point, f.Node, f.Topic), f.Node)
	return r.failpoints.add(f, f.Skip, f.Times)
}

// hit calls what is due, outside of any lock, and returns the first error.
func (r *Registry) hit(p Point, m *protocol.Message) error {
	who := r.people.find(m.Sender)
	due := r.failpoints.due(math.MaxInt, func(f *Failpoint) bool {
		return f.Point == p && who.has(f.Node) && (f.Topic == "" || protocol.Match(f.Topic, m.Topic)) && (f.If == nil || f.If(m))
	})
	var first error
	for _, f := range due {
		if err := f.Do(Hit{p, who.first(), m}); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// watched tells whether a point is of interest at all.
func (r *Registry) watched(p Point) bool {
	return r.failpoints.has(func(f *Failpoint) bool { return f.Point == p })
}

func (r *Registry) hitStore(p Point, records []*registry.Record) error {
	if !r.watched(p) {
		return nil
	}
	for _, m := range records {
		if err := r.hit(p, &m.Message); err != nil {
			return err
		}
	}
	return nil
}

// hitAck finds the message again that was acknowledged, unless retention has
// taken it already.
func (r *Registry) hitAck(p Point, sender protocol.NodeID, seq protocol.Seq) {
	if !r.watched(p) {
		return
	}
	m := &protocol.Message{Seq: seq, Sender: sender, Topic: r.history.topic(seq)}
	sel := registry.Selection{Pattern: m.Topic}
	var page registry.Page
	if m.Topic != "" && r.theLog().Read(&sel, seq-1, seq, &page) == nil && len(page.Records) == 1 {
		m = &page.Records[0].Message
	}
	_ = r.hit(p, m)
}
