package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	// sendBatch is how many bytes of publishes are encoded at a time: enough to
	// fill packets, little enough to let the lock go soon.
	sendBatch = 32 << 10

	// keepBatch is the largest buffer that is worth keeping.
	keepBatch = 256 << 10
)

// lane is one order of publishes. Callers put them in; on each connection one
// goroutine writes them to a channel and one reads the answers. The lock is the
// only thing they share, since a hand-over for each publish would cost more
// than the publish.
type lane struct {
	c     *Client
	which protocol.Lane
	wake  chan struct{} // a token when there may be something to write

	mu     sync.Mutex
	box    outbox
	online bool  // a channel is open
	held   bool  // the registry is draining: nothing new
	going  error // of a publish that the registry, about to go, gave back
	refuse error // why nothing is taken: the client is closed, or a hard error
	epoch  protocol.EpochID
	frame  protocol.Publish // being encoded
}

func (l *lane) init(c *Client, which protocol.Lane) {
	l.c, l.which = c, which
	l.wake = make(chan struct{}, 1)
	l.box.window = c.o.Window
}

// publish puts a publish into the lane, waiting for a place if it must.
func (l *lane) publish(ctx context.Context, pub Publication) *pending {
	p := &pending{lane: l, ctx: ctx}
	p.pub, p.owner = pub, p
	p.counter = l.c.keys.Add(1)
	if admitted := l.add(p); admitted != nil {
		select {
		case <-admitted:
		case <-ctx.Done():
			p.expire()
		}
	}
	return p
}

// add is nil when there was a place, or a channel to wait for.
func (l *lane) add(p *pending) (admitted <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		l.fail(p, l.overdue(p, err))
		return nil
	}
	if l.refuse != nil {
		l.fail(p, l.refuse)
		return nil
	}
	if l.box.add(&p.entry) {
		l.signal()
		return nil
	}
	p.admitted = make(chan struct{})
	admitted = p.admitted
	if !l.online {
		l.sweep() // nobody else looks at the contexts
	}
	return admitted
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// sweep withdraws publishes whose ctx has ended.
func (l *lane) sweep() {
	l.box.all(func(e *entry) { l.expire(e.owner) })
	l.admit()
}

// admit gives free places to those that wait for one.
func (l *lane) admit() {
	for e := l.box.admit(); e != nil; e = l.box.admit() {
		e.owner.admit()
		l.signal()
	}
}

// expire withdraws a publish if its ctx has ended.
func (l *lane) expire(p *pending) {
	if p.over.Load() || p.ctx.Err() == nil {
		return
	}
	err := l.overdue(p, p.ctx.Err())
	l.box.withdraw(&p.entry)
	l.fail(p, err)
	l.admit()
}

// overdue is the error of a publish whose ctx ended with cause.
func (l *lane) overdue(p *pending, cause error) error {
	switch {
	case p.left():
		return fmt.Errorf("%w: %w", protocol.ErrUnknownOutcome, cause)
	case !l.online:
		return fmt.Errorf("%w: %w", l.c.offline(), cause)
	case l.held:
		return fmt.Errorf("%w: %w", protocol.ErrDraining, cause)
	}
	return cause
}

func (l *lane) fail(p *pending, err error) {
	l.c.stats.failed.Add(1)
	p.finish(Ack{}, err)
}

// watch withdraws a publish when its ctx ends though nobody calls Wait.
func (l *lane) watch(p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over.Load() || p.unwatch != nil || p.ctx.Done() == nil {
		return
	}
	l.c.watchers.Add(1)
	p.unwatch = context.AfterFunc(p.ctx, func() {
		defer l.c.watchers.Done()
		p.expire()
	})
}

func (l *lane) pending() []*pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*pending
	l.box.all(func(e *entry) { list = append(list, e.owner) })
	return list
}

// attach begins a new channel and returns how many publishes go again.
func (l *lane) attach(epoch protocol.EpochID, flight uint64) (again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep() // while the reason is still that there was no connection
	l.online, l.held, l.going, l.epoch = true, false, nil, epoch
	l.take()
	l.box.flight = int(min(flight, uint64(l.c.o.Window)))
	l.box.window = l.box.flight
	again = l.box.reset()
	l.admit()
	l.signal()
	return again
}

// accept takes publishes again after failAll.
func (l *lane) accept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take()
}

func (l *lane) take() {
	if !errors.Is(l.refuse, errClosed) {
		l.refuse = nil
	}
}

func (l *lane) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.online = false
}

// hold stops sending on the present channel.
func (l *lane) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// failAll fails what is there and what comes, until attach.
func (l *lane) failAll(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(l.refuse, errClosed) {
		l.refuse = err
	}
	l.box.all(func(e *entry) {
		why := err
		if e.owner.left() {
			why = fmt.Errorf("%w: %w", protocol.ErrUnknownOutcome, err)
		}
		l.box.withdraw(e)
		l.fail(e.owner, why)
	})
}

