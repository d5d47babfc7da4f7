package fakeregistry

import (
	"net"
	"slices"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

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

// names are all that a node may be called by: its node in the network, the name
// it told, its node id.
type names []string

// has reports whether a fault for node concerns it; "" is any.
func (n names) has(node string) bool { return node == "" || slices.Contains(n, node) }

// first is what inspection calls it.
func (n names) first() string { return n[0] }
