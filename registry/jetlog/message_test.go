package jetlog

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func sample() *part {
	r := &registry.Record{Slot: "s", Digest: [16]byte{1, 2}, Epoch: 9}
	r.Seq, r.Time, r.Sender, r.Topic, r.Payload, r.Key = 5, 1000, 1<<31, "jobs", []byte("{}"), []byte("key")
	r.Fences = []protocol.Mark{{Topic: "election:g", Term: 7}}
	r.Seal()
	p := &part{
		keys:  []registry.KeyEntry{{Sender: 1 << 31, Key: []byte("k"), Seq: 4, Time: 999, Digest: [16]byte{3}}},
		marks: []memlog.Mark{{Topic: "jobs", Evicted: 3}, {To: 1 << 31, Evicted: 2}},
	}
	p.Records = []*registry.Record{r}
	p.Fences = []registry.FenceEntry{{Topic: "election:g", Fence: protocol.Fence{K: 7, S: 5}}}
	p.Entries = []registry.Entry{{Table: "joins", Key: "\xff", Value: []byte{}}, {Table: "joins", Key: "gone"}}
	p.Claims = []registry.Claim{{Key: "\x01\x02", Instance: protocol.Instance{4}}}
	p.KeyFloor = 2
	return p
}

// The bytes of format 1. They are in streams and never change.
func TestPartOfFormat1(t *testing.T) {
	p := sample()
	require.Equal(t, partOfFormat1, hex.EncodeToString(p.append()))
	got, err := parsePart(p.append())
	require.NoError(t, err)
	require.Equal(t, p, got)

	empty, err := parsePart((&part{}).append())
	require.NoError(t, err)
	require.Equal(t, &part{}, empty)
}

func TestHeadOfFormat1(t *testing.T) {
	h := head{kind: kindBatch, index: 1, count: 2, epoch: 0x1122, base: 0x33, id: id{0x44}}
	require.Equal(t, "0170676c02000100020000000000001122000000000000003344000000000000000000000000000000", hex.EncodeToString(h.append(nil)))
}

func TestFragments(t *testing.T) {
	h := head{kind: kindBatch, epoch: 5, base: 10, id: id{1, 2, 3}}
	for _, test := range []struct{ body, count int }{{0, 1}, {1, 1}, {59, 1}, {60, 2}, {118, 2}, {119, 3}} {
		body := make([]byte, test.body)
		for i := range body {
			body[i] = byte(i)
		}
		list := fragments(h, body, 100)
		require.Len(t, list, test.count)
		var all []byte
		for i, m := range list {
			require.LessOrEqual(t, len(m), 100)
			got, rest, err := parseHead(m)
			require.NoError(t, err)
			want := h
			want.index, want.count, want.base = uint16(i), uint16(test.count), 10+uint64(i)
			require.Equal(t, want, got)
			all = append(all, rest...)
		}
		require.Equal(t, body, append([]byte{}, all...))
	}
}

func TestDamagedMessages(t *testing.T) {
	h := head{kind: kindBatch, count: 1}
	good := h.append(nil)
	for name, change := range map[string]func([]byte) []byte{
		"short":               func(b []byte) []byte { return b[:headSize-1] },
		"no kind":             func(b []byte) []byte { b[4] = 0; return b },
		"fragment behind all": func(b []byte) []byte { b[6] = 1; return b },
	} {
		_, _, err := parseHead(change(append([]byte(nil), good...)))
		require.ErrorIs(t, err, protocol.ErrInternal, name)
	}
	for _, at := range []int{0, 4} {
		b := append([]byte(nil), good...)
		b[at] = 99
		_, _, err := parseHead(b)
		require.ErrorIs(t, err, protocol.ErrVersion)
	}
	for _, b := range []string{"", "hello", "{}", "\x01"} {
		_, _, err := parseHead([]byte(b))
		require.ErrorIs(t, err, errForeign)
	}
	body := sample().append()
	for n := range body {
		_, err := parsePart(body[:n])
		require.ErrorIs(t, err, protocol.ErrInternal)
	}
	var n uint64
	require.ErrorIs(t, parseNumbers(numbers(), &n), protocol.ErrInternal)
	require.ErrorIs(t, parseNumbers([]byte{0x91, 0xa1, 'x'}, &n), protocol.ErrInternal)
}

// A newer pilotgo may add to arrays.
func TestMoreElementsArePassedOver(t *testing.T) {
	body := sample().append()
	body[0]++
	got, err := parsePart(append(body, 0x93, 1, 0xa1, 'x', 0x90))
	require.NoError(t, err)
	require.Equal(t, sample(), got)
	var n uint64
	require.NoError(t, parseNumbers(numbers(5, 6), &n))
	require.Equal(t, uint64(5), n)
}

func FuzzPart(f *testing.F) {
	f.Add(sample().append())
	f.Add((&part{}).append())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePart(b)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInternal)
			return
		}
		again, err := parsePart(p.append())
		require.NoError(t, err)
		require.Equal(t, p.append(), again.append())
	})
}

func FuzzHead(f *testing.F) {
	f.Add((&head{kind: kindBegin, count: 1}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := parseHead(b)
		if err != nil {
			require.True(t, errors.Is(err, errForeign) || errors.Is(err, protocol.ErrInternal) || errors.Is(err, protocol.ErrVersion), "%v", err)
			return
		}
		require.Equal(t, b, append(h.append(nil), body...))
	})
}

// See TestPartOfFormat1.
const partOfFormat1 = "97029195c4269a3205cd03e8ce800000000000a46a6f6273c4027b7dc4009192aa656c656374696f6e3a6707c4036b6579a173c41001020000000000000000000000000000099193aa656c656374696f6e3a6707059293a56a6f696e73c401ffc40092a56a6f696e73c404676f6e659192c4020102c410040000000000000000000000000000009195ce80000000c4016b04cd03e7c410030000000000000000000000000000009293a46a6f6273000393a0ce8000000002"
