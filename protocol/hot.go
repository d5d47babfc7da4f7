package protocol

import "encoding/binary"

// The hot path (publish, acks, deliver) is written and read by hand: the same
// bytes as the library makes, several times faster and without allocation. Tests
// and fuzzing hold the two equal.

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<8:
		return append(b, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
	}
}

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(b, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
	}
}

func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

func appendBytes(b, p []byte) []byte {
	switch n := len(p); {
	case n < 1<<8:
		b = append(b, 0xc4, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, p...)
}

// cursor reads what Validate has passed. Its first fault sticks and the values
// after it are zero.
type cursor struct {
	b   []byte
	at  int
	err error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = malformed(what, c.at)
	}
}

func (c *cursor) head(want kind) uint64 {
	if c.err != nil {
		return 0
	}
	h, fault := readHead(c.b, c.at)
	switch {
	case fault != "":
		c.fail(fault)
		return 0
	case h.kind != want:
		c.fail("a value of another kind")
		return 0
	}
	c.at += h.size
	return h.value
}

func (c *cursor) uint() uint64 { return c.head(kindUint) }

func (c *cursor) uint32() uint32 {
	n := c.uint()
	if n > 1<<32-1 {
		c.fail("number out of range")
	}
	return uint32(n)
}

func (c *cursor) block(want kind) []byte {
	n := int(c.head(want))
	if c.err != nil {
		return nil
	}
	b := c.b[c.at : c.at+n : c.at+n]
	c.at += n
	return b
}

func (c *cursor) bytes() []byte { return c.block(kindBytes) }
func (c *cursor) text() string  { return string(c.block(kindText)) }

// textOr is text that allocates nothing when it equals known.
func (c *cursor) textOr(known string) string {
	b := c.block(kindText)
	if string(b) == known {
		return known
	}
	return string(b)
}

func (c *cursor) list() int { return int(c.head(kindArray)) }

func (c *cursor) array(known int) (more int) {
	n := c.list()
	if c.err == nil && n < known {
		c.fail("too few elements")
	}
	return max(0, n-known)
}

func (c *cursor) exactly(n int) {
	if got := c.list(); c.err == nil && got != n {
		c.fail("record of another length")
	}
}

func (c *cursor) frameType(want FrameType) {
	if t := c.uint(); c.err == nil && FrameType(t) != want {
		c.fail("another frame type")
	}
}

func (c *cursor) extra(n int) Extra {
	if n == 0 || c.err != nil {
		return Extra{}
	}
	from := c.at
	for range n {
		end, err := skip(c.b, c.at)
		if err != nil {
			c.err = err
			return Extra{}
		}
		c.at = end
	}
	return Extra{n: n, raw: string(c.b[from:c.at])}
}
