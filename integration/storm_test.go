package integration_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// crowd is many clients of this process, each with a subscription.
type crowd struct {
	t       *testing.T
	clients []*client.Client
	streams []*client.Events
	readers sync.WaitGroup
	read    [][]string // by client

	mu     sync.Mutex
	failed map[string]int // tries to connect that came to nothing, by why
}

const (
	crowdSize = 1000
	crowdPuts = 30 // messages that each of them reads
)

func gather(ctx context.Context, t *testing.T, p *process) *crowd {
	t.Helper()
	c := &crowd{
		t: t, clients: make([]*client.Client, crowdSize), streams: make([]*client.Events, crowdSize),
		read: make([][]string, crowdSize), failed: make(map[string]int),
	}
	var joining sync.WaitGroup
	places := make(chan struct{}, 50)
	for i := range c.clients {
		joining.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			assert.NoError(t, c.join(ctx, i, p))
		})
	}
	joining.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c
}

func (c *crowd) join(ctx context.Context, i int, p *process) error {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, fmt.Sprint("one of the crowd ", i))
	o := client.Options{Key: ed25519.NewKeyFromSeed(seed), NoState: true, Name: fmt.Sprint("one ", i)}
	one, err := client.Dial(ctx, p.addr, o)
	for errors.Is(err, protocol.ErrTimeout) || errors.Is(err, protocol.ErrNotConnected) {
		if ctx.Err() != nil {
			return err
		}
		one, err = client.Dial(ctx, p.addr, o) // a busy machine; after this the client does it
	}
	if err != nil {
		return err
	}
	c.t.Cleanup(func() { one.Close() })
	c.clients[i], c.streams[i] = one, one.Events()
	sub, err := one.Subscribe(ctx, "news", client.FromAll())
	if err != nil {
		return err
	}
	c.readers.Go(func() {
		for m, err := range client.Messages(ctx, sub) {
			if ctx.Err() != nil || !assert.NoError(c.t, err) {
				return
			}
			if c.read[i] = append(c.read[i], string(m.Payload)); string(m.Payload) == "the end" {
				return
			}
		}
	})
	return nil
}

// back waits until each has lost its session and has another, and tells when.
func (c *crowd) back(ctx context.Context, since time.Time) []time.Duration {
	at := make([]time.Duration, crowdSize)
	var waiting sync.WaitGroup
	for i, s := range c.streams {
		waiting.Go(func() {
			for {
				e, err := s.Next(ctx)
				if !assert.NoError(c.t, err, "client %d is not back", i) {
					return
				}
				switch e := e.(type) {
				case client.DialFailed:
					c.mu.Lock()
					c.failed[protocol.CodeOf(e.Err).Name()]++
					c.mu.Unlock()
					assert.False(c.t, e.Hard, "client %d gave up: %v", i, e.Err)
				case client.NewEpoch:
					assert.Fail(c.t, "the log is the same one")
				case client.Connected:
					at[i] = time.Since(since)
					return
				}
			}
		})
	}
	waiting.Wait()
	slices.Sort(at)
	return at
}

// A thousand clients whose registry restarts, as it was told or by a crash, are
// all back soon, not all in one moment, and each has read every message once.
func TestAThousandClientsComeBack(t *testing.T) {
	p := registryProcess(t, "--store", filepath.Join(t.TempDir(), "log"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	c := gather(ctx, t, p)
	publisher := p.dial("publisher")
	t.Logf("%d clients joined in %v", crowdSize, time.Since(began).Round(time.Millisecond))

	var want []string
	publish := func(n int) {
		for range n {
			text := fmt.Sprint(len(want))
			want = append(want, text)
			put(t, publisher, "news", text)
		}
	}
	publish(crowdPuts / 5)
	for _, end := range []struct {
		name string
		do   func()
	}{
		{"told to stop", func() {
			p.tell(syscall.SIGTERM)
			code, said := p.ended()
			require.Zero(t, code, "%s", said)
		}},
		{"killed", p.kill},
	} {
		ended := time.Now()
		end.do()
		down := time.Since(ended)
		back := make(chan []time.Duration, 1)
		go func() { back <- c.back(ctx, ended) }()
		p.start()
		publish(crowdPuts / 5) // while they come
		at := <-back
		if t.Failed() {
			t.FailNow()
		}
		publish(crowdPuts / 5)
		t.Logf("%s: down after %v; back after %v (the first), %v (half), %v (99 %%), %v (all); at most %d in 100 ms; dials that failed: %v",
			end.name, down.Round(time.Millisecond), at[0].Round(time.Millisecond), at[crowdSize/2].Round(time.Millisecond),
			at[crowdSize*99/100].Round(time.Millisecond), at[crowdSize-1].Round(time.Millisecond), busiest(at, 100*time.Millisecond), c.failed)
		require.Less(t, busiest(at, 10*time.Millisecond), crowdSize/2, "they come in one moment")
	}
	put(t, publisher, "news", "the end")
	want = append(want, "the end")
	c.readers.Wait()
	for i := range c.read {
		require.Equal(t, want, c.read[i], "client %d", i)
	}
}

// busiest is how many of the moments, which rise, fall into one span at most.
func busiest(at []time.Duration, span time.Duration) (most int) {
	first := 0
	for i := range at {
		for at[i]-at[first] >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
