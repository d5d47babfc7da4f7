package protocol

import "crypto/ed25519"

// Requests go from the client on the session's first channel, each with an ID of
// the client's choosing above 0; the answer carries the same ID. Answers may
// come in another order than the requests. Lists come in pages: each page tells
// where the next one starts, and is the last when it tells 0 or "".

// GetFence asks for a topic's fence; answered by FenceState.
type GetFence struct {
	ID    uint64
	Topic string
	Extra Extra
}

var getFenceSpec = spec[GetFence]{TypeGetFence, 2,
	func(e *encoder, f *GetFence) {
		e.uint(f.ID)
		e.text(f.Topic)
	},
	func(d *decoder, f *GetFence) {
		f.ID = d.uint()
		f.Topic = d.text()
	},
	func(f *GetFence) *Extra { return &f.Extra }}

// FenceState answers GetFence and SetFence.
type FenceState struct {
	ID    uint64
	Topic string
	Epoch EpochID
	K     uint64
	S     Seq
	Extra Extra
}

var fenceStateSpec = spec[FenceState]{TypeFenceState, 5,
	func(e *encoder, f *FenceState) {
		e.uint(f.ID)
		e.text(f.Topic)
		e.uint(uint64(f.Epoch))
		e.uint(f.K)
		e.uint(uint64(f.S))
	},
	func(d *decoder, f *FenceState) {
		f.ID = d.uint()
		f.Topic = d.text()
		f.Epoch = EpochID(d.uint())
		f.K = d.uint()
		f.S = Seq(d.uint())
	},
	func(f *FenceState) *Extra { return &f.Extra }}

// SetFence puts a topic's fence to a value, for operators; answered by FenceState.
type SetFence struct {
	ID    uint64
	Topic string
	Epoch EpochID // must be the log's epoch
	K     uint64  // 0 … MaxTerm
	Extra Extra
}

var setFenceSpec = spec[SetFence]{TypeSetFence, 4,
	func(e *encoder, f *SetFence) {
		e.uint(f.ID)
		e.text(f.Topic)
		e.uint(uint64(f.Epoch))
		e.uint(f.K)
	},
	func(d *decoder, f *SetFence) {
		f.ID = d.uint()
		f.Topic = d.text()
		f.Epoch = EpochID(d.uint())
		f.K = d.uint()
	},
	func(f *SetFence) *Extra { return &f.Extra }}

// Join adds topics to this node's inbox, or takes them out; answered by Done.
type Join struct {
	ID     uint64
	Topics []string
	Leave  uint64 // 0 join, 1 leave
	Extra  Extra
}

var joinSpec = spec[Join]{TypeJoin, 3,
	func(e *encoder, f *Join) {
		e.uint(f.ID)
		e.texts(f.Topics)
		e.uint(f.Leave)
	},
	func(d *decoder, f *Join) {
		f.ID = d.uint()
		f.Topics = d.texts()
		f.Leave = d.uint()
	},
	func(f *Join) *Extra { return &f.Extra }}

// GetJoined lists the topics this node has joined, in byte order; answered by JoinedPage.
type GetJoined struct {
	ID    uint64
	After string // "" = from the first
	Limit uint64 // 0 = as many as fit a page
	Extra Extra
}

var getJoinedSpec = spec[GetJoined]{TypeGetJoined, 3,
	func(e *encoder, f *GetJoined) {
		e.uint(f.ID)
		e.text(f.After)
		e.uint(f.Limit)
	},
	func(d *decoder, f *GetJoined) {
		f.ID = d.uint()
		f.After = d.text()
		f.Limit = d.uint()
	},
	func(f *GetJoined) *Extra { return &f.Extra }}

// JoinedPage answers GetJoined.
type JoinedPage struct {
	ID     uint64
	Next   string // for After; "" = this is the last page
	Topics []string
	Extra  Extra
}

var joinedPageSpec = spec[JoinedPage]{TypeJoinedPage, 3,
	func(e *encoder, f *JoinedPage) {
		e.uint(f.ID)
		e.text(f.Next)
		e.texts(f.Topics)
	},
	func(d *decoder, f *JoinedPage) {
		f.ID = d.uint()
		f.Next = d.text()
		f.Topics = d.texts()
	},
	func(f *JoinedPage) *Extra { return &f.Extra }}

