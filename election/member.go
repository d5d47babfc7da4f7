package election

import (
	"context"
	"sync"

	"github.com/pilotgo/pilotgo/client"
)

// Member is one member of a group: an observer, and a candidate while it
// campaigns. Its methods may be called from any goroutine.
type Member struct {
	conn  client.Conn
	o     Options
	topic string

	mu      sync.Mutex
	seen    Observation
	changed chan struct{}
	ended   error
}

// Join subscribes to the group's topic and observes from then on. ctx bounds
// only the opening. The caller closes the Member; conn stays open.
func Join(ctx context.Context, conn client.Conn, o Options) (*Member, error) {
	o, err := o.validate(conn.Self().Node)
	if err != nil {
		return nil, err
	}
	return &Member{conn: conn, o: o, topic: o.topic()}, ctx.Err()
}

// Status tells what is known now.
func (m *Member) Status() Status { return Status{} }

// Close withdraws.
func (m *Member) Close() error { return nil }
