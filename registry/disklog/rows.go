package disklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// The first byte of a row's key; doc.go has the table.
const (
	kindMeta   = 'a'
	kindDead   = 'd'
	kindEntry  = 'e'
	kindFence  = 'f'
	kindIndex  = 'i'
	kindKeys   = 'k'
	kindRecord = 'm' // of format 1
	kindRun    = 'n'
	kindTopic  = 't'
	kindDirect = 'u'
)

// Format is the format of folders that this package writes; it reads all up to
// it.
const Format = 2

// What rows begin with. Only those of messages' places have had two formats.
const (
	rowFormat = 1
	runFormat = 2 // its message is in a row of kindRun
)

var (
	keyEpoch     = []byte("aepoch")
	keyHead      = []byte("ahead")
	keyFloor     = []byte("afloor")
	keyForgotten = []byte("aforgotten")
	keyIdentity  = []byte("aidentity")
)

func seqKey(b []byte, kind byte, seq protocol.Seq) []byte {
	return binary.BigEndian.AppendUint64(append(b[:0], kind), uint64(seq))
}

func cutSeqKey(key []byte) (protocol.Seq, error) {
	if len(key) != 9 {
		return 0, errRow
	}
	return protocol.Seq(binary.BigEndian.Uint64(key[1:])), nil
}

// Messages are sorted by groups of streams within each window of the log. Who
// reads one stream of many finds several of its messages in a block; who reads
// all of them finds a page in few places; and a batch has but few places to go to.
// Both numbers are part of the format.
const (
	window = 4096 // seqs
	groups = 64
)

// runKey is the row of a message.
func runKey(b []byte, seq protocol.Seq, group uint8) []byte {
	b = append(seqKey(b, kindRun, seq&^(window-1)), group)
	return binary.BigEndian.AppendUint16(b, uint16(seq&(window-1)))
}

func cutRunKey(key []byte) (protocol.Seq, error) {
	r := reader{b: key[1:]}
	first, _, behind := r.u64(), r.u8(), r.u16()
	if err := r.end(); err != nil {
		return 0, err
	}
	return protocol.Seq(first + uint64(behind)), nil
}

// A row of the dead tells which messages of a window have gone though their rows
// are there. Its key has the first that it names; no other row names it.
func deadRow(n note) (key, row []byte) {
	key = binary.BigEndian.AppendUint16(seqKey(nil, kindDead, n.first), n.dead[0])
	row = append(row, rowFormat)
	for _, behind := range n.dead {
		row = binary.BigEndian.AppendUint16(row, behind)
	}
	return key, row
}

func parseDead(key, row []byte) (n note, err error) {
	k := reader{b: key[1:]}
	n.first = protocol.Seq(k.u64())
	named := k.u16()
	if err := k.end(); err != nil || n.first%window != 0 {
		return n, errRow
	}
	r, err := openRow(row)
	if err != nil {
		return n, err
	}
	for r.err == nil && len(r.b) > 0 {
		n.dead = append(n.dead, r.u16())
	}
	if r.err != nil || len(n.dead) == 0 || n.dead[0] != named || slices.Max(n.dead) >= window {
		return n, errRow
	}
	return n, nil
}

func fenceKey(topic string) []byte { return append([]byte{kindFence}, topic...) }

// markKey is the row of a stream's mark.
func markKey(s *stream) []byte {
	if s.To != 0 {
		return binary.BigEndian.AppendUint32([]byte{kindDirect}, uint32(s.To))
	}
	return append([]byte{kindTopic}, s.Topic...)
}

const maxTable = 255 // bytes of a table's name

func entryKey(table, key string) []byte {
	b := append([]byte{kindEntry, byte(len(table))}, table...)
	return append(b, key...)
}

func cutEntryKey(b []byte) (table, key string, err error) {
	r := reader{b: b[1:]}
	table = string(r.short())
	return table, string(r.b), r.err
}

var errRow = errors.New("not a row of this format")

// reader takes fields off a row and keeps the first error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = errRow
	}
	if r.err != nil {
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() uint8 {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// short is a field of up to 255 bytes with its length before it.
func (r *reader) short() []byte { return r.take(int(r.u8())) }

func (r *reader) digest() (d [16]byte) {
	copy(d[:], r.take(len(d)))
	return d
}

// end is the error of a row that ends here.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errRow
	}
	return r.err
}

// open checks the format number that every row begins with.
func openRow(b []byte) (reader, error) {
	switch {
	case len(b) == 0:
		return reader{}, errRow
	case b[0] != rowFormat:
		return reader{}, fmt.Errorf("%w: format %d, and this program knows %d", errRow, b[0], rowFormat)
	}
	return reader{b: b[1:]}, nil
}

func appendShort[T string | []byte](b []byte, v T) []byte {
	return append(append(b, byte(len(v))), v...)
}

// numbersRow is a row of a few numbers: an epoch, a head, a fence, a mark.
func numbersRow(numbers ...uint64) []byte {
	b := []byte{rowFormat}
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func parseNumbers(row []byte, numbers ...*uint64) error {
	r, err := openRow(row)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		*n = r.u64()
	}
	return r.end()
}

