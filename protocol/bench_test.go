package protocol_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
)

func benchmarkFrames() []struct {
	name  string
	frame protocol.Frame
} {
	fenced, acks, stamped := heartbeat()
	plain := *fenced
	plain.Conditions = nil
	unstamped := *stamped
	unstamped.Fences = nil
	many := &protocol.Acks{List: slices.Repeat(acks.List, 100)}
	return []struct {
		name  string
		frame protocol.Frame
	}{
		{"publish", &plain},
		{"publish-fenced", fenced},
		{"ack", acks},
		{"acks-100", many},
		{"deliver", &unstamped},
		{"deliver-stamped", stamped},
		{"caught-up", meanings["caught-up"]},
		{"info-state", meanings["info-state"]},
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, f := range benchmarkFrames() {
		raw := f.frame.Append(nil)
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := protocol.Validate(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, f := range benchmarkFrames() {
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1<<14)
			for b.Loop() {
				buf = protocol.AppendFrame(buf[:0], f.frame)
			}
		})
	}
}

// BenchmarkDecode reads into a struct of its own where the frame has a method for
// that, as sessions do.
func BenchmarkDecode(b *testing.B) {
	for _, f := range benchmarkFrames() {
		raw := f.frame.Append(nil)
		read := func(b []byte) error { _, err := protocol.Parse(b); return err }
		if into, err := protocol.Parse(raw); err == nil {
			if p, ok := into.(interface{ Parse([]byte) error }); ok {
				read = p.Parse
			}
		}
		b.Run(f.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	p, _, _ := heartbeat()
	stream := bytes.Repeat(protocol.AppendFrame(nil, p), 1000)
	b.ReportAllocs()
	source := bytes.NewReader(stream)
	r := protocol.NewReader(source, 1<<20)
	left := 0
	for b.Loop() {
		if left == 0 {
			source.Reset(stream)
			left = 1000
		}
		left--
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	p, _, _ := heartbeat()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Check(protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		protocol.Match("election:*", "election:workers")
	}
}
