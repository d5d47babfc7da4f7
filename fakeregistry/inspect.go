package fakeregistry

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Message is a message in the log, with what readers are not told.
type Message struct {
	protocol.Message
	Slot string
}

// Messages lists the retained messages whose topic matches a pattern, in log
// order; also while the registry is stopped.
func (r *Registry) Messages(pattern string) []Message {
	return r.read(registry.Selection{Pattern: pattern})
}

// Direct lists the retained direct messages to a node.
func (r *Registry) Direct(to protocol.NodeID) []Message {
	return r.read(registry.Selection{Direct: to})
}

func (r *Registry) read(sel registry.Selection) []Message {
	l := r.theLog()
	head, _ := l.Head()
	var page registry.Page
	if err := r.failed(l.Read(&sel, 0, head, &page)); err != nil {
		return nil
	}
	list := make([]Message, 0, len(page.Records))
	for _, m := range page.Records {
		list = append(list, Message{m.Message, m.Slot})
	}
	return list
}

// Head is the highest seq in the log.
func (r *Registry) Head() protocol.Seq {
	head, _ := r.theLog().Head()
	return head
}

// Epoch is the epoch of the log.
func (r *Registry) Epoch() protocol.Epoch { return r.theLog().Epoch() }

// Fence is a topic's fence, as it is in the log.
func (r *Registry) Fence(topic string) protocol.Fence {
	var f protocol.Fence
	_ = r.failed(r.theLog().Load(registry.State{Fence: func(e registry.FenceEntry) error {
		if e.Topic == topic {
			f = e.Fence
		}
		return nil
	}}))
	return f
}

// Session is an open session.
type Session struct {
	Number   uint64 // counted from 1 on since the registry started
	Node     string // as faults name it
	NodeID   protocol.NodeID
	Instance protocol.Instance
	Name     string // what it told
}

// Sessions lists the open sessions, oldest first.
func (r *Registry) Sessions() []Session {
	x := r.running()
	if x == nil {
		return nil
	}
	var list []Session
	for _, s := range x.server.Sessions() {
		if s.Node != injector() {
			list = append(list, Session{s.ID, r.people.find(s.Node).first(), s.Node, s.Instance, s.Name})
		}
	}
	return list
}

// Subscription is an open subscription.
type Subscription struct {
	Session uint64
	Node    string
	NodeID  protocol.NodeID
	Pattern string // empty: the inbox
}

// Subscriptions lists the open subscriptions by session and pattern.
func (r *Registry) Subscriptions() []Subscription {
	x := r.running()
	if x == nil {
		return nil
	}
	var list []Subscription
	for _, s := range x.server.Subscriptions() {
		list = append(list, Subscription{s.Session, r.people.find(s.Node).first(), s.Node, s.Pattern})
	}
	return list
}

// Info is what a client gets that asks about the registry; zero while it is
// stopped.
func (r *Registry) Info() protocol.InfoState {
	x := r.running()
	if x == nil {
		return protocol.InfoState{}
	}
	return x.server.Info()
}

// running is the present run, or nil.
func (r *Registry) running() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, _ := r.up.(*run)
	return x
}
