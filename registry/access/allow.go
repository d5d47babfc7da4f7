package access

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Allow is an AccessFunc.
func (r *Rules) Allow(_ context.Context, q registry.Request) error {
	if r.Decide(&q).Allowed {
		return nil
	}
	return protocol.Errorf(protocol.ErrDenied, "no right to %s", what(&q))
}

// what tells a client what was asked, and not by which rule it was denied.
func what(q *registry.Request) string {
	verb := rightNames[q.Right]
	switch {
	case q.Topic != "":
		return fmt.Sprintf("%s %q", verb, q.Topic)
	case q.To != 0:
		return verb + " direct messages"
	case q.Right == registry.RightAdmin:
		return "do an operator's work"
	}
	return verb
}
