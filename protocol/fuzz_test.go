package protocol_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// FuzzParse: no input crashes it, takes memory out of proportion or fails without
// a type; what parses has one encoding.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var frame protocol.Frame
		var err error
		used := allocated(func() { frame, err = protocol.Parse(b) })
		if most := max(64<<10, uint64(len(b))*most); used > most {
			t.Fatalf("%d bytes took %d", len(b), used)
		}
		if err != nil {
			requireMalformed(t, err)
			require.Nil(t, frame)
			return
		}
		if again := frame.Append(nil); !bytes.Equal(b, again) {
			t.Fatalf("%x became %x", b, again)
		}
		kind, err := protocol.PeekType(b)
		require.NoError(t, err)
		require.Equal(t, frame.Type(), kind)
		if check, ok := frame.(interface{ Check() error }); ok {
			requireTyped(t, check.Check())
		}
		if p, ok := frame.(*protocol.Publish); ok {
			requireTyped(t, p.Check(protocol.Limits{}))
		}
	})
}

// most is how many times its own size a frame may take in memory.
const most = 20

func requireTyped(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.NotEqual(t, protocol.ErrInternal, protocol.CodeOf(err))
	}
}

func TestParseTakesMemoryByWhatItReads(t *testing.T) {
	const elements = 100_000
	long := func(kind protocol.FrameType, before string, element string, after string) []byte {
		b := []byte{0x92 + byte(len(before)) + byte(len(after)), byte(kind)}
		b = append(b, before...)
		b = binary.BigEndian.AppendUint32(append(b, 0xdd), elements)
		b = append(b, bytes.Repeat([]byte(element), elements)...)
		return append(b, after...)
	}
	condition := "\x96\xa0\x00\x00\x00\x00\x00"
	for name, b := range map[string][]byte{
		"messages": long(protocol.TypeInboxPage, "\x01\x00\x00\x00", "\x99\x00\x00\x00\x00\x00\xa0\xc4\x00\xc4\x00\x90", ""),
		"nodes":    long(protocol.TypeNodesPage, "\x01\x00", "\x96\x00\xc4\x00\xa0\x90\x00\x00", ""),
		"topics":   long(protocol.TypeTopicsPage, "\x01\xa0", "\x96\xa0\x00\x00\x00\x00\x00", ""),
		"texts":    long(protocol.TypeJoin, "\x01", "\xa0", "\x00"),
		"acks":     long(protocol.TypeAcks, "", "\x94\x00\x00\x00\x00", ""),
		"extra":    append(append([]byte("\xdd\x00\x01\x86\xa2"), 5, 1), make([]byte, elements)...),
		"marks": append([]byte("\x9a\x32\x00\x00\x00\x00\x00\xa0\xc4\x00\xc4\x00"),
			long(0, "", "\x92\xa0\x00", "")[2:]...),
		"conditions": append([]byte("\x9c\x21\x00\x00\xc4\x00\x00\x00\xa0\xc4\x00\xc4\x00\x00\x00"),
			long(0, "", condition, "")[2:]...),
		// Each list ends with an element of another kind.
		"not messages": long(protocol.TypeInboxPage, "\x01\x00\x00\x00", "\x00", ""),
		"not texts":    long(protocol.TypeJoin, "\x01", "\x00", "\x00"),
	} {
		require.NoError(t, protocol.Validate(b), name)
		used := allocated(func() {
			_, err := protocol.Parse(b)
			require.Equal(t, name[:3] == "not", err != nil, "%s: %v", name, err)
		})
		require.LessOrEqual(t, used, uint64(most*len(b)), name)
	}
}

// library writes and reads the frames of the hot path with the primitives of the
// library, as all others are.
type library struct {
	t   testing.TB
	out bytes.Buffer
	enc *msgpack.Encoder
	dec *msgpack.Decoder
}

func newLibrary(t testing.TB) *library {
	l := &library{t: t}
	l.enc = msgpack.NewEncoder(&l.out)
	return l
}

func (l *library) write(list ...any) {
	for _, v := range list {
		switch v := v.(type) {
		case int: // of an array
			require.NoError(l.t, l.enc.EncodeArrayLen(v))
		case uint64:
			require.NoError(l.t, l.enc.EncodeUint(v))
		case bool:
			n := uint64(0)
			if v {
				n = 1
			}
			require.NoError(l.t, l.enc.EncodeUint(n))
		case string:
			require.NoError(l.t, l.enc.EncodeString(v))
		case []byte:
			require.NoError(l.t, l.enc.EncodeBytesLen(len(v)))
			l.out.Write(v)
		default:
			require.Fail(l.t, "unknown", "%T", v)
		}
	}
}

