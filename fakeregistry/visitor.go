package fakeregistry

import (
	"context"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// visitor is a session of the fake itself, which faults do not concern.
type visitor struct {
	*link.Session
	close func()
}

func (r *Registry) visit(ctx context.Context) (*visitor, error) {
	pc := r.wires.listen(place{node: injectorNode})
	s, err := link.Dial(ctx, r.inside(), link.Config{
		Identity:   link.Identity{Key: Key(injectorNode)},
		PacketConn: pc,
	})
	if err != nil {
		_ = pc.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close(0, "") })
	return &visitor{s, func() {
		stop()
		_ = s.Close(0, "")
		_ = pc.Close()
	}}, nil
}

// hello begins the session on its first channel.
func (v *visitor) hello(ctx context.Context) (*protocol.Welcome, error) {
	control, err := v.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := send(ctx, control, &protocol.Hello{MinVersion: protocol.MinVersion, MaxVersion: protocol.Version}); err != nil {
		return nil, err
	}
	switch f, err := next(control); f := f.(type) {
	case *protocol.Welcome:
		return f, nil
	case *protocol.Fail:
		return nil, f.Err()
	case nil:
		return nil, err
	default:
		return nil, protocol.Errorf(protocol.ErrMalformed, "answer of type %d", f.Type())
	}
}

func send(ctx context.Context, ch *link.Channel, f protocol.Frame) error {
	return ch.SendContext(ctx, protocol.AppendFrame(nil, f))
}

func next(ch *link.Channel) (protocol.Frame, error) {
	body, err := ch.Next()
	if err != nil {
		return nil, err
	}
	return protocol.Parse(body)
}
