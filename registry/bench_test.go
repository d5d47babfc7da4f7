package registry_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// loopback is a registry on a real socket, and a function that joins it.
func loopback(b *testing.B, keep registry.Retention) func(name string) *peer {
	r, err := registry.New(registry.Options{Log: memlog.New(memlog.Options{Retention: keep}), Key: key("registry")})
	require.NoError(b, err)
	addr, err := r.Listen("127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { r.Close() })
	return func(name string) *peer {
		s, err := link.Dial(b.Context(), addr.String(), link.Config{Identity: link.Identity{Key: key(name)}})
		require.NoError(b, err)
		p := &peer{t: b, s: s}
		p.control = p.open(hello())
		p.welcome = next[*protocol.Welcome](p.control)
		b.Cleanup(p.close)
		return p
	}
}

// publisher makes frames of 128-byte messages without allocating.
type publisher struct {
	pub protocol.Publish
	out []byte
}

func newPublisher(p *peer) *publisher {
	return &publisher{pub: protocol.Publish{
		Epoch: p.welcome.Epoch.ID, Topic: "bench", Payload: make([]byte, 128), Key: make([]byte, 24),
	}}
}

func (p *publisher) next() {
	p.pub.N++
	binary.BigEndian.PutUint64(p.pub.Key, p.pub.N)
	p.out = protocol.AppendFrame(p.out, &p.pub)
}

// From a publish until another session has it.
func BenchmarkPush(b *testing.B) {
	join := loopback(b, registry.Retention{})
	reader, writer := join("reader"), join("writer")
	sub := reader.follow("bench")
	lane := writer.lane(protocol.LaneNormal)
	go func() {
		for {
			if _, err := lane.Next(); err != nil {
				return
			}
		}
	}()
	p := newPublisher(writer)
	b.ReportAllocs()
	for b.Loop() {
		p.out = p.out[:0]
		p.next()
		lane.Send(p.out)
		if _, err := sub.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAckSerial(b *testing.B) {
	join := loopback(b, registry.Retention{})
	writer := join("writer")
	lane := writer.lane(protocol.LaneNormal)
	p := newPublisher(writer)
	b.ReportAllocs()
	for b.Loop() {
		p.out = p.out[:0]
		p.next()
		lane.Send(p.out)
		if _, err := lane.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// Acknowledged publishes with up to 256 in flight. The writer sends as answers
// come, as many as they allow.
func BenchmarkAckPipelined(b *testing.B) {
	join := loopback(b, registry.Retention{})
	writer := join("writer")
	lane := writer.lane(protocol.LaneNormal)
	p := newPublisher(writer)
	const window = 256
	b.ReportAllocs()
	inFlight := 0
	var acks protocol.Acks
	wait := func() {
		body, err := lane.Next()
		if err == nil {
			err = acks.Parse(body)
		}
		if err != nil {
			b.Fatal(err)
		}
		inFlight -= len(acks.List)
	}
	for b.Loop() {
		if inFlight == window {
			lane.Send(p.out)
			p.out = p.out[:0]
			wait()
		}
		p.next()
		inFlight++
	}
	lane.Send(p.out)
	for inFlight > 0 {
		wait()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acked/s")
}

// One message to 100 sessions.
func BenchmarkFanOut100(b *testing.B) {
	join := loopback(b, registry.Retention{Messages: 100_000})
	const readers = 100
	writer := join("writer")
	lane := writer.lane(protocol.LaneNormal)
	var all sync.WaitGroup
	credit := make(chan struct{}, 1024)
	for i := range readers {
		sub := join(string(rune('a' + i))).follow("bench")
		all.Go(func() {
			for n := 0; ; n++ {
				body, err := sub.Next()
				if err != nil {
					b.Error(err)
					return
				}
				var d protocol.Deliver
				if err := d.Parse(body); err != nil {
					b.Error(err)
					return
				}
				if len(d.Payload) == 0 {
					return
				}
				if i == 0 {
					<-credit
				}
			}
		})
	}
	go func() {
		for {
			if _, err := lane.Next(); err != nil {
				return
			}
		}
	}()
	p := newPublisher(writer)
	b.ReportAllocs()
	for b.Loop() {
		credit <- struct{}{}
		p.out = p.out[:0]
		p.next()
		lane.Send(p.out)
	}
	p.out = p.out[:0]
	p.pub.Payload = nil
	p.next()
	lane.Send(p.out)
	all.Wait()
	b.ReportMetric(float64(b.N*readers)/b.Elapsed().Seconds(), "deliveries/s")
}
