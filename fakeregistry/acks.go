package fakeregistry

import (
	"fmt"
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// ackRule decides about the answer to an accepted publish.
type ackRule struct {
	node   string // empty: any
	decide func(node string, seq protocol.Seq) (delay time.Duration, drop bool)
}

// DelayAcks makes the answers to a node's publishes come late, each by itself;
// 0 is at once again.
func (r *Registry) DelayAcks(node string, delay time.Duration) {
	r.fault("delay acks", fmt.Sprintf("%s by %v", node, delay), node)
	rule := ackRule{node, func(string, protocol.Seq) (time.Duration, bool) { return delay, false }}
	r.replaceAckRule("delay "+node, rule, delay > 0, -1)
}

// DropAcks loses the next n answers to a node's accepted publishes, which are in
// the log all the same; below 0 all of them, 0 none.
func (r *Registry) DropAcks(node string, n int) {
	r.fault("drop acks", fmt.Sprintf("%s %d times", node, n), node)
	rule := ackRule{node, func(string, protocol.Seq) (time.Duration, bool) { return 0, true }}
	r.replaceAckRule("drop "+node, rule, n != 0, n)
}

// OnAck lets decide say about the answer to each accepted publish how much later
// it leaves, or that it is lost, until stop is called. node is the sender as
// inspection names it. Of several rules the longest delay counts, and one that
// loses the answer is enough.
func (r *Registry) OnAck(decide func(node string, seq protocol.Seq) (delay time.Duration, drop bool)) (stop func()) {
	return r.acks.add(ackRule{decide: decide}, 0, -1)
}

// replaceAckRule puts a rule in the place of the last one of that name.
func (r *Registry) replaceAckRule(name string, rule ackRule, wanted bool, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := r.ackRules[name]; stop != nil {
		stop()
		delete(r.ackRules, name)
	}
	if wanted {
		r.ackRules[name] = r.acks.add(rule, 0, times)
	}
}

func (r *Registry) decideAck(sender protocol.NodeID, seq protocol.Seq) (delay time.Duration, drop bool) {
	who := r.people.find(sender)
	for _, rule := range r.acks.due(math.MaxInt, func(a *ackRule) bool { return who.has(a.node) }) {
		d, lost := rule.decide(who.first(), seq)
		delay, drop = max(delay, d), drop || lost
	}
	return delay, drop
}
