package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// SubscribeOption varies one subscription.
type SubscribeOption func(*subscribeOptions)

type subscribeOptions struct {
	start  protocol.StartKind
	after  protocol.Seq
	since  protocol.Time
	buffer int
}

// FromNew begins with what comes after; it is the default.
func FromNew() SubscribeOption {
	return func(o *subscribeOptions) { o.start = protocol.StartNew }
}

// FromLast begins with the newest message of each topic.
func FromLast() SubscribeOption {
	return func(o *subscribeOptions) { o.start = protocol.StartLast }
}

// FromAll begins with all that is retained.
func FromAll() SubscribeOption {
	return func(o *subscribeOptions) { o.start = protocol.StartAll }
}

// FromSeq begins with all that is retained behind seq n of the present epoch.
func FromSeq(n protocol.Seq) SubscribeOption {
	return func(o *subscribeOptions) { o.start, o.after = protocol.StartAfter, n }
}

// Since begins with all that is retained from a registry time on.
func Since(t time.Time) SubscribeOption {
	return func(o *subscribeOptions) { o.start, o.since = protocol.StartSince, protocol.TimeOf(t) }
}

// Buffer is how many messages this subscription holds for its reader.
func Buffer(n int) SubscribeOption {
	return func(o *subscribeOptions) { o.buffer = n }
}

// Subscription is an open subscription of a Client.
type Subscription struct{}

// SubscriptionStats are counters of one subscription.
type SubscriptionStats struct {
	Delivered uint64
	Gaps      uint64
	Invalid   uint64 // messages skipped for an invalid topic
	Resumes   uint64
}

// Subscribe opens a subscription; ctx bounds only the opening. The Stream is a
// *Subscription.
func (c *Client) Subscribe(ctx context.Context, pattern string, opts ...SubscribeOption) (Stream, error) {
	return nil, errors.ErrUnsupported
}

// OpenSubscription is Subscribe with more to ask of what it returns.
func (c *Client) OpenSubscription(ctx context.Context, pattern string, opts ...SubscribeOption) (*Subscription, error) {
	return nil, errors.ErrUnsupported
}

// SubscribeInbox opens a subscription to the topics this node has joined, and to
// direct messages to it.
func (c *Client) SubscribeInbox(ctx context.Context, opts ...SubscribeOption) (*Subscription, error) {
	return nil, errors.ErrUnsupported
}

// Next waits for the next item, see [Stream].
func (s *Subscription) Next(ctx context.Context) (Item, error) { return Item{}, errors.ErrUnsupported }

// Messages yields the messages and leaves out the other items.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[*protocol.Message, error] {
	return Messages(ctx, s)
}

// Close ends the subscription. It is idempotent.
func (s *Subscription) Close() error { return nil }

// Pattern is what was subscribed to; "" is the inbox.
func (s *Subscription) Pattern() string { return "" }

// Narrowed reports whether the pattern also matches topics that this node may
// not read; they are left out.
func (s *Subscription) Narrowed() bool { return false }

// Position is how far the log was scanned for what Next has handed over or will:
// FromSeq of it, in this epoch, goes on from here.
func (s *Subscription) Position() (protocol.EpochID, protocol.Seq) { return 0, 0 }

// Stats reads the counters.
func (s *Subscription) Stats() SubscriptionStats { return SubscriptionStats{} }

// Messages yields the messages of any stream and leaves out the other items. The
// first error ends it and is yielded, unless the stream was closed.
func Messages(ctx context.Context, s Stream) iter.Seq2[*protocol.Message, error] {
	return func(yield func(*protocol.Message, error) bool) {}
}
