package cli

import (
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// barredError is why a connection that was lost does not come back by itself: a
// key that was revoked, a registry with another key.
type barredError struct{ error }

// untilBarred ends the context, with a barredError, when that happens to c.
func untilBarred(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	events := c.Events()
	go func() {
		for {
			e, err := events.Next(ctx)
			if err != nil {
				return
			}
			if failed, ok := e.(client.DialFailed); ok && failed.Hard {
				cancel(&barredError{failed.Err})
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		events.Close()
	}
}

// tellBarred warns of it, once each time, in commands that go on until c is closed:
// an operator may mend it.
func (a *app) tellBarred(c *client.Client) {
	events := c.Events()
	go func() {
		for told := false; ; {
			e, err := events.Next(context.Background())
			if err != nil {
				return
			}
			switch e := e.(type) {
			case client.Connected:
				told = false
			case client.DialFailed:
				if e.Hard && !told {
					told = true
					a.warn(protocol.CodeOf(e.Err).Name(), fmt.Sprintf("not connected: %v; trying again now and then", e.Err))
				}
			}
		}
	}()
}
