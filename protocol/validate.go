package protocol

import "encoding/binary"

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
	if c := b[0]; c&0xf0 != 0x90 && c != 0xdc && c != 0xdd {
		return malformed("no array", 0)
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

// skip walks one value and all it holds, from the offset at, and returns the
// offset behind it. It does not recurse: a stack keeps how many elements the
// arrays around the present one still lack.
func skip(b []byte, at int) (end int, err error) {
	var outer [MaxDepth]uint32
	depth := 0
	left := uint32(1) // values still to come at this depth
	for {
		for left == 0 {
			if depth == 0 {
				return at, nil
			}
			depth--
			left = outer[depth]
		}
		left--
		if at < len(b) && b[at] < 0x80 {
			at++ // most values are small numbers
			continue
		}
		n, size, kind := readHead(b[at:])
		if kind == kindNone {
			return at, malformed(faults[n], at)
		}
		at += size
		if kind < kindText {
			continue
		}
		// An array fails here too: each of its elements takes at least one byte.
		if n > uint64(len(b)-at) {
			return at, malformed("length beyond the frame", at)
		}
		if kind != kindArray {
			at += int(n)
			continue
		}
		if depth == MaxDepth {
			return at, malformed("nested too deep", at)
		}
		outer[depth] = left
		depth++
		left = uint32(n)
	}
}

// kind is what a value is. Those from kindText up have a length.
type kind uint8

const (
	kindNone kind = iota // no value of this protocol
	kindUint
	kindInt // a negative integer
	kindBool
	kindText
	kindBytes
	kindArray
)

// What makes bytes no value of this protocol.
const (
	faultShort = iota
	faultLong
	faultNil
	faultUnused
	faultMap
	faultExt
	faultFloat
)

var faults = [...]string{
	faultShort:  "cut short",
	faultLong:   "not the shortest form",
	faultNil:    "a nil",
	faultUnused: "an unused type",
	faultMap:    "a map",
	faultExt:    "an ext",
	faultFloat:  "a float",
}

// readHead reads the first part of the value that b begins with: the number,
// length or count it tells, how many bytes tell it, and the value's kind. With
// kindNone, n is a fault.
func readHead(b []byte) (n uint64, size int, k kind) {
	if len(b) == 0 {
		return faultShort, 0, kindNone
	}
	c := b[0]
	switch {
	case c < 0x80:
		return uint64(c), 1, kindUint
	case c < 0x90:
		return faultMap, 0, kindNone
	case c < 0xa0:
		return uint64(c & 0x0f), 1, kindArray
	case c < 0xc0:
		return uint64(c & 0x1f), 1, kindText
	case c >= 0xe0:
		return 0, 1, kindInt
	}
	switch c {
	case 0xc0:
		return faultNil, 0, kindNone
	case 0xc1:
		return faultUnused, 0, kindNone
	case 0xc2, 0xc3:
		return uint64(c & 1), 1, kindBool
	case 0xc4:
		return head8(b, kindBytes, 0)
	case 0xc5:
		return head16(b, kindBytes, 1<<8)
	case 0xc6:
		return head32(b, kindBytes)
	case 0xca, 0xcb:
		return faultFloat, 0, kindNone
	case 0xcc:
		return head8(b, kindUint, 1<<7)
	case 0xcd:
		return head16(b, kindUint, 1<<8)
	case 0xce:
		return head32(b, kindUint)
	case 0xcf:
		return head64(b)
	case 0xd0:
		return headInt(b, 1, -1<<5)
	case 0xd1:
		return headInt(b, 2, -1<<7)
	case 0xd2:
		return headInt(b, 4, -1<<15)
	case 0xd3:
		return headInt(b, 8, -1<<31)
	case 0xd9:
		return head8(b, kindText, 1<<5)
	case 0xda:
		return head16(b, kindText, 1<<8)
	case 0xdb:
		return head32(b, kindText)
	case 0xdc:
		return head16(b, kindArray, 1<<4)
	case 0xdd:
		return head32(b, kindArray)
	case 0xde, 0xdf:
		return faultMap, 0, kindNone
	default:
		return faultExt, 0, kindNone
	}
}

// The numbers behind a first byte. One below least has a shorter form.

func head8(b []byte, k kind, least uint8) (uint64, int, kind) {
	if len(b) < 2 {
		return faultShort, 0, kindNone
	}
	n := b[1]
	if n < least {
		return faultLong, 0, kindNone
	}
	return uint64(n), 2, k
}

func head16(b []byte, k kind, least uint16) (uint64, int, kind) {
	if len(b) < 3 {
		return faultShort, 0, kindNone
	}
	n := binary.BigEndian.Uint16(b[1:])
	if n < least {
		return faultLong, 0, kindNone
	}
	return uint64(n), 3, k
}

func head32(b []byte, k kind) (uint64, int, kind) {
	if len(b) < 5 {
		return faultShort, 0, kindNone
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < 1<<16 {
		return faultLong, 0, kindNone
	}
	return uint64(n), 5, k
}

func head64(b []byte) (uint64, int, kind) {
	if len(b) < 9 {
		return faultShort, 0, kindNone
	}
	n := binary.BigEndian.Uint64(b[1:])
	if n < 1<<32 {
		return faultLong, 0, kindNone
	}
	return n, 9, kindUint
}

// headInt is for signed numbers: one that is not below has a shorter form. No
// frame uses them, so it keeps only their kind.
func headInt(b []byte, width int, below int64) (uint64, int, kind) {
	if len(b) < 1+width {
		return faultShort, 0, kindNone
	}
	n := int64(int8(b[1]))
	for _, c := range b[2 : 1+width] {
		n = n<<8 | int64(c)
	}
	if n >= below {
		return faultLong, 0, kindNone
	}
	return 0, 1 + width, kindInt
}
