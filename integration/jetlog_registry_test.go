package integration

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// served is a registry over a log on the cluster.
type served struct {
	reg  *registry.Registry
	log  *jetlog.Log
	addr string
}

func serve(t testing.TB, c *cluster, o jetlog.Options, hooks *registry.Hooks) *served {
	t.Helper()
	return serveLog(t, openLog(t, c, o), hooks)
}

func serveLog(t testing.TB, l *jetlog.Log, hooks *registry.Hooks) *served {
	t.Helper()
	s := &served{log: l}
	key, err := s.log.Key(t.Context())
	require.NoError(t, err)
	s.reg, err = registry.New(registry.Options{Log: s.log, Key: key, Hooks: hooks})
	require.NoError(t, err)
	t.Cleanup(func() { s.reg.Close() })
	addr, err := s.reg.Listen("127.0.0.1:0")
	require.NoError(t, err)
	s.addr = addr.String()
	return s
}

func dial(t testing.TB, name string, addrs ...string) *client.Client {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	c, err := client.Dial(t.Context(), strings.Join(addrs, ","), client.Options{Key: ed25519.NewKeyFromSeed(seed[:]), NoState: true})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// messages reads n messages and fails on a gap.
func messages(t testing.TB, s client.Stream, n int) (list []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for len(list) < n {
		item, err := s.Next(ctx)
		require.NoError(t, err, "%d of %d messages", len(list), n)
		require.NotEqual(t, client.ItemGap, item.Kind, "gap")
		require.NotEqual(t, client.ItemEpoch, item.Kind, "epoch")
		if item.Kind == client.ItemMessage {
			list = append(list, fmt.Sprintf("%d %s", item.Message.Seq, item.Message.Payload))
		}
	}
	return list
}

func TestJetRegistriesShareOneLog(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream()}
	ra, rb := serve(t, c, o, nil), serve(t, c, o, nil)
	require.Equal(t, ra.log.Epoch(), rb.log.Epoch())
	a, b := dial(t, "a", ra.addr), dial(t, "b", rb.addr)
	subA, err := a.Subscribe(t.Context(), "jobs.*")
	require.NoError(t, err)
	subB, err := b.Subscribe(t.Context(), "jobs.*")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for name, p := range map[string]*client.Client{"a": a, "b": b} {
		wg.Go(func() {
			for i := range 200 {
				p.Publish(t.Context(), client.Publication{Topic: "jobs." + name, Payload: fmt.Append(nil, name, i)})
			}
			if err := p.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, messages(t, subA, 400), messages(t, subB, 400))
	require.Equal(t, uint64(400), uint64(ra.reg.Info().Head))
	require.Equal(t, ra.reg.Info().Messages, rb.reg.Info().Messages)
}

// Conditional publishes race through two registries; what they and readers are
// told is the history of one fence.
func TestJetFenceIsLinearizable(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream(), Replicas: 3}
	// One of them hears of everything late, so that what its clients know from the
	// other's is ahead of it.
	late := newProxy(t, c, 20*time.Millisecond)
	regs := []*served{serve(t, c, o, nil), serveLog(t, openAt(t, late.url(), o), nil)}
	race := NewFenceRace(regs[0].log.Epoch().ID)
	var slow, wg sync.WaitGroup
	done := make(chan struct{}) // once the slow ones are
	for i := range 6 {
		p := dial(t, fmt.Sprint("client ", i), regs[i%2].addr)
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		run := wg.Go
		if i%2 == 1 {
			run = slow.Go
		}
		run(func() {
			for n := 0; i%2 == 0 || n < 20; n++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(rng.IntN(6)) * time.Millisecond):
				}
				if err := race.Step(t.Context(), p, i, rng); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	slow.Wait()
	close(done)
	wg.Wait()
	race.Check(t, nil)
}

// A registry stores and dies before its acks are out. The client goes on with the
// other: each message is there once, in its order, and a subscription misses and
// repeats nothing.
func TestJetClientFailsOver(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream()}
	var mute atomic.Bool
	ra := serve(t, c, o, &registry.Hooks{BeforeAck: func(protocol.NodeID, protocol.Ack) (time.Duration, bool) { return 0, mute.Load() }})
	rb := serve(t, c, o, nil)
	p := dial(t, "publisher", ra.addr, rb.addr)
	r := dial(t, "reader", ra.addr, rb.addr)
	sub, err := r.Subscribe(t.Context(), "jobs", client.FromAll())
	require.NoError(t, err)
	const each = 300
	var pending []client.Pending
	for i := range 3 * each {
		if i == each {
			require.NoError(t, p.Flush(t.Context()))
			mute.Store(true)
		}
		if i == 2*each {
			require.Eventually(t, func() bool { return ra.reg.Info().Head > each }, time.Minute, time.Millisecond)
			require.NoError(t, ra.reg.Close())
		}
		pending = append(pending, p.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: fmt.Append(nil, i)}))
	}
	duplicates := 0
	var want []string
	for i, w := range pending {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		ack, err := w.Wait(ctx)
		cancel()
		require.NoError(t, err)
		if ack.Duplicate {
			duplicates++
		}
		want = append(want, fmt.Sprintf("%d %d", ack.Seq, i))
		require.Equal(t, protocol.Seq(i+1), ack.Seq)
	}
	require.NotZero(t, duplicates)
	require.Equal(t, want, messages(t, sub, 3*each))
	require.Equal(t, uint64(3*each), rb.reg.Info().Messages)
}
