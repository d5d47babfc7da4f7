package fakeregistry

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Disconnect ends the sessions of a node; it may connect again at once. The node
// is one that Endpoint made. It does not wait, so it may be called in a failpoint;
// synctest.Wait does.
func (r *Registry) Disconnect(node string) {
	r.events.fault("disconnect", node)
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.up.(*run)
	if !ok || r.closed {
		return
	}
	r.work.Go(func() {
		for _, s := range x.server.Sessions() {
			if s.Node == injector || !r.people.find(s.Node).has(node) {
				continue
			}
			_ = r.failed(r.takeOver(s))
		}
	})
}

// takeOver begins a session as the client itself would that has lost its last
// one: the registry ends the last one for it. Then it goes.
func (r *Registry) takeOver(old registry.SessionInfo) error {
	name := r.people.keyOf(old.Node)
	if name == "" {
		return fmt.Errorf("disconnect: node %v has not the Key of a name", old.Node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := r.dial(ctx, name)
	if err != nil {
		return err
	}
	defer s.close()
	// The client may be back before the answer, which ends this session in turn.
	_, _ = s.hello(ctx, protocol.Hello{Instance: old.Instance, Name: old.Name, Tags: old.Tags})
	return nil
}

// visitor is a session of the fake itself, which faults do not concern.
type visitor struct {
	*link.Session
	end func()
}

func (r *Registry) dial(ctx context.Context, name string) (*visitor, error) {
	pc := r.wires.listen(place{node: injectorNode})
	s, err := link.Dial(ctx, r.inside(), link.Config{
		Identity:   link.Identity{Key: Key(name)},
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

func (v *visitor) close() { v.end() }

// hello begins the session on its first channel.
func (v *visitor) hello(ctx context.Context, f protocol.Hello) (*protocol.Welcome, error) {
	control, err := v.Open(ctx)
	if err != nil {
		return nil, err
	}
	f.MinVersion, f.MaxVersion = protocol.MinVersion, protocol.Version
	if err := send(ctx, control, &f); err != nil {
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