// write sends publishes until the channel, which it opens for the first, or ctx
// ends. It tells due when answers become due.
func (l *lane) write(ctx context.Context, open func() (*link.Channel, error), due func()) (err error) {
	var ch *link.Channel
	var b []byte
	for {
		b = l.fill(b[:0])
		if len(b) == 0 {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		due()
		if ch == nil {
			if ch, err = open(); err != nil {
				return err
			}
		}
		if err := ch.SendContext(ctx, b); err != nil {
			return err
		}
		if cap(b) > keepBatch {
			b = nil
		}
	}
}

// owed reports whether a publish on the channel waits for its answer.
func (l *lane) owed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.online && l.box.inAir > 0
}

// fill appends the frames of what may be sent now, up to a batch.
func (l *lane) fill(b []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := protocol.Seq(l.c.head.Load())
	for !l.held && len(b) < sendBatch {
		e := l.box.next()
		if e == nil {
			break
		}
		if e.owner.ctx.Err() != nil {
			l.expire(e.owner)
			continue
		}
		l.box.send(e, l.epoch, head)
		b = l.append(b, e)
	}
	return b
}

func (l *lane) append(b []byte, e *entry) []byte {
	f := &l.frame
	f.N, f.Flags, f.Epoch, f.Head = e.n, 0, e.epoch, e.head
	if e.resend {
		f.Flags |= protocol.FlagResend
		l.c.stats.resent.Add(1)
	}
	if e.pub.Join {
		f.Flags |= protocol.FlagJoin
	}
	if len(e.pub.Key) > 0 {
		f.Key = append(f.Key[:0], e.pub.Key...)
	} else {
		f.Key = l.c.appendKey(f.Key[:0], e.counter)
	}
	f.Topic, f.Payload = e.pub.Topic, e.pub.Payload
	f.Slot = append(f.Slot[:0], e.pub.Slot...)
	f.To, f.Origin = e.pub.To, e.pub.Origin
	f.Conditions = e.pub.Conditions
	l.c.stats.sent.Add(uint64(len(f.Payload)))
	b = protocol.AppendFrame(b, f)
	f.Payload, f.Conditions = nil, nil
	return b
}

// read takes answers until the channel ends.
func (l *lane) read(ch *link.Channel) error {
	var acks protocol.Acks
	for {
		body, err := ch.Next()
		if err != nil {
			return ended("publish channel", err)
		}
		if err := l.answer(body, &acks); err != nil {
			return err
		}
	}
}

// ended makes an error of an orderly end that was not due.
func ended(what string, err error) error {
	if errors.Is(err, io.EOF) {
		return protocol.Errorf(protocol.ErrNotConnected, "the registry ended the %s", what)
	}
	return err
}

func (l *lane) answer(body []byte, acks *protocol.Acks) error {
	t, err := protocol.PeekType(body)
	if err != nil {
		return err
	}
	if t == protocol.TypeAcks {
		if err := acks.Parse(body); err != nil {
			return err
		}
		return l.acked(acks.List)
	}
	f, err := protocol.Parse(body)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *protocol.Refuse:
		return l.refused(f)
	case *protocol.Fail:
		return f.Err()
	}
	return protocol.Errorf(protocol.ErrMalformed, "frame of type %d on a publish channel", t)
}

func (l *lane) acked(list []protocol.Ack) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var head protocol.Seq
	for _, a := range list {
		e := l.box.answer(a.N)
		if e == nil {
			return unasked(a.N)
		}
		head = max(head, a.Seq)
		if e.stage == finished {
			l.c.stats.acked.Add(1)
			e.owner.finish(Ack{Seq: a.Seq, Time: a.Time.Time(), Epoch: l.epoch, Duplicate: a.Duplicate}, nil)
		}
	}
	l.c.seen(head)
	return l.answered()
}

// answered goes on after answers came.
func (l *lane) answered() error {
	l.admit()
	if l.box.queued.len() > 0 {
		l.signal()
	}
	return l.gone()
}

func (l *lane) refused(f *protocol.Refuse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Code == protocol.ErrDraining {
		return l.givenBack(f)
	}
	e := l.box.answer(f.N)
	if e == nil {
		return unasked(f.N)
	}
	if f.Code == protocol.ErrRateLimited {
		l.c.events.emit(RateLimited{Topic: e.pub.Topic, RetryAfter: f.RetryAfter})
	}
	if e.stage == finished {
		l.c.stats.refused.Add(1)
		e.owner.finish(Ack{}, f.Err())
	}
	return l.answered()
}

// givenBack keeps a publish for the next session, which begins once this one has
// no other answer to give.
func (l *lane) givenBack(f *protocol.Refuse) error {
	if l.box.giveBack(f.N) == nil {
		return unasked(f.N)
	}
	l.held, l.going = true, f.Err()
	return l.gone()
}

// gone is the error that ends a session which takes no publishes any more, once
// all others are answered.
func (l *lane) gone() error {
	if l.going == nil || !l.box.settled() {
		return nil
	}
	return l.going
}

func unasked(n uint64) error {
	return protocol.Errorf(protocol.ErrMalformed, "answer to publish %d, which is not open", n)
}
