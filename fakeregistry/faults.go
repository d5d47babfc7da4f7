package fakeregistry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Mute makes the registry hear a node and say nothing to it: answers, messages,
// the welcome to a new session. Nothing is lost by it. The connection stays, until
// the node gives it up: package client does within 8 seconds without an answer.
func (r *Registry) Mute(node string) {
	r.fault("mute", node, node)
	r.muted.hold(node)
}

// Unmute ends the Mute of the same node: what was held back leaves.
func (r *Registry) Unmute(node string) {
	r.fault("unmute", node, node)
	r.muted.release(node)
}

// Stall stops pushing messages to a node's subscriptions; answers and everything
// else go on. What is already on its way comes through.
func (r *Registry) Stall(node string) {
	r.fault("stall", node, node)
	r.stalled.hold(node)
}

// Unstall ends the Stall of the same node.
func (r *Registry) Unstall(node string) {
	r.fault("unstall", node, node)
	r.stalled.release(node)
}

// StorageFull makes the log refuse whatever would be stored; reads go on.
func (r *Registry) StorageFull(full bool) {
	r.events.fault("storage full", fmt.Sprint(full))
	r.full.Store(full)
}

// SetRetention changes what the log keeps, at once and from now on.
func (r *Registry) SetRetention(keep Retention) {
	r.events.fault("retention", fmt.Sprintf("%+v", keep))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = keep
	r.log.Retain(keep)
}

// Purge drops all that the log has of a topic, as retention would.
func (r *Registry) Purge(topic string) {
	r.events.fault("purge", topic)
	l := r.theLog()
	head, _ := l.Head()
	_ = r.failed(l.Purge(topic, head))
}

// Expire drops what is too old by the registry's clock. A running registry does
// it by itself, but only now and then.
func (r *Registry) Expire() {
	_ = r.failed(r.theLog().Expire(protocol.TimeOf(r.now())))
}

// SetClock makes the registry's clock go ahead of the present time, or behind it
// when the offset is below 0. It counts for the time of messages, which never
// goes back within a log all the same, and for the birth of epochs.
func (r *Registry) SetClock(offset time.Duration) {
	r.events.fault("clock", offset.String())
	r.clock.Store(int64(offset))
}

// SetLimits changes the registry's limits from the next Start on.
func (r *Registry) SetLimits(l registry.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = l
}

// announceTime is how long clients have to hear of a new key.
const announceTime = time.Second

// NewKey gives the registry another key from the next Start on. When it is
// signed, the old key vouches for it and connected clients are told now; else it
// is a stranger's to all who know the old one.
func (r *Registry) NewKey(signed bool) {
	r.events.fault("new key", fmt.Sprintf("signed: %t", signed))
	r.mu.Lock()
	old := r.key()
	next := link.Identity{Key: Key(fmt.Sprintf("\x00registry %d", len(r.keys)))}
	r.keys = append(r.keys, next)
	var s protocol.Succession
	if signed {
		s = protocol.SignSuccession(old.Key, next.Public())
		r.chain = append(slices.Clip(r.chain), s)
	} else {
		r.chain = nil
	}
	x, running := r.up.(*run)
	r.mu.Unlock()
	if signed && running && x.key.Key.Equal(old.Key) {
		// Clients that a fault keeps from hearing it learn it when they dial anew.
		ctx, cancel := context.WithTimeout(context.Background(), announceTime)
		defer cancel()
		_ = x.server.Announce(ctx, s)
	}
}

func (r *Registry) theLog() *faultyLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log
}