func (l *library) read(b []byte) { l.dec = msgpack.NewDecoder(bytes.NewReader(b)) }

func (l *library) array() int {
	n, err := l.dec.DecodeArrayLen()
	require.NoError(l.t, err)
	return n
}

func (l *library) uint() uint64 {
	n, err := l.dec.DecodeUint64()
	require.NoError(l.t, err)
	return n
}

func (l *library) text() string {
	s, err := l.dec.DecodeString()
	require.NoError(l.t, err)
	return s
}

func (l *library) bytes() []byte {
	n, err := l.dec.DecodeBytesLen()
	require.NoError(l.t, err)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	require.NoError(l.t, l.dec.ReadFull(b))
	return b
}

func (l *library) writePublish(p *protocol.Publish, extra []byte) []byte {
	l.write(12+len(extra), uint64(33), p.N, uint64(p.Flags), p.Key, uint64(p.Epoch), uint64(p.Head), p.Topic,
		p.Payload, p.Slot, uint64(p.To), uint64(p.Origin), len(p.Conditions))
	for _, c := range p.Conditions {
		l.write(6, c.Topic, uint64(c.Epoch), c.Term, c.HasExpect, uint64(c.Expect), c.Raise)
	}
	return append(l.out.Bytes(), extra...)
}

func (l *library) readPublish(b []byte) *protocol.Publish {
	l.read(b)
	l.array()
	require.EqualValues(l.t, 33, l.uint())
	p := &protocol.Publish{
		N: l.uint(), Flags: protocol.PublishFlags(l.uint()), Key: l.bytes(), Epoch: protocol.EpochID(l.uint()),
		Head: protocol.Seq(l.uint()), Topic: l.text(), Payload: l.bytes(), Slot: l.bytes(),
		To: protocol.NodeID(l.uint()), Origin: protocol.NodeID(l.uint()),
	}
	for range l.array() {
		require.Equal(l.t, 6, l.array())
		p.Conditions = append(p.Conditions, protocol.Condition{
			Topic: l.text(), Epoch: protocol.EpochID(l.uint()), Term: l.uint(), HasExpect: l.uint() == 1,
			Expect: protocol.Seq(l.uint()), Raise: l.uint(),
		})
	}
	return p
}

func (l *library) writeDeliver(m *protocol.Message, extra []byte) []byte {
	l.write(10+len(extra), uint64(50), uint64(m.Seq), uint64(m.Time), uint64(m.Sender), uint64(m.Origin), uint64(m.To),
		m.Topic, m.Payload, m.Key, len(m.Fences))
	for _, f := range m.Fences {
		l.write(2, f.Topic, f.Term)
	}
	return append(l.out.Bytes(), extra...)
}

func (l *library) readDeliver(b []byte) *protocol.Deliver {
	l.read(b)
	l.array()
	require.EqualValues(l.t, 50, l.uint())
	f := &protocol.Deliver{Message: protocol.Message{
		Seq: protocol.Seq(l.uint()), Time: protocol.Time(l.uint()), Sender: protocol.NodeID(l.uint()),
		Origin: protocol.NodeID(l.uint()), To: protocol.NodeID(l.uint()), Topic: l.text(), Payload: l.bytes(), Key: l.bytes(),
	}}
	for range l.array() {
		require.Equal(l.t, 2, l.array())
		f.Fences = append(f.Fences, protocol.Mark{Topic: l.text(), Term: l.uint()})
	}
	return f
}

func (l *library) writeAcks(list []protocol.Ack, extra []byte) []byte {
	l.write(2+len(extra), uint64(34), len(list))
	for _, a := range list {
		l.write(4, a.N, uint64(a.Seq), uint64(a.Time), a.Duplicate)
	}
	return append(l.out.Bytes(), extra...)
}

func (l *library) readAcks(b []byte) *protocol.Acks {
	l.read(b)
	l.array()
	require.EqualValues(l.t, 34, l.uint())
	f := &protocol.Acks{}
	for range l.array() {
		require.Equal(l.t, 4, l.array())
		f.List = append(f.List, protocol.Ack{
			N: l.uint(), Seq: protocol.Seq(l.uint()), Time: protocol.Time(l.uint()), Duplicate: l.uint() == 1,
		})
	}
	return f
}

