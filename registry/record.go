package registry

import (
	"encoding/binary"

	"github.com/pilotgo/pilotgo/protocol"
)

// Record is one stored message. Its Key is always set; readers other than the
// sender are not shown it.
type Record struct {
	protocol.Message
	Slot   string
	Digest [16]byte // of topic and payload, to tell a reused key
	Epoch  protocol.EpochID

	frame []byte // see Frame
}

// Seal makes the record's frame and moves payload and key into the same piece
// of memory, so that a message that goes to many readers is encoded once and
// kept once. Whoever makes a record calls it before sharing the record.
func (r *Record) Seal() {
	d := protocol.Deliver{Message: r.Message}
	d.Key = nil
	b := appendDeliver(make([]byte, 0, frameBound(&r.Message)+len(r.Key)), &d)
	n := len(b)
	b = append(b, r.Key...)

	if err := d.Parse(b[protocol.LengthSize:n]); err != nil {
		panic("registry: own frame: " + err.Error())
	}
	r.frame, r.Payload, r.Key = b[:n:n], d.Payload, b[n:]
}

// appendDeliver is protocol.AppendFrame without the memory that an interface
// value takes.
func appendDeliver(b []byte, d *protocol.Deliver) []byte {
	at := len(b)
	b = d.Append(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-protocol.LengthSize))
	return b
}

// frameBound is at least the size of the message's frame without its key.
func frameBound(m *protocol.Message) int {
	const (
		fixed  = 64 // length, array, type, numbers, heads of topic, payload and key
		number = 9
		head   = 5
	)
	n := protocol.LengthSize + fixed + len(m.Topic) + len(m.Payload)
	for i := range m.Fences {
		n += 1 + head + len(m.Fences[i].Topic) + number
	}
	return n
}

// Frame is the Deliver frame for readers other than the sender, with the length
// before it. It is shared: nobody writes to it. It is made anew each time when
// the record was not sealed.
func (r *Record) Frame() []byte {
	if r.frame != nil {
		return r.frame
	}
	sealed := *r
	sealed.Seal()
	return sealed.frame
}
