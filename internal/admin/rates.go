package admin

import (
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	slot     = 10 * time.Second
	slots    = 7 // the last is not full yet
	maxRated = 10_000
)

// rates count messages by topic, in slots of time. Topics beyond the most are not
// counted until others have been silent for a minute; those of groups and swarms
// have as many places again for themselves.
type rates struct {
	now func() time.Time

	mu     sync.Mutex
	topics map[string]*counts
	swept  int64 // the slot in which silent topics were last forgotten
}

type counts struct {
	slot int64 // of the newest
	n    [slots]uint32
}

func newRates(now func() time.Time) *rates { return &rates{now: now, topics: map[string]*counts{}} }

func (r *rates) slot() int64 { return r.now().UnixNano() / int64(slot) }

func (r *rates) add(records []*registry.Record) {
	at := r.slot()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range records {
		c := r.topics[m.Topic]
		if c == nil {
			if m.Topic == "" || !r.room(m.Topic, at) {
				continue
			}
			c = &counts{slot: at}
			r.topics[m.Topic] = c
		}
		c.turn(at)
		c.n[at%slots]++
	}
}

// room reports whether another topic can be counted.
func (r *rates) room(topic string, at int64) bool {
	most := maxRated
	if isGroupTopic(topic) {
		most = 2 * maxRated
	}
	if len(r.topics) >= most && r.swept != at {
		r.swept = at
		for topic, c := range r.topics {
			if c.sum(at) == 0 {
				delete(r.topics, topic)
			}
		}
	}
	return len(r.topics) < most
}

// sum is all that was counted, with at as the newest slot.
func (c *counts) sum(at int64) (sum uint32) {
	c.turn(at)
	for _, n := range c.n {
		sum += n
	}
	return sum
}

// turn makes at the newest slot.
func (c *counts) turn(at int64) {
	for ; c.slot < at; c.slot++ {
		if at-c.slot > slots {
			c.slot = at - slots
		}
		c.n[(c.slot+1)%slots] = 0
	}
}

// perSecond sums the full slots and the part of the one under way. Topics that
// were silent so long are forgotten.
func (r *rates) perSecond() map[string]float64 {
	now := r.now()
	at := r.slot()
	under := time.Duration(now.UnixNano() % int64(slot))
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]float64, len(r.topics))
	for topic, c := range r.topics {
		sum := c.sum(at)
		if sum == 0 {
			delete(r.topics, topic)
			continue
		}
		all[topic] = float64(sum) / ((slots-1)*slot + under).Seconds()
	}
	return all
}

const (
	returnWithin = 10 * time.Minute
	maxReturns   = 100_000
)

// returns remember for a while which nodes have left.
type returns struct {
	mu sync.Mutex
	at map[protocol.NodeID]time.Time
}

func newReturns() *returns { return &returns{at: map[protocol.NodeID]time.Time{}} }

func (r *returns) left(n protocol.NodeID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.at) >= maxReturns {
		for n, at := range r.at {
			if now.Sub(at) > returnWithin {
				delete(r.at, n)
			}
		}
	}
	if len(r.at) < maxReturns {
		r.at[n] = now
	}
}

// again reports whether the node has been here lately.
func (r *returns) again(n protocol.NodeID, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[n]
	delete(r.at, n)
	return ok && now.Sub(at) <= returnWithin
}
