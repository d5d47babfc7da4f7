package registry

import (
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Retention says what a log keeps. For each value 0 means the default and
// anything below no bound.
type Retention struct {
	// Messages and Age bound each sender's part of a topic, or of the direct
	// messages to one node, so that nobody pushes out what another sent. Defaults:
	// 1,000 messages, 7 days.
	Messages int
	Age      time.Duration

	// Versions takes the place of both on topics config:SWARM. Default: 1,000.
	Versions int

	// TopicBytes bounds the payloads on one topic, or sent to one node, and
	// TotalBytes the whole log, where each message counts with its payload and
	// RecordOverhead. At either the sender with most bytes loses its own oldest
	// message. Defaults: 64 MiB, 8 GiB.
	TopicBytes, TotalBytes int64
}

// RecordOverhead is about what a log needs for a message besides its payload. A
// log may count more where the names of topics are long.
const RecordOverhead = 512

// WithDefaults puts a number in place of each 0 and of each negative value.
func (r Retention) WithDefaults() Retention {
	return Retention{
		Messages:   bound(r.Messages, 1000, math.MaxInt),
		Versions:   bound(r.Versions, 1000, math.MaxInt),
		Age:        bound(r.Age, 7*24*time.Hour, math.MaxInt64),
		TopicBytes: bound(r.TopicBytes, 64<<20, math.MaxInt64),
		TotalBytes: bound(r.TotalBytes, 8<<30, math.MaxInt64),
	}
}

func bound[T int | int64 | time.Duration](n, standard, none T) T {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return none
	}
	return n
}

// HasVersions reports whether a topic is a swarm's config, of which versions are
// kept whatever their age.
func HasVersions(topic string) bool { return protocol.Swarm(topic) != "" }
