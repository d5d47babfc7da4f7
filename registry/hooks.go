package registry

import (
	"net"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Hooks are for test doubles and failure tests: they look on and get in the way.
// A nil function does nothing and costs nothing.
//
// A hook runs in the goroutine that does the work, holds it up, and is called
// from several at once. It must not call the registry, but for Sessions and
// Disconnect. To play a crash at a point, cut the network there, so that nothing
// leaves any more, and close the registry from another goroutine.
type Hooks struct {
	// Before is asked before an operation; an error refuses it with its code. A
	// publish that is refused here was not seen by the registry: its key stays
	// unknown.
	Before func(Operation) error

	// BeforeStore sees what is about to enter the log; an error refuses all of it
	// as if the log had. AfterStore is called when it is in the log and nobody has
	// been told yet. The slice, but not the records, is the registry's.
	BeforeStore func([]*Record) error
	AfterStore  func([]*Record)

	// BeforeAck decides about the answer to one accepted publish: it leaves after
	// a delay, while later ones go on, or never. AfterAck is called when answers
	// were handed to the connection.
	BeforeAck func(node protocol.NodeID, a protocol.Ack) (delay time.Duration, drop bool)
	AfterAck  func(node protocol.NodeID, acks []protocol.Ack)

	// Mute holds back all that the registry sends to a node until the channel is
	// closed; nil lets it pass. Nothing is lost by it.
	Mute func(node protocol.NodeID) <-chan struct{}

	// Push is Mute for the messages of subscriptions alone.
	Push func(node protocol.NodeID) <-chan struct{}

	// Event is told what happens.
	Event func(Event)
}

// Op is something that a client asks for.
type Op int

// The operations.
const (
	OpConnect Op = iota + 1 // a hello, before admission
	OpPublish
	OpSubscribe
	OpGetFence
	OpSetFence
	OpJoin // or leave
	OpGetJoined
	OpGetInbox
	OpClearInbox
	OpGetInfo
	OpGetNodes
	OpGetTopics
	OpOperate // any request of operators but OpSetFence
)

// Operation is one thing that a client asks for.
type Operation struct {
	Op      Op
	Session uint64
	Node    protocol.NodeID
	Addr    net.Addr
	Topic   string // or pattern; of a Join the first topic

	// Publish is the publish itself, until the hook returns.
	Publish *protocol.Publish
}

// EventKind says what an Event tells.
type EventKind int

// The events.
const (
	EventSessionOpened  EventKind = iota + 1
	EventSessionRefused           // Err; before admission
	EventSessionClosed            // Err is why; nil: the client has closed it
	EventAccepted                 // a publish is in the log: Topic, Seq
	EventRefused                  // an operation was refused: Op, Topic, Err
	EventSubscribed               // Topic is the pattern, Seq the position
	EventUnsubscribed             // Topic is the pattern
	EventDelivered                // a message was handed to the connection: Topic, Seq
)

// Event is something that happened in the registry. Those of one session come in
// order, but for those of its lanes and subscriptions among each other.
type Event struct {
	Kind    EventKind
	Session uint64 // numbered from 1 on; 0 where there is none
	Node    protocol.NodeID
	Addr    net.Addr
	Op      Op
	Topic   string
	Seq     protocol.Seq
	Err     error
}

func (h *Hooks) before(op Operation) *protocol.Error {
	if h.Before == nil {
		return nil
	}
	return refusal(h.Before(op), protocol.ErrInternal)
}
