package protocol

import "time"

// Lane is which of a session's two publish channels a channel is.
type Lane uint64

// Each lane is ordered in itself only, so heartbeats never wait behind bulk.
const (
	LaneNormal Lane = 0
	LaneUrgent Lane = 1
)

// OpenLane makes a channel the session's channel for publishes of one lane: the
// first frame on it. The registry answers only the publishes.
type OpenLane struct {
	Lane  Lane
	Extra Extra
}

var openLaneSpec = spec[OpenLane]{TypeOpenLane, 1,
	func(e *encoder, f *OpenLane) { e.uint(uint64(f.Lane)) },
	func(d *decoder, f *OpenLane) { f.Lane = Lane(d.uint()) },
	func(f *OpenLane) *Extra { return &f.Extra }}

// PublishFlags tell how a publish is meant.
type PublishFlags uint64

// The flags of a publish.
const (
	FlagResend PublishFlags = 1 << 0 // was sent before on another session
	FlagJoin   PublishFlags = 1 << 1 // when accepted, the sender joins the topic for its inbox
)

// Condition is a fence condition of a publish.
type Condition struct {
	Topic string
	Epoch EpochID // the epoch in which Term is a term; never updated on a resend
	Term  uint64  // 1 … MaxTerm; refused as stale when below the fence's K

	// Expect, when HasExpect, is the S that was read: any other refuses as conflict.
	HasExpect bool
	Expect    Seq

	// Raise, when not 0, becomes the fence's K once the message is appended;
	// at least Term.
	Raise uint64
}

// Publish asks the registry to append one message.
type Publish struct {
	N     uint64 // number on this channel, for the answer
	Flags PublishFlags

	// Key is the idempotency key, up to MaxKey bytes, scoped to the sender. Epoch
	// and Head are the log's as known when the key was made.
	Key   []byte
	Epoch EpochID
	Head  Seq

	Topic   string // "" for a direct message
	Payload []byte
	Slot    []byte // replace slot, up to MaxSlot bytes; empty = none
	To      NodeID // recipient of a direct message; 0 on a topic
	Origin  NodeID // needs the relay right; 0 = none

	Conditions []Condition // at most two, on different topics
	Extra      Extra
}

const (
	publishKnown   = 11
	conditionKnown = 6

	conditionExpects = 1 // in a condition's flags
)

// Type is TypePublish.
func (f *Publish) Type() FrameType { return TypePublish }

// Append appends the frame. It allocates nothing when b has room.
func (f *Publish) Append(b []byte) []byte {
	b = appendArray(b, 1+publishKnown+f.Extra.n)
	b = appendUint(b, uint64(TypePublish))
	b = appendUint(b, f.N)
	b = appendUint(b, uint64(f.Flags))
	b = appendBytes(b, f.Key)
	b = appendUint(b, uint64(f.Epoch))
	b = appendUint(b, uint64(f.Head))
	b = appendText(b, f.Topic)
	b = appendBytes(b, f.Payload)
	b = appendBytes(b, f.Slot)
	b = appendUint(b, uint64(f.To))
	b = appendUint(b, uint64(f.Origin))
	b = appendArray(b, len(f.Conditions))
	for i := range f.Conditions {
		b = f.Conditions[i].append(b)
	}
	return append(b, f.Extra.raw...)
}

func (c *Condition) append(b []byte) []byte {
	b = appendArray(b, conditionKnown)
	b = appendText(b, c.Topic)
	b = appendUint(b, uint64(c.Epoch))
	b = appendUint(b, c.Term)
	var flags, expect uint64
	if c.HasExpect {
		flags, expect = conditionExpects, uint64(c.Expect)
	}
	b = appendUint(b, flags)
	b = appendUint(b, expect)
	return appendUint(b, c.Raise)
}

// Parse reads the frame. Key, Payload and Slot alias b; a Topic equal to the one
// f already has is kept.
func (f *Publish) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	more := c.array(1 + publishKnown)
	c.frameType(TypePublish)
	f.N = c.uint()
	f.Flags = PublishFlags(c.uint())
	f.Key = c.bytes()
	f.Epoch = EpochID(c.uint())
	f.Head = Seq(c.uint())
	f.Topic = c.textOr(f.Topic)
	f.Payload = c.bytes()
	f.Slot = c.bytes()
	f.To = NodeID(c.uint32())
	f.Origin = NodeID(c.uint32())
	f.Conditions = nil
	if n := c.list(); n > 0 {
		f.Conditions = make([]Condition, 0, min(n, 2))
		for range n {
			f.Conditions = append(f.Conditions, readCondition(&c, f.Topic))
			if c.err != nil {
				break
			}
		}
	}
	f.Extra = c.extra(more)
	return c.err
}

