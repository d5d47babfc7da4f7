package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// Subscription is an open subscription of a Client. Its methods may be called
// from any goroutine; of several in Next each item goes to one.
//
// It holds a bounded number of messages. When its reader is slower than that, the
// registry keeps its place in the log; nothing else waits for it.
type Subscription struct {
	c      *Client
	buffer int
	opened chan struct{} // closed when the registry has accepted it
	done   chan struct{} // closed by end
	ready  chan struct{} // a token when there may be an item
	room   chan struct{} // a token when there may be room

	mu       sync.Mutex
	pos      position
	taken    position // of what Next has handed over: epoch and seq
	narrowed bool
	accepted bool
	items    queue[Item]
	messages int // in items
	bytes    int
	ended    bool
	err      error // what Next gives after the items
	ch       *link.Channel
	stats    SubscriptionStats

	last string // topic of the last message; owned by follow
}

// SubscriptionStats are counters of one subscription.
type SubscriptionStats struct {
	Delivered uint64 // messages made ready for Next
	Gaps      uint64
	Invalid   uint64 // messages skipped for an invalid topic
	Resumes   uint64
}

func newSubscription(c *Client, pos position, buffer int) *Subscription {
	return &Subscription{
		c: c, pos: pos, taken: pos, buffer: buffer,
		opened: make(chan struct{}),
		done:   make(chan struct{}),
		ready:  make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
	}
}

// Next waits for the next item. What is at hand is given even if ctx has ended
// already. After Close, and after the Client was closed, the error is
// net.ErrClosed; when the registry has ended the subscription, its refusal.
// When ctx ends first the error is ctx.Err(), and the subscription goes on.
func (s *Subscription) Next(ctx context.Context) (Item, error) {
	for {
		if item, ok, err := s.take(); ok || err != nil {
			return item, err
		}
		select {
		case <-s.ready:
		case <-s.done:
		case <-ctx.Done():
			return Item{}, ctx.Err()
		}
	}
}

func (s *Subscription) take() (item Item, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items.len() == 0 {
		return Item{}, false, s.err
	}
	item = s.items.pop()
	if s.items.len() > 0 {
		token(s.ready) // for another one in Next
	}
	s.pass(&item)
	return item, true, nil
}

// pass notes that an item was handed over.
func (s *Subscription) pass(item *Item) {
	switch item.Kind {
	case ItemMessage:
		s.taken.seq = item.Message.Seq
		s.messages--
		s.bytes -= size(item.Message)
		token(s.room)
	case ItemCaughtUp:
		s.taken.seq = max(s.taken.seq, item.Seq)
	case ItemEpoch:
		s.taken.seq = 0
	case ItemGap, ItemDisconnected:
	}
	s.taken.epoch = item.Epoch
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Messages yields the messages and leaves out the other items. An error ends it
// and is yielded last, unless the subscription was closed.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[*protocol.Message, error] {
	return Messages(ctx, s)
}

// Close ends the subscription and drops what Next has not taken. It is
// idempotent.
func (s *Subscription) Close() error {
	s.end(errClosed, true)
	return nil
}

// Pattern is what was subscribed to; "" is the inbox.
func (s *Subscription) Pattern() string { return s.pos.pattern }

// Narrowed reports whether the pattern also matches topics that this node may
// not read; they are left out.
func (s *Subscription) Narrowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.narrowed
}

// Position is how far the log was scanned for what Next has handed over:
// FromPosition of it goes on behind it.
func (s *Subscription) Position() (protocol.EpochID, protocol.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken.epoch.ID, s.taken.seq
}

// Stats reads the counters.
func (s *Subscription) Stats() SubscriptionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// end ends the subscription for good. With drop Next gives err at once, else
// after the items it has.
func (s *Subscription) end(err error, drop bool) {
	s.mu.Lock()
	ch := s.ch
	if !s.ended {
		s.ended, s.err = true, err
		close(s.done)
	}
	if drop {
		s.err, s.items = err, queue[Item]{}
	}
	s.mu.Unlock()
	if ch != nil {
		ch.Reset(0)
	}
	s.c.leave(s)
}