// GetInbox lists retained messages of every topic this node has joined, and direct messages to it, in log order; answered by InboxPage.
type GetInbox struct {
	ID    uint64
	After Seq    // from behind this seq; at least the inbox's cursor unless All is set
	Limit uint64 // newest messages looked at, besides each topic's newest 100; 0 = 10,000
	Topic string // only this topic; "" = all, and direct messages
	All   uint64 // 1 = also what was cleared
	Extra Extra
}

var getInboxSpec = spec[GetInbox]{TypeGetInbox, 5,
	func(e *encoder, f *GetInbox) {
		e.uint(f.ID)
		e.uint(uint64(f.After))
		e.uint(f.Limit)
		e.text(f.Topic)
		e.uint(f.All)
	},
	func(d *decoder, f *GetInbox) {
		f.ID = d.uint()
		f.After = Seq(d.uint())
		f.Limit = d.uint()
		f.Topic = d.text()
		f.All = d.uint()
	},
	func(f *GetInbox) *Extra { return &f.Extra }}

// InboxPage answers GetInbox.
type InboxPage struct {
	ID        uint64
	Next      Seq    // for After; 0 = this is the last page
	Truncated uint64 // 1 = older retained messages were left out
	Head      Seq    // highest seq of the log when the page was made
	Messages  []Message
	Extra     Extra
}

var inboxPageSpec = spec[InboxPage]{TypeInboxPage, 5,
	func(e *encoder, f *InboxPage) {
		e.uint(f.ID)
		e.uint(uint64(f.Next))
		e.uint(f.Truncated)
		e.uint(uint64(f.Head))
		e.messages(f.Messages)
	},
	func(d *decoder, f *InboxPage) {
		f.ID = d.uint()
		f.Next = Seq(d.uint())
		f.Truncated = d.uint()
		f.Head = Seq(d.uint())
		f.Messages = d.messages()
	},
	func(f *InboxPage) *Extra { return &f.Extra }}

// ClearInbox moves the inbox's cursor: messages up to UpTo are not listed any more; answered by Done.
type ClearInbox struct {
	ID    uint64
	UpTo  Seq
	Extra Extra
}

var clearInboxSpec = spec[ClearInbox]{TypeClearInbox, 2,
	func(e *encoder, f *ClearInbox) {
		e.uint(f.ID)
		e.uint(uint64(f.UpTo))
	},
	func(d *decoder, f *ClearInbox) {
		f.ID = d.uint()
		f.UpTo = Seq(d.uint())
	},
	func(f *ClearInbox) *Extra { return &f.Extra }}

// GetInfo asks about the registry; answered by InfoState.
type GetInfo struct {
	ID    uint64
	Extra Extra
}

var getInfoSpec = spec[GetInfo]{TypeGetInfo, 1,
	func(e *encoder, f *GetInfo) {
		e.uint(f.ID)
	},
	func(d *decoder, f *GetInfo) {
		f.ID = d.uint()
	},
	func(f *GetInfo) *Extra { return &f.Extra }}

// InfoState answers GetInfo.
type InfoState struct {
	ID            uint64
	Epoch         EpochID
	Born          uint64 // the log's birth, unix seconds
	Head          Seq
	Now           Time
	Started       Time   // when this registry process started
	Nodes         uint64 // known nodes
	Online        uint64 // nodes with a session
	Sessions      uint64
	Subscriptions uint64
	Topics        uint64
	Messages      uint64 // retained
	Bytes         uint64 // retained payload bytes
	Published     uint64 // accepted since the start
	Software      string
	Extra         Extra
}

var infoStateSpec = spec[InfoState]{TypeInfoState, 15,
	func(e *encoder, f *InfoState) {
		e.uint(f.ID)
		e.uint(uint64(f.Epoch))
		e.uint(f.Born)
		e.uint(uint64(f.Head))
		e.uint(uint64(f.Now))
		e.uint(uint64(f.Started))
		e.uint(f.Nodes)
		e.uint(f.Online)
		e.uint(f.Sessions)
		e.uint(f.Subscriptions)
		e.uint(f.Topics)
		e.uint(f.Messages)
		e.uint(f.Bytes)
		e.uint(f.Published)
		e.text(f.Software)
	},
	func(d *decoder, f *InfoState) {
		f.ID = d.uint()
		f.Epoch = EpochID(d.uint())
		f.Born = d.uint()
		f.Head = Seq(d.uint())
		f.Now = Time(d.uint())
		f.Started = Time(d.uint())
		f.Nodes = d.uint()
		f.Online = d.uint()
		f.Sessions = d.uint()
		f.Subscriptions = d.uint()
		f.Topics = d.uint()
		f.Messages = d.uint()
		f.Bytes = d.uint()
		f.Published = d.uint()
		f.Software = d.text()
	},
	func(f *InfoState) *Extra { return &f.Extra }}

