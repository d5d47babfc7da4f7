package fakeregistry

import (
	"net"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// hooks ties one run of the registry to the faults.
func (x *run) hooks() registry.Hooks {
	return registry.Hooks{
		Before:      x.before,
		BeforeStore: x.beforeStore,
		AfterStore:  x.afterStore,
		BeforeAck:   x.beforeAck,
		AfterAck:    x.afterAck,
		Mute:        x.heldBack(&x.muted),
		Push:        x.heldBack(&x.stalled),
		Event:       x.event,
	}
}

// own tells the sessions of the fake itself.
func (x *run) own(addr net.Addr) bool { return x.wires.place(addr).node == injectorNode }

func (x *run) before(op registry.Operation) error {
	if x.own(op.Addr) {
		return nil
	}
	if op.Op == registry.OpConnect {
		x.people.meet(op.Node, op.Addr, "")
	}
	return x.failure(op)
}

// beforeStore looks twice whether the registry has crashed: the failpoints may
// have made it so.
func (x *run) beforeStore(records []*registry.Record) error {
	if x.dark.Load() {
		return protocol.ErrClosed
	}
	x.injections.put(records)
	if err := x.hitStore(BeforeStore, records); err != nil {
		return spoken(err)
	}
	if x.dark.Load() {
		return protocol.ErrClosed
	}
	return nil
}

// spoken makes a test's error one that clients are told the text of.
func spoken(err error) error {
	if protocol.CodeOf(err) != protocol.ErrInternal {
		return err
	}
	return protocol.Errorf(protocol.ErrInternal, "%v", err)
}

func (x *run) afterStore(records []*registry.Record) {
	for _, m := range records {
		x.events.add(Event{Kind: EventAccept, Node: x.people.find(m.Sender).first(), Topic: m.Topic, Seq: m.Seq})
	}
	_ = x.hitStore(AfterStore, records)
}

func (x *run) beforeAck(node protocol.NodeID, a protocol.Ack) (delay time.Duration, drop bool) {
	if node == injector() {
		return 0, false
	}
	x.hitAck(BeforeAck, node, a.Seq)
	return x.decideAck(node, a.Seq)
}

func (x *run) afterAck(node protocol.NodeID, acks []protocol.Ack) {
	if node == injector() {
		return
	}
	for _, a := range acks {
		x.hitAck(AfterAck, node, a.Seq)
	}
}

func (x *run) heldBack(h *held) func(protocol.NodeID) <-chan struct{} {
	return func(node protocol.NodeID) <-chan struct{} {
		if node == injector() {
			return nil
		}
		return h.find(x.people.find(node))
	}
}

// event keeps the event log.
func (x *run) event(e registry.Event) {
	if x.own(e.Addr) {
		return
	}
	out := Event{Node: x.people.find(e.Node).first(), Session: e.Session, Topic: e.Topic, Seq: e.Seq, Err: e.Err}
	switch e.Kind {
	case registry.EventSessionOpened:
		out.Kind = EventConnect
	case registry.EventSessionRefused:
		out.Kind = EventConnect
	case registry.EventSessionClosed:
		out.Kind = EventDisconnect
	case registry.EventRefused:
		out.Kind, out.Text = EventRefuse, string(opOf[e.Op])
	case registry.EventSubscribed:
		out.Kind = EventSubscribe
	case registry.EventDelivered:
		out.Kind = EventDeliver
	default: // an accept, which afterStore has told, or of no interest
		return
	}
	x.events.add(out)
}
