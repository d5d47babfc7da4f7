package client

import (
	"context"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Conn is what leader election and swarm configuration need of a connection. A
// [Client] is one; other transports can be.
type Conn interface {
	// Self tells who publishes here.
	Self() Self

	// Publish hands p over and returns without waiting for the answer. It blocks
	// only while too many publishes are unanswered, and until ctx ends. ctx also
	// bounds the wait for the answer: when it ends first, the Pending fails with
	// its error, and the outcome is unknown.
	Publish(ctx context.Context, p Publication) Pending

	// Subscribe opens a subscription; ctx bounds only the opening.
	Subscribe(ctx context.Context, pattern string, opts ...SubscribeOption) (Stream, error)

	// Fence asks for a topic's fence.
	Fence(ctx context.Context, topic string) (FenceState, error)

	// Capabilities tells what the transport can do.
	Capabilities() Capabilities
}

// Pending is a publish on its way. Its methods may be called from any goroutine.
type Pending interface {
	// Wait waits for the answer. When ctx ends first, the error is ctx.Err() and the
	// publish goes on.
	Wait(ctx context.Context) (Ack, error)

	// Done is closed when there is a result.
	Done() <-chan struct{}

	// Result tells the outcome; ok is false while there is none.
	Result() (ack Ack, ok bool, err error)

	// Key is the idempotency key. Where the outcome is unknown, publishing the same
	// message again under it cannot make a second copy, as long as the registry
	// remembers the key and its log has the same epoch.
	Key() []byte
}

// Self is the identity behind a Conn.
type Self struct {
	Node     protocol.NodeID
	Instance protocol.Instance
	Name     string
}

// Capabilities of a transport. Over one without Fences a fenced publish fails
// with errors.ErrUnsupported.
type Capabilities struct {
	Fences  bool // conditions are checked where messages are ordered
	Acks    bool // an answer means that the message is in the log
	Ordered bool // all readers see one order
	History bool // retained messages can be read
}

// Publication is one message to publish.
type Publication struct {
	Topic   string // empty for a direct message
	To      protocol.NodeID
	Payload []byte // not kept after the Pending is done; do not change it before

	// Slot, up to 32 bytes, makes the message take the place of this sender's
	// previous one with the same topic and slot.
	Slot string

	// Key is the idempotency key, up to 32 bytes. Empty: the client makes one from
	// its instance and a counter.
	Key []byte

	// Urgent publishes go over a channel of their own, ordered in itself only.
	Urgent bool

	// Join makes the registry add the topic to this node's inbox.
	Join bool

	// Origin needs the relay right.
	Origin protocol.NodeID

	Conditions []protocol.Condition
}

// Ack tells where a message is in the log.
type Ack struct {
	Seq       protocol.Seq
	Time      time.Time // registry time
	Epoch     protocol.EpochID
	Duplicate bool // it was there already, under the same key
}

// FenceState is a fence with the epoch in which it holds.
type FenceState struct {
	protocol.Fence
	Epoch protocol.Epoch
}

// Stream is an open subscription.
type Stream interface {
	// Next waits for the next item. What is at hand is given even if ctx has ended
	// already; leader election relies on that. After Close, and after the Conn was
	// closed, the error is net.ErrClosed; when ctx ends first, ctx.Err(), and the
	// stream goes on. Items come in log order.
	Next(ctx context.Context) (Item, error)

	// Close ends the subscription. It is idempotent.
	Close() error
}

// ItemKind says which fields of an Item are set.
type ItemKind int

// What a subscription hands over.
const (
	ItemMessage      ItemKind = iota + 1 // Message
	ItemCaughtUp                         // Seq, Fence: what came before is history
	ItemGap                              // From, To: messages in this range may be missing
	ItemEpoch                            // Epoch: the log was lost or replaced; seqs begin anew
	ItemDisconnected                     // the link was lost; the subscription goes on by itself
)

// Item is one thing that a subscription hands over, in order.
type Item struct {
	Kind     ItemKind
	Message  *protocol.Message // owned by the receiver
	Seq      protocol.Seq
	Fence    protocol.Fence
	From, To protocol.Seq
	Epoch    protocol.Epoch // on every kind: the epoch of what came
}
