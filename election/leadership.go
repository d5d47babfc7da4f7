package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Leadership is one term that a member leads. Its methods may be called from any
// goroutine.
type Leadership struct {
	m        *Member
	token    Token
	campaign *campaign
	ctx      context.Context
	cancel   context.CancelCauseFunc

	until atomic.Int64              // instant at which the lease ends
	lost  atomic.Pointer[LostError] // set before ctx is cancelled with it

	idle bool // the work is over; owned by the member's loop

	over   chan struct{} // closed once the lease is over and a resign answered
	result error         // of Resign, set before over
}

// LostError is why a leadership ended. It is also protocol.ErrStaleTerm.
type LostError struct {
	Token  Token
	Reason Reason
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the leadership of term %d is over: %v", e.Token.Term, e.Reason)
}

// Unwrap gives the sentinel.
func (e *LostError) Unwrap() error { return protocol.ErrStaleTerm }

// Token is the fencing token.
func (l *Leadership) Token() Token { return l.token }

// Term is that of the token.
func (l *Leadership) Term() uint64 { return l.token.Term }

// Context ends with the leadership, Timing.Stop before the lease does at the
// latest; its cause is a *[LostError].
func (l *Leadership) Context() context.Context { return l.ctx }

// Done is that of Context.
func (l *Leadership) Done() <-chan struct{} { return l.ctx.Done() }

// Err is why the leadership ended, the cause of its Context; nil until Done is
// closed.
func (l *Leadership) Err() error { return context.Cause(l.ctx) }

// Valid reports whether the leadership still holds. It looks at the clock, so it
// is right even if the process or the machine stood still and Done is late. That
// it still holds when the caller acts on it, only the fence can tell.
func (l *Leadership) Valid() bool { return l.invalid() == nil }

// invalid is why the leadership does not hold.
func (l *Leadership) invalid() *LostError {
	why := l.lost.Load()
	switch {
	case why != nil:
	case l.ctx.Err() != nil:
		why = &LostError{l.token, ReasonWithdrawn}
	case instant(l.m.o.Clock()) >= instant(l.until.Load()).Add(-l.m.o.Timing.Stop):
		why = &LostError{l.token, ReasonExpired}
	}
	return why
}

// Condition is the fence to put into a publish made by hand: it is refused as
// protocol.ErrStaleTerm once another term has begun.
func (l *Leadership) Condition() protocol.Condition {
	return protocol.Condition{Topic: l.m.topic, Epoch: l.token.Epoch, Term: l.token.Term}
}

// Publish publishes p under the fence of this term, besides the conditions that p
// has. It is that of client.Conn otherwise, but when the leadership is not valid
// it fails with protocol.ErrStaleTerm, a *[LostError], and over a link without
// fences with errors.ErrUnsupported. A publish that waits for a connection is
// judged by the fence when it arrives. If the term's fence refuses it, the
// leadership ends, whether or not the caller looks at the result.
func (l *Leadership) Publish(ctx context.Context, p client.Publication) client.Pending {
	if l.m.bestEffort {
		return failure{p, fmt.Errorf("publish %q: the link has no fences: %w", p.Topic, errors.ErrUnsupported)}
	}
	if why := l.invalid(); why != nil {
		return failure{p, fmt.Errorf("publish %q: %w", p.Topic, why)}
	}
	// A slice of our own: the caller's may have room at its end.
	p.Conditions = append(append([]protocol.Condition{}, p.Conditions...), l.Condition())
	pending := l.m.conn.Publish(ctx, p)
	l.m.watch(l, pending)
	return pending
}

// Resign ends the leadership in favour of the best candidate known. It returns
// nil once the resign is in the log; else why the leadership ended without one, or
// why the resign is not known to be there. When ctx ends first the error is
// ctx.Err(), and the resign goes on.
//
// Who has the Leadership from Campaign says by it that the work is over, also
// after Done. Under Run it only tells lead to stop, and waits for lead to return;
// so lead itself does not call it, but returns.
func (l *Leadership) Resign(ctx context.Context) error {
	l.m.post(func() { l.m.resign(l) })
	select {
	case <-l.over:
		return l.result
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Member) resign(l *Leadership) {
	switch {
	case l.campaign.byHand:
		m.returned(l, false)
	case m.leads == l:
		m.step(resignAsked{})
	}
}

// grace is how long a call goes on after its ctx has ended, to hear that the others
// know: long enough for an answer that comes at all, from most places.
const grace = 100 * time.Millisecond

// await waits for the end of the lease and the answer to a resign, for as long as
// ctx lasts and grace.
func (l *Leadership) await(ctx context.Context) {
	select {
	case <-l.over:
		return
	case <-ctx.Done():
	}
	select {
	case <-l.over:
	case <-time.After(grace):
	}
}

// finish tells Resign and Run how it ended.
func (l *Leadership) finish(err error) {
	l.result = err
	close(l.over)
}

// watch sees to it that the machine hears if the fence of l's term refuses p,
// whether or not anybody looks at the result: the leadership is over then,
// whatever its lease says.
func (m *Member) watch(l *Leadership, p client.Pending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending != nil {
		return // the leadership ends besides
	}
	m.tasks.Go(func() {
		select {
		case <-p.Done():
			_, _, err := p.Result()
			l.refused(err)
		case <-l.ctx.Done():
		}
	})
}

// refused hands a refusal to the machine, if it was its topic's fence that refused.
func (l *Leadership) refused(err error) {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Topic != l.m.topic || e.Code != protocol.ErrStaleTerm && e.Code != protocol.ErrWrongEpoch {
		return
	}
	l.m.post(func() {
		l.m.step(refused{Token: l.token, Code: e.Code, Epoch: e.Epoch, Fence: e.Fence})
	})
}

// failure is a publish that was not made.
type failure struct {
	p   client.Publication
	err error
}

func (f failure) Wait(context.Context) (client.Ack, error) { return client.Ack{}, f.err }
func (f failure) Result() (client.Ack, bool, error)        { return client.Ack{}, true, f.err }
func (f failure) Key() []byte                              { return f.p.Key }
func (f failure) Done() <-chan struct{}                    { return closed }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
