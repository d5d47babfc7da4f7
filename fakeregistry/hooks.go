package fakeregistry

import (
	"net"
	"slices"
	"sync"
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
		Mute:        x.mute,
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
		return err
	}
	if x.dark.Load() {
		return protocol.ErrClosed
	}
	return nil
}

func (x *run) afterStore(records []*registry.Record) {
	for _, m := range records {
		x.events.add(Event{Kind: EventAccept, Node: x.people.find(m.Sender).first(), Topic: m.Topic, Seq: m.Seq})
	}
	_ = x.hitStore(AfterStore, records)
}

func (x *run) beforeAck(node protocol.NodeID, a protocol.Ack) (delay time.Duration, drop bool) {
	if node == injector {
		return 0, false
	}
	x.hitAck(BeforeAck, node, a.Seq)
	return x.decideAck(node, a.Seq)
}

func (x *run) afterAck(node protocol.NodeID, acks []protocol.Ack) {
	if node == injector {
		return
	}
	for _, a := range acks {
		x.hitAck(AfterAck, node, a.Seq)
	}
}

func (x *run) mute(node protocol.NodeID) <-chan struct{} {
	if node == injector {
		return nil
	}
	return x.muted.find(x.people.find(node))
}

// event keeps the event log, and stalls subscriptions: a delivery is told after
// it has left, where the next one would be read.
func (x *run) event(e registry.Event) {
	if x.own(e.Addr) {
		return
	}
	who := x.people.find(e.Node)
	out := Event{Node: who.first(), Session: e.Session, Topic: e.Topic, Seq: e.Seq, Err: e.Err}
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
	if e.Kind == registry.EventDelivered {
		x.stalled.wait(who, x.over)
	}
}

// people knows nodes by their ids.
type people struct {
	wires *wires

	mu     sync.Mutex
	called map[protocol.NodeID]string // by what Endpoint was asked for
	names  map[protocol.NodeID]names  // by where they came from, and by their id
}

func newPeople(w *wires) *people {
	return &people{wires: w, called: make(map[protocol.NodeID]string), names: make(map[protocol.NodeID]names)}
}

// call tells that the node with Key(name) is to be known by that name.
func (p *people) call(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.called[NodeID(name)] = name
}

// meet is called when a node comes in; name is what it calls itself.
func (p *people) meet(id protocol.NodeID, addr net.Addr, name string) {
	at := p.wires.place(addr)
	node := at.node
	if at.nameless {
		node = ""
	}
	p.mu.Lock()
	list := slices.Clone(p.who(id))
	for _, n := range []string{p.called[id], node, name} {
		if n != "" && !slices.Contains(list, n) {
			list = slices.Insert(list, len(list)-1, n)
		}
	}
	p.names[id] = list
	p.mu.Unlock()
	for _, n := range list {
		p.wires.name(at.node, n)
	}
}

// keyOf is the name whose Key a node has, as far as Endpoint was asked for it.
func (p *people) keyOf(id protocol.NodeID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.called[id]
}

// find is all that a node may be called by.
func (p *people) find(id protocol.NodeID) names {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.who(id)
}

// who is find under mu. The last name is the id.
func (p *people) who(id protocol.NodeID) names {
	if list, ok := p.names[id]; ok {
		return list
	}
	if name, ok := p.called[id]; ok {
		return names{name, id.String()}
	}
	return names{id.String()}
}

// held are nodes that something is held back from.
type held struct {
	mu    sync.Mutex
	nodes map[string]chan struct{} // "" is all
}

func (h *held) hold(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes[node] == nil {
		if h.nodes == nil {
			h.nodes = make(map[string]chan struct{})
		}
		h.nodes[node] = make(chan struct{})
	}
}

func (h *held) release(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.nodes[node]; c != nil {
		close(c)
		delete(h.nodes, node)
	}
}

func (h *held) releaseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.nodes {
		close(c)
	}
	clear(h.nodes)
}

// find is a channel that is closed when one of the names is released, or nil.
func (h *held) find(who names) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.nodes) == 0 {
		return nil
	}
	for node, c := range h.nodes {
		if who.has(node) {
			return c
		}
	}
	return nil
}

func (h *held) wait(who names, over <-chan struct{}) {
	for c := h.find(who); c != nil; c = h.find(who) {
		select {
		case <-c:
		case <-over:
			return
		}
	}
}
