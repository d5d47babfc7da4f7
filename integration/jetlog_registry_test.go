package integration

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
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

// fenceOp is one thing that was done with a fence.
type fenceOp struct {
	write  bool
	expect protocol.Seq
	raise  uint64
}

type fenceResult struct {
	unknown bool
	seq     protocol.Seq // of an accepted write
	code    protocol.Code
	fence   protocol.Fence // what was told with a refusal, or read
}

// fenceModel is a fence as one object: what is told has to be true at some moment
// between the question and the answer.
var fenceModel = porcupine.Model{
	Init: func() any { return protocol.Fence{} },
	Step: func(state, in, out any) (bool, any) {
		f, op, got := state.(protocol.Fence), in.(fenceOp), out.(fenceResult)
		if !op.write {
			return got.unknown || got.fence == f, f
		}
		code := protocol.Code(0)
		switch {
		case op.raise < f.K:
			code = protocol.ErrStaleTerm
		case op.expect != f.S:
			code = protocol.ErrConflict
		}
		if code != 0 {
			return got.unknown || got.code == code && got.fence == f, f
		}
		return got.unknown || got.code == 0, protocol.Fence{K: op.raise, S: got.seq}
	},
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
	epoch := regs[0].log.Epoch().ID
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var accepted, refused atomic.Int64
	var known atomic.Pointer[protocol.Fence] // what anybody was told last
	known.Store(&protocol.Fence{})
	var slow sync.WaitGroup
	done := make(chan struct{}) // once the slow ones are
	var wg sync.WaitGroup
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
				at := *known.Load()
				op := fenceOp{write: rng.IntN(4) > 0, expect: at.S, raise: at.K + uint64(rng.IntN(2))}
				if op.raise == 0 {
					op.raise = 1
				}
				began := time.Since(start)
				got, err := doFence(t.Context(), p, epoch, op, n)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: i, Input: op, Call: int64(began), Output: got, Return: int64(time.Since(start))})
				mu.Unlock()
				switch {
				case op.write && got.code == 0:
					accepted.Add(1)
					known.Store(&protocol.Fence{K: op.raise, S: got.seq})
				case op.write:
					refused.Add(1)
					known.Store(&got.fence)
				default:
					known.Store(&got.fence)
				}
			}
		})
	}
	slow.Wait()
	close(done)
	wg.Wait()
	t.Logf("%d accepted, %d refused", accepted.Load(), refused.Load())
	require.NotZero(t, accepted.Load())
	require.NotZero(t, refused.Load())
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(fenceModel, history, 60*time.Second))
}

func doFence(ctx context.Context, p *client.Client, epoch protocol.EpochID, op fenceOp, n int) (fenceResult, error) {
	if !op.write {
		f, err := p.Fence(ctx, "g")
		return fenceResult{fence: f.Fence}, err
	}
	// A raise must raise; the same term again is a write without one.
	cond := protocol.Condition{Topic: "g", Epoch: epoch, Term: op.raise, HasExpect: true, Expect: op.expect, Raise: op.raise}
	ack, err := p.Publish(ctx, client.Publication{Topic: "g", Payload: fmt.Append(nil, n), Conditions: []protocol.Condition{cond}}).Wait(ctx)
	var told *protocol.Error
	switch {
	case err == nil:
		return fenceResult{seq: ack.Seq}, nil
	case errors.As(err, &told) && (told.Code == protocol.ErrStaleTerm || told.Code == protocol.ErrConflict):
		return fenceResult{code: told.Code, fence: told.Fence}, nil
	}
	return fenceResult{}, err
}

// The checker finds a history that one fence cannot have.
func TestFenceModelFindsStaleAnswers(t *testing.T) {
	ops := []porcupine.Operation{
		{ClientId: 0, Input: fenceOp{write: true, raise: 1}, Call: 0, Output: fenceResult{seq: 1}, Return: 10},
		{ClientId: 1, Input: fenceOp{write: true, expect: 1, raise: 1}, Call: 20, Output: fenceResult{code: protocol.ErrConflict}, Return: 30},
	}
	require.False(t, porcupine.CheckOperations(fenceModel, ops))
	ops[1].Call = 5
	require.True(t, porcupine.CheckOperations(fenceModel, ops))
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
			require.Eventually(t, func() bool { return ra.reg.Info().Head > each }, 10*time.Second, time.Millisecond)
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
