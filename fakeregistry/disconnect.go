package fakeregistry

import "github.com/pilotgo/pilotgo/protocol"

// Disconnect ends the sessions of a node; it may connect again at once. It does
// not wait, so it may be called in a failpoint; synctest.Wait does.
func (r *Registry) Disconnect(node string) {
	r.fault("disconnect", node, node)
	r.mu.Lock()
	x, ok := r.up.(*run)
	r.mu.Unlock()
	if !ok {
		return
	}
	for _, s := range x.server.Sessions() {
		if s.Node != injector() && r.people.find(s.Node).has(node) {
			x.server.Disconnect(s.ID, protocol.Errorf(protocol.ErrNotConnected, "injected"))
		}
	}
}
