package client_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// acker takes publishes on loopback, stores nothing, and acks what came at once
// in one frame: what remains is the cost of client and link.
func acker(tb testing.TB) string {
	tb.Helper()
	ln, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: link.NewIdentity()})
	require.NoError(tb, err)
	var tasks sync.WaitGroup
	tb.Cleanup(func() {
		ln.Close()
		tasks.Wait()
	})
	tasks.Go(func() {
		for {
			s, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer s.Close(0, "")
				for {
					ch, err := s.Accept(context.Background())
					if err != nil {
						return
					}
					tasks.Go(func() { ackChannel(s, ch) })
				}
			})
		}
	})
	return ln.Addr().String()
}

func ackChannel(s *link.Session, ch *link.Channel) {
	var f protocol.Publish
	var acks protocol.Acks
	var b []byte
	var seq protocol.Seq
	for {
		body, err := ch.Next()
		if err != nil {
			return
		}
		switch t, _ := protocol.PeekType(body); t {
		case protocol.TypeHello:
			ch.Send(protocol.AppendFrame(nil, &protocol.Welcome{
				Version: 1, Node: protocol.NodeIDOf(s.PeerKey()), Epoch: protocol.Epoch{ID: 1},
				Limits: protocol.Limits{Payload: 1 << 20, InFlight: 1024, Page: 1 << 16},
			}))
		case protocol.TypePublish:
			if f.Parse(body) != nil {
				return
			}
			seq++
			acks.List = append(acks.List, protocol.Ack{N: f.N, Seq: seq, Time: protocol.TimeOf(time.Now())})
			if !ch.Buffered() {
				b = protocol.AppendFrame(b[:0], &acks)
				ch.Send(b)
				acks.List = acks.List[:0]
			}
		}
	}
}

func benchClient(b *testing.B, addr string) *client.Client {
	b.Helper()
	c, err := client.Dial(b.Context(), addr, client.Options{
		Key: fakeregistry.Key("bench"), NoState: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

func BenchmarkPublish(b *testing.B) {
	addr := acker(b)
	for name, flight := range map[string]int{"1 in flight": 1, "256 in flight": 256} {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, addr)
			p := client.Publication{Topic: "bench", Payload: make([]byte, 128)}
			pending := make([]*client.Pending, flight)
			ctx := b.Context()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if old := pending[i%flight]; old != nil {
					if _, err := old.Wait(ctx); err != nil {
						b.Fatal(err)
					}
				}
				pending[i%flight] = c.Publish(ctx, p)
				i++
			}
			require.NoError(b, c.Flush(ctx))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acked/s")
		})
	}
}
