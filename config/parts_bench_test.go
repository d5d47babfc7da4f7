package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func benchReport(i int) *Report {
	return &Report{
		Agent: fmt.Sprint(i), AppliedVersion: uint64(6 + i%2), Version: 7, State: StateApplied, Digest: DigestOf([]byte(`{}`)),
		At: time.Unix(1_800_000_000, 0), Every: time.Minute, Instance: fmt.Sprintf("%032x", i), Number: 1,
	}
}

func BenchmarkParseReport(b *testing.B) {
	payload := benchReport(1).Append(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		_, err := ParseReport(payload)
		require.NoError(b, err)
	}
}

func BenchmarkParseDocument(b *testing.B) {
	for _, size := range []int{100, 10_000, 500_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			doc := []byte(`{"n":[0`)
			for i := 0; len(doc) < size; i++ {
				doc = fmt.Appendf(doc, `,%d`, i)
			}
			d, err := NewDocument(7, append(doc, `]}`...))
			require.NoError(b, err)
			payload := d.Append(nil)
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				_, err := ParseDocument(payload)
				require.NoError(b, err)
			}
		})
	}
}

// A new version goes through an agent's machine: read, judged, applied.
func BenchmarkStep(b *testing.B) {
	s, _ := newState(usual, Applied{}).Step(0, caughtUp{Epoch: 1})
	version := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		version++
		d := ref{Version: version, Seq: protocol.Seq(version)}
		s, _ = s.Step(0, documentRead{Epoch: 1, Seq: d.Seq, Stamped: true, Doc: d})
		s, _ = s.Step(0, judged{Doc: d, OK: true})
		s, _ = s.Step(0, done{Doc: d, OK: true})
	}
	require.Equal(b, version, s.applied.Version)
}
