package protocol

// Fence is the state of a topic's fence within one epoch. K is its value, 0
// while unset; S is the seq of the last fenced message on the topic itself.
type Fence struct {
	K uint64
	S Seq
}

func (c *codec) fence(f *Fence) {
	number(c, &f.K)
	number(c, &f.S)
}

// GetFence asks for a topic's fence; answered by FenceState.
type GetFence struct {
	ID    uint64
	Topic string
	Extra Extra
}

// Type is TypeGetFence.
func (f *GetFence) Type() FrameType { return TypeGetFence }

// Append appends the frame.
func (f *GetFence) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *GetFence) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Topic)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *GetFence) Check() error {
	if err := ValidTopic(f.Topic); err != nil {
		return err
	}
	return checkID(f.ID)
}

// FenceState answers GetFence and SetFence.
type FenceState struct {
	ID    uint64
	Topic string
	Epoch EpochID
	K     uint64
	S     Seq
	Extra Extra
}

// Type is TypeFenceState.
func (f *FenceState) Type() FrameType { return TypeFenceState }

// Append appends the frame.
func (f *FenceState) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *FenceState) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Topic)
	number(c, &f.Epoch)
	number(c, &f.K)
	number(c, &f.S)
	c.extra(&f.Extra)
}

// SetFence puts a topic's fence to a value, for operators; answered by FenceState.
type SetFence struct {
	ID    uint64
	Topic string
	Epoch EpochID // must be the log's epoch
	K     uint64  // 0 … MaxTerm
	Extra Extra
}

// Type is TypeSetFence.
func (f *SetFence) Type() FrameType { return TypeSetFence }

// Append appends the frame.
func (f *SetFence) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *SetFence) fields(c *codec) {
	number(c, &f.ID)
	c.text(&f.Topic)
	number(c, &f.Epoch)
	number(c, &f.K)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalidTopic or
// ErrInvalid.
func (f *SetFence) Check() error {
	if err := ValidTopic(f.Topic); err != nil {
		return err
	}
	if f.K > MaxTerm {
		return Errorf(ErrInvalid, "fence value %d is above 2^53-1", f.K)
	}
	return checkID(f.ID)
}
