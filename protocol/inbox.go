package protocol

// Join adds topics to this node's inbox, or takes them out; answered by Done.
type Join struct {
	ID     uint64
	Topics []string // at most MaxJoin
	Leave  bool     // take them out
	Extra  Extra
}

// Type is TypeJoin.
func (f *Join) Type() FrameType { return TypeJoin }

// Append appends the frame.
func (f *Join) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Join) fields(c *codec) {
	number(c, &f.ID)
	c.texts(&f.Topics)
	c.flag(&f.Leave)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic,
// ErrTooLarge or ErrInvalid.
func (f *Join) Check() error {
	if len(f.Topics) > MaxJoin {
		return tooLarge("topics", len(f.Topics), MaxJoin)
	}
	for _, topic := range f.Topics {
		if err := ValidTopic(topic); err != nil {
			return err
		}
	}
	return checkID(f.ID)
}

// GetJoined lists the topics this node has joined, in byte order; answered by
// JoinedPage.
type GetJoined struct {
	ID    uint64
	After string // "" = from the first
	Limit uint64 // 0 = as many as fit a page
	Extra Extra
}

// Type is TypeGetJoined.
func (f *GetJoined) Type() FrameType { return TypeGetJoined }

// Append appends the frame.
func (f *GetJoined) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetJoined) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.After)
	number(c, &f.Limit)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *GetJoined) Check() error {
	return checkID(f.ID)
}

// JoinedPage answers GetJoined.
type JoinedPage struct {
	ID     uint64
	Next   string // for After; "" = this is the last page
	Topics []string
	Extra  Extra
}

// Type is TypeJoinedPage.
func (f *JoinedPage) Type() FrameType { return TypeJoinedPage }

// Append appends the frame.
func (f *JoinedPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *JoinedPage) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Next)
	c.texts(&f.Topics)
	c.extra(&f.Extra)
}

// GetInbox lists retained messages of every topic this node has joined, and
// direct messages to it, in log order; answered by InboxPage.
type GetInbox struct {
	ID    uint64
	After Seq    // from behind this seq; at least the inbox's cursor unless All is set
	Limit uint64 // newest messages looked at, besides each topic's newest 100; 0 = 10,000
	Topic string // only this topic; "" = all, and direct messages
	All   bool   // also what was cleared
	Extra Extra
}

// Type is TypeGetInbox.
func (f *GetInbox) Type() FrameType { return TypeGetInbox }

// Append appends the frame.
func (f *GetInbox) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetInbox) fields(c *codec) {
	number(c, &f.ID)
	number(c, &f.After)
	number(c, &f.Limit)
	c.text(&f.Topic)
	c.flag(&f.All)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *GetInbox) Check() error {
	if f.Topic != "" {
		if err := ValidTopic(f.Topic); err != nil {
			return err
		}
	}
	return checkID(f.ID)
}

// InboxPage answers GetInbox.
type InboxPage struct {
	ID        uint64
	Next      Seq  // for After; 0 = this is the last page
	Truncated bool // older retained messages were left out
	Head      Seq  // highest seq of the log when the page was made
	Messages  []Message
	Extra     Extra
}

// Type is TypeInboxPage.
func (f *InboxPage) Type() FrameType { return TypeInboxPage }

// Append appends the frame.
func (f *InboxPage) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *InboxPage) fields(c *codec) {
	number(c, &f.ID)
	number(c, &f.Next)
	c.flag(&f.Truncated)
	number(c, &f.Head)
	list(c, &f.Messages, 1+messageKnown, c.message)
	c.extra(&f.Extra)
}

// ClearInbox moves the inbox's cursor: messages up to UpTo are not listed any
// more; answered by Done.
type ClearInbox struct {
	ID    uint64
	UpTo  Seq
	Extra Extra
}

// Type is TypeClearInbox.
func (f *ClearInbox) Type() FrameType { return TypeClearInbox }

// Append appends the frame.
func (f *ClearInbox) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *ClearInbox) fields(c *codec) {
	number(c, &f.ID)
	number(c, &f.UpTo)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *ClearInbox) Check() error {
	return checkID(f.ID)
}
