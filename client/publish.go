package client

import (
	"context"
	"errors"

	"github.com/pilotgo/pilotgo/protocol"
)

// Pending is a publish on its way.
type Pending struct{}

// Wait waits for the answer. When ctx ends first, the error is ctx.Err() and the
// publish goes on.
func (p *Pending) Wait(ctx context.Context) (Ack, error) { return Ack{}, errors.ErrUnsupported }

// Done is closed when there is a result.
func (p *Pending) Done() <-chan struct{} { return nil }

// Result tells the outcome; done is false while there is none.
func (p *Pending) Result() (ack Ack, done bool, err error) { return Ack{}, false, nil }

// Key is the idempotency key. Publishing the same message again under it is safe
// where the outcome is unknown.
func (p *Pending) Key() []byte { return nil }

// Publish hands p over, see [Conn].
func (c *Client) Publish(ctx context.Context, p Publication) *Pending { return &Pending{} }

// PublishTo publishes to a topic and waits for the ack.
func (c *Client) PublishTo(ctx context.Context, topic string, payload []byte) (Ack, error) {
	return c.Publish(ctx, Publication{Topic: topic, Payload: payload}).Wait(ctx)
}

// Send sends a direct message and waits for the ack: it is in the log then,
// whether or not the recipient is connected.
func (c *Client) Send(ctx context.Context, to protocol.NodeID, payload []byte) (Ack, error) {
	return c.Publish(ctx, Publication{To: to, Payload: payload}).Wait(ctx)
}

// Flush waits until every publish made before has its result.
func (c *Client) Flush(ctx context.Context) error { return errors.ErrUnsupported }
