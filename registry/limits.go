package registry

import (
	"cmp"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Limits bound what clients can take of a registry. Above one of them a client is
// refused with a code, never ignored. Zero fields stand for the defaults.
type Limits struct {
	// Payload is the largest payload in bytes, 1 MiB by default.
	Payload int

	// InFlight is how many publishes of one lane are without an answer before the
	// registry reads no more of them, 4096 by default.
	InFlight int

	// Subscriptions is how many a session has open, 1000 by default;
	// NodeSubscriptions how many one node has over all its sessions, 5000 by default,
	// and TotalSubscriptions how many there are, 100,000 by default.
	Subscriptions, NodeSubscriptions, TotalSubscriptions int

	// Sessions is how many there are in all, 10,000 by default, and NodeSessions
	// how many one node has, 100 by default, and as many again that have not begun
	// yet. SourceSessions is how many come from one address, or one /64 of IPv6,
	// half of Sessions but not below 100 by default; those of this machine are not counted. Operators
	// of the configuration get in beyond Sessions and SourceSessions.
	Sessions, NodeSessions, SourceSessions int

	// Node is how fast one node publishes, over all its sessions, and Total about
	// how fast all nodes do together: a node that is below its equal share of that
	// is not refused for what others do. No limit by default.
	Node, Total Rate

	// Handshakes is how many sessions begin a second; no limit by default.
	// SourceHandshakes is how many handshakes a second come from one address, or one
	// /64, and five times as many at once: 200 by default. Above it, clients have to
	// show that the address is theirs, and above twice it they are refused.
	// Those of this machine are not counted.
	Handshakes, SourceHandshakes int

	// Joins is how many topics an inbox has, 10,000 by default, and TotalJoins how many
	// all inboxes have together, 2,000,000 by default.
	Joins, TotalJoins int

	// Nodes is how many nodes are remembered, 100,000 by default. Where everybody is
	// let in, nodes that no operator has named, and that have nothing in the log or
	// were away for a week, make room for others.
	//
	// There the last quarter of Nodes, of TotalJoins and of the fences is for those
	// that an operator has named.
	Nodes int

	// Page is about how many bytes a page of a list has, 256 KiB by default.
	Page int
}

// Rate is a number of publishes and of payload bytes a second, each also the
// most at once; 0 is no limit.
type Rate struct{ Publishes, Bytes int }

func (l Limits) withDefaults() (Limits, error) {
	sessions := cmp.Or(l.Sessions, 10_000)
	for _, f := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"Payload", &l.Payload, protocol.DefaultPayload},
		{"InFlight", &l.InFlight, 4096},
		{"Subscriptions", &l.Subscriptions, 1000},
		{"NodeSubscriptions", &l.NodeSubscriptions, 5000},
		{"TotalSubscriptions", &l.TotalSubscriptions, 100_000},
		{"Sessions", &l.Sessions, sessions},
		{"NodeSessions", &l.NodeSessions, 100},
		{"SourceSessions", &l.SourceSessions, max(min(sessions, 100), sessions/2)},
		{"Node.Publishes", &l.Node.Publishes, 0},
		{"Node.Bytes", &l.Node.Bytes, 0},
		{"Total.Publishes", &l.Total.Publishes, 0},
		{"Total.Bytes", &l.Total.Bytes, 0},
		{"Handshakes", &l.Handshakes, 0},
		{"SourceHandshakes", &l.SourceHandshakes, 200},
		{"Joins", &l.Joins, 10_000},
		{"TotalJoins", &l.TotalJoins, 2_000_000},
		{"Nodes", &l.Nodes, 100_000},
		{"Page", &l.Page, 256 << 10},
	} {
		if *f.value < 0 {
			return l, protocol.Errorf(protocol.ErrInvalid, "Limits.%s is %d", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	switch {
	case l.Payload > protocol.MaxPayload:
		return l, protocol.Errorf(protocol.ErrInvalid, "Limits.Payload is %d, at most %d", l.Payload, protocol.MaxPayload)
	case l.Page > protocol.MaxPage:
		return l, protocol.Errorf(protocol.ErrInvalid, "Limits.Page is %d, at most %d", l.Page, protocol.MaxPage)
	}
	return l, nil
}

// bucket holds tokens: rate more each second, and no more than rate.
type bucket struct {
	rate   float64 // 0 = no limit
	tokens float64
	at     time.Time
}

func newBucket(rate int) bucket { return bucket{rate: float64(rate), tokens: float64(rate)} }

// lack is how long it takes until n tokens are there. More than the bucket can
// hold is enough when it is full: it then goes into debt.
func (b *bucket) lack(now time.Time, n float64) time.Duration {
	if b.rate == 0 {
		return 0
	}
	if b.at.IsZero() {
		b.at = now
	}
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.rate, b.tokens+d.Seconds()*b.rate)
		b.at = now
	}
	missing := min(n, b.rate) - b.tokens
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / b.rate * float64(time.Second))
}

// rerate changes the rate. What is there stays, but for what is too much.
func (b *bucket) rerate(rate int) {
	b.rate = float64(rate)
	b.tokens = min(b.tokens, b.rate)
}

func (b *bucket) take(n float64) {
	if b.rate != 0 {
		b.tokens -= n
	}
}

// meter measures publishes against a Rate.
type meter struct {
	free bool // there is no limit

	mu        sync.Mutex
	publishes bucket
	bytes     bucket
}

func newMeter(r Rate) *meter {
	return &meter{
		free:      r == Rate{},
		publishes: newBucket(r.Publishes),
		bytes:     newBucket(r.Bytes),
	}
}

// lack is how long a publish of this size has to wait.
func (m *meter) lack(now time.Time, size int) time.Duration {
	if m.free {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.publishes.lack(now, 1), m.bytes.lack(now, float64(size)))
}

func (m *meter) take(size int) {
	if m.free {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishes.take(1)
	m.bytes.take(float64(size))
}

// rerate changes the rate, of which no part is 0 that was not 0 before.
func (m *meter) rerate(r Rate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishes.rerate(r.Publishes)
	m.bytes.rerate(r.Bytes)
}

// full reports whether the meter has nothing to remember.
func (m *meter) full(now time.Time) bool {
	if m.free {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishes.lack(now, 0)
	m.bytes.lack(now, 0)
	return m.publishes.tokens >= m.publishes.rate && m.bytes.tokens >= m.bytes.rate
}

// rateLimited is the refusal with the time to wait, which the wire tells in
// milliseconds: rounded up, or trying again would come too early.
func rateLimited(what string, wait time.Duration) *protocol.Error {
	return &protocol.Error{
		Code:       protocol.ErrRateLimited,
		Detail:     what,
		RetryAfter: (wait + time.Millisecond - 1).Truncate(time.Millisecond),
	}
}
