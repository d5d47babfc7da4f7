package election

import (
	"context"

	"github.com/pilotgo/pilotgo/client"
)

// Run joins a group, campaigns and calls lead each time this member is elected,
// until ctx ends or lead returns while it leads; see [Member.Run].
func Run(ctx context.Context, conn client.Conn, o Options, lead func(ctx context.Context, l *Leadership) error) error {
	m, err := Join(ctx, conn, o)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Run(ctx, lead)
}

// Run campaigns and calls lead each time this member is elected, on the caller's
// goroutine. The context given to lead is the leadership.
func (m *Member) Run(ctx context.Context, lead func(ctx context.Context, l *Leadership) error) error {
	return m.ended
}

// Campaign blocks until this member is elected.
func (m *Member) Campaign(ctx context.Context) (*Leadership, error) { return nil, m.ended }

// Ask asks the present leader to resign, in favour of successor or, if that is
// empty, of the best candidate that the leader knows. It returns when the request
// is in the log.
func (m *Member) Ask(ctx context.Context, successor string) error { return m.ended }
