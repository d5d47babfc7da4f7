package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// call is a request on the control channel. It is sent again on the next
// connection when one ends before the answer: all requests can be repeated.
type call struct {
	frame  func(id uint64) protocol.Frame
	want   protocol.FrameType
	result chan result // holds one
	over   atomic.Bool // answered or given up

	// Owned by the connection that sent it.
	id   uint64
	sent time.Time
}

type result struct {
	f   protocol.Frame
	err error
}

func (k *call) reply(f protocol.Frame, err error) {
	if k.over.CompareAndSwap(false, true) {
		k.result <- result{f, err}
	}
}

func (k *call) answered() bool { return k.over.Load() }

// request makes one and waits for its answer of type F.
func request[F protocol.Frame](ctx context.Context, c *Client, want protocol.FrameType, frame func(id uint64) protocol.Frame) (F, error) {
	var none F
	k := &call{frame: frame, want: want, result: make(chan result, 1)}
	if err := c.submit(ctx, k); err != nil {
		return none, err
	}
	select {
	case r := <-k.result:
		if r.err != nil {
			return none, r.err
		}
		return r.f.(F), nil // serve has looked at the type
	case <-ctx.Done():
		k.over.Store(true)
		return none, c.givenUp(ctx)
	}
}

// submit queues a call.
func (c *Client) submit(ctx context.Context, k *call) error {
	if ctx.Err() != nil {
		return c.givenUp(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hard != nil {
		return c.hard
	}
	c.calls = append(c.dropAnswered(), k)
	if c.conn != nil {
		c.signal()
	}
	return nil
}

// dropAnswered is the queue without calls that were given up while there was no
// connection.
func (c *Client) dropAnswered() []*call {
	live := c.calls[:0]
	for _, k := range c.calls {
		if !k.answered() {
			live = append(live, k)
		}
	}
	clear(c.calls[len(live):])
	return live
}

func (c *Client) takeCalls() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.dropAnswered()
	c.calls = nil
	return calls
}

func (c *Client) signal() {
	select {
	case c.ask <- struct{}{}:
	default:
	}
}

// givenUp is the error of a call whose ctx has ended.
func (c *Client) givenUp(ctx context.Context) error {
	c.mu.Lock()
	connected := c.conn != nil
	c.mu.Unlock()
	if connected {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", c.offline(), ctx.Err())
}
