package protocol

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

// Deliver hands a message to a subscription.
type Deliver struct{ Message }

const deliverKnown = 9

// Type is TypeDeliver.
func (f *Deliver) Type() FrameType { return TypeDeliver }

// Append appends the frame. It allocates nothing when b has room.
func (f *Deliver) Append(b []byte) []byte {
	b = appendArray(b, 1+deliverKnown+f.Extra.n)
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
		b = appendArray(b, 2)
		b = appendText(b, f.Topic)
		b = appendUint(b, f.Term)
	}
	return append(b, m.Extra.raw...)
}

// Parse reads the frame. Payload and Key alias b; a Topic equal to the one f
// already has is kept, so that a reader of one topic allocates none.
func (f *Deliver) Parse(b []byte) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := cursor{b: b}
	more := c.array(1 + deliverKnown)
	c.frameType(TypeDeliver)
	f.readFields(&c, more)
	return c.err
}

func (m *Message) readFields(c *cursor, more int) {
	m.Seq = Seq(c.uint())
	m.Time = Time(c.uint())
	m.Sender = NodeID(c.uint32())
	m.Origin = NodeID(c.uint32())
	m.To = NodeID(c.uint32())
	m.Topic = c.textOr(m.Topic)
	m.Payload = c.bytes()
	m.Key = c.bytes()
	m.Fences = nil
	if n := c.list(); n > 0 {
		m.Fences = make([]Mark, 0, min(n, 2))
		for range n {
			c.exactly(2)
			m.Fences = append(m.Fences, Mark{Topic: c.textOr(m.Topic), Term: c.uint()})
			if c.err != nil {
				return
			}
		}
	}
	m.Extra = c.extra(more)
}

func (e *encoder) messages(list []Message) {
	e.list(len(list))
	for i := range list {
		e.array(deliverKnown, list[i].Extra)
		e.buf.Write(list[i].appendFields(nil))
	}
}

func (d *decoder) messages() []Message {
	return records(d, func(m *Message) {
		if !d.next(kindArray) {
			return
		}
		raw, err := d.msgpack.DecodeRaw() // owned by the message
		if err != nil {
			d.fail("cut short")
			return
		}
		c := cursor{b: raw}
		m.readFields(&c, c.array(deliverKnown))
		if d.err == nil && c.err != nil {
			d.err = c.err
		}
	})
}
