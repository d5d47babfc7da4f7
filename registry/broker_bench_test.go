package registry

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
)

// commits runs a broker without a log.
func (b *broker) commitEach(n int, of int) {
	if n%of == of-1 {
		b.staged()
		b.commit()
	}
}

func BenchmarkBrokerPublish(b *testing.B) {
	const second = protocol.Time(1e9)
	for _, test := range []struct {
		name   string
		keys   int // remembered
		change func(*protocol.Publish)
	}{
		{"plain", 100_000, func(*protocol.Publish) {}},
		{"plain, a million keys", 1_000_000, func(*protocol.Publish) {}},
		{"joined", 100_000, func(p *protocol.Publish) { p.Flags = protocol.FlagJoin }},
		{"slot", 100_000, func(p *protocol.Publish) { p.Slot = []byte("beat") }},
		{"fenced", 100_000, func(p *protocol.Publish) {
			p.Conditions = []protocol.Condition{{Topic: p.Topic, Epoch: 1, Term: 1}}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			br := newBroker(protocol.Epoch{ID: 1}, brokerOptions{maxKeys: test.keys})
			p := &protocol.Publish{Topic: "jobs.created", Payload: make([]byte, 128), Key: make([]byte, 24), Epoch: 1}
			test.change(p)
			br.fences[p.Topic] = protocol.Fence{K: 1}
			n := 0
			publish := func() {
				binary.BigEndian.PutUint64(p.Key[16:], uint64(n/100)) // each sender counts for itself
				if a := br.publish(second, protocol.NodeID(1+n%100), p, [16]byte{}); a.Record == nil {
					b.Fatal(a.Refuse)
				}
				br.commitEach(n, 64)
				n++
			}
			for range test.keys + 1000 {
				publish()
			}
			b.ReportAllocs()
			for b.Loop() {
				publish()
			}
		})
	}
}

func BenchmarkBrokerDuplicate(b *testing.B) {
	br := newBroker(protocol.Epoch{ID: 1}, brokerOptions{})
	p := &protocol.Publish{Topic: "jobs.created", Payload: make([]byte, 128), Key: make([]byte, 24), Epoch: 1}
	for n := range 100_000 {
		binary.BigEndian.PutUint64(p.Key[16:], uint64(n))
		br.publish(1, 1, p, [16]byte{})
		br.commitEach(n, 64)
	}
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		binary.BigEndian.PutUint64(p.Key[16:], n*7919%100_000)
		n++
		if a := br.publish(1, 1, p, [16]byte{}); !a.Ack.Duplicate {
			b.Fatal(a)
		}
	}
}

func BenchmarkDigestOf(b *testing.B) {
	for _, size := range []int{128, 64 << 10} {
		b.Run(fmt.Sprint("payload=", size), func(b *testing.B) {
			p := &protocol.Publish{Topic: "jobs.created", Payload: make([]byte, size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				digestOf(p)
			}
		})
	}
}

func BenchmarkDeliverFrame(b *testing.B) {
	r := &Record{Message: protocol.Message{Seq: 1 << 20, Time: 1 << 60, Sender: 1 << 31, Topic: "jobs.created", Payload: make([]byte, 128), Key: make([]byte, 24)}}
	r.Seal()
	var p parts
	for _, own := range []bool{false, true} {
		b.Run(fmt.Sprint("own=", own), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.reset()
				p.add(r, own)
			}
		})
	}
}