// appendRecord writes a message's row: what only the log needs, then the frame
// that goes to readers, without its length and without the key.
func appendRecord(b []byte, r *registry.Record) []byte {
	b = append(b, rowFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Epoch))
	b = append(b, r.Digest[:]...)
	b = appendShort(b, r.Slot)
	b = appendShort(b, r.Key)
	return append(b, r.Frame()[protocol.LengthSize:]...)
}

// parseRecord reads a message's row, of which it keeps nothing. The topic is
// there to be kept instead of a copy where it is the message's.
func parseRecord(row []byte, seq protocol.Seq, topic string) (*registry.Record, error) {
	in, err := openRow(row)
	if err != nil {
		return nil, err
	}
	r := &registry.Record{}
	r.Epoch = protocol.EpochID(in.u64())
	r.Digest = in.digest()
	r.Slot = string(in.short())
	key := in.short()
	if in.err != nil {
		return nil, in.err
	}
	d := protocol.Deliver{Message: protocol.Message{Topic: topic}}
	if err := d.Parse(in.b); err != nil {
		return nil, err
	}
	if len(r.Slot) > protocol.MaxSlot || len(key) > protocol.MaxKey || len(d.Key) > 0 || d.Seq != seq {
		return nil, errRow
	}
	r.Message = d.Message
	r.Key = key
	r.Seal() // copies payload and key
	return r, nil
}

// appendIndex writes the row from which a stub is made at the next start.
func appendIndex(b []byte, x *stub) []byte {
	format := byte(runFormat)
	if x.old {
		format = rowFormat
	}
	b = append(b, format)
	b = binary.BigEndian.AppendUint64(b, uint64(x.time))
	b = binary.BigEndian.AppendUint32(b, uint32(x.sender))
	b = binary.BigEndian.AppendUint32(b, x.size)
	b = binary.BigEndian.AppendUint32(b, x.charge)
	b = appendShort(b, x.slot)
	b = binary.BigEndian.AppendUint32(b, uint32(x.stream.To))
	return append(b, x.stream.Topic...)
}

// parseIndex reads it. The stream is found by its topic or recipient, and the
// topic is valid only until the function returns.
func parseIndex(row []byte, seq protocol.Seq, find func(topic []byte, to protocol.NodeID) *stream) (_ *stub, err error) {
	x := &stub{seq: seq, old: true}
	r := reader{}
	if len(row) > 0 && row[0] == runFormat {
		x.old, r.b = false, row[1:]
	} else if r, err = openRow(row); err != nil {
		return nil, err
	}
	x.time = protocol.Time(r.u64())
	x.sender = protocol.NodeID(r.u32())
	x.size, x.charge = r.u32(), r.u32()
	if slot := r.short(); len(slot) > 0 {
		x.slot = string(slot)
	}
	to := protocol.NodeID(r.u32())
	if r.err != nil {
		return nil, r.err
	}
	if (len(r.b) > 0) == (to != 0) || len(r.b) > protocol.MaxTopic || len(x.slot) > protocol.MaxSlot {
		return nil, errRow
	}
	x.stream = find(r.b, to)
	return x, nil
}

// appendKey adds to a row of keys: those of one batch stand in one row.
func appendKey(b []byte, r *registry.Record) []byte {
	if len(b) == 0 {
		b = append(b, rowFormat)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Sender))
	b = append(b, r.Digest[:]...)
	return appendShort(b, r.Key)
}

// parseKeys reads a row of keys; what it hands over is valid until do returns.
func parseKeys(row []byte, do func(registry.KeyEntry) error) error {
	r, err := openRow(row)
	if err != nil {
		return err
	}
	for last := protocol.Seq(0); len(r.b) > 0; {
		var e registry.KeyEntry
		e.Seq, e.Time = protocol.Seq(r.u64()), protocol.Time(r.u64())
		e.Sender = protocol.NodeID(r.u32())
		e.Digest = r.digest()
		e.Key = r.short()
		if r.err == nil && (e.Seq <= last || len(e.Key) > protocol.MaxKey) {
			r.err = errRow
		}
		if r.err != nil {
			return r.err
		}
		if err := do(e); err != nil {
			return err
		}
		last = e.Seq
	}
	return nil
}

// entryRow is the value of an entry behind the format number.
func entryRow(value []byte) []byte { return append([]byte{rowFormat}, value...) }

func parseEntry(key, row []byte) (registry.Entry, error) {
	table, name, err := cutEntryKey(key)
	if err != nil {
		return registry.Entry{}, err
	}
	r, err := openRow(row)
	if err != nil {
		return registry.Entry{}, err
	}
	value := bytes.Clone(r.b)
	if value == nil {
		value = []byte{}
	}
	return registry.Entry{Table: table, Key: name, Value: value}, nil
}

func parseFence(key, row []byte) (registry.FenceEntry, error) {
	e := registry.FenceEntry{Topic: string(key[1:])}
	var s uint64
	err := parseNumbers(row, &e.Fence.K, &s)
	e.Fence.S = protocol.Seq(s)
	return e, err
}