// GetNodes lists nodes by rising id; answered by NodesPage.
type GetNodes struct {
	ID    uint64
	After NodeID // 0 = from the first
	Limit uint64 // 0 = as many as fit a page
	Topic string // only nodes that joined this topic; "" = all
	Extra Extra
}

var getNodesSpec = spec[GetNodes]{TypeGetNodes, 4,
	func(e *encoder, f *GetNodes) {
		e.uint(f.ID)
		e.uint(uint64(f.After))
		e.uint(f.Limit)
		e.text(f.Topic)
	},
	func(d *decoder, f *GetNodes) {
		f.ID = d.uint()
		f.After = NodeID(d.uint32())
		f.Limit = d.uint()
		f.Topic = d.text()
	},
	func(f *GetNodes) *Extra { return &f.Extra }}

// NodesPage answers GetNodes.
type NodesPage struct {
	ID    uint64
	Next  NodeID // for After; 0 = this is the last page
	Nodes []Node
	Extra Extra
}

var nodesPageSpec = spec[NodesPage]{TypeNodesPage, 3,
	func(e *encoder, f *NodesPage) {
		e.uint(f.ID)
		e.uint(uint64(f.Next))
		e.nodes(f.Nodes)
	},
	func(d *decoder, f *NodesPage) {
		f.ID = d.uint()
		f.Next = NodeID(d.uint32())
		f.Nodes = d.nodes()
	},
	func(f *NodesPage) *Extra { return &f.Extra }}

// GetTopics lists topics with retained messages in byte order; answered by TopicsPage.
type GetTopics struct {
	ID      uint64
	After   string // "" = from the first
	Limit   uint64 // 0 = as many as fit a page
	Pattern string // "" = all
	Extra   Extra
}

var getTopicsSpec = spec[GetTopics]{TypeGetTopics, 4,
	func(e *encoder, f *GetTopics) {
		e.uint(f.ID)
		e.text(f.After)
		e.uint(f.Limit)
		e.text(f.Pattern)
	},
	func(d *decoder, f *GetTopics) {
		f.ID = d.uint()
		f.After = d.text()
		f.Limit = d.uint()
		f.Pattern = d.text()
	},
	func(f *GetTopics) *Extra { return &f.Extra }}

// TopicsPage answers GetTopics.
type TopicsPage struct {
	ID     uint64
	Next   string // for After; "" = this is the last page
	Topics []Topic
	Extra  Extra
}

var topicsPageSpec = spec[TopicsPage]{TypeTopicsPage, 3,
	func(e *encoder, f *TopicsPage) {
		e.uint(f.ID)
		e.text(f.Next)
		e.topics(f.Topics)
	},
	func(d *decoder, f *TopicsPage) {
		f.ID = d.uint()
		f.Next = d.text()
		f.Topics = d.topics()
	},
	func(f *TopicsPage) *Extra { return &f.Extra }}

// Node is one entry of the node table.
type Node struct {
	ID       NodeID
	Key      ed25519.PublicKey
	Name     string
	Tags     []string
	Online   uint64 // sessions at the moment
	LastSeen Time   // last time a session began or ended
	Extra    Extra
}

func (e *encoder) nodes(list []Node) {
	e.list(len(list))
	for i := range list {
		n := &list[i]
		e.array(6, n.Extra)
		e.uint(uint64(n.ID))
		e.bytes(n.Key)
		e.text(n.Name)
		e.texts(n.Tags)
		e.uint(n.Online)
		e.uint(uint64(n.LastSeen))
		e.extra(n.Extra)
	}
}

