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

// encoder writes canonical MessagePack through the library's primitives. A
// bytes.Buffer never fails, so neither do they.
type encoder struct {
	msgpack *msgpack.Encoder
	buf     bytes.Buffer
}

func newEncoder() *encoder {
	e := &encoder{}
	e.msgpack = msgpack.NewEncoder(&e.buf)
	return e
}

func must(err error) {
	if err != nil {
		panic("protocol: write to memory: " + err.Error())
	}
}

func (e *encoder) array(known int, extra Extra) { must(e.msgpack.EncodeArrayLen(known + extra.n)) }
func (e *encoder) list(n int)                   { must(e.msgpack.EncodeArrayLen(n)) }
func (e *encoder) uint(n uint64)                { must(e.msgpack.EncodeUint(n)) }
func (e *encoder) text(s string)                { must(e.msgpack.EncodeString(s)) }
func (e *encoder) extra(x Extra)                { e.buf.WriteString(x.raw) }

func (e *encoder) bytes(b []byte) {
	must(e.msgpack.EncodeBytesLen(len(b))) // EncodeBytes would write nil for a nil slice
	e.buf.Write(b)
}

func (e *encoder) texts(list []string) {
	e.list(len(list))
	for _, s := range list {
		e.text(s)
	}
}

func (e *encoder) millis(d time.Duration) { e.uint(uint64(max(0, d.Milliseconds()))) }

// decoder reads what Validate has passed, so that no length it meets goes beyond
// the input. Its first fault sticks and the values after it are zero.
type decoder struct {
	msgpack *msgpack.Decoder
	in      bytes.Reader
	size    int
	err     error
}

func newDecoder(b []byte) *decoder {
	d := &decoder{size: len(b)}
	d.in.Reset(b)
	d.msgpack = msgpack.NewDecoder(&d.in)
	return d
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = malformed(what, d.size-d.in.Len())
	}
}

// next checks the kind of the next value. The library alone would take text for
// bytes and wrap negative numbers.
func (d *decoder) next(want kind) bool {
	if d.err != nil {
		return false
	}
	c, err := d.msgpack.PeekCode()
	if err != nil {
		d.fail("cut short")
		return false
	}
	if got := kindOf(c); got != want {
		d.fail("a value of another kind")
		return false
	}
	return true
}

func kindOf(c byte) kind {
	switch {
	case c < 0x80:
		return kindUint
	case c < 0xa0:
		return kindArray
	case c < 0xc0:
		return kindText
	case c >= 0xe0:
		return kindInt
	}
	return forms[c-0xc0].kind
}

func (d *decoder) uint() uint64 {
	if !d.next(kindUint) {
		return 0
	}
	n, err := d.msgpack.DecodeUint64()
	if err != nil {
		d.fail("not a number")
	}
	return n
}

// uint32 is for numbers that do not fit more.
func (d *decoder) uint32() uint32 {
	n := d.uint()
	if n > 1<<32-1 {
		d.fail("number out of range")
	}
	return uint32(n)
}

func (d *decoder) millis() time.Duration {
	n := d.uint()
	if n > maxMillis {
		d.fail("duration out of range")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

const maxMillis = uint64(1<<63-1) / uint64(time.Millisecond)

func (d *decoder) bytes() []byte {
	if !d.next(kindBytes) {
		return nil
	}
	return d.block()
}

func (d *decoder) text() string {
	if !d.next(kindText) {
		return ""
	}
	return string(d.block())
}

func (d *decoder) block() []byte {
	n, err := d.msgpack.DecodeBytesLen()
	if err != nil || n < 0 || n > d.in.Len() {
		d.fail("cut short")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	if err := d.msgpack.ReadFull(b); err != nil {
		d.fail("cut short")
	}
	return b
}

// fixed reads bin of exactly len(into) bytes.
func (d *decoder) fixed(into []byte) {
	b := d.bytes()
	if d.err == nil && len(b) != len(into) {
		d.fail("bytes of another length")
		return
	}
	copy(into, b)
}

// list reads the length of an array whose elements are all alike; each takes at
// least one byte, so it is never above what is left of the input.
func (d *decoder) list() int {
	if !d.next(kindArray) {
		return 0
	}
	n, err := d.msgpack.DecodeArrayLen()
	if err != nil || n < 0 || n > d.in.Len() {
		d.fail("array longer than the frame")
		return 0
	}
	return n
}

// array reads the length of a record of at least known elements and returns how
// many more there are, for extra.
func (d *decoder) array(known int) int {
	n := d.list()
	if d.err == nil && n < known {
		d.fail("too few elements")
	}
	return max(0, n-known)
}

func (d *decoder) extra(n int) Extra {
	if n == 0 || d.err != nil {
		return Extra{}
	}
	x := Extra{n: n}
	for range n {
		raw, err := d.msgpack.DecodeRaw()
		if err != nil {
			d.fail("cut short")
			return Extra{}
		}
		x.raw += string(raw)
	}
	return x
}

func (d *decoder) texts() []string {
	n := d.list()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 64))
	for range n {
		list = append(list, d.text())
	}
	return list
}
