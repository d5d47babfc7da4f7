package registry

import (
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// account is what one node has in use, over all its sessions.
type account struct {
	open     int // sessions, also those before their hello
	sessions int // those of them that entered

	subscriptions atomic.Int64
	meter         *meter
	share         *meter // of what all nodes may do together

	turns, urgent *turns
}

func newAccount(l Limits) *account {
	return &account{
		meter: newMeter(l.Node), share: newMeter(l.Total),
		turns: newTurns(turnUnits), urgent: newTurns(urgentUnits),
	}
}

// full reports whether the account has nothing to remember.
func (a *account) full(now time.Time) bool {
	return a.open == 0 && a.meter.full(now) && a.share.full(now)
}

// pace holds a publish against the rates.
func (s *session) pace(size int, now time.Time) *protocol.Error {
	if wait := s.account.meter.lack(now, size); wait > 0 {
		return rateLimited("this node publishes too fast", wait)
	}
	if wait := s.r.paceAll(s.account, size, now); wait > 0 {
		return rateLimited("the registry is at its limit", wait)
	}
	s.account.meter.take(size)
	return nil
}

// paceAll is how long a publish has to wait for what all nodes may do together. A
// node that is below its equal share of that does not wait, though others have
// used up what there is: what it takes is theirs later.
func (r *Registry) paceAll(a *account, size int, now time.Time) time.Duration {
	if r.meter.free {
		return 0
	}
	a.share.rerate(r.limits.Total.over(int(r.nodes.Load())))
	own := a.share.lack(now, size)
	if own > 0 {
		if rest := r.meter.lack(now, size); rest > 0 {
			return min(own, rest)
		}
	} else {
		a.share.take(size)
	}
	r.meter.take(size)
	return 0
}

// over is the equal share of n, at least one a second.
func (r Rate) over(n int) Rate {
	part := func(whole int) int {
		if whole == 0 {
			return 0
		}
		return max(1, whole/max(1, n))
	}
	return Rate{Publishes: part(r.Publishes), Bytes: part(r.Bytes)}
}

// busy is when to come again to a registry that has as much as it takes.
const busy = time.Second

func full(format string, args ...any) *protocol.Error {
	e := protocol.Errorf(protocol.ErrLimit, format, args...)
	e.RetryAfter = busy
	return e
}

// takeSubscription takes a place for one more, which leaveSubscription gives back.
func (s *session) takeSubscription() *protocol.Error {
	l := &s.r.limits
	var refused *protocol.Error
	switch mine, nodes, all := s.subscriptions.Add(1), s.account.subscriptions.Add(1), s.r.subscriptions.Add(1); {
	case mine > int64(l.Subscriptions):
		refused = full("%d subscriptions are open, the maximum", l.Subscriptions)
	case nodes > int64(l.NodeSubscriptions):
		refused = full("%d subscriptions of this node are open, the maximum", l.NodeSubscriptions)
	case all > int64(l.TotalSubscriptions) && !s.operator:
		refused = full("%d subscriptions of all nodes are open, the maximum", l.TotalSubscriptions)
	}
	if refused != nil {
		s.leaveSubscription()
	}
	return refused
}

func (s *session) leaveSubscription() {
	s.subscriptions.Add(-1)
	s.account.subscriptions.Add(-1)
	s.r.subscriptions.Add(-1)
}
