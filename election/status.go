package election

import (
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Status is what a member knows at a moment.
type Status struct {
	Group    string
	Topic    string
	Node     protocol.NodeID
	Instance protocol.Instance // of this Member; another than its connection's
	Priority int64

	// Now is the leader that is seen, or why there is none, and how long so.
	Now Observation

	// Heard is how long ago the leader's last claim or heartbeat was read; below 0
	// when there is no leader or none was read.
	Heard time.Duration

	Epoch      protocol.Epoch // of the log that was read last
	Connected  bool           // and caught up
	Candidate  bool           // it campaigns or leads
	Leads      bool           // this very member leads
	BestEffort bool           // the link has no fences: two can lead for a while
	Suspend    bool           // deadlines go on while the machine is suspended

	// Candidates have announced themselves and are not known to lead, highest
	// first; the newest 64. Whether they are still there is not known.
	Candidates []Candidate

	// History is the newest 32 changes, oldest first.
	History []Observation

	// Voids counts messages that did not count, by why, and the two other things
	// that a Void can tell.
	Voids map[Void]uint64

	// Refusal is why the registry refused this member's last publish, if it did
	// and that was not a matter of who is first.
	Refusal error
}

// Candidate is who announced itself.
type Candidate struct {
	Node     string
	Instance protocol.Instance // zero: a script
	Priority int64
	Term     uint64
	At       time.Time // registry time of the announcement
}
