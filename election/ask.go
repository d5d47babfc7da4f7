package election

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Ask asks the present leader to resign, in favour of successor or, when that is
// empty, of the best candidate that the leader knows. It returns nil once the
// request is in the log; that the leader has followed it, Observe tells. Until it
// is known whether there is a leader, Ask waits.
//
// A leader listens to its own node only: the caller has
// the leader's key, or the group has PlainTrust; else the error is
// protocol.ErrDenied. It is protocol.ErrNotFound when nobody leads, and
// protocol.ErrUnsupported when a script does.
func (m *Member) Ask(ctx context.Context, successor string) error {
	if err := m.err(); err != nil {
		return err
	}
	v, err := m.known(ctx)
	if err != nil {
		return err
	}
	if err := m.ask(ctx, v, successor); err != nil {
		return fmt.Errorf("ask the leader of %q to resign: %w", m.o.Group, err)
	}
	return nil
}

func (m *Member) ask(ctx context.Context, v View, successor string) error {
	switch {
	case v.Leader == "":
		return protocol.Errorf(protocol.ErrNotFound, "nobody leads (%v)", v.Reason)
	case v.Plain:
		return protocol.Errorf(protocol.ErrUnsupported, "%s is a script", v.Leader)
	case m.o.Plain != PlainTrust && !names(v.Leader, m.conn.Self().Node):
		return deafError{v.Leader}
	}
	request := Message{Kind: KindResign, Node: v.Leader, Term: v.Token.Term, Successor: successor}
	_, err := m.conn.Publish(ctx, client.Publication{
		Topic: m.topic, Payload: request.Append(nil, m.o.WallClock()), Urgent: true,
	}).Wait(ctx)
	return err
}

// known waits until it is known who leads, if anybody does: what the history says
// of an end may not be the last of it.
func (m *Member) known(ctx context.Context) (View, error) {
	for {
		m.mu.Lock()
		r, over, err := m.record, m.over, m.ending
		m.mu.Unlock()
		switch {
		case over:
			return View{}, err
		case r.seen.Leader != "" || r.connected && !r.seen.Reason.untold():
			return r.seen.View, nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return View{}, ctx.Err()
		}
	}
}

// deafError is that a leader does not listen to this node. It is also
// protocol.ErrDenied, of which the registry's operator knows nothing here.
type deafError struct{ leader string }

func (e deafError) Error() string {
	return fmt.Sprintf("%v: %s resigns only when its own key asks", protocol.ErrDenied, e.leader)
}

func (e deafError) Unwrap() error { return protocol.ErrDenied }

// Hint tells a person what to do about it.
func (e deafError) Hint() string { return "ask on the leader's own node" }
