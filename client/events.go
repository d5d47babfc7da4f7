package client

import (
	"context"
	"crypto/ed25519"
	"errors"
	"iter"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Event is something that happened to the client as a whole. It is one of the
// types below.
type Event interface{ event() }

// Connected: a session with the registry began. Resent publishes had no answer
// from the session before and were handed over again.
type Connected struct {
	Address string
	Epoch   protocol.Epoch
	Head    protocol.Seq
	Resent  int
}

// Disconnected: the session ended. The client dials again until Close.
type Disconnected struct{ Err error }

// DialFailed: a try to connect again failed; the next one is after Retry. Hard
// errors, such as a wrong key, fail waiting calls too.
type DialFailed struct {
	Err   error
	Hard  bool
	Retry time.Duration
}

// Draining: the registry is about to stop and takes no new publishes here; the
// client comes back after RetryAfter and some more.
type Draining struct {
	RetryAfter time.Duration
	Reason     string
}

// NewEpoch: the registry has another log than before.
type NewEpoch struct{ Old, New protocol.Epoch }

// CaughtUp: a subscription has handed over what was retained.
type CaughtUp struct {
	Pattern string // "" for the inbox
	Seq     protocol.Seq
}

// Gap: messages of a subscription left the log before it got them.
type Gap struct {
	Pattern  string // "" for the inbox
	From, To protocol.Seq
}

// RateLimited: a publish was refused for its rate.
type RateLimited struct {
	Topic      string
	RetryAfter time.Duration
}

// KeyChanged: the registry announced (Announced) or proved its next key, signed
// with the one before.
type KeyChanged struct {
	Old, New  ed25519.PublicKey
	Announced bool
}

// Missed: the reader of the events was slow, and so many were dropped here.
type Missed struct{ Events int }

func (Connected) event()    {}
func (Disconnected) event() {}
func (DialFailed) event()   {}
func (Draining) event()     {}
func (NewEpoch) event()     {}
func (CaughtUp) event()     {}
func (Gap) event()          {}
func (RateLimited) event()  {}
func (KeyChanged) event()   {}
func (Missed) event()       {}

// Events is one reader's view of what happens to a Client, from its making on.
// It holds the newest 64 events that its reader has not taken.
type Events struct{}

// Events begins to collect events. Each reader has its own; close it when done.
func (c *Client) Events() *Events { return &Events{} }

// Next waits for the next event. After Close, and after the client was closed
// and all events are taken, the error is net.ErrClosed.
func (e *Events) Next(ctx context.Context) (Event, error) { return nil, errors.ErrUnsupported }

// All yields events until ctx or the client ends.
func (e *Events) All(ctx context.Context) iter.Seq[Event] { return func(func(Event) bool) {} }

// Close ends the collecting. It is idempotent.
func (e *Events) Close() error { return nil }