func (s *Subscription) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// unavailable ends a subscription that is not open yet, and every one if the
// client was closed.
func (s *Subscription) unavailable(err error) {
	s.mu.Lock()
	open := s.accepted
	s.mu.Unlock()
	if closed := errors.Is(err, errClosed); closed || !open {
		s.end(err, closed)
	}
}

// follow reads the subscription on a connection until that ends.
func (s *Subscription) follow(n *connection) {
	for retry := newBackoff(); ; {
		err := s.read(n)
		switch {
		case isFault(err): // also of one that was closed meanwhile
			n.fail(err)
			return
		case n.ctx.Err() != nil || s.over():
			return
		case s.refused(err):
			s.end(err, false)
			return
		}
		if !sleep(n.ctx, max(retryAfter(err), retry.NextBackOff())) {
			return
		}
	}
}

func (s *Subscription) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// passing are refusals after which an open subscription tries again.
var passing = []protocol.Code{
	protocol.ErrInternal, protocol.ErrRateLimited, protocol.ErrDraining, protocol.ErrLimit,
	protocol.ErrStorageFull, protocol.ErrTimeout, protocol.ErrNotConnected,
}

// refused reports whether err is the end of the subscription.
func (s *Subscription) refused(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refusal *refusal
	if !errors.As(err, &refusal) {
		return false
	}
	return !s.accepted || !slices.Contains(passing, protocol.CodeOf(err))
}

// refusal is what the registry said about one subscription.
type refusal struct{ err *protocol.Error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// isFault reports whether the other side does not keep to the protocol, or is mute.
func isFault(err error) bool {
	var refusal *refusal
	code := protocol.CodeOf(err)
	return !errors.As(err, &refusal) &&
		(code == protocol.ErrMalformed || code == protocol.ErrTooLarge || code == protocol.ErrTimeout)
}

func retryAfter(err error) time.Duration {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// read opens a channel for the subscription and takes what comes on it.
func (s *Subscription) read(n *connection) error {
	ch, err := s.open(n)
	if ch != nil {
		defer ch.Reset(0)
	}
	if err != nil {
		return err
	}
	for err == nil {
		var body []byte
		if body, err = ch.Next(); err == nil {
			err = s.frame(n, body)
		}
	}
	s.disconnected()
	if errors.Is(err, io.EOF) {
		err = protocol.Errorf(protocol.ErrNotConnected, "the registry ended the subscription")
	}
	return err
}

// open makes the channel and waits for the registry's word on it.
func (s *Subscription) open(n *connection) (*link.Channel, error) {
	ctx, cancel := context.WithTimeoutCause(n.ctx, replyTime, errMute)
	defer cancel()
	n.opening.Add(1)
	defer n.opening.Add(-1)
	n.due()
	ch, err := n.s.Open(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errMute) {
		return nil, &refusal{protocol.Errorf(protocol.ErrLimit, "the registry takes no more channels")}
	}
	if err != nil {
		return nil, err
	}
	if !s.use(ch) {
		return ch, errClosed
	}
	ch.SetMaxFrame(n.welcome.Limits.MaxFrame())
	request := s.request()
	if err := ch.SendContext(ctx, protocol.AppendFrame(nil, &request)); err != nil {
		return ch, causeOf(ctx, err)
	}
	body, err := nextContext(ctx, ch)
	if err != nil {
		return ch, err
	}
	f, err := protocol.Parse(body)
	if err != nil {
		return ch, err
	}
	switch f := f.(type) {
	case *protocol.Subscribed:
		return ch, s.accept(n, f)
	case *protocol.Fail:
		return ch, &refusal{f.Err()}
	}
	return ch, protocol.Errorf(protocol.ErrMalformed, "subscribe answered by a frame of type %d", f.Type())
}

// use notes the present channel, for end.
func (s *Subscription) use(ch *link.Channel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ch = ch
	return !s.ended
}

func (s *Subscription) request() protocol.Subscribe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pos.request()
}

func (s *Subscription) accept(n *connection, f *protocol.Subscribed) error {
	s.mu.Lock()
	again := s.accepted
	s.mu.Unlock()
	if !again {
		defer close(s.opened)
	}
	return s.put(n, func() (Item, bool) {
		s.narrowed = f.Narrowed
		s.accepted = true
		if again {
			s.stats.Resumes++
		} else {
			s.taken.epoch = f.Epoch
			s.taken.seq = f.Position
		}
		return Item{Kind: ItemEpoch}, s.pos.accepted(f.Epoch, f.Position)
	})
}

// frame takes one frame. body is valid only during the call.
func (s *Subscription) frame(n *connection, body []byte) error {
	t, err := protocol.PeekType(body)
	if err != nil {
		return err
	}
	if t == protocol.TypeDeliver {
		return s.deliver(n, body)
	}
	f, err := protocol.Parse(body)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *protocol.CaughtUp:
		return s.caughtUp(n, f)
	case *protocol.Gap:
		return s.gap(n, f)
	case *protocol.Fail:
		return &refusal{f.Err()}
	}
	return protocol.Errorf(protocol.ErrMalformed, "frame of type %d on a subscription", t)
}

