package protocol

import "bytes"

// Message is one message as readers get it.
type Message struct {
	Seq    Seq
	Time   Time
	Sender NodeID // proved by the sender's handshake
	Origin NodeID // set by a relay on behalf of another; 0 = none. Trust it only where you trust the relay
	To     NodeID // recipient of a direct message; 0 on a topic
	Topic  string // "" on a direct message

	// Payload is opaque. An empty payload is legal.
	Payload []byte

	// Key is the idempotency key; only the sender itself is told.
	Key []byte

	// Fences are the conditions it passed, in the order the sender gave.
	Fences []Mark
	Extra  Extra
}

// Mark says that a message was accepted under a topic's fence with this term.
type Mark struct {
	Topic string
	Term  uint64
}

// Term is the term under which the message passed its own topic's fence; 0 when
// it is plain.
func (m *Message) Term() uint64 {
	for _, f := range m.Fences {
		if f.Topic == m.Topic {
			return f.Term
		}
	}
	return 0
}

// Own copies what Parse left in the frame, so that m may be kept when the frame
// is gone. A message of a page needs none.
func (m *Message) Own() {
	own := make([]byte, 0, len(m.Payload)+len(m.Key))
	m.Payload, own = keep(m.Payload, own)
	m.Key, _ = keep(m.Key, own)
}

// keep appends b to own and returns the copy; nil stays nil.
func keep(b, own []byte) (kept, rest []byte) {
	if b == nil {
		return nil, own
	}
	n := len(own)
	own = append(own, b...)
	return own[n:len(own):len(own)], own
}

// Deliver hands a message to a subscription.
type Deliver struct{ Message }

const (
	messageKnown = 9
	markKnown    = 2
)

// Type is TypeDeliver.
func (f *Deliver) Type() FrameType { return TypeDeliver }

// Append appends the frame. It allocates nothing when b has room.
func (f *Deliver) Append(b []byte) []byte {
	b = appendArray(b, 1+messageKnown+f.Extra.n)
	b = appendUint(b, uint64(TypeDeliver))
	return f.appendFields(b)
}

func (m *Message) appendFields(b []byte) []byte {
	b = appendUint(b, uint64(m.Seq))
	b = appendUint(b, uint64(m.Time))
	b = appendUint(b, uint64(m.Sender))
	b = appendUint(b, uint64(m.Origin))
	b = appendUint(b, uint64(m.To))
	b = appendText(b, m.Topic)
	b = appendBytes(b, m.Payload)
	b = appendBytes(b, m.Key)
	b = appendArray(b, len(m.Fences))
	for _, f := range m.Fences {
		b = appendArray(b, markKnown)
		b = appendText(b, f.Topic)
		b = appendUint(b, f.Term)
	}
	return append(b, m.Extra.raw...)
}

// Parse reads the frame. Payload and Key alias b until Own; a Topic equal to the
// one f already has is kept, so that a reader of one topic allocates none. After
// an error f is of no use.
func (f *Deliver) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	f.readFields(&c, c.frame(TypeDeliver, messageKnown))
	return c.err
}

func (m *Message) readFields(c *cursor, more int) {
	m.Seq = Seq(c.uint())
	m.Time = Time(c.uint())
	m.Sender = c.node()
	m.Origin = c.node()
	m.To = c.node()
	m.Topic = c.text(m.Topic)
	m.Payload = c.bytes()
	m.Key = c.bytes()
	m.Fences = nil
	if n := c.list(); n > 0 {
		m.Fences = make([]Mark, 0, c.fit(n, 1+markKnown))
		for range n {
			c.exactly(markKnown)
			m.Fences = append(m.Fences, Mark{Topic: c.text(m.Topic), Term: c.uint()})
			if c.err != nil {
				return
			}
		}
	}
	m.Extra = c.extra(more)
}

// message is a Message in a list: an array of the same elements as a Deliver has
// behind its type.
func (c *codec) message(m *Message) {
	if c.mode == writing {
		b := appendArray(c.out.AvailableBuffer(), messageKnown+m.Extra.n)
		c.out.Write(m.appendFields(b))
		return
	}
	own := cursor{b: bytes.Clone(c.raw(1))}
	m.readFields(&own, own.array(messageKnown))
	if own.err != nil {
		c.fail("not a message")
	}
}