func (d *decoder) nodes() []Node {
	return records(d, func(n *Node) {
		more := d.array(6)
		n.ID = NodeID(d.uint32())
		n.Key = d.bytes()
		n.Name = d.text()
		n.Tags = d.texts()
		n.Online = d.uint()
		n.LastSeen = Time(d.uint())
		n.Extra = d.extra(more)
	})
}

// Topic is one entry of the list of topics.
type Topic struct {
	Name     string
	Messages uint64 // retained
	Bytes    uint64 // retained payload bytes
	Last     Seq    // newest message; 0 = none retained
	Fence    Fence
	Extra    Extra
}

func (e *encoder) topics(list []Topic) {
	e.list(len(list))
	for i := range list {
		t := &list[i]
		e.array(6, t.Extra)
		e.text(t.Name)
		e.uint(t.Messages)
		e.uint(t.Bytes)
		e.uint(uint64(t.Last))
		e.uint(t.Fence.K)
		e.uint(uint64(t.Fence.S))
		e.extra(t.Extra)
	}
}

func (d *decoder) topics() []Topic {
	return records(d, func(t *Topic) {
		more := d.array(6)
		t.Name = d.text()
		t.Messages = d.uint()
		t.Bytes = d.uint()
		t.Last = Seq(d.uint())
		t.Fence.K = d.uint()
		t.Fence.S = Seq(d.uint())
		t.Extra = d.extra(more)
	})
}

// records reads a list. It takes memory by what it has read, not by the length
// the list claims.
func records[T any](d *decoder, read func(*T)) []T {
	n := d.list()
	if n == 0 {
		return nil
	}
	list := make([]T, 0, min(n, 16))
	for range n {
		var v T
		read(&v)
		if d.err != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}

func (f *GetFence) Type() FrameType   { return TypeGetFence }
func (f *FenceState) Type() FrameType { return TypeFenceState }
func (f *SetFence) Type() FrameType   { return TypeSetFence }
func (f *Join) Type() FrameType       { return TypeJoin }
func (f *GetJoined) Type() FrameType  { return TypeGetJoined }
func (f *JoinedPage) Type() FrameType { return TypeJoinedPage }
func (f *GetInbox) Type() FrameType   { return TypeGetInbox }
func (f *InboxPage) Type() FrameType  { return TypeInboxPage }
func (f *ClearInbox) Type() FrameType { return TypeClearInbox }
func (f *GetInfo) Type() FrameType    { return TypeGetInfo }
func (f *InfoState) Type() FrameType  { return TypeInfoState }
func (f *GetNodes) Type() FrameType   { return TypeGetNodes }
func (f *NodesPage) Type() FrameType  { return TypeNodesPage }
func (f *GetTopics) Type() FrameType  { return TypeGetTopics }
func (f *TopicsPage) Type() FrameType { return TypeTopicsPage }

func (f *GetFence) Append(b []byte) []byte   { return getFenceSpec.append(b, f) }
func (f *FenceState) Append(b []byte) []byte { return fenceStateSpec.append(b, f) }
func (f *SetFence) Append(b []byte) []byte   { return setFenceSpec.append(b, f) }
func (f *Join) Append(b []byte) []byte       { return joinSpec.append(b, f) }
func (f *GetJoined) Append(b []byte) []byte  { return getJoinedSpec.append(b, f) }
func (f *JoinedPage) Append(b []byte) []byte { return joinedPageSpec.append(b, f) }
func (f *GetInbox) Append(b []byte) []byte   { return getInboxSpec.append(b, f) }
func (f *InboxPage) Append(b []byte) []byte  { return inboxPageSpec.append(b, f) }
func (f *ClearInbox) Append(b []byte) []byte { return clearInboxSpec.append(b, f) }
func (f *GetInfo) Append(b []byte) []byte    { return getInfoSpec.append(b, f) }
func (f *InfoState) Append(b []byte) []byte  { return infoStateSpec.append(b, f) }
func (f *GetNodes) Append(b []byte) []byte   { return getNodesSpec.append(b, f) }
func (f *NodesPage) Append(b []byte) []byte  { return nodesPageSpec.append(b, f) }
func (f *GetTopics) Append(b []byte) []byte  { return getTopicsSpec.append(b, f) }
func (f *TopicsPage) Append(b []byte) []byte { return topicsPageSpec.append(b, f) }