// FuzzHotEqualsLibrary holds the frames that are written and read by hand equal
// to what the library makes of them.
func FuzzHotEqualsLibrary(f *testing.F) {
	f.Add(uint64(0), uint64(0), uint32(0), "", []byte(nil), []byte(nil), "", byte(0), byte(0))
	f.Add(uint64(127), uint64(128), uint32(255), "election:workers", []byte("x"), key, "config:fleet", byte(2), byte(1))
	f.Add(uint64(256), uint64(65535), uint32(65536), string(make([]byte, 31)), make([]byte, 255), key, string(make([]byte, 32)), byte(16), byte(2))
	f.Add(uint64(1<<32-1), uint64(1<<32), uint32(1<<32-1), string(make([]byte, 255)), make([]byte, 256), key, string(make([]byte, 256)), byte(15), byte(20))
	f.Fuzz(func(t *testing.T, n, m uint64, id uint32, topic string, payload, short []byte, other string, count, more byte) {
		payload, short = append([]byte(nil), payload...), append([]byte(nil), short...) // nil when empty
		extra := bytes.Repeat([]byte{7}, int(more%20))
		p := &protocol.Publish{
			N: n, Flags: protocol.PublishFlags(m), Key: short, Epoch: protocol.EpochID(m), Head: protocol.Seq(n),
			Topic: topic, Payload: payload, Slot: short, To: protocol.NodeID(id), Origin: protocol.NodeID(n),
		}
		d := &protocol.Deliver{Message: protocol.Message{
			Seq: protocol.Seq(n), Time: protocol.Time(m), Sender: protocol.NodeID(id), Origin: protocol.NodeID(m),
			To: protocol.NodeID(id), Topic: topic, Payload: payload, Key: short,
		}}
		a := &protocol.Acks{}
		for i := range uint64(count % 20) {
			p.Conditions = append(p.Conditions, protocol.Condition{Topic: other, Epoch: protocol.EpochID(n), Term: m, Raise: n})
			if i%2 == 1 {
				p.Conditions[i].HasExpect, p.Conditions[i].Expect = true, protocol.Seq(m)
			}
			d.Fences = append(d.Fences, protocol.Mark{Topic: other, Term: n})
			a.List = append(a.List, protocol.Ack{N: n + i, Seq: protocol.Seq(m), Time: protocol.Time(n), Duplicate: i%2 == 1})
		}

		requireSame(t, newLibrary(t).writePublish(p, nil), p, newLibrary(t).readPublish)
		requireSame(t, newLibrary(t).writeDeliver(&d.Message, nil), d, newLibrary(t).readDeliver)
		requireSame(t, newLibrary(t).writeAcks(a.List, nil), a, newLibrary(t).readAcks)
		requireExtra(t, newLibrary(t).writePublish(p, extra), len(extra))
		requireExtra(t, newLibrary(t).writeDeliver(&d.Message, extra), len(extra))
		requireExtra(t, newLibrary(t).writeAcks(a.List, extra), len(extra))
	})
}

// The lengths that no fuzzer tries.
func TestLargeFramesEqualLibrary(t *testing.T) {
	for _, n := range []int{1<<16 - 1, 1 << 16} {
		p := &protocol.Publish{Topic: strings.Repeat("x", n), Payload: make([]byte, n), Conditions: make([]protocol.Condition, n)}
		requireSame(t, newLibrary(t).writePublish(p, nil), p, newLibrary(t).readPublish)
		a := &protocol.Acks{List: make([]protocol.Ack, n)}
		requireSame(t, newLibrary(t).writeAcks(a.List, nil), a, newLibrary(t).readAcks)
		d := &protocol.Deliver{Message: protocol.Message{Payload: make([]byte, n), Fences: make([]protocol.Mark, n)}}
		requireSame(t, newLibrary(t).writeDeliver(&d.Message, nil), d, newLibrary(t).readDeliver)
		requireExtra(t, newLibrary(t).writeDeliver(&d.Message, make([]byte, n)), n)
	}
}

// requireSame tests that f and what the library wrote of it are the same both
// ways.
func requireSame[F protocol.Frame](t *testing.T, wrote []byte, f F, read func([]byte) F) {
	t.Helper()
	require.Equal(t, wrote, f.Append(nil))
	parsed, err := protocol.Parse(wrote)
	require.NoError(t, err)
	require.Equal(t, protocol.Frame(f), parsed)
	require.Equal(t, f, read(wrote))
}

func requireExtra(t *testing.T, wrote []byte, n int) {
	t.Helper()
	f, err := protocol.Parse(wrote)
	require.NoError(t, err)
	require.Equal(t, n, extraOf(f).Len())
	require.Equal(t, wrote, f.Append(nil))
}
