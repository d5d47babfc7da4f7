package disklog

import (
	"bytes"
	"errors"
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
	f.Add([]byte{Format + 1}, uint64(1), "")
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
		again := []byte{Format}
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
	f.Add(keyIdentity, append([]byte{Format}, make([]byte, 32+128)...))
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
		if s, err := parseMark(key, row); err == nil {
			require.Equal(t, row, numbersRow(uint64(s.evicted)))
		}
		if id, err := parseIdentity(row); err == nil {
			require.Equal(t, row, identityRow(id))
		}
	})
}
