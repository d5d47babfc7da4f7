package protocol

import (
	"encoding/binary"
	"math"
)

// MaxDepth is how deep arrays may nest in a frame.
const MaxDepth = 8

// Validate checks that b is exactly one MessagePack array in the one form this
// protocol knows: shortest integers and lengths, only non-negative and negative
// integers, booleans, str, bin and arrays, at most MaxDepth deep, every length
// covered by the bytes at hand. It allocates nothing unless it fails. The error
// is ErrMalformed.
//
// Text in a str is not checked to be UTF-8: a bad topic is refused by name, and
// does not end the connection.
func Validate(b []byte) error {
	if len(b) == 0 {
		return malformed("empty frame", 0)
	}
	if !isArray(b[0]) {
		return malformed("not an array", 0)
	}
	end, err := skip(b, 0)
	if err != nil {
		return err
	}
	if end != len(b) {
		return malformed("bytes after the array", end)
	}
	return nil
}

func malformed(what string, at int) error {
	return Errorf(ErrMalformed, "%s at byte %d", what, at)
}

func isArray(c byte) bool { return c&0xf0 == 0x90 || c == 0xdc || c == 0xdd }

// skip walks one value and all it holds, from the offset at, without recursion:
// left[d] counts the elements still to come at depth d.
func skip(b []byte, at int) (end int, err error) {
	var left [MaxDepth + 1]uint32
	depth := 0
	left[0] = 1
	for {
		for left[depth] == 0 {
			if depth == 0 {
				return at, nil
			}
			depth--
		}
		left[depth]--
		h, fault := readHead(b, at)
		if fault != "" {
			return at, malformed(fault, at)
		}
		at += h.size
		switch h.kind {
		case kindBytes, kindText:
			if h.value > uint64(len(b)-at) {
				return at, malformed("length beyond the frame", at)
			}
			at += int(h.value)
		case kindArray:
			// Each element takes at least one byte.
			if h.value > uint64(len(b)-at) {
				return at, malformed("array longer than the frame", at)
			}
			if depth == MaxDepth {
				return at, malformed("nested too deep", at)
			}
			depth++
			left[depth] = uint32(h.value)
		}
	}
}

type kind byte

const (
	kindUint kind = iota
	kindInt
	kindBool
	kindText
	kindBytes
	kindArray
)

// head is the first part of a value: its kind, how many bytes the head takes,
// and the number, length or count it tells.
type head struct {
	value uint64
	size  int
	kind  kind
}

// readHead reads the head of the value at b[at:]; fault is "" or what is wrong.
func readHead(b []byte, at int) (h head, fault string) {
	if at >= len(b) {
		return h, "cut short"
	}
	c := b[at]
	switch {
	case c < 0x80:
		return head{uint64(c), 1, kindUint}, ""
	case c < 0x90:
		return h, "a map"
	case c < 0xa0:
		return head{uint64(c & 0x0f), 1, kindArray}, ""
	case c < 0xc0:
		return head{uint64(c & 0x1f), 1, kindText}, ""
	case c >= 0xe0:
		return head{0, 1, kindInt}, ""
	}
	f := forms[c-0xc0]
	if f.width == 0 {
		if f.fault != "" {
			return h, f.fault
		}
		return head{uint64(c & 1), 1, f.kind}, "" // false, true
	}
	if len(b)-at-1 < f.width {
		return h, "cut short"
	}
	v := bigEndian(b[at+1 : at+1+f.width])
	if f.kind == kindInt {
		if shift := 64 - 8*f.width; int64(v<<shift)>>shift >= f.below {
			return h, "not the shortest form"
		}
		return head{0, 1 + f.width, kindInt}, ""
	}
	if v < f.least {
		return h, "not the shortest form"
	}
	return head{v, 1 + f.width, f.kind}, ""
}

// form tells of one of the types 0xc0 … 0xdf: how many bytes of number follow
// and which values have no shorter form.
type form struct {
	fault string
	least uint64 // unsigned: the smallest value this form is for
	below int64  // signed: this form is for values below
	width int
	kind  kind
}

var forms = [32]form{
	0x00: {fault: "nil"},
	0x01: {fault: "an unused type"},
	0x02: {kind: kindBool},
	0x03: {kind: kindBool},
	0x04: {kind: kindBytes, width: 1},
	0x05: {kind: kindBytes, width: 2, least: 1 << 8},
	0x06: {kind: kindBytes, width: 4, least: 1 << 16},
	0x07: {fault: "an ext"}, 0x08: {fault: "an ext"}, 0x09: {fault: "an ext"},
	0x0a: {fault: "a float"}, 0x0b: {fault: "a float"},
	0x0c: {kind: kindUint, width: 1, least: 1 << 7},
	0x0d: {kind: kindUint, width: 2, least: 1 << 8},
	0x0e: {kind: kindUint, width: 4, least: 1 << 16},
	0x0f: {kind: kindUint, width: 8, least: 1 << 32},
	0x10: {kind: kindInt, width: 1, below: -32},
	0x11: {kind: kindInt, width: 2, below: math.MinInt8},
	0x12: {kind: kindInt, width: 4, below: math.MinInt16},
	0x13: {kind: kindInt, width: 8, below: math.MinInt32},
	0x14: {fault: "an ext"}, 0x15: {fault: "an ext"}, 0x16: {fault: "an ext"},
	0x17: {fault: "an ext"}, 0x18: {fault: "an ext"},
	0x19: {kind: kindText, width: 1, least: 1 << 5},
	0x1a: {kind: kindText, width: 2, least: 1 << 8},
	0x1b: {kind: kindText, width: 4, least: 1 << 16},
	0x1c: {kind: kindArray, width: 2, least: 1 << 4},
	0x1d: {kind: kindArray, width: 4, least: 1 << 16},
	0x1e: {fault: "a map"}, 0x1f: {fault: "a map"},
}

func bigEndian(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	default:
		return binary.BigEndian.Uint64(b)
	}
}
