package admin

import "time"

// Snapshot is all that the page shows, at one moment.
type Snapshot struct {
	At       time.Time
	Registry Registry
	Groups   []Group
	Swarms   []Swarm
	Topics   []Topic
	Nodes    []Node

	// What was left out because there is too much of it.
	MoreGroups, MoreSwarms, MoreTopics, MoreNodes int

	// Trouble is why parts may be missing or old; empty: nothing.
	Trouble []string
}

// Registry is the registry as a whole.
type Registry struct {
	Address     string
	Fingerprint string
	Software    string
	Store       string
	Epoch       string
	Born        time.Time // of the log
	Started     time.Time
	Head        uint64
	Nodes       uint64
	Online      uint64
	Sessions    uint64
	Readers     uint64 // open subscriptions
	Messages    uint64
	Bytes       uint64
}

// Group is a group that elects leaders.
type Group struct {
	Name       string
	Leader     string // a node id; empty: none
	LeaderName string
	Plain      bool // a script leads
	Term       uint64
	Since      time.Time // of this state
	Heard      time.Duration
	Reason     string // why there is none
	Candidates int
	Void       uint64 // messages that counted for nothing
	History    []Change
}

// Change is an entry of a group's history.
type Change struct {
	At     time.Time
	What   string
	Leader string
	Term   uint64
	Reason string
}

// Swarm is a swarm and how far its agents are with its newest configuration.
type Swarm struct {
	Name      string
	Version   uint64
	Published time.Time
	Why       string

	// Agents by state. Their sum is what the shares are of.
	Applied, Pending, Failed, Rejected, Stale int

	Unknown int // agents that report and are no members
	Agents  []Agent
	More    int // agents that are not in Agents
}

// Known is how many agents the shares are of.
func (s Swarm) Known() int { return s.Applied + s.Pending + s.Failed + s.Rejected + s.Stale }

// Share is the percentage of agents that run the newest version.
func (s Swarm) Share() float64 {
	if s.Known() == 0 {
		return 0
	}
	return 100 * float64(s.Applied) / float64(s.Known())
}

// Agent is one agent of a swarm.
type Agent struct {
	Node    string
	Name    string
	State   string
	Version uint64
	Age     time.Duration
	Error   string
}

// Topic is a topic with retained messages.
type Topic struct {
	Name     string
	Messages uint64
	Bytes    uint64
	Rate     float64 // messages a second, over the last minute
	Fence    uint64
}

// Node is a node that the registry knows.
type Node struct {
	ID     string
	Name   string
	Labels []string
	Online uint64 // sessions
	Seen   time.Time
}
