package election

import (
	"cmp"
	"strconv"
)

// DefaultPriority is the priority of a node that was given none: what the recipe
// computes with `echo -n ID | cksum`.
func DefaultPriority(id string) int64 {
	var crc uint32
	for i := range len(id) {
		crc = crc<<8 ^ cksumTable[byte(crc>>24)^id[i]]
	}
	for n := len(id); n > 0; n >>= 8 {
		crc = crc<<8 ^ cksumTable[byte(crc>>24)^byte(n)]
	}
	return int64(^crc)
}

// cksumTable is for the CRC of POSIX cksum: the polynomial of CRC-32, highest
// bit first, which hash/crc32 does not have.
var cksumTable = func() (table [256]uint32) {
	for i := range table {
		crc := uint32(i) << 24
		for range 8 {
			carry := crc >> 31
			crc = crc<<1 ^ carry*0x04c11db7
		}
		table[i] = crc
	}
	return table
}()

// A standing is what the bully order compares: priority, then node, then
// instance. It is total, so two members never both stand higher.
type standing struct {
	Priority int64
	Node     string
	Instance [16]byte
}

// above reports whether s is higher in the order than o.
func (s standing) above(o standing) bool {
	if s.Priority != o.Priority {
		return s.Priority > o.Priority
	}
	if c := compareNodes(s.Node, o.Node); c != 0 {
		return c > 0
	}
	return string(s.Instance[:]) > string(o.Instance[:])
}

// compareNodes puts numbers in their order and before all other text.
func compareNodes(a, b string) int {
	m, errA := strconv.ParseUint(a, 10, 64)
	n, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB != nil:
		return -1
	case errA != nil && errB == nil:
		return 1
	case errA == nil && m != n:
		return cmp.Compare(m, n)
	}
	return cmp.Compare(a, b)
}
