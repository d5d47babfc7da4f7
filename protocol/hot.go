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

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
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
	n, size, k := readHead(c.b[c.at:])
	if k != want {
		c.fail("a value of another kind")
		return 0
	}
	c.at += size
	return n
}

func (c *cursor) uint() uint64 {
	if c.at < len(c.b) && c.b[c.at] < 0x80 && c.err == nil { // most numbers are small
		c.at++
		return uint64(c.b[c.at-1])
	}
	return c.head(kindUint)
}

// flag is a number that is 0 or 1.
func (c *cursor) flag() bool {
	n := c.uint()
	if n > 1 {
		c.fail("neither 0 nor 1")
	}
	return n == 1
}

func (c *cursor) node() NodeID {
	n := c.uint()
	if n > 1<<32-1 {
		c.fail("number out of range")
	}
	return NodeID(n)
}

// block is the bytes of a text or bin, those of the input; nil when empty.
func (c *cursor) block(want kind) []byte {
	n := int(c.head(want))
	if n == 0 {
		return nil
	}
	b := c.b[c.at : c.at+n : c.at+n]
	c.at += n
	return b
}

func (c *cursor) bytes() []byte { return c.block(kindBytes) }

// text allocates nothing when it equals known.
func (c *cursor) text(known string) string {
	b := c.block(kindText)
	if string(b) == known {
		return known
	}
	return string(b)
}

// frame begins a frame with so many elements behind its type, and returns how
// many more it has, for extra.
func (c *cursor) frame(want FrameType, known int) (more int) {
	more = c.array(1 + known)
	if t := c.uint(); c.err == nil && FrameType(t) != want {
		c.fail("another frame type")
	}
	return more
}

func (c *cursor) list() int { return int(c.head(kindArray)) }

// fit is how many of n elements to make room for, when each takes at least so
// many bytes: the others cannot be there.
func (c *cursor) fit(n, least int) int { return min(n, (len(c.b)-c.at)/least) }

func (c *cursor) array(known int) (more int) {
	n := c.list()
	if c.err == nil && n < known {
		c.fail("too few elements")
	}
	return max(0, n-known)
}

// exactly begins a nested record that has no room for more.
func (c *cursor) exactly(n int) {
	if got := c.list(); c.err == nil && got != n {
		c.fail("record of another length")
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
