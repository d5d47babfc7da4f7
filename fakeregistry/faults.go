package fakeregistry

import (
	"fmt"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Faults name nodes by what Endpoint was asked for, by the name that a client
// told when it connected, or by its node id in digits. Where a node may be
// empty, that is every node.

// Fail makes operations fail, until as many have or stop is called.
func (r *Registry) Fail(f Failure) (stop func()) {
	r.events.fault("fail", f.String())
	return r.failures.add(f)
}

// FailNext makes the next n operations of a kind fail with a code.
func (r *Registry) FailNext(op Op, n int, code protocol.Code) {
	if n > 0 {
		r.Fail(Failure{Op: op, Times: n, Code: code})
	}
}

// RefuseConnects sends the next n clients away who try to connect; below 0, all
// until ClearFaults. Their first frame is answered with an error: a registry that
// is not there at all is one that was stopped.
func (r *Registry) RefuseConnects(n int, code protocol.Code) {
	if n != 0 {
		r.Fail(Failure{Op: OpConnect, Times: n, Code: code})
	}
}

// At sets a failpoint, until it was hit as often as it says or stop is called.
func (r *Registry) At(f Failpoint) (stop func()) {
	r.events.fault("failpoint", fmt.Sprintf("%s of %q on %q", f.Point, f.Node, f.Topic))
	return r.failpoints.add(f)
}

// Mute makes the registry hear a node and say nothing to it: answers, messages,
// the welcome to a new session. The connection stays. Nothing is lost by it.
func (r *Registry) Mute(node string) {
	r.events.fault("mute", node)
	r.muted.hold(node)
}

// Unmute ends the Mute of the same node: what was held back leaves.
func (r *Registry) Unmute(node string) {
	r.events.fault("unmute", node)
	r.muted.release(node)
}

// Stall stops pushing messages to a node's subscriptions; answers and everything
// else go on. One message more of each subscription may come through.
func (r *Registry) Stall(node string) {
	r.events.fault("stall", node)
	r.stalled.hold(node)
}

// Unstall ends the Stall of the same node.
func (r *Registry) Unstall(node string) {
	r.events.fault("unstall", node)
	r.stalled.release(node)
}

// DelayAcks makes the answers to a node's publishes come late, each by itself;
// 0 is at once again.
func (r *Registry) DelayAcks(node string, delay time.Duration) {
	r.events.fault("delay acks", fmt.Sprintf("%s %v", node, delay))
	r.ackFaults.delay(&r.acks, node, delay)
}

// DropAcks loses the next n answers to a node's accepted publishes, which are in
// the log all the same; below 0 all of them, 0 none.
func (r *Registry) DropAcks(node string, n int) {
	r.events.fault("drop acks", fmt.Sprintf("%s %d", node, n))
	r.ackFaults.drop(&r.acks, node, n)
}

// OnAck lets decide say about the answer to each accepted publish how much later
// it leaves, or that it is lost, until stop is called. node is the sender as
// faults name it. Of several, the longest delay counts and one that loses is
// enough.
func (r *Registry) OnAck(decide func(node string, seq protocol.Seq) (delay time.Duration, drop bool)) (stop func()) {
	return r.acks.add(func(who names, seq protocol.Seq) (time.Duration, bool) {
		return decide(who.first(), seq)
	})
}

// ackFaults are the rules that DelayAcks and DropAcks made.
type ackFaults struct {
	mu     sync.Mutex
	delays map[string]func() // stops, by node
	drops  map[string]func()
}

func (f *ackFaults) replace(rules *map[string]func(), node string, rule func() func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stop := (*rules)[node]; stop != nil {
		stop()
		delete(*rules, node)
	}
	if rule != nil {
		if *rules == nil {
			*rules = make(map[string]func())
		}
		(*rules)[node] = rule()
	}
}

func (f *ackFaults) delay(a *acks, node string, d time.Duration) {
	if d <= 0 {
		f.replace(&f.delays, node, nil)
		return
	}
	f.replace(&f.delays, node, func() func() {
		return a.add(func(who names, _ protocol.Seq) (time.Duration, bool) {
			if who.has(node) {
				return d, false
			}
			return 0, false
		})
	})
}

func (f *ackFaults) drop(a *acks, node string, n int) {
	if n == 0 {
		f.replace(&f.drops, node, nil)
		return
	}
	f.replace(&f.drops, node, func() func() {
		var mu sync.Mutex
		left := n
		return a.add(func(who names, _ protocol.Seq) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			if left == 0 || !who.has(node) {
				return 0, false
			}
			left--
			return 0, true
		})
	})
}

func (f *ackFaults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delays, f.drops = nil, nil
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

func (r *Registry) theLog() *faultyLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log
}
