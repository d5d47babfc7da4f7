package protocol

import "crypto/ed25519"

// GetInfo asks about the registry; answered by InfoState.
type GetInfo struct {
	ID    uint64
	Extra Extra
}

// Type is TypeGetInfo.
func (f *GetInfo) Type() FrameType { return TypeGetInfo }

// Append appends the frame.
func (f *GetInfo) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetInfo) fields(c *codec) {
	number(c, &f.ID)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *GetInfo) Check() error {
	return checkID(f.ID)
}

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

// Type is TypeInfoState.
func (f *InfoState) Type() FrameType { return TypeInfoState }

// Append appends the frame.
func (f *InfoState) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *InfoState) fields(c *codec) {
	number(c, &f.ID)
	number(c, &f.Epoch)
	number(c, &f.Born)
	number(c, &f.Head)
	number(c, &f.Now)
	number(c, &f.Started)
	number(c, &f.Nodes)
	number(c, &f.Online)
	number(c, &f.Sessions)
	number(c, &f.Subscriptions)
	number(c, &f.Topics)
	number(c, &f.Messages)
	number(c, &f.Bytes)
	number(c, &f.Published)
	c.text(&f.Software)
	c.extra(&f.Extra)
}

// GetNodes lists nodes by rising id; answered by NodesPage.
type GetNodes struct {
	ID    uint64
	After NodeID // 0 = from the first
	Limit uint64 // 0 = as many as fit a page
	Topic string // only nodes that joined this topic; "" = all
	Extra Extra
}

// Type is TypeGetNodes.
func (f *GetNodes) Type() FrameType { return TypeGetNodes }

// Append appends the frame.
func (f *GetNodes) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetNodes) fields(c *codec) {
	number(c, &f.ID)
	c.node(&f.After)
	number(c, &f.Limit)
	c.text(&f.Topic)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *GetNodes) Check() error {
	if f.Topic != "" {
		if err := ValidTopic(f.Topic); err != nil {
			return err
		}
	}
	return checkID(f.ID)
}

// NodesPage answers GetNodes.
type NodesPage struct {
	ID    uint64
	Next  NodeID // for After; 0 = this is the last page
	Nodes []Node
	Extra Extra
}

// Type is TypeNodesPage.
func (f *NodesPage) Type() FrameType { return TypeNodesPage }

// Append appends the frame.
func (f *NodesPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *NodesPage) fields(c *codec) {
	number(c, &f.ID)
	c.node(&f.Next)
	list(c, &f.Nodes, 7, c.listedNode)
	c.extra(&f.Extra)
}

// Node is one entry of the node table.
type Node struct {
	ID       NodeID
	Key      ed25519.PublicKey
	Name     string
	Tags     []string
	Online   uint64 // sessions at the moment
	LastSeen Time   // last time a session began or ended, or within two hours while there is one
	Extra    Extra
}

func (c *codec) listedNode(n *Node) {
	c.record(func() {
		c.node(&n.ID)
		c.bytes((*[]byte)(&n.Key))
		c.text(&n.Name)
		c.texts(&n.Tags)
		number(c, &n.Online)
		number(c, &n.LastSeen)
		c.extra(&n.Extra)
	})
}

// GetTopics lists topics with retained messages in byte order; answered by
// TopicsPage.
type GetTopics struct {
	ID      uint64
	After   string // "" = from the first
	Limit   uint64 // 0 = as many as fit a page
	Pattern string // "" = all
	Extra   Extra
}

// Type is TypeGetTopics.
func (f *GetTopics) Type() FrameType { return TypeGetTopics }

// Append appends the frame.
func (f *GetTopics) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetTopics) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.After)
	number(c, &f.Limit)
	c.text(&f.Pattern)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidPattern or
// ErrInvalid.
func (f *GetTopics) Check() error {
	if f.Pattern != "" {
		if err := ValidPattern(f.Pattern); err != nil {
			return err
		}
	}
	return checkID(f.ID)
}

// TopicsPage answers GetTopics.
type TopicsPage struct {
	ID     uint64
	Next   string // for After; "" = this is the last page
	Topics []Topic
	Extra  Extra
}

// Type is TypeTopicsPage.
func (f *TopicsPage) Type() FrameType { return TypeTopicsPage }

// Append appends the frame.
func (f *TopicsPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *TopicsPage) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Next)
	list(c, &f.Topics, 7, c.listedTopic)
	c.extra(&f.Extra)
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

func (c *codec) listedTopic(t *Topic) {
	c.record(func() {
		c.text(&t.Name)
		number(c, &t.Messages)
		number(c, &t.Bytes)
		number(c, &t.Last)
		c.fence(&t.Fence)
		c.extra(&t.Extra)
	})
}
