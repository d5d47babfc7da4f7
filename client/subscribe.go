package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// SubscribeOption varies one subscription. Of several starts the last counts.
type SubscribeOption func(*Start)

// Start is what the options of a subscription come to. Transports of their own
// find it with [StartOf].
type Start struct {
	Kind   protocol.StartKind
	Epoch  protocol.EpochID // of After; 0 = whatever the log's is
	After  protocol.Seq
	Since  protocol.Time
	Buffer int // messages held for the reader; 0 = the transport's default
}

// StartOf puts options together.
func StartOf(opts ...SubscribeOption) Start {
	var s Start
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// FromNew begins with what comes after; it is the default.
func FromNew() SubscribeOption { return start(protocol.StartNew, 0, 0, 0) }

// FromLast begins with the newest message of each topic.
func FromLast() SubscribeOption { return start(protocol.StartLast, 0, 0, 0) }

// FromAll begins with all that is retained.
func FromAll() SubscribeOption { return start(protocol.StartAll, 0, 0, 0) }

// FromSeq begins with all that is retained behind seq n, in whatever epoch.
func FromSeq(n protocol.Seq) SubscribeOption { return start(protocol.StartAfter, 0, n, 0) }

// FromPosition goes on where another subscription ended, also one of an earlier
// process: what retention took meanwhile is a gap, and where the log is another
// one by now, its epoch comes first and then all of it.
func FromPosition(epoch protocol.EpochID, n protocol.Seq) SubscribeOption {
	return start(protocol.StartAfter, epoch, n, 0)
}

// Since begins with all that is retained from a registry time on.
func Since(t time.Time) SubscribeOption {
	return start(protocol.StartSince, 0, 0, protocol.TimeOf(t))
}

func start(kind protocol.StartKind, epoch protocol.EpochID, after protocol.Seq, since protocol.Time) SubscribeOption {
	return func(s *Start) { s.Kind, s.Epoch, s.After, s.Since = kind, epoch, after, since }
}

// Buffer is how many messages this subscription holds for its reader, instead of
// Options.Buffer.
func Buffer(n int) SubscribeOption {
	return func(s *Start) { s.Buffer = n }
}

// Subscribe opens a subscription to a topic, to "*" for all, or to "prefix.*" or
// "prefix:*"; ctx bounds only the opening. It goes on until Close, over lost
// connections too. The Stream is a *Subscription.
//
// Errors: ErrInvalidPattern, ErrDenied, ErrLimit, ErrNotConnected with that of
// ctx while there is no connection, and that of ctx.
func (c *Client) Subscribe(ctx context.Context, pattern string, opts ...SubscribeOption) (Stream, error) {
	s, err := c.OpenSubscription(ctx, pattern, opts...)
	if err != nil {
		return nil, err // a nil Stream, not a nil *Subscription in one
	}
	return s, nil
}

// OpenSubscription is Subscribe with more to ask of what it returns.
func (c *Client) OpenSubscription(ctx context.Context, pattern string, opts ...SubscribeOption) (*Subscription, error) {
	if err := protocol.ValidPattern(pattern); err != nil {
		return nil, fmt.Errorf("subscribe %q: %w", pattern, err)
	}
	s, err := c.subscribe(ctx, position{source: protocol.SourcePattern, pattern: pattern}, opts)
	if err != nil {
		return nil, fmt.Errorf("subscribe %q: %w", pattern, err)
	}
	return s, nil
}

// SubscribeInbox opens a subscription to the topics this node has joined, and to
// direct messages to it.
func (c *Client) SubscribeInbox(ctx context.Context, opts ...SubscribeOption) (*Subscription, error) {
	s, err := c.subscribe(ctx, position{source: protocol.SourceInbox}, opts)
	if err != nil {
		return nil, fmt.Errorf("subscribe to inbox: %w", err)
	}
	return s, nil
}

func (c *Client) subscribe(ctx context.Context, pos position, opts []SubscribeOption) (*Subscription, error) {
	o := StartOf(append([]SubscribeOption{Buffer(c.o.Buffer)}, opts...)...)
	pos.start, pos.epoch.ID, pos.seq, pos.since = o.Kind, o.Epoch, o.After, o.Since
	s := newSubscription(c, pos, max(1, o.Buffer))
	if ctx.Err() != nil {
		return nil, c.givenUp(ctx)
	}
	if err := c.enter(s); err != nil {
		return nil, err
	}
	select {
	case <-s.opened:
		return s, s.failed()
	case <-s.done:
		return nil, s.failed()
	case <-ctx.Done():
		s.Close()
		return nil, c.givenUp(ctx)
	}
}

// enter makes s one of the client's subscriptions.
func (c *Client) enter(s *Subscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hard != nil {
		return c.hard
	}
	if len(c.subs) >= maxSubscriptions {
		return protocol.Errorf(protocol.ErrLimit, "%d subscriptions, a client's maximum", maxSubscriptions)
	}
	if n := c.conn; n != nil {
		if most := n.welcome.Limits.Subscriptions; most > 0 && uint64(len(c.subs)) >= most {
			return protocol.Errorf(protocol.ErrLimit, "%d subscriptions, the registry's maximum", most)
		}
		n.tasks.Go(func() { s.follow(n) })
	}
	c.subs[s] = struct{}{}
	return nil
}

// leave is the opposite of enter.
func (c *Client) leave(s *Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subs, s)
}

// Messages yields the messages of any stream and leaves out the other items. An
// error ends it and is yielded last, unless the stream was closed.
func Messages(ctx context.Context, s Stream) iter.Seq2[*protocol.Message, error] {
	return func(yield func(*protocol.Message, error) bool) {
		for {
			item, err := s.Next(ctx)
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil:
				yield(nil, err)
				return
			case item.Kind == ItemMessage && !yield(item.Message, nil):
				return
			}
		}
	}
}
