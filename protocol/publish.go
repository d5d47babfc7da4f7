package protocol

import (
	"slices"
	"time"
)

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

// Type is TypeOpenLane.
func (f *OpenLane) Type() FrameType { return TypeOpenLane }

// Append appends the frame.
func (f *OpenLane) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *OpenLane) fields(c *codec) {
	number(c, &f.Lane)
	c.extra(&f.Extra)
}

// Check reports what is wrong with the frame as a request: ErrInvalid.
func (f *OpenLane) Check() error {
	if f.Lane > LaneUrgent {
		return Errorf(ErrInvalid, "lane %d", f.Lane)
	}
	return nil
}

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
	ackKnown       = 4
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
	expect := c.Expect
	if !c.HasExpect {
		expect = 0
	}
	b = appendFlag(b, c.HasExpect)
	b = appendUint(b, uint64(expect))
	return appendUint(b, c.Raise)
}

// Own copies what Parse left in the frame, so that f may be kept when the frame
// is gone.
func (f *Publish) Own() {
	own := make([]byte, 0, len(f.Key)+len(f.Payload)+len(f.Slot))
	f.Key, own = keep(f.Key, own)
	f.Payload, own = keep(f.Payload, own)
	f.Slot, _ = keep(f.Slot, own)
}

// Parse reads the frame. Key, Payload and Slot alias b until Own; a Topic equal
// to the one f already has is kept. After an error f is of no use.
func (f *Publish) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	more := c.frame(TypePublish, publishKnown)
	f.N = c.uint()
	f.Flags = PublishFlags(c.uint())
	f.Key = c.bytes()
	f.Epoch = EpochID(c.uint())
	f.Head = Seq(c.uint())
	f.Topic = c.text(f.Topic)
	f.Payload = c.bytes()
	f.Slot = c.bytes()
	f.To = c.node()
	f.Origin = c.node()
	f.Conditions = nil
	if n := c.list(); n > 0 {
		f.Conditions = make([]Condition, 0, c.fit(n, 1+conditionKnown))
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
	x := Condition{Topic: c.text(topic), Epoch: EpochID(c.uint()), Term: c.uint()}
	x.HasExpect, x.Expect, x.Raise = c.flag(), Seq(c.uint()), c.uint()
	if !x.HasExpect && x.Expect != 0 {
		c.fail("an expected seq that is not expected")
	}
	return x
}

// Check reports what is wrong with the frame as a request, apart from what only
// the registry can know: ErrInvalidTopic, ErrTooLarge or ErrInvalid. Of the
// limits it looks at Payload; 0 stands for DefaultPayload.
func (f *Publish) Check(l Limits) error {
	if l.Payload == 0 {
		l.Payload = DefaultPayload
	}
	switch {
	case f.Flags&^(FlagResend|FlagJoin) != 0:
		return Errorf(ErrInvalid, "flags %#x", uint64(f.Flags))
	case len(f.Key) == 0:
		return Errorf(ErrInvalid, "no idempotency key")
	case len(f.Key) > MaxKey:
		return Errorf(ErrInvalid, "key of %d bytes, maximum %d", len(f.Key), MaxKey)
	case len(f.Slot) > MaxSlot:
		return Errorf(ErrInvalid, "slot of %d bytes, maximum %d", len(f.Slot), MaxSlot)
	case uint64(len(f.Payload)) > min(l.Payload, MaxPayload):
		return tooLarge("bytes of payload", len(f.Payload), int(min(l.Payload, MaxPayload)))
	}
	if err := f.checkPlace(); err != nil {
		return err
	}
	return checkConditions(f.Conditions)
}

// checkPlace checks where the message is to go: on a topic, or to a node.
func (f *Publish) checkPlace() error {
	switch {
	case f.To == 0:
		return ValidTopic(f.Topic)
	case f.Topic != "":
		return Errorf(ErrInvalid, "both a topic and a recipient")
	case len(f.Slot) > 0:
		return Errorf(ErrInvalid, "a direct message has no slot")
	}
	return nil
}

func checkConditions(list []Condition) error {
	if len(list) > MaxConditions {
		return Errorf(ErrInvalid, "%d conditions, maximum %d", len(list), MaxConditions)
	}
	for i := range list {
		if err := list[i].check(); err != nil {
			return err
		}
		if i > 0 && list[i].Topic == list[0].Topic {
			return Errorf(ErrInvalid, "two conditions on %q", list[i].Topic)
		}
	}
	return nil
}

func (c *Condition) check() error {
	if err := ValidTopic(c.Topic); err != nil {
		return err
	}
	switch {
	case c.Term == 0 || c.Term > MaxTerm:
		return Errorf(ErrInvalid, "term %d is not from 1 to 2^53-1", c.Term)
	case c.Raise != 0 && (c.Raise < c.Term || c.Raise > MaxTerm):
		return Errorf(ErrInvalid, "raise %d is not from the term %d to 2^53-1", c.Raise, c.Term)
	}
	return nil
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
		b = appendFlag(b, a.Duplicate)
	}
	return append(b, f.Extra.raw...)
}

// Parse reads the frame into f, using List's memory again. After an error f is of
// no use.
func (f *Acks) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	more := c.frame(TypeAcks, 1)
	n := c.list()
	f.List = slices.Grow(f.List[:0], c.fit(n, 1+ackKnown))
	for range n {
		c.exactly(ackKnown)
		a := Ack{N: c.uint(), Seq: Seq(c.uint()), Time: Time(c.uint()), Duplicate: c.flag()}
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

// Type is TypeRefuse.
func (f *Refuse) Type() FrameType { return TypeRefuse }

// Append appends the frame.
func (f *Refuse) Append(b []byte) []byte { return appendFrame(b, f) }

func (f *Refuse) fields(c *codec) {
	number(c, &f.N)
	number(c, &f.Code)
	c.millis(&f.RetryAfter)
	c.text(&f.Topic)
	number(c, &f.Epoch)
	c.fence(&f.Fence)
	c.text(&f.Detail)
	c.extra(&f.Extra)
}

// Err is the refusal as an error.
func (f *Refuse) Err() *Error {
	return &Error{
		Code: f.Code, Detail: f.Detail, RetryAfter: f.RetryAfter,
		Topic: f.Topic, Epoch: f.Epoch, Fence: f.Fence,
	}
}