func readCondition(c *cursor, topic string) Condition {
	c.exactly(conditionKnown)
	x := Condition{Topic: c.textOr(topic), Epoch: EpochID(c.uint()), Term: c.uint()}
	flags, expect := c.uint(), c.uint()
	if flags > conditionExpects || flags == 0 && expect != 0 {
		c.fail("condition flags")
	}
	x.HasExpect, x.Expect = flags == conditionExpects, Seq(expect)
	x.Raise = c.uint()
	return x
}

// Ack tells that a message is in the log.
type Ack struct {
	N         uint64
	Seq       Seq
	Time      Time
	Duplicate bool // it was there before: Seq and Time are the first ones
}

// Acks answers accepted publishes, many at once, in any order.
type Acks struct {
	List  []Ack
	Extra Extra
}

const ackKnown = 4

// Type is TypeAcks.
func (f *Acks) Type() FrameType { return TypeAcks }

// Append appends the frame. It allocates nothing when b has room.
func (f *Acks) Append(b []byte) []byte {
	b = appendArray(b, 2+f.Extra.n)
	b = appendUint(b, uint64(TypeAcks))
	b = appendArray(b, len(f.List))
	for _, a := range f.List {
		b = appendArray(b, ackKnown)
		b = appendUint(b, a.N)
		b = appendUint(b, uint64(a.Seq))
		b = appendUint(b, uint64(a.Time))
		dup := uint64(0)
		if a.Duplicate {
			dup = 1
		}
		b = appendUint(b, dup)
	}
	return append(b, f.Extra.raw...)
}

// Parse reads the frame into f, using List's memory again.
func (f *Acks) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	more := c.array(2)
	c.frameType(TypeAcks)
	f.List = f.List[:0]
	for range c.list() {
		c.exactly(ackKnown)
		a := Ack{N: c.uint(), Seq: Seq(c.uint()), Time: Time(c.uint())}
		switch c.uint() {
		case 0:
		case 1:
			a.Duplicate = true
		default:
			c.fail("duplicate mark")
		}
		if c.err != nil {
			return c.err
		}
		f.List = append(f.List, a)
	}
	f.Extra = c.extra(more)
	return c.err
}

// Refuse answers a publish that was not accepted. Topic, Epoch and the fence are
// set when a condition refused: they are the fence's state, told and not read.
type Refuse struct {
	N          uint64
	Code       Code
	RetryAfter time.Duration
	Topic      string
	Epoch      EpochID
	Fence      Fence
	Detail     string
	Extra      Extra
}

var refuseSpec = spec[Refuse]{TypeRefuse, 8,
	func(e *encoder, f *Refuse) {
		e.uint(f.N)
		e.uint(uint64(f.Code))
		e.millis(f.RetryAfter)
		e.text(f.Topic)
		e.uint(uint64(f.Epoch))
		e.uint(f.Fence.K)
		e.uint(uint64(f.Fence.S))
		e.text(f.Detail)
	},
	func(d *decoder, f *Refuse) {
		f.N = d.uint()
		f.Code = Code(d.uint())
		f.RetryAfter = d.millis()
		f.Topic = d.text()
		f.Epoch = EpochID(d.uint())
		f.Fence.K = d.uint()
		f.Fence.S = Seq(d.uint())
		f.Detail = d.text()
	},
	func(f *Refuse) *Extra { return &f.Extra }}

// Err is the refusal as an error.
func (f *Refuse) Err() *Error {
	return &Error{Code: f.Code, Detail: f.Detail, RetryAfter: f.RetryAfter, Topic: f.Topic, Fence: f.Fence}
}

func (f *OpenLane) Type() FrameType { return TypeOpenLane }
func (f *Refuse) Type() FrameType   { return TypeRefuse }

func (f *OpenLane) Append(b []byte) []byte { return openLaneSpec.append(b, f) }
func (f *Refuse) Append(b []byte) []byte   { return refuseSpec.append(b, f) }
