package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Info is what a registry tells about itself.
type Info struct {
	Epoch         protocol.Epoch
	Head          protocol.Seq
	Now, Started  time.Time
	Nodes         uint64 // known nodes
	Online        uint64 // nodes with a session
	Sessions      uint64
	Subscriptions uint64
	Topics        uint64
	Messages      uint64 // retained
	Bytes         uint64 // retained payload bytes
	Published     uint64 // accepted since the start
	Software      string
	Key           string // the registry's fingerprint
	Address       string // where this client reached it
	RTT           time.Duration
}

// Info asks about the registry.
func (c *Client) Info(ctx context.Context) (Info, error) { return Info{}, errors.ErrUnsupported }

// Fence asks for a topic's fence.
func (c *Client) Fence(ctx context.Context, topic string) (FenceState, error) {
	return FenceState{}, errors.ErrUnsupported
}

// SetFence puts a topic's fence to k, for operators.
func (c *Client) SetFence(ctx context.Context, topic string, epoch protocol.EpochID, k uint64) (FenceState, error) {
	return FenceState{}, errors.ErrUnsupported
}

// InboxOptions say what of the inbox to list.
type InboxOptions struct {
	After protocol.Seq // only what comes behind
	Topic string       // only this topic; empty = all, and direct messages
	Limit int          // newest messages looked at, besides each topic's newest 100; 0 = the registry's default
	All   bool         // also what was cleared
}

// InboxPage is a part of the inbox, in log order.
type InboxPage struct {
	Messages  []protocol.Message
	Truncated bool         // older retained messages were left out
	Head      protocol.Seq // of the log, for ClearInbox
	Epoch     protocol.EpochID
}

// Inbox lists retained messages of every topic this node has joined, and direct
// messages to it, page by page; there is always one page or an error.
func (c *Client) Inbox(ctx context.Context, o InboxOptions) iter.Seq2[*InboxPage, error] {
	return func(yield func(*InboxPage, error) bool) { yield(nil, errors.ErrUnsupported) }
}

// ClearInbox moves the inbox's cursor: messages up to upTo are not listed any more.
func (c *Client) ClearInbox(ctx context.Context, upTo protocol.Seq) error {
	return errors.ErrUnsupported
}

// Join adds topics to this node's inbox, for good.
func (c *Client) Join(ctx context.Context, topics ...string) error { return errors.ErrUnsupported }

// Leave takes topics out of this node's inbox.
func (c *Client) Leave(ctx context.Context, topics ...string) error { return errors.ErrUnsupported }

// Joined lists the topics this node has joined.
func (c *Client) Joined(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", errors.ErrUnsupported) }
}

// NodesOptions say which nodes to list.
type NodesOptions struct {
	Topic string // only nodes that joined this topic; empty = all
}

// Nodes lists the nodes that the registry knows, by rising id.
func (c *Client) Nodes(ctx context.Context, o NodesOptions) iter.Seq2[protocol.Node, error] {
	return func(yield func(protocol.Node, error) bool) { yield(protocol.Node{}, errors.ErrUnsupported) }
}

// Topics lists topics that have retained messages and match a pattern, "*" for all.
func (c *Client) Topics(ctx context.Context, pattern string) iter.Seq2[protocol.Topic, error] {
	return func(yield func(protocol.Topic, error) bool) { yield(protocol.Topic{}, errors.ErrUnsupported) }
}
