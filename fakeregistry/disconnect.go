package fakeregistry

import (
	"context"
	"fmt"
	"time"

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
			if s.Node == injector() || !r.people.find(s.Node).has(node) {
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
