package protocol_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

func TestValidate(t *testing.T) {
	filled := func(head string, n int) []byte { return append([]byte(head), make([]byte, n)...) }
	for _, test := range []struct {
		name  string
		value []byte // within an array of one
		fault string
	}{
		{"fixint", []byte{0x7f}, ""},
		{"uint 8", []byte("\xcc\x80"), ""},
		{"uint 8 of 127", []byte("\xcc\x7f"), "shortest"},
		{"uint 16", []byte("\xcd\x01\x00"), ""},
		{"uint 16 of 255", []byte("\xcd\x00\xff"), "shortest"},
		{"uint 32", []byte("\xce\x00\x01\x00\x00"), ""},
		{"uint 32 of 65535", []byte("\xce\x00\x00\xff\xff"), "shortest"},
		{"uint 64", []byte("\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), ""},
		{"uint 64 of 2^32-1", []byte("\xcf\x00\x00\x00\x00\xff\xff\xff\xff"), "shortest"},
		{"negative fixint", []byte{0xe0}, ""},
		{"int 8", []byte("\xd0\xdf"), ""},
		{"int 8 of -32", []byte("\xd0\xe0"), "shortest"},
		{"int 8 of 127", []byte("\xd0\x7f"), "shortest"},
		{"int 16", []byte("\xd1\xff\x7f"), ""},
		{"int 16 of -128", []byte("\xd1\xff\x80"), "shortest"},
		{"int 16 of 32767", []byte("\xd1\x7f\xff"), "shortest"},
		{"int 32", []byte("\xd2\xff\xff\x7f\xff"), ""},
		{"int 32 of -32768", []byte("\xd2\xff\xff\x80\x00"), "shortest"},
		{"int 32 of 2^31-1", []byte("\xd2\x7f\xff\xff\xff"), "shortest"},
		{"int 64", []byte("\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"), ""},
		{"int 64 of -2^31", []byte("\xd3\xff\xff\xff\xff\x80\x00\x00\x00"), "shortest"},
		{"int 64 of 2^63-1", []byte("\xd3\x7f\xff\xff\xff\xff\xff\xff\xff"), "shortest"},
		{"fixstr", filled("\xbf", 31), ""},
		{"str 8", filled("\xd9\x20", 32), ""},
		{"str 8 of 31", filled("\xd9\x1f", 31), "shortest"},
		{"str 16", filled("\xda\x01\x00", 1<<8), ""},
		{"str 16 of 255", filled("\xda\x00\xff", 255), "shortest"},
		{"str 32", filled("\xdb\x00\x01\x00\x00", 1<<16), ""},
		{"str 32 of 65535", filled("\xdb\x00\x00\xff\xff", 65535), "shortest"},
		{"bin 8", filled("\xc4\x00", 0), ""},
		{"bin 16", filled("\xc5\x01\x00", 1<<8), ""},
		{"bin 16 of 255", filled("\xc5\x00\xff", 255), "shortest"},
		{"bin 32", filled("\xc6\x00\x01\x00\x00", 1<<16), ""},
		{"bin 32 of 65535", filled("\xc6\x00\x00\xff\xff", 65535), "shortest"},
		{"fixarray", filled("\x9f", 15), ""},
		{"array 16", filled("\xdc\x00\x10", 16), ""},
		{"array 16 of 15", filled("\xdc\x00\x0f", 15), "shortest"},
		{"array 32", filled("\xdd\x00\x01\x00\x00", 1<<16), ""},
		{"array 32 of 65535", filled("\xdd\x00\x00\xff\xff", 65535), "shortest"},
		{"false", []byte{0xc2}, ""},
		{"true", []byte{0xc3}, ""},
		{"nil", []byte{0xc0}, "a nil"},
		{"unused", []byte{0xc1}, "unused"},
		{"float 32", filled("\xca", 4), "a float"},
		{"float 64", filled("\xcb", 8), "a float"},
		{"fixmap", []byte{0x80}, "a map"},
		{"map 16", filled("\xde", 2), "a map"},
		{"map 32", filled("\xdf", 4), "a map"},
		{"fixext", filled("\xd4", 2), "an ext"},
		{"ext", filled("\xc7\x00\x00", 0), "an ext"},
		{"text beyond", filled("\xa2", 1), "beyond"},
		{"bytes beyond", filled("\xc6\xff\xff\xff\xff", 100), "beyond"},
		{"array beyond", filled("\xdd\xff\xff\xff\xff", 100), "beyond"},
		{"array short", filled("\x92\x91", 1), "cut short"},
		{"nothing", nil, "beyond"},
		{"trailing", []byte{1, 2}, "after the array"},
	} {
		b := append([]byte{0x91}, test.value...)
		err := protocol.Validate(b)
		if test.fault == "" {
			require.NoError(t, err, test.name)
			requireEveryCutMalformed(t, b[:min(len(b), 600)], len(b))
			continue
		}
		require.ErrorIs(t, err, protocol.ErrMalformed, test.name)
		require.ErrorContains(t, err, test.fault, test.name)
	}
}

func requireEveryCutMalformed(t *testing.T, b []byte, whole int) {
	t.Helper()
	for n := range min(len(b), whole-1) {
		require.ErrorIs(t, protocol.Validate(b[:n]), protocol.ErrMalformed)
	}
}

func TestValidateDepth(t *testing.T) {
	for depth := 1; depth <= 40; depth++ {
		b := append(bytes.Repeat([]byte{0x91}, depth-1), 0x90)
		if err := protocol.Validate(b); depth <= protocol.MaxDepth {
			require.NoError(t, err, "depth %d", depth)
		} else {
			require.ErrorContains(t, err, "nested too deep", "depth %d", depth)
		}
	}
	// The stack of what is still to come is right at each level.
	require.NoError(t, protocol.Validate([]byte("\x93\x92\x01\x92\x90\x02\x03\x91\x04")))
	require.Error(t, protocol.Validate(bytes.Repeat([]byte{0x91}, 100_000)))
}

// canonical is another way to the verdict of Validate: it reads any MessagePack
// of the kinds that the protocol has, writes it with the library's shortest
// encoders, and compares.
func canonical(b []byte) bool {
	r := &reference{in: b}
	r.enc = msgpack.NewEncoder(&r.out)
	r.value(0)
	return r.fault == "" && len(r.in) == 0 && bytes.Equal(r.out.Bytes(), b) && r.arrays > 0
}

type reference struct {
	in     []byte
	out    bytes.Buffer
	enc    *msgpack.Encoder
	arrays int
	fault  string
}

func (r *reference) fail(format string, args ...any) { r.fault += fmt.Sprintf(format, args...) + "; " }

func (r *reference) take(n uint64) []byte {
	if n > uint64(len(r.in)) {
		r.fail("%d bytes of %d", n, len(r.in))
		return make([]byte, 8)
	}
	b := r.in[:n]
	r.in = r.in[n:]
	return b
}

// number reads a big-endian number of so many bytes.
func (r *reference) number(width int) uint64 {
	var b [8]byte
	copy(b[8-width:], r.take(uint64(width)))
	return binary.BigEndian.Uint64(b[:])
}

func (r *reference) value(depth int) {
	if r.fault != "" {
		return
	}
	switch c := r.take(1)[0]; {
	case c <= 0x7f:
		r.uint(uint64(c))
	case c >= 0xe0:
		r.int(int64(int8(c)))
	case c >= 0xcc && c <= 0xcf:
		r.uint(r.number(1 << (c - 0xcc)))
	case c == 0xd0:
		r.int(int64(int8(r.number(1))))
	case c == 0xd1:
		r.int(int64(int16(r.number(2))))
	case c == 0xd2:
		r.int(int64(int32(r.number(4))))
	case c == 0xd3:
		r.int(int64(r.number(8)))
	case c == 0xc2 || c == 0xc3:
		r.check(r.enc.EncodeBool(c == 0xc3))
	case c >= 0xa0 && c <= 0xbf:
		r.text(uint64(c - 0xa0))
	case c >= 0xd9 && c <= 0xdb:
		r.text(r.number(1 << (c - 0xd9)))
	case c >= 0xc4 && c <= 0xc6:
		r.check(r.enc.EncodeBytes(append([]byte{}, r.take(r.number(1<<(c-0xc4)))...)))
	case c >= 0x90 && c <= 0x9f:
		r.array(uint64(c-0x90), depth)
	case c == 0xdc || c == 0xdd:
		r.array(r.number(2<<(c-0xdc)), depth)
	default:
		r.fail("type %x", c)
	}
}

func (r *reference) check(err error) {
	if err != nil {
		r.fail("%v", err)
	}
}

func (r *reference) uint(n uint64) { r.check(r.enc.EncodeUint(n)) }
func (r *reference) int(n int64)   { r.check(r.enc.EncodeInt(n)) }
func (r *reference) text(n uint64) { r.check(r.enc.EncodeString(string(r.take(n)))) }

func (r *reference) array(n uint64, depth int) {
	if depth == 8 {
		r.fail("depth %d", depth)
		return
	}
	if n > uint64(len(r.in)) {
		r.fail("%d elements in %d bytes", n, len(r.in))
		return
	}
	r.arrays++
	r.check(r.enc.EncodeArrayLen(int(n)))
	for range n {
		r.value(depth + 1)
	}
}

func TestReferenceAgreesOnVectors(t *testing.T) {
	for _, v := range frameVectors(t) {
		require.Equal(t, protocol.Validate(v.bytes) == nil, canonical(v.bytes), v.name)
	}
}

func FuzzValidate(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := protocol.Validate(b)
		if err != nil {
			requireMalformed(t, err)
		}
		if want := canonical(b); want != (err == nil) {
			t.Fatalf("%x: %v, canonical %t", b, err, want)
		}
	})
}

func requireMalformed(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, protocol.ErrMalformed)
	require.Equal(t, protocol.ErrMalformed, protocol.CodeOf(err))
	require.True(t, strings.Contains(err.Error(), "malformed: "), err.Error())
}
