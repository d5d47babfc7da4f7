package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/stretchr/testify/require"
)

// real serves a registry with a log in memory on loopback.
func real(b *testing.B) (addr string) {
	b.Helper()
	r, err := registry.New(registry.Options{Log: memlog.New(memlog.Options{}), Key: fakeregistry.Key("registry")})
	require.NoError(b, err)
	at, err := r.Listen("127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { r.Close() })
	return at.String()
}

func dial(b *testing.B, addr, name string) *client.Client {
	b.Helper()
	c, err := client.Dial(b.Context(), addr, client.Options{Key: fakeregistry.Key(name), NoState: true})
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

func BenchmarkPublish(b *testing.B) {
	for _, flight := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("%d in flight", flight), func(b *testing.B) {
			c := dial(b, real(b), "a")
			p := client.Publication{Topic: "bench", Payload: make([]byte, 128)}
			pending := make([]client.Pending, flight)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
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

// BenchmarkPush is the time from a publish to its arrival at a reader.
func BenchmarkPush(b *testing.B) {
	addr := real(b)
	a, r := dial(b, addr, "a"), dial(b, addr, "b")
	s, err := r.OpenSubscription(b.Context(), "bench")
	require.NoError(b, err)
	_, err = s.Next(b.Context())
	require.NoError(b, err)
	p := client.Publication{Topic: "bench", Payload: make([]byte, 128)}
	b.ReportAllocs()
	for b.Loop() {
		a.Publish(b.Context(), p)
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeliver is how fast one subscription reads what is there.
func BenchmarkDeliver(b *testing.B) {
	const many = 10_000
	r, err := registry.New(registry.Options{
		Log: memlog.New(memlog.Options{Retention: registry.Retention{Messages: many}}), Key: fakeregistry.Key("registry"),
	})
	require.NoError(b, err)
	b.Cleanup(func() { r.Close() })
	at, err := r.Listen("127.0.0.1:0")
	require.NoError(b, err)
	c := dial(b, at.String(), "a")
	for range many {
		c.Publish(b.Context(), client.Publication{Topic: "bench", Payload: make([]byte, 128)})
	}
	require.NoError(b, c.Flush(b.Context()))
	var s *client.Subscription
	left := 0
	b.ReportAllocs()
	start := time.Now()
	n := 0
	for b.Loop() {
		if left == 0 {
			if s != nil {
				s.Close()
			}
			s, err = c.OpenSubscription(b.Context(), "bench", client.FromAll())
			require.NoError(b, err)
			left = many
		}
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		left--
		n++
	}
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "messages/s")
}
