package config

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// AgentState is how far an agent is with a version.
type AgentState string

// The states. Agents report all but the last, which is what others make of an
// agent that has not been heard for long.
const (
	StateApplied  AgentState = "applied"  // it runs the version
	StateRejected AgentState = "rejected" // it refused the version and runs what it ran before
	StateFailed   AgentState = "failed"   // it could not apply the version and will try again
	StatePending  AgentState = "pending"  // nothing is known of the version there yet, or the agent holds
	StateStale    AgentState = "stale"    // it may run anything, or not run at all
)

// Report is what an agent says on config:status:SWARM. Scripts say no more than
// Agent and AppliedVersion.
type Report struct {
	Agent          string // a label; who reports is the message's sender
	AppliedVersion uint64 // 0: nothing
	Digest         Digest // of what is applied

	// State is about Version: the one the agent is to have. Without them, State is
	// StateApplied and Version the applied one.
	State   AgentState
	Version uint64
	Error   string // why it was rejected or failed

	Pinned bool // a local rollback holds it at AppliedVersion
	Held   bool // a rollout is going on and has not reached it
	Behind bool // the registry knows no version as high as the agent does

	// Highest is the highest version that an agent knows for which the registry is
	// behind, where it is above the applied one.
	Highest uint64

	At     time.Time         // by the agent's clock
	Every  time.Duration     // how often it reports when nothing changes; 0: it does not tell
	Labels map[string]string // for the selectors of rollouts
	Void   uint64            // messages that counted for nothing there, since it started

	// Instance is the agent's process, and Number counts its reports.
	Instance string
	Number   uint64
}

// program reports whether an agent of this package wrote it, and not a script.
func (r *Report) program() bool { return r.Instance != "" }

// knows is the highest version below a limit that the agent tells of, 0 when it
// tells of none.
func (r *Report) knows(limit uint64) (top uint64) {
	for _, n := range [...]uint64{r.AppliedVersion, r.Version, r.Highest} {
		if n < limit {
			top = max(top, n)
		}
	}
	return top
}

// maxReport is how long a report may be.
const maxReport = 64 << 10

// ParseReport reads the payload of a message on config:status:SWARM, and is
// lenient: numbers may be text, fields may be missing or of another type, and of
// two with one name the last counts. The error is a [Void].
func ParseReport(payload []byte) (*Report, error) {
	if len(payload) > maxReport {
		return nil, VoidMalformed
	}
	fields, ok := reportFields(payload)
	if !ok {
		return nil, VoidMalformed
	}
	r := &Report{}
	applied, about, every := field{}, field{}, field{}
	for _, f := range fields {
		switch f.name {
		case "agent":
			r.Agent = label(f.value)
		case "applied_version":
			applied = f
		case "version":
			about = f
		case "every":
			every = f
		default:
			r.set(f)
		}
	}
	if r.AppliedVersion, ok = count(applied.value); !ok {
		return nil, VoidVersion
	}
	r.Version, r.State = r.AppliedVersion, known(r.State)
	if v, ok := count(about.value); ok {
		r.Version = v
	}
	if seconds, ok := count(every.value); ok && seconds < math.MaxInt32 {
		r.Every = time.Duration(seconds) * time.Second
	}
	return r, nil
}

// set reads a field that scripts do not write.
func (r *Report) set(f field) {
	switch f.name {
	case "state":
		r.State = AgentState(unquote(f.value))
	case "error":
		r.Error = unquote(f.value)
	case "digest":
		r.Digest, _ = ParseDigest(unquote(f.value))
	case "pinned":
		r.Pinned = truth(f.value)
	case "held":
		r.Held = truth(f.value)
	case "behind":
		r.Behind = truth(f.value)
	case "at":
		r.At, _ = time.Parse(time.RFC3339Nano, unquote(f.value))
	case "labels":
		r.Labels = nil
		_ = json.Unmarshal(f.value, &r.Labels)
	case "instance":
		r.Instance = unquote(f.value)
	case "report":
		r.Number, _ = count(f.value)
	case "highest":
		r.Highest, _ = count(f.value)
	case "void":
		r.Void, _ = count(f.value)
	}
}

// reportFields reads an object, in order. What the scanner is too strict for,
// encoding/json may still read.
func reportFields(payload []byte) ([]field, bool) {
	fields, err := scanFields(payload, MaxDepth, true)
	if err == nil {
		return fields, true
	}
	var m map[string]json.RawMessage // not a struct, whose names match in any case
	if json.Unmarshal(payload, &m) != nil || m == nil {
		return nil, false
	}
	for name, value := range m {
		fields = append(fields, field{name, value})
	}
	return fields, true
}

// known reads the state of a script, or of a later build.
func known(s AgentState) AgentState {
	switch s {
	case "":
		return StateApplied
	case StateApplied, StateRejected, StateFailed:
		return s
	case StatePending, StateStale:
	}
	return StatePending
}

// count reads a number that may be spelled in any way, as long as it is an integer
// from 0 to 2^53−1.
func count(raw []byte) (uint64, bool) {
	text := label(raw)
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, n <= protocol.MaxTerm
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > protocol.MaxTerm || f != math.Trunc(f) {
		return 0, false
	}
	return uint64(f), true
}

// label is the text of a string or a number.
func label(raw []byte) string {
	if len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return string(raw)
	}
	return unquote(raw)
}

func truth(raw []byte) bool { return string(raw) == "true" }

// Append appends the message. Its first two fields are the recipe's.
func (r *Report) Append(b []byte) []byte {
	b = appendQuoted(append(b, `{"agent":`...), r.Agent)
	b = append(b, `,"applied_version":`...)
	b = strconv.AppendUint(b, r.AppliedVersion, 10)
	b = appendText(b, "digest", r.Digest.String())
	b = appendText(b, "state", string(r.State))
	b = appendNumber(b, "version", r.Version)
	b = appendText(b, "error", r.Error)
	for _, f := range []struct {
		name string
		set  bool
	}{{"pinned", r.Pinned}, {"held", r.Held}, {"behind", r.Behind}} {
		if f.set {
			b = append(appendName(b, f.name), "true"...)
		}
	}
	b = appendNumber(b, "highest", r.Highest)
	if !r.At.IsZero() {
		b = appendText(b, "at", r.At.UTC().Format(time.RFC3339Nano))
	}
	b = appendNumber(b, "every", uint64(max(0, r.Every/time.Second)))
	b = appendLabels(b, r.Labels)
	b = appendNumber(b, "void", r.Void)
	b = appendText(b, "instance", r.Instance)
	b = appendNumber(b, "report", r.Number)
	return append(b, '}')
}

func appendLabels(b []byte, labels map[string]string) []byte {
	if len(labels) == 0 {
		return b
	}
	b = append(appendName(b, "labels"), '{')
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, name), ':')
		b = appendQuoted(b, labels[name])
	}
	return append(b, '}')
}
