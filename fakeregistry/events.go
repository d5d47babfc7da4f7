package fakeregistry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// EventKind says what an Event tells.
type EventKind string

// What the event log tells.
const (
	EventConnect    EventKind = "connect"    // a session began; Err when it was refused
	EventDisconnect EventKind = "disconnect" // a session ended
	EventAccept     EventKind = "accept"     // a publish is in the log
	EventRefuse     EventKind = "refuse"     // a publish or request was refused
	EventSubscribe  EventKind = "subscribe"  // a subscription began; Seq is its position
	EventDeliver    EventKind = "deliver"    // a message left for a subscription
	EventFault      EventKind = "fault"      // a fault was injected: Text
	EventRun        EventKind = "run"        // the registry started or stopped: Text
)

// Event is one line of the event log.
type Event struct {
	At      time.Duration // since the fake registry was made
	Kind    EventKind
	Node    string // as faults name it
	Topic   string // or pattern
	Seq     protocol.Seq
	Session uint64
	Text    string
	Err     error
}

// String is one line of text.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3fs %-10s", e.At.Seconds(), e.Kind)
	if e.Node != "" {
		fmt.Fprintf(&b, " %s", e.Node)
	}
	if e.Session != 0 {
		fmt.Fprintf(&b, " #%d", e.Session)
	}
	if e.Topic != "" {
		fmt.Fprintf(&b, " %q", e.Topic)
	}
	if e.Seq != 0 {
		fmt.Fprintf(&b, " seq %d", e.Seq)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, " %s", e.Text)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// maxEvents is how many events are kept; the oldest go first.
const maxEvents = 1 << 16

// eventLog keeps the newest events.
type eventLog struct {
	born time.Time

	mu    sync.Mutex
	all   []Event // a ring once it is full
	next  int
	count int           // of all that ever were
	news  chan struct{} // closed with the next event; nil when nobody waits
}

func (l *eventLog) add(e Event) {
	e.At = time.Since(l.born)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	if len(l.all) < maxEvents {
		l.all = append(l.all, e)
		return
	}
	l.all[l.next] = e
	l.next = (l.next + 1) % maxEvents
}

func (l *eventLog) fault(what, text string) {
	l.add(Event{Kind: EventFault, Text: strings.TrimSpace(what + " " + text)})
}

func (l *eventLog) list() []Event {
	list, _, _ := l.since(0)
	return list
}

// since lists the events behind the first n, and tells how many there are by
// now and what is closed when there is another.
func (l *eventLog) since(n int) (list []Event, count int, news <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	list = slices.Concat(l.all[l.next:], l.all[:l.next])
	return list[len(list)-min(len(list), l.count-n):], l.count, l.news
}

// Events is the event log, oldest first: the newest 65,536 events. With kinds,
// only those.
func (r *Registry) Events(kinds ...EventKind) []Event {
	var list []Event
	for _, e := range r.events.list() {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			list = append(list, e)
		}
	}
	return list
}

// WaitFor returns the first event for which match is true, of those that were
// and those to come. When ctx ends first, the error is that of ctx. In a bubble
// synctest.Wait tells more.
func (r *Registry) WaitFor(ctx context.Context, match func(Event) bool) (Event, error) {
	for n := 0; ; {
		list, count, news := r.events.since(n)
		if i := slices.IndexFunc(list, match); i >= 0 {
			return list[i], nil
		}
		n = count
		select {
		case <-news:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}
