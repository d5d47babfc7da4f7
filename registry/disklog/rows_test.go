package disklog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func record(change func(*registry.Record)) *registry.Record {
	r := &registry.Record{Digest: [16]byte{1, 15: 2}, Epoch: 1 << 60, Slot: "slot"}
	r.Seq, r.Time, r.Sender, r.Topic = 300, 1e18, 1<<31, "election:blue"
	r.Payload, r.Key = []byte(`{"a":1}`), []byte("0123456789abcdef01234567")
	r.Fences = []protocol.Mark{{Topic: "election:blue", Term: 1<<53 - 1}}
	if change != nil {
		change(r)
	}
	r.Seal()
	return r
}

// A row of the dead, byte by byte, as doc.go has it.
func TestTheRowOfTheDead(t *testing.T) {
	key, row := deadRow(note{0x3000, []uint16{0xfff, 1}})
	require.Equal(t, "d\x00\x00\x00\x00\x00\x00\x30\x00\x0f\xff", string(key))
	require.Equal(t, "\x01\x0f\xff\x00\x01", string(row))
	n, err := parseDead(key, row)
	require.NoError(t, err)
	require.Equal(t, note{0x3000, []uint16{0xfff, 1}}, n)
	for _, bad := range [][2]string{
		{string(key), ""},
		{string(key), "\x01"},
		{string(key), "\x02\x0f\xff"},
		{string(key), "\x01\x0f\xff\x00"},
		{string(key), "\x01\x00\x01\x0f\xff"}, // the key names another
		{string(key), "\x01\x0f\xff\x10\x00"}, // above the window
		{string(key[:10]), string(row)},
		{"d\x00\x00\x00\x00\x00\x00\x30\x01\x0f\xff", string(row)}, // no window's first
	} {
		_, err := parseDead([]byte(bad[0]), []byte(bad[1]))
		require.ErrorIs(t, err, errRow)
	}
}

// A row of the first format, byte by byte, as doc.go has it.
func TestTheRowOfAMessage(t *testing.T) {
	r := &registry.Record{Digest: [16]byte{0xd0, 15: 0xdf}, Epoch: 0x0102030405060708, Slot: "s"}
	r.Seq, r.Time, r.Sender, r.Topic, r.Payload, r.Key = 5, 6, 7, "t", []byte{9}, []byte("k")
	require.Equal(t, "\x01"+
		"\x01\x02\x03\x04\x05\x06\x07\x08"+
		"\xd0"+string(make([]byte, 14))+"\xdf"+
		"\x01s"+"\x01k"+
		string(r.Frame()[protocol.LengthSize:]), string(appendRecord(nil, r)))
}

// The places of rows are part of the format, as doc.go has it.
func TestTheRowsOfMessages(t *testing.T) {
	a, b := newStream("a", 0), newStream("", 1<<31)
	require.Equal(t, "n\x00\x00\x00\x00\x00\x00\x30\x00\x30\x00\x05", string((&stub{seq: 0x3005, stream: a}).row(nil)))
	require.Equal(t, "n\x00\x00\x00\x00\x00\x00\x30\x00\x38\x0f\xff", string((&stub{seq: 0x3fff, stream: b}).row(nil)))
	require.Equal(t, "m\x00\x00\x00\x00\x00\x00\x30\x05", string((&stub{seq: 0x3005, stream: a, old: true}).row(nil)))

	var stubs []*stub
	for seq := protocol.Seq(1); seq < 3*window; seq += 7 {
		stubs = append(stubs, &stub{seq: seq, stream: newStream(fmt.Sprint(seq%200), 0), old: seq < window/2})
	}
	slices.SortFunc(stubs, byRow)
	require.True(t, slices.IsSortedFunc(stubs, func(a, b *stub) int { return bytes.Compare(a.row(nil), b.row(nil)) }))
	for _, x := range stubs {
		cut := cutRunKey
		if x.old {
			cut = cutSeqKey
		}
		seq, err := cut(x.row(nil))
		require.NoError(t, err)
		require.Equal(t, x.seq, seq)
	}
	_, err := cutRunKey([]byte("n12345678abcd"))
	require.ErrorIs(t, err, errRow)
}

func isTyped(err error) bool {
	return errors.Is(err, errRow) || errors.Is(err, protocol.ErrMalformed)
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range []*registry.Record{
		record(nil),
		record(func(r *registry.Record) { r.Topic, r.To, r.Slot, r.Fences = "", 5, "", nil }),
		record(func(r *registry.Record) { r.Payload, r.Key, r.Origin = nil, nil, 9 }),
	} {
		f.Add(appendRecord(nil, r), uint64(r.Seq), "election:blue")
	}
	f.Add([]byte{rowFormat + 1}, uint64(1), "")
	f.Fuzz(func(t *testing.T, row []byte, seq uint64, topic string) {
		r, err := parseRecord(bytes.Clone(row), protocol.Seq(seq), topic)
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Equal(t, seq, uint64(r.Seq))
		require.Equal(t, row, appendRecord(nil, r))
	})
}

func FuzzParseIndex(f *testing.F) {
	for _, x := range []*stub{
		{time: 1e18, stream: newStream("config:a", 0), sender: 1 << 31, size: 7, charge: 519, slot: "s"},
		{time: 1, stream: newStream("", 7), sender: 1, charge: 512},
		{time: 1, stream: newStream("a", 0), sender: 1, charge: 514, old: true},
	} {
		f.Add(appendIndex(nil, x))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		x, err := parseIndex(row, 5, func(topic []byte, to protocol.NodeID) *stream { return newStream(string(topic), to) })
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Equal(t, row, appendIndex(nil, x))
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add(appendKey(appendKey(nil, record(nil)), record(func(r *registry.Record) { r.Seq, r.Key = 301, nil })))
	f.Fuzz(func(t *testing.T, row []byte) {
		again := []byte{rowFormat}
		err := parseKeys(row, func(e registry.KeyEntry) error {
			r := &registry.Record{Digest: e.Digest}
			r.Seq, r.Time, r.Sender, r.Key = e.Seq, e.Time, e.Sender, e.Key
			again = appendKey(again, r)
			return nil
		})
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		require.Equal(t, row, again)
	})
}

// Rows of a kind that has but one field or two.
func FuzzSmallRows(f *testing.F) {
	f.Add(entryKey("nodes", "\x00\xff"), entryRow([]byte{1}))
	f.Add(fenceKey("a"), numbersRow(1, 2))
	f.Add(markKey(newStream("", 7)), numbersRow(1))
	key, row := deadRow(note{3 * window, []uint16{7, 1, window - 1}})
	f.Add(key, row)
	f.Add(keyIdentity, append([]byte{rowFormat}, make([]byte, 32+128)...))
	f.Fuzz(func(t *testing.T, key, row []byte) {
		if len(key) == 0 {
			return
		}
		if e, err := parseEntry(key, row); err == nil {
			require.Equal(t, key[1:], entryKey(e.Table, e.Key)[1:])
			require.Equal(t, row, entryRow(e.Value))
		}
		if e, err := parseFence(key, row); err == nil {
			require.Equal(t, row, numbersRow(e.Fence.K, uint64(e.Fence.S)))
		}
		if n, err := parseDead(key, row); err == nil {
			k, r := deadRow(n)
			require.Equal(t, key[1:], k[1:])
			require.Equal(t, row, r)
		}
		if s, err := parseMark(key, row); err == nil {
			require.Equal(t, row, numbersRow(uint64(s.Evicted)))
		}
		if id, err := parseIdentity(row); err == nil {
			require.Equal(t, row, identityRow(id))
		}
	})
}
