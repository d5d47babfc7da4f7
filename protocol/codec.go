package protocol

import (
	"bytes"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Extra holds the elements of an array beyond those this version knows, as they
// came. Append writes them back.
type Extra struct {
	n   int
	raw string
}

// Len is the number of elements.
func (x Extra) Len() int { return x.n }

// listed is a frame off the hot path. It lists its elements behind the type
// once, and a codec walks the list to count, write or read them.
type listed interface {
	Frame
	fields(*codec)
}

// codec does one of three things with the elements it is shown, through the
// library's primitives.
type codec struct {
	mode mode

	// n is, when counting, the elements so far; when reading, those that the
	// record still has.
	n int

	// Writing. A bytes.Buffer never fails, so the encoder does not, either.
	enc *msgpack.Encoder
	out bytes.Buffer

	// Reading what Validate has passed, so that no length goes beyond the input.
	// The first fault sticks, and the values after it are zero.
	dec *msgpack.Decoder
	in  bytes.Reader
	b   []byte
	err error
}

type mode byte

const (
	reading mode = iota
	counting
	writing
)

func appendFrame(b []byte, f listed) []byte {
	c := &codec{mode: writing}
	c.enc = msgpack.NewEncoder(&c.out)
	c.frame(f)
	return append(b, c.out.Bytes()...)
}

func parseFrame(b []byte, f listed) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := &codec{n: 1, b: b}
	c.in.Reset(b)
	c.dec = msgpack.NewDecoder(&c.in)
	c.frame(f)
	return c.err
}

func (c *codec) frame(f listed) {
	c.record(func() {
		t := f.Type() // where it is read, Parse has chosen f by it
		number(c, &t)
		f.fields(c)
	})
}

// record shows the elements of a nested array, each of its own kind. One that
// does not end with extra must have exactly these.
func (c *codec) record(fields func()) {
	switch c.mode {
	case counting:
		c.n++
	case writing:
		c.mode, c.n = counting, 0
		fields()
		c.mode = writing
		must(c.enc.EncodeArrayLen(c.n))
		fields()
	case reading:
		n := c.length()
		outer := c.n
		c.n = n
		fields()
		if c.n > 0 {
			c.fail("too many elements")
		}
		c.n = outer
	}
}

// list shows an array whose elements are alike; each takes at least so many
// bytes.
func list[T any](c *codec, v *[]T, least int, element func(*T)) {
	switch c.mode {
	case counting:
		c.n++
	case writing:
		must(c.enc.EncodeArrayLen(len(*v)))
		for i := range *v {
			element(&(*v)[i])
		}
	case reading:
		n := c.length()
		outer := c.n
		c.n = n
		*v = nil
		if n > 0 {
			*v = make([]T, 0, min(n, c.in.Len()/least))
		}
		for i := 0; i < n && c.err == nil; i++ {
			*v = append(*v, *new(T))
			element(&(*v)[i])
		}
		c.n = outer
	}
}

func number[T ~uint64](c *codec, v *T) {
	switch c.mode {
	case counting:
		c.n++
	case writing:
		must(c.enc.EncodeUint(uint64(*v)))
	case reading:
		*v = T(c.uint())
	}
}

// flag is a number that is 0 or 1.
func (c *codec) flag(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	number(c, &n)
	if c.mode == reading {
		if n > 1 {
			c.fail("neither 0 nor 1")
		}
		*v = n == 1
	}
}

func (c *codec) node(v *NodeID) {
	n := uint64(*v)
	number(c, &n)
	if c.mode == reading {
		if n > 1<<32-1 {
			c.fail("number out of range")
		}
		*v = NodeID(n)
	}
}

// millis is a duration in whole milliseconds.
func (c *codec) millis(v *time.Duration) {
	n := uint64(max(0, v.Milliseconds()))
	number(c, &n)
	if c.mode == reading {
		if n > maxMillis {
			c.fail("duration out of range")
		}
		*v = time.Duration(n) * time.Millisecond
	}
}

const maxMillis = (1<<63 - 1) / uint64(time.Millisecond)

func (c *codec) text(v *string) {
	switch c.mode {
	case counting:
		c.n++
	case writing:
		must(c.enc.EncodeString(*v))
	case reading:
		*v = string(c.block(kindText))
	}
}

func (c *codec) texts(v *[]string) { list(c, v, 1, c.text) }

func (c *codec) bytes(v *[]byte) {
	switch c.mode {
	case counting:
		c.n++
	case writing:
		must(c.enc.EncodeBytesLen(len(*v))) // EncodeBytes would write nil for a nil slice
		c.out.Write(*v)
	case reading:
		*v = c.block(kindBytes)
	}
}

// sized is bytes that are read only with this length.
func (c *codec) sized(v *[]byte, size int) {
	c.bytes(v)
	if c.mode == reading && len(*v) != size {
		c.fail("bytes of another length")
	}
}

// array is bytes of a fixed number.
func (c *codec) array(v []byte) {
	b := v
	c.sized(&b, len(v))
	if c.mode == reading {
		copy(v, b)
	}
}

// extra ends a record that may be longer in a later version.
func (c *codec) extra(x *Extra) {
	switch c.mode {
	case counting:
		c.n += x.n
	case writing:
		c.out.WriteString(x.raw)
	case reading:
		n := c.n
		*x = Extra{n: n, raw: string(c.raw(n))}
	}
}

func must(err error) {
	if err != nil {
		panic("protocol: write to memory: " + err.Error())
	}
}

func (c *codec) offset() int { return len(c.b) - c.in.Len() }

func (c *codec) fail(what string) {
	if c.err == nil {
		c.err = malformed(what, c.offset())
	}
	c.n = 0
}

// next checks the kind of the next element. The library alone would take text
// for bytes and wrap negative numbers.
func (c *codec) next(want kind) bool {
	if c.err != nil {
		return false
	}
	if c.n == 0 {
		c.fail("too few elements")
		return false
	}
	c.n--
	if _, _, got := readHead(c.b[c.offset():]); got != want {
		c.fail("a value of another kind")
		return false
	}
	return true
}

func (c *codec) uint() uint64 {
	if !c.next(kindUint) {
		return 0
	}
	n, err := c.dec.DecodeUint64()
	if err != nil {
		c.fail("not a number")
	}
	return n
}

func (c *codec) length() int {
	if !c.next(kindArray) {
		return 0
	}
	n, err := c.dec.DecodeArrayLen()
	if err != nil {
		c.fail("not a length")
	}
	return n
}

func (c *codec) block(want kind) []byte {
	if !c.next(want) {
		return nil
	}
	n, err := c.dec.DecodeBytesLen()
	if err != nil || n > c.in.Len() {
		c.fail("not a length")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	if err := c.dec.ReadFull(b); err != nil {
		c.fail("cut short")
	}
	return b
}

// raw takes the next n elements as they are. The bytes are those of the input.
func (c *codec) raw(n int) []byte {
	if c.err != nil {
		return nil
	}
	from := c.offset()
	end := from
	for range n {
		next, err := skip(c.b, end)
		if err != nil {
			c.fail("cut short")
			return nil
		}
		end = next
	}
	c.n -= n
	c.in.Reset(c.b[end:])
	return c.b[from:end]
}
