package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

const benchPublishers = 8

// An operation is one acked message of 128 bytes in a stream of three replicas on
// disk: by nats.go alone, and by clients of one or two registries.
func BenchmarkJetAcked(b *testing.B) {
	c := newCluster(b, 3)
	b.Run("nats.go", func(b *testing.B) { benchNATS(b, c) })
	b.Run("registries=1", func(b *testing.B) { benchRegistries(b, c, 1) })
	b.Run("registries=2", func(b *testing.B) { benchRegistries(b, c, 2) })
}

func benchNATS(b *testing.B, c *cluster) {
	stream := newStream()
	var list []jetstream.JetStream
	for range benchPublishers {
		nc, err := nats.Connect(c.url())
		require.NoError(b, err)
		defer nc.Close()
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1024))
		require.NoError(b, err)
		list = append(list, js)
	}
	_, err := list[0].CreateStream(b.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}, Replicas: 3, Storage: jetstream.FileStorage})
	require.NoError(b, err)
	payload := make([]byte, 128)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, js := range list {
		wg.Go(func() {
			for range b.N / benchPublishers {
				// The window is full for long where three servers share two processors.
				if _, err := js.PublishAsync(fmt.Sprint(stream, ".", i), payload, jetstream.WithStallWait(time.Minute)); err != nil {
					b.Error(err)
					return
				}
			}
			<-js.PublishAsyncComplete()
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acked/s")
}

func benchRegistries(b *testing.B, c *cluster, n int) {
	o := jetlog.Options{Stream: newStream()}
	var addrs []string
	for range n {
		addrs = append(addrs, serve(b, c, o, nil).addr)
	}
	var list []*client.Client
	for i := range benchPublishers {
		list = append(list, dial(b, fmt.Sprint("publisher ", i), addrs[i%n]))
	}
	payload := make([]byte, 128)
	ctx := context.Background()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() {
			for range b.N / benchPublishers {
				p.Publish(ctx, client.Publication{Topic: fmt.Sprint("jobs.", i), Payload: payload})
			}
			if err := p.Flush(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acked/s")
}
