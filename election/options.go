package election

import (
	"log/slog"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Options of a Member. Group is required; all else has a default. The members of
// a group should agree on Timing, Plain and Preempt.
type Options struct {
	// Group is who elects: the topic is "election:" with the group behind it.
	Group string

	// Priority decides who stands higher; 0 is the DefaultPriority of the node id.
	Priority int64

	Timing  Timing      // zero: LAN
	Plain   PlainPolicy // what scripts' messages count for
	Preempt Preemption  // whether a leader gives way to a higher candidate

	// WallClock is shown in messages and in the history, and decides nothing;
	// nil: time.Now. Several goroutines call it and Clock. Neither may block, and
	// Logger's handler may not wait for the Member: the leadership hangs on them.
	WallClock func() time.Time

	// Clock is the time since some moment, on a clock that never goes back and goes
	// on while the machine is suspended. Nil: CLOCK_BOOTTIME on Linux; elsewhere
	// one that stops with the machine, see [Status].Suspend. The default one is
	// virtual inside a bubble of testing/synctest.
	Clock func() time.Duration

	Logger *slog.Logger // nil is silent
}

// validate checks the options and fills in defaults. What only the machine can
// judge, it judges when it is made.
func (o Options) validate(node protocol.NodeID) (Options, error) {
	if o.Group == "" {
		return o, protocol.Errorf(protocol.ErrInvalid, "options: Group is missing")
	}
	if o.Plain > PlainTrust {
		return o, protocol.Errorf(protocol.ErrInvalid, "options: no such Plain policy: %d", o.Plain)
	}
	if o.Preempt.After != 0 && !o.Preempt.Allowed {
		return o, protocol.Errorf(protocol.ErrInvalid, "options: Preempt.After is %v, but preemption is not Allowed", o.Preempt.After)
	}
	if o.Priority == 0 {
		o.Priority = DefaultPriority(node.String())
	}
	if o.Timing == (Timing{}) {
		o.Timing = LAN
	}
	if o.WallClock == nil {
		o.WallClock = time.Now
	}
	if o.Clock == nil {
		o.Clock = newClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o Options) topic() string { return TopicPrefix + o.Group }

// TopicPrefix is what a group's topic begins with.
const TopicPrefix = "election:"
