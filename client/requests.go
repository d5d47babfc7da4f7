package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// Requests wait for a connection until their ctx ends, and go again when one is
// lost before the answer.

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

	Key     string        // the registry's fingerprint
	Address string        // where this client reached it
	RTT     time.Duration // smoothed, of the connection
}

// Info asks about the registry.
func (c *Client) Info(ctx context.Context) (Info, error) {
	f, err := request[*protocol.InfoState](ctx, c, protocol.TypeInfoState, func(id uint64) protocol.Frame {
		return &protocol.GetInfo{ID: id}
	})
	if err != nil {
		return Info{}, fmt.Errorf("info: %w", err)
	}
	i := Info{
		Epoch: protocol.Epoch{ID: f.Epoch, Born: f.Born}, Head: f.Head,
		Now: f.Now.Time(), Started: f.Started.Time(),
		Nodes: f.Nodes, Online: f.Online, Sessions: f.Sessions, Subscriptions: f.Subscriptions,
		Topics: f.Topics, Messages: f.Messages, Bytes: f.Bytes, Published: f.Published,
		Software: f.Software,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.conn; n != nil {
		i.Key, i.Address, i.RTT = link.Fingerprint(n.s.PeerKey()), n.addr, n.s.RTT()
	}
	return i, nil
}

// Fence asks for a topic's fence.
func (c *Client) Fence(ctx context.Context, topic string) (FenceState, error) {
	f, err := request[*protocol.FenceState](ctx, c, protocol.TypeFenceState, func(id uint64) protocol.Frame {
		return &protocol.GetFence{ID: id, Topic: topic}
	})
	if err != nil {
		return FenceState{}, fmt.Errorf("fence of %q: %w", topic, err)
	}
	return c.fenceState(f), nil
}

// SetFence puts a topic's fence to k, which may be lower than it is: for
// operators. epoch must be the log's.
func (c *Client) SetFence(ctx context.Context, topic string, epoch protocol.EpochID, k uint64) (FenceState, error) {
	f, err := request[*protocol.FenceState](ctx, c, protocol.TypeFenceState, func(id uint64) protocol.Frame {
		return &protocol.SetFence{ID: id, Topic: topic, Epoch: epoch, K: k}
	})
	if err != nil {
		return FenceState{}, fmt.Errorf("set fence of %q: %w", topic, err)
	}
	return c.fenceState(f), nil
}

// fenceState adds the birth of the epoch, where the connection is of that epoch.
func (c *Client) fenceState(f *protocol.FenceState) FenceState {
	s := FenceState{Fence: protocol.Fence{K: f.K, S: f.S}, Epoch: protocol.Epoch{ID: f.Epoch}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.welcome.Epoch.ID == f.Epoch {
		s.Epoch = c.conn.welcome.Epoch
	}
	return s
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
}

// Inbox lists retained messages of every topic this node has joined, and direct
// messages to it, page by page. There is at least one page or an error, which
// ends the list.
func (c *Client) Inbox(ctx context.Context, o InboxOptions) iter.Seq2[*InboxPage, error] {
	return func(yield func(*InboxPage, error) bool) {
		for {
			f, err := request[*protocol.InboxPage](ctx, c, protocol.TypeInboxPage, o.frame)
			if err != nil {
				yield(nil, fmt.Errorf("inbox: %w", err))
				return
			}
			page := &InboxPage{Messages: f.Messages, Truncated: f.Truncated, Head: f.Head}
			if !yield(page, nil) || f.Next <= o.After {
				return
			}
			o.After = f.Next
		}
	}
}

func (o InboxOptions) frame(id uint64) protocol.Frame {
	return &protocol.GetInbox{ID: id, After: o.After, Limit: uint64(max(0, o.Limit)), Topic: o.Topic, All: o.All}
}

// ClearInbox moves the inbox's cursor: messages up to upTo are not listed any more.
func (c *Client) ClearInbox(ctx context.Context, upTo protocol.Seq) error {
	_, err := request[*protocol.Done](ctx, c, protocol.TypeDone, func(id uint64) protocol.Frame {
		return &protocol.ClearInbox{ID: id, UpTo: upTo}
	})
	if err != nil {
		return fmt.Errorf("clear inbox: %w", err)
	}
	return nil
}

// Join adds topics to this node's inbox, for good. Many topics go in parts, one
// after another: when one is refused those before it have been joined. Joining a
// topic again changes nothing.
func (c *Client) Join(ctx context.Context, topics ...string) error {
	if err := c.join(ctx, topics, false); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

// Leave takes topics out of this node's inbox, in parts as Join does.
func (c *Client) Leave(ctx context.Context, topics ...string) error {
	if err := c.join(ctx, topics, true); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

func (c *Client) join(ctx context.Context, topics []string, leave bool) error {
	for _, t := range topics {
		if err := protocol.ValidTopic(t); err != nil {
			return fmt.Errorf("%q: %w", t, err)
		}
	}
	for first := true; first || len(topics) > 0; first = false {
		n := joinable(topics)
		part := topics[:n]
		topics = topics[n:]
		_, err := request[*protocol.Done](ctx, c, protocol.TypeDone, func(id uint64) protocol.Frame {
			return &protocol.Join{ID: id, Topics: part, Leave: leave}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// joinable is how many of the topics fit into one frame. All registries take at
// least FrameOverhead, whatever payloads they allow.
func joinable(topics []string) int {
	const head, topicHead = 64, 3
	room := protocol.FrameOverhead - head
	for i, t := range topics {
		if room -= topicHead + len(t); room < 0 || i == protocol.MaxJoin {
			return i
		}
	}
	return len(topics)
}

// Joined lists the topics this node has joined, in byte order. An error ends the
// list.
func (c *Client) Joined(ctx context.Context) iter.Seq2[string, error] {
	return paged(func(after string) ([]string, string, error) {
		f, err := request[*protocol.JoinedPage](ctx, c, protocol.TypeJoinedPage, func(id uint64) protocol.Frame {
			return &protocol.GetJoined{ID: id, After: after}
		})
		if err != nil {
			return nil, "", fmt.Errorf("joined topics: %w", err)
		}
		return f.Topics, f.Next, nil
	})
}

// NodesOptions say which nodes to list.
type NodesOptions struct {
	Topic string // only nodes that joined this topic; empty = all
}

// Nodes lists the nodes that the registry knows, by rising id. An error ends the
// list.
func (c *Client) Nodes(ctx context.Context, o NodesOptions) iter.Seq2[protocol.Node, error] {
	return paged(func(after protocol.NodeID) ([]protocol.Node, protocol.NodeID, error) {
		f, err := request[*protocol.NodesPage](ctx, c, protocol.TypeNodesPage, func(id uint64) protocol.Frame {
			return &protocol.GetNodes{ID: id, After: after, Topic: o.Topic}
		})
		if err != nil {
			return nil, 0, fmt.Errorf("nodes: %w", err)
		}
		return f.Nodes, f.Next, nil
	})
}

// Topics lists topics that have retained messages and match a pattern, "*" for
// all, in byte order. An error ends the list.
func (c *Client) Topics(ctx context.Context, pattern string) iter.Seq2[protocol.Topic, error] {
	return paged(func(after string) ([]protocol.Topic, string, error) {
		if err := protocol.ValidPattern(pattern); err != nil {
			return nil, "", fmt.Errorf("topics: %w", err)
		}
		f, err := request[*protocol.TopicsPage](ctx, c, protocol.TypeTopicsPage, func(id uint64) protocol.Frame {
			return &protocol.GetTopics{ID: id, After: after, Pattern: pattern}
		})
		if err != nil {
			return nil, "", fmt.Errorf("topics: %w", err)
		}
		return f.Topics, f.Next, nil
	})
}

// paged yields the items of a list that comes in pages. A page that does not
// lead forward is the last one.
func paged[T any, K string | protocol.NodeID](page func(after K) ([]T, K, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var after K
		for {
			list, next, err := page(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range list {
				if !yield(item, nil) {
					return
				}
			}
			if next <= after {
				return
			}
			after = next
		}
	}
}
