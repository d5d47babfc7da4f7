package client_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client accepts no channels, so a registry cannot fill any.
func TestRegistryOpensNoChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Options{Latency: latency})
		t.Cleanup(n.Close)
		l, err := link.Listen(n.Listen("registry"), link.Config{Identity: link.Identity{Key: fakeregistry.Key("registry")}})
		require.NoError(t, err)
		defer l.Close()
		opened := make(chan error, 1)
		go func() { opened <- welcomeAndOpen(l) }()
		c, err := client.Dial(t.Context(), n.Addr("registry"), client.Options{
			Key: fakeregistry.Key("a"), NoState: true, PacketConn: n.Listen("a"),
		})
		require.NoError(t, err)
		defer c.Close()
		require.ErrorIs(t, <-opened, context.DeadlineExceeded)
	})
}

// welcomeAndOpen lets one client in, then opens a channel to it.
func welcomeAndOpen(l *link.Listener) error {
	s, err := l.Accept(context.Background())
	if err != nil {
		return err
	}
	control, err := s.Accept(context.Background())
	if err != nil {
		return err
	}
	if _, err := control.Next(); err != nil {
		return err
	}
	err = control.Send(fakeregistry.Frames(&protocol.Welcome{
		Version: protocol.Version, Epoch: protocol.Epoch{ID: 1}, Node: protocol.NodeIDOf(s.PeerKey()),
		Limits: protocol.Limits{Payload: 1 << 20, InFlight: 1},
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = s.Open(ctx)
	return err
}

// However many subscriptions have a reader that has stopped, the rest of the
// connection goes on, and each holds what its options say and a window.
func TestStalledSubscriptionsHarmNobody(t *testing.T) {
	const (
		stalled = 520
		size    = 4 << 10
		window  = 128 << 10 // of a channel that was never read faster
		reading = 32 << 10  // a frame and what was read behind it
	)
	bubbleWith(t, fakeregistry.Options{Latency: time.Millisecond}, func(t *testing.T, reg *fakeregistry.Registry) {
		writer := join(t, reg, "writer")
		c := join(t, reg, "a", func(o *client.Options) { o.Buffer = 1 })
		for range stalled {
			subscribe(t, c, "bulk")
		}
		live := subscribe(t, c, "live")
		require.Equal(t, []string{"caught up 0"}, next(t, live, 1))
		before := heap()
		bulk := string(make([]byte, size))
		for range 2 * window / size {
			put(t, writer, "bulk", bulk)
		}
		time.Sleep(time.Minute)
		held := (heap() - before) / stalled
		require.Greater(t, held, int64(window), "the channels are full")
		require.Less(t, held, int64(2*size+2*window+reading), "packets are larger than what is in them")
		for i := range 3 {
			text := fmt.Sprint(i)
			_, err := c.PublishTo(within(t, time.Second), "live", []byte(text))
			require.NoError(t, err)
			item, err := live.Next(within(t, time.Second))
			require.NoError(t, err)
			require.Equal(t, text, show(item))
		}
		require.Zero(t, c.Stats().Disconnects)
	})
}

// What the connection has room for counts, also where the registry allows more.
func TestClientBoundsItsSubscriptions(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{Subscriptions: 5000}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		var opened sync.WaitGroup
		for range 4000 {
			opened.Go(func() {
				_, err := c.Subscribe(t.Context(), "t")
				assert.NoError(t, err)
			})
		}
		opened.Wait()
		_, err := c.Subscribe(t.Context(), "t")
		require.ErrorIs(t, err, protocol.ErrLimit)
		require.ErrorContains(t, err, "client")
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // pools keep what they had for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
