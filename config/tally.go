package config

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// tally knows of each agent the newest report. It counts agents, not messages.
type tally struct {
	relays map[protocol.NodeID]bool // whose origins count
	agents map[protocol.NodeID]*heard
	void   int // messages that could not be read
}

// heard is the newest report of an agent.
type heard struct {
	Report
	at time.Time // registry time
}

func newTally(relays []protocol.NodeID) *tally {
	t := &tally{relays: make(map[protocol.NodeID]bool), agents: make(map[protocol.NodeID]*heard)}
	for _, r := range relays {
		t.relays[r] = true
	}
	return t
}

// add takes a message in, in log order, and tells whose report has changed; ok is
// false when none has.
func (t *tally) add(m *protocol.Message) (node protocol.NodeID, ok bool) {
	r, err := ParseReport(m.Payload)
	if err != nil {
		t.void++
		return 0, false
	}
	node = m.Sender
	if m.Origin != 0 && t.relays[m.Sender] {
		node = m.Origin
	}
	if old := t.agents[node]; old != nil && old.newer(r) {
		return node, false
	}
	t.agents[node] = &heard{*r, m.Time.Time()}
	return node, true
}

// newer reports whether r was made before h, though it comes later. Programs count
// their reports. Scripts do not, and run what they send with "&" in any order; but
// versions only rise, so a lower one is late.
func (h *heard) newer(r *Report) bool {
	if r.program() {
		return r.Instance == h.Instance && r.Number < h.Number
	}
	return r.AppliedVersion < h.AppliedVersion
}

// target is the version that agents are measured by.
type target struct {
	Version uint64
	Digest  Digest // zero where it is not known
}

// stateOf is how far an agent is; h is nil for one that was not heard.
func (t target) stateOf(h *heard, now time.Time, stale time.Duration) (AgentState, string) {
	switch {
	case h == nil:
		return StatePending, ""
	case h.isStale(now, stale):
		return StateStale, h.Error
	case t.Version == 0:
		return StatePending, h.Error
	case h.AppliedVersion == t.Version:
		if t.Digest != (Digest{}) && h.Digest != (Digest{}) && h.Digest != t.Digest {
			return StateFailed, "it runs another content as this version"
		}
		return StateApplied, ""
	case h.Version == t.Version && (h.State == StateRejected || h.State == StateFailed):
		return h.State, h.Error
	}
	return StatePending, h.Error
}

// missed is how many reports in a row an agent may miss before it is stale.
const missed = 3

func (h *heard) isStale(now time.Time, limit time.Duration) bool {
	if limit == 0 {
		limit = missed * h.Every
	}
	return limit > 0 && now.Sub(h.at) > limit
}

// Compliance is how far a swarm is with a version.
type Compliance struct {
	Version uint64 // 0: the registry has none
	Digest  Digest

	// Agents are the known members, Unknown others that report; by node id.
	Agents  []AgentStatus
	Unknown []AgentStatus

	Counts map[AgentState]int // of Agents
	Share  float64            // of Agents that are StateApplied; 0 without any
	Void   int                // messages that are no reports
}

// AgentStatus is what is known of one agent.
type AgentStatus struct {
	Node           protocol.NodeID
	Agent          string // as it names itself
	State          AgentState
	AppliedVersion uint64 // 0: nothing, or it was not heard
	Version        uint64 // that its report is about
	Error          string
	Digest         Digest
	Pinned         bool
	Held           bool
	Behind         bool
	Labels         map[string]string
	Void           uint64    // messages that it passed over, since it started
	Script         bool      // it tells no more than the recipe does
	ReportedAt     time.Time // registry time; zero: never
	Age            time.Duration
}

// measure makes the summary. members nil are all that were heard.
func (t *tally) measure(want target, members []protocol.NodeID, now time.Time, stale time.Duration) Compliance {
	c := Compliance{Version: want.Version, Digest: want.Digest, Counts: make(map[AgentState]int), Void: t.void}
	known, unknown := t.sort(members)
	c.Agents, c.Unknown = t.list(want, known, now, stale), t.list(want, unknown, now, stale)
	for i := range c.Agents {
		c.Counts[c.Agents[i].State]++
	}
	if len(c.Agents) > 0 {
		c.Share = float64(c.Counts[StateApplied]) / float64(len(c.Agents))
	}
	return c
}

// sort tells members from others that were heard, each once and by node id.
func (t *tally) sort(members []protocol.NodeID) (known, unknown []protocol.NodeID) {
	heard := slices.Sorted(maps.Keys(t.agents))
	if members == nil {
		return heard, nil
	}
	known = slices.Compact(slices.Sorted(slices.Values(members)))
	return known, slices.DeleteFunc(heard, func(node protocol.NodeID) bool {
		_, member := slices.BinarySearch(known, node)
		return member
	})
}

func (t *tally) list(want target, nodes []protocol.NodeID, now time.Time, stale time.Duration) []AgentStatus {
	if len(nodes) == 0 {
		return nil
	}
	list := make([]AgentStatus, len(nodes))
	for i, node := range nodes {
		list[i] = want.status(node, t.agents[node], now, stale)
	}
	return list
}

func (t target) status(node protocol.NodeID, h *heard, now time.Time, stale time.Duration) AgentStatus {
	s := AgentStatus{Node: node}
	s.State, s.Error = t.stateOf(h, now, stale)
	if h == nil {
		return s
	}
	s.Agent, s.AppliedVersion, s.Version, s.Digest = h.Agent, h.AppliedVersion, h.Version, h.Digest
	s.Pinned, s.Held, s.Behind, s.Labels = h.Pinned, h.Held, h.Behind, h.Labels
	s.Void, s.Script = h.Void, !h.program()
	s.ReportedAt, s.Age = h.at, max(0, now.Sub(h.at))
	return s
}
