package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// RolloutState is where a rollout stands.
type RolloutState string

// The states. The last three are ends.
const (
	RolloutRunning    RolloutState = "running"
	RolloutPaused     RolloutState = "paused"      // nobody new is reached, and nothing ends it
	RolloutComplete   RolloutState = "complete"    // its version is for all now
	RolloutRolledBack RolloutState = "rolled_back" // too much failed, or it was aborted
	RolloutSuperseded RolloutState = "superseded"  // another version was published meanwhile
)

// Over reports whether the state is an end.
func (s RolloutState) Over() bool { return s != RolloutRunning && s != RolloutPaused }

// Progress is how far a rollout is: a message on config:rollout:SWARM. The newest
// one that passed the topic's fence with its version counts.
type Progress struct {
	Version uint64
	State   RolloutState
	Step    int       // 0 is the canary
	Since   time.Time // registry time: when the step began, or went on
	Reason  string    // why it paused or ended
	Who     string

	// Ending is the end that a driver has decided on and is about to bring: then the
	// rollout cannot be paused any more, and whoever drives brings that end. "" until
	// then.
	Ending RolloutState

	// Reached are agents with all Labels, and of all others the Share whose ids
	// hash lowest.
	Share  float64
	Labels map[string]string
}

const typeRollout = "rollout"

// ParseProgress reads the payload of a message on config:rollout:SWARM. The error
// is a [Void].
func ParseProgress(payload []byte) (*Progress, error) {
	fields, err := scanFields(payload, MaxDepth, false)
	if err != nil {
		return nil, VoidMalformed
	}
	f := make(map[string][]byte, len(fields))
	for _, field := range fields {
		f[field.name] = field.value
	}
	p := &Progress{
		Version: version(f["version"]), State: RolloutState(unquote(f["state"])),
		Reason: unquote(f["reason"]), Who: unquote(f["who"]), Ending: RolloutState(unquote(f["ending"])),
	}
	p.Since, _ = time.Parse(time.RFC3339Nano, unquote(f["since"]))
	step, _ := count(f["step"])
	p.Step = int(min(step, math.MaxInt32))
	_ = json.Unmarshal(f["labels"], &p.Labels)
	switch {
	case unquote(f["type"]) != typeRollout:
		return nil, VoidType
	case p.Version == 0:
		return nil, VoidVersion
	case json.Unmarshal(f["share"], &p.Share) != nil || p.Share < 0 || p.Share > 1, p.State == "":
		return nil, VoidMalformed
	}
	return p, nil
}

// Append appends the message.
func (p *Progress) Append(b []byte) []byte {
	b = append(b, `{"type":"rollout","version":`...)
	b = strconv.AppendUint(b, p.Version, 10)
	b = appendText(b, "state", string(p.State))
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, int64(p.Step), 10)
	b = append(b, `,"share":`...)
	b = strconv.AppendFloat(b, p.Share, 'g', -1, 64)
	b = appendLabels(b, p.Labels)
	if !p.Since.IsZero() {
		b = appendText(b, "since", p.Since.UTC().Format(time.RFC3339Nano))
	}
	b = appendText(b, "reason", p.Reason)
	b = appendText(b, "who", p.Who)
	b = appendText(b, "ending", string(p.Ending))
	return append(b, '}')
}

// Reaches reports whether an agent is to have the version.
func (p *Progress) Reaches(node protocol.NodeID, labels map[string]string) bool {
	switch p.State {
	case RolloutRunning, RolloutPaused, RolloutComplete:
		return hasLabels(labels, p.Labels) || rank(node) < p.Share
	case RolloutRolledBack, RolloutSuperseded:
	}
	return false // an end, or a state of a later build
}

// hasLabels reports whether all of want are there; nothing is wanted by nobody.
func hasLabels(labels, want map[string]string) bool {
	for name, value := range want {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return len(want) > 0
}

// rank is where a node stands, from 0 to below 1: in each rollout at the same
// place, and by its id alone, so that all agree without asking.
func rank(node protocol.NodeID) float64 {
	sum := sha256.Sum256([]byte("rollout " + node.String()))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
