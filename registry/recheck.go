package registry

import (
	"errors"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Recheck makes the registry ask Access anew about all that is open, for when the
// rules behind it have changed. What enters the log after Recheck has returned is
// delivered by the new rules only: a subscription to a topic that may not be read
// any more ends with ErrDenied, and from a pattern or an inbox that topic is left
// out. Sessions go on; Disconnect ends one.
func (r *Registry) Recheck() {
	r.mu.Lock()
	for s := range r.sessions {
		s.recheck()
	}
	r.mu.Unlock()
	r.wakeRechecked()
}

// recheck makes the session's subscriptions ask again when they next wake up.
func (s *session) recheck() { s.rules.Add(1) }

// wakeRechecked lets subscriptions without news find out too.
func (r *Registry) wakeRechecked() {
	for _, sub := range r.index.list() {
		sub.wake()
	}
}

// denied is the end of a subscription whose topic may not be read any more.
type denied struct{ told *protocol.Error }

func (d *denied) Error() string { return d.told.Error() }
func (d *denied) Unwrap() error { return d.told }

// recheck asks again when rights may have changed. It is called after the head up
// to which is read was looked at, and before reading: what comes behind that head
// is read after another recheck.
func (sub *subscription) recheck(sel *Selection) error {
	rules := sub.s.rules.Load()
	if rules == sub.asked {
		return nil
	}
	sub.asked = rules
	switch {
	case sub.rights != nil:
		sub.rights.ask()
		return nil
	case sub.source == protocol.SourceInbox:
		return nil // all of it may be read, by rules that do not change
	}
	refused := sub.s.allow(Request{Right: RightSubscribe, Topic: sub.pattern})
	switch {
	case refused == nil:
		return nil
	case protocol.IsExact(sub.pattern) || refused.Code != protocol.ErrDenied:
		return &denied{refused}
	}
	sub.narrow()
	sel.Readable = sub.sel.Readable
	return nil
}

// narrow makes the subscription ask for each topic by itself.
func (sub *subscription) narrow() {
	sub.rights = newRights(sub.s)
	sub.sel.Readable = sub.rights.readable
}

// ask forgets what is known.
func (r *rights) ask() { clear(r.known) }

// stop ends the channel of a subscription from this side.
func (sub *subscription) stop(err error) {
	var d *denied
	if !errors.As(err, &d) {
		sub.ch.Reset(refusal(err, protocol.ErrInternal).Code)
		return
	}
	sub.s.refused(OpSubscribe, sub.pattern, d.told)
	if sub.s.tell(sub.s.ctx, sub.ch, failure(0, d.told)) != nil {
		return
	}
	sub.ch.CloseSend()
	_ = sub.ch.SetReadDeadline(time.Now().Add(firstReply)) // the client ends its side too
}