func (s *Subscription) deliver(n *connection, body []byte) error {
	// One copy that payload and key share, one message: a reader of one topic
	// costs no more.
	f := &protocol.Deliver{Message: protocol.Message{Topic: s.last}}
	if err := f.Parse(bytes.Clone(body)); err != nil {
		return err
	}
	m := &f.Message
	if !s.valid(m) {
		s.skip(m)
		return nil
	}
	s.last = m.Topic
	s.c.seen(m.Seq)
	return s.put(n, func() (Item, bool) {
		if !s.pos.pass(m.Seq) {
			return Item{}, false
		}
		s.messages++
		s.bytes += size(m)
		s.stats.Delivered++
		s.c.stats.delivered.Add(1)
		s.c.stats.received.Add(uint64(len(m.Payload)))
		return Item{Kind: ItemMessage, Message: m}, true
	})
}

// valid reports whether a message is for this subscription at all.
func (s *Subscription) valid(m *protocol.Message) bool {
	if m.Topic == "" {
		return m.To == s.c.self.Node && s.pos.source == protocol.SourceInbox
	}
	return m.Topic == s.last || protocol.ValidTopic(m.Topic) == nil
}

// skip passes a message by.
func (s *Subscription) skip(m *protocol.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos.pass(m.Seq)
	s.stats.Invalid++
	s.c.stats.invalid.Add(1)
}

func (s *Subscription) caughtUp(n *connection, f *protocol.CaughtUp) error {
	s.c.seen(f.Seq)
	s.c.events.emit(CaughtUp{Pattern: s.pos.pattern, Seq: f.Seq})
	return s.put(n, func() (Item, bool) {
		s.pos.caughtUp(f.Seq)
		return Item{Kind: ItemCaughtUp, Seq: f.Seq, Fence: f.Fence}, true
	})
}

func (s *Subscription) gap(n *connection, f *protocol.Gap) error {
	s.c.events.emit(Gap{Pattern: s.pos.pattern, From: f.From, To: f.To})
	s.c.stats.gaps.Add(1)
	return s.put(n, func() (Item, bool) {
		s.stats.Gaps++
		return Item{Kind: ItemGap, From: f.From, To: f.To}, true
	})
}

// put waits for room, then queues the item that step gives, if it gives one.
// step runs under the lock: position and queue change together.
func (s *Subscription) put(n *connection, step func() (Item, bool)) error {
	s.mu.Lock()
	for s.full() && !s.ended {
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-s.done:
		case <-n.ctx.Done():
			return fmt.Errorf("deliver: %w", context.Cause(n.ctx))
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.ended {
		return errClosed
	}
	if item, ok := step(); ok {
		s.push(item)
	}
	return nil
}

// full is under mu.
func (s *Subscription) full() bool {
	return s.messages >= s.buffer || s.messages > 0 && s.bytes >= s.c.o.BufferBytes
}

// push is under mu.
func (s *Subscription) push(item Item) {
	item.Epoch = s.pos.epoch
	s.items.push(item)
	token(s.ready)
}

// disconnected tells the reader that what it has may be old. It needs no room:
// there is never more than one of it at the end of the queue.
func (s *Subscription) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.items.len(); s.ended || n > 0 && s.items.at(n-1).Kind == ItemDisconnected {
		return
	}
	s.push(Item{Kind: ItemDisconnected})
}

// size is what a message counts for in bytes.
func size(m *protocol.Message) int { return len(m.Payload) }
