package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/pilotgo/pilotgo/protocol"
)

// pending is a publish of a Client.
type pending struct {
	entry
	lane *lane           // nil when it failed before it had one
	ctx  context.Context // of Publish; it bounds the wait for the answer, not a call

	over atomic.Bool // set after ack and err are

	// Guarded by lane.mu until over.
	ack      Ack
	err      error
	done     chan struct{} // made when somebody waits
	admitted chan struct{} // while Publish waits for a place
	unwatch  func() bool
}

// Publish hands p over and returns without waiting for the answer. It blocks
// only while Window publishes of the lane are without an answer, and until ctx
// ends. ctx also bounds the wait for the answer.
//
// While there is no connection the publish waits for one. When ctx ends first,
// it is withdrawn and never sent later: the Pending fails with ctx.Err(), which
// is also protocol.ErrNotConnected if that was the reason (ErrDraining while the
// registry is about to go), or protocol.ErrUnknownOutcome if the message may be
// in the log all the same.
//
// Refusals of the registry are a *protocol.Error with its Code and, where trying
// again makes sense, RetryAfter.
func (c *Client) Publish(ctx context.Context, p Publication) Pending {
	c.stats.published.Add(1)
	if err := c.validate(&p); err != nil {
		c.stats.refused.Add(1)
		return failed(&p, err)
	}
	l := &c.lanes[protocol.LaneNormal]
	if p.Urgent {
		l = &c.lanes[protocol.LaneUrgent]
	}
	return l.publish(ctx, p)
}

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
func (c *Client) Flush(ctx context.Context) error {
	for i := range c.lanes {
		for _, p := range c.lanes[i].pending() {
			select {
			case <-p.Done():
			case <-ctx.Done():
				return fmt.Errorf("flush: %w", ctx.Err())
			}
		}
	}
	return nil
}

// failed is a publish that never left.
func failed(pub *Publication, err error) *pending {
	p := &pending{}
	p.pub = *pub
	p.finish(Ack{}, err)
	return p
}

// Wait is that of Pending.
func (p *pending) Wait(ctx context.Context) (Ack, error) {
	if !p.over.Load() {
		select {
		case <-p.waited():
		case <-p.ctx.Done():
			p.expire()
		case <-ctx.Done():
			if p.ctx.Err() != nil {
				p.expire()
			}
		}
	}
	if !p.over.Load() {
		return Ack{}, fmt.Errorf("%s: %w", p.what(), ctx.Err())
	}
	return p.ack, p.err
}

// Done is that of Pending.
func (p *pending) Done() <-chan struct{} {
	done := p.waited()
	if p.lane != nil {
		p.lane.watch(p)
	}
	return done
}

// Result is that of Pending.
func (p *pending) Result() (ack Ack, ok bool, err error) {
	if !p.over.Load() && p.ctx.Err() != nil {
		p.expire()
	}
	if !p.over.Load() {
		return Ack{}, false, nil
	}
	return p.ack, true, p.err
}

// Key is that of Pending.
func (p *pending) Key() []byte {
	if len(p.pub.Key) > 0 || p.lane == nil {
		return p.pub.Key
	}
	return p.lane.c.appendKey(nil, p.counter)
}

func (c *Client) appendKey(b []byte, counter uint64) []byte {
	b = append(b, c.self.Instance[:]...)
	return binary.BigEndian.AppendUint64(b, counter)
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// waited is the channel that finish closes.
func (p *pending) waited() <-chan struct{} {
	if p.over.Load() {
		return closedChan
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	if p.over.Load() {
		return closedChan
	}
	if p.done == nil {
		p.done = make(chan struct{})
	}
	return p.done
}

// expire ends the publish because its ctx has ended.
func (p *pending) expire() {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.lane.expire(p)
}

// finish sets the result, under lane.mu.
func (p *pending) finish(ack Ack, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", p.what(), err)
	}
	p.ack, p.err = ack, err
	p.pub.Payload, p.pub.Conditions = nil, nil // not ours any more
	p.over.Store(true)
	if p.done != nil {
		close(p.done)
	}
	p.admit()
	if p.unwatch != nil && p.unwatch() {
		p.lane.c.watchers.Done()
	}
}

// admit lets a waiting Publish go on, under lane.mu.
func (p *pending) admit() {
	if p.admitted != nil {
		close(p.admitted)
		p.admitted = nil
	}
}

func (p *pending) what() string {
	if p.pub.To != 0 {
		return fmt.Sprintf("send to %d", p.pub.To)
	}
	return fmt.Sprintf("publish %q", p.pub.Topic)
}

// validate refuses what the registry would refuse for its form.
func (c *Client) validate(p *Publication) error {
	f := protocol.Publish{
		Key: p.Key, Topic: p.Topic, To: p.To, Payload: p.Payload, Conditions: p.Conditions,
	}
	if len(f.Key) == 0 {
		f.Key = c.self.Instance[:]
	}
	if p.Slot != "" {
		f.Slot = []byte(p.Slot)
	}
	return f.Check(protocol.Limits{Payload: c.maxPayload.Load()})
}
