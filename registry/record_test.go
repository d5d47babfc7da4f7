package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

func messages() []protocol.Message {
	long := strings.Repeat("long topic ", 90)
	return []protocol.Message{
		{Seq: 1, Topic: "a", Key: []byte("k")},
		{Seq: 1 << 63, Time: 1 << 63, Sender: 1 << 31, Origin: 1 << 31, To: 1 << 31, Payload: make([]byte, 100), Key: make([]byte, 32)},
		{Seq: 300, Topic: long, Payload: make([]byte, 70_000), Key: []byte("k"), Fences: []protocol.Mark{{Topic: long, Term: protocol.MaxTerm}, {Topic: long + "x", Term: 1}}},
	}
}

func TestFrameIsDeliverWithoutTheKey(t *testing.T) {
	for _, m := range messages() {
		want := m
		want.Key = nil
		frame := protocol.AppendFrame(nil, &protocol.Deliver{Message: want})
		own := protocol.AppendFrame(nil, &protocol.Deliver{Message: m})

		r := &Record{Message: m}
		require.Equal(t, frame, r.Frame(), "made anew")
		require.Equal(t, m, r.Message)
		r.Seal()
		require.Equal(t, frame, r.Frame())
		require.Equal(t, string(m.Payload), string(r.Payload))
		require.Equal(t, m.Key, r.Key)
		require.Equal(t, frame, joinParts(r, false))
		require.Equal(t, own, joinParts(r, true))
		require.LessOrEqual(t, cap(r.Frame()), frameBound(&m))
	}
}

// joinParts is what a reader gets of three records in a row, without the first
// and the last.
func joinParts(r *Record, own bool) []byte {
	small := &Record{Message: protocol.Message{Seq: 1, Topic: "a"}}
	small.Seal()
	var p parts
	p.add(small, false)
	p.add(r, own)
	p.add(small, false)
	var b []byte
	for _, part := range p.list {
		b = append(b, part.Bytes...)
	}
	n := len(small.Frame())
	return b[n : len(b)-n]
}

// A thousand readers that do not read hold one copy of a large message.
func TestLargeFramesAreShared(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := &Record{Message: messages()[2]}
		r.Seal()
		var p parts
		p.add(r, own)
		require.Less(t, cap(p.copied), 2*shareFrom)
		shared := false
		for _, part := range p.list {
			shared = shared || part.Shared && len(part.Bytes) > len(r.Payload)
		}
		require.True(t, shared)
	}
}

func TestSealedPayloadIsKeptOnce(t *testing.T) {
	for _, m := range messages() {
		r := &Record{Message: m}
		r.Seal()
		require.Equal(t, len(r.Frame()), cap(r.Frame()), "appending to the frame does not write into the key")
		if len(m.Payload) > 0 {
			before := slices.Clone(r.Frame())
			r.Payload[0]++
			require.NotEqual(t, before, r.Frame())
		}
	}
}

func TestDeliveringAllocatesNothing(t *testing.T) {
	testenv.Allocs(t)
	m := messages()[1]
	r := &Record{Message: m}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		r.Message = m
		r.Seal()
	}), 1.0)
	large := &Record{Message: m}
	large.Payload = make([]byte, 2*shareFrom)
	large.Seal()
	var p parts
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.reset()
		for _, own := range []bool{true, false} {
			p.add(r, own)
			p.add(large, own)
		}
	}))
}
