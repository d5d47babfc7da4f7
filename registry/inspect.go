package registry

import (
	"cmp"
	"net"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// SessionInfo is a session as it is now.
type SessionInfo struct {
	ID            uint64 // numbered from 1 on
	Node          protocol.NodeID
	Instance      protocol.Instance
	Name          string
	Tags          []string
	Addr          net.Addr
	Since         time.Time
	Subscriptions int
}

// Sessions lists the sessions that were admitted, oldest first.
func (r *Registry) Sessions() []SessionInfo {
	var list []SessionInfo
	for _, s := range r.all() {
		list = append(list, SessionInfo{
			ID: s.id, Node: s.caller.Node, Instance: s.claim.instance,
			Name: s.caller.Name, Tags: s.caller.Tags, Addr: s.link.RemoteAddr(), Since: s.since,
			Subscriptions: int(s.subscriptions.Load()),
		})
	}
	return list
}

// SubscriptionInfo is an open subscription.
type SubscriptionInfo struct {
	Session uint64
	Node    protocol.NodeID
	Source  protocol.Source
	Pattern string // "" for an inbox
}

// Subscriptions lists the open subscriptions by session and pattern.
func (r *Registry) Subscriptions() []SubscriptionInfo {
	var list []SubscriptionInfo
	for _, sub := range r.index.list() {
		list = append(list, SubscriptionInfo{sub.s.id, sub.s.caller.Node, sub.source, sub.pattern})
	}
	slices.SortFunc(list, func(a, b SubscriptionInfo) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Pattern, b.Pattern))
	})
	return list
}

// Fence is the state of a topic's fence.
func (r *Registry) Fence(topic string) (f protocol.Fence) {
	r.seq.view(func(b *broker) { f = b.fence(topic) })
	return f
}

// Stalled is how long the log has been at what it stores now, 0 while it stores
// nothing: what a disk or cluster that hangs makes grow.
func (r *Registry) Stalled() time.Duration {
	since := r.seq.storing.Load()
	if since == 0 {
		return 0
	}
	return time.Since(time.Unix(0, since))
}

// Info is what clients get who ask about the registry.
func (r *Registry) Info() protocol.InfoState {
	log := r.log.Stats()
	info := protocol.InfoState{
		Epoch:         r.epoch.ID,
		Born:          r.epoch.Born,
		Head:          r.seq.headSeq(),
		Now:           r.seq.registryTime(),
		Started:       r.started,
		Sessions:      uint64(len(r.all())),
		Subscriptions: uint64(r.index.len()),
		Topics:        uint64(log.Topics),
		Messages:      uint64(log.Messages),
		Bytes:         uint64(log.Bytes),
		Published:     r.seq.published.Load(),
		Software:      r.o.Software,
	}
	r.seq.view(func(b *broker) {
		known, online := b.nodeCount()
		info.Nodes, info.Online = uint64(known), uint64(online)
	})
	return info
}
