package client

import (
	"context"
	"crypto/ed25519"
	"iter"
	"sync"
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

// CaughtUp: a subscription has read what was retained.
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

// maxEvents is how many events wait for a reader.
const maxEvents = 64

// hub gives events to those who read them.
type hub struct {
	stats *counters

	mu     sync.Mutex
	closed bool
	open   map[*Events]struct{}
}

func (h *hub) init(stats *counters) {
	h.stats = stats
	h.open = make(map[*Events]struct{})
}

func (h *hub) emit(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.open {
		if len(r.list) >= maxEvents {
			r.list = r.list[1:]
			r.missed++
			h.stats.events.Add(1)
		}
		r.list = append(r.list, e)
		r.signal()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.open {
		r.end()
	}
}

// Events is one reader's view of what happens to a Client, from its making on.
// It holds the newest 64 events that its reader has not taken; instead of older
// ones there is one Missed.
type Events struct {
	hub   *hub
	ready chan struct{} // a token when there is something to take
	done  chan struct{} // closed by end

	// Guarded by hub.mu.
	list   []Event
	missed int
	ended  bool
}

// Events begins to collect events. Each reader has its own and gets all events;
// close it when done.
func (c *Client) Events() *Events {
	h := &c.events
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &Events{hub: h, ready: make(chan struct{}, 1), done: make(chan struct{})}
	if h.closed {
		e.end()
		return e
	}
	h.open[e] = struct{}{}
	return e
}

// Next waits for the next event. One goroutine at a time may call it. After
// Close, and after the client was closed, the events still held come first and
// then net.ErrClosed.
func (e *Events) Next(ctx context.Context) (Event, error) {
	for {
		if ev, ok := e.take(); ok {
			return ev, nil
		}
		select {
		case <-e.ready:
		case <-e.done:
			if ev, ok := e.take(); ok {
				return ev, nil
			}
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// All yields events until ctx, the client or e ends.
func (e *Events) All(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, err := e.Next(ctx)
			if err != nil || !yield(ev) {
				return
			}
		}
	}
}

// Close ends the collecting. It is idempotent.
func (e *Events) Close() error {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	e.end()
	return nil
}

func (e *Events) take() (Event, bool) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	switch {
	case e.missed > 0:
		m := Missed{Events: e.missed}
		e.missed = 0
		return m, true
	case len(e.list) > 0:
		ev := e.list[0]
		e.list = e.list[1:]
		return ev, true
	}
	return nil, false
}

// end is under hub.mu.
func (e *Events) end() {
	if !e.ended {
		e.ended = true
		delete(e.hub.open, e)
		close(e.done)
	}
}

func (e *Events) signal() {
	select {
	case e.ready <- struct{}{}:
	default:
	}
}
