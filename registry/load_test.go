package registry_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// All readers see one order, in which each writer's messages stand in the order
// of its publishes.
func TestAllReadersSeeOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		const writers, messages, readers = 6, 200, 5
		var logs [readers][]string
		var reading, writing sync.WaitGroup
		for i := range readers {
			p := w.join(fmt.Sprint("reader ", i))
			defer p.close()
			sub := p.follow([]string{"*", "jobs.*"}[i%2])
			reading.Go(func() {
				for len(logs[i]) < writers*messages {
					f := next[*protocol.Deliver](sub)
					logs[i] = append(logs[i], fmt.Sprintf("%d %s %s", f.Seq, f.Topic, f.Payload))
				}
			})
		}
		for i := range writers {
			p := w.join(fmt.Sprint("writer ", i))
			defer p.close()
			lane := p.lane(protocol.Lane(i % 2))
			writing.Go(func() {
				var last protocol.Seq
				for sent, acked := 0, 0; acked < messages; {
					for ; sent < messages && sent < acked+50; sent++ {
						lane.send(p.message(fmt.Sprint("jobs.", sent%3), fmt.Sprintf("writer %d message %d", i, sent)))
					}
					for _, ack := range next[*protocol.Acks](lane).List {
						acked++
						require.Equal(t, uint64(acked), ack.N)
						require.Greater(t, ack.Seq, last)
						last = ack.Seq
					}
				}
			})
		}
		writing.Wait()
		reading.Wait()
		for i := range logs {
			require.Equal(t, logs[0], logs[i])
		}
	})
}

// A writer that reads no answers is read no further, and costs the others
// nothing.
func TestWriterThatReadsNoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Node: registry.Rate{Publishes: 1}}})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		before := heap()
		var sending sync.WaitGroup
		sent := 0
		lane := a.lane(protocol.LaneNormal)
		out := encode(a.message("jobs", string(make([]byte, 1000))))
		sending.Go(func() {
			for ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ; sent++ {
				if lane.SendContext(ctx, out) != nil {
					cancel()
					return
				}
			}
		})
		sending.Wait()
		require.Less(t, sent, 100_000)                // small answers, large windows
		require.Less(t, heap()-before, int64(16<<20)) // what is under way in both directions, on both sides
		b.publish(b.lane(protocol.LaneNormal), "jobs", "x")
		b.close()
		a.close()
	})
}

// Clients cannot fill a disk with log lines.
func TestLogLinesAreFew(t *testing.T) {
	var lines atomic.Int64
	count := func(slog.Record) { lines.Add(1) }
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Logger: slog.New(counter(count))})
		defer w.close()
		for range 100 {
			p := w.dial("a")
			p.open(&protocol.Done{})
			p.ends(protocol.ErrMalformed)
			p.close()
		}
	})
	require.Positive(t, lines.Load())
	require.LessOrEqual(t, lines.Load(), int64(25)) // ten at once, ten a second
}

// counter is a slog.Handler.
type counter func(slog.Record)

func (counter) Enabled(context.Context, slog.Level) bool { return true }
func (c counter) Handle(_ context.Context, r slog.Record) error {
	c(r)
	return nil
}
func (c counter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c counter) WithGroup(string) slog.Handler      { return c }

// A publish costs what is kept of it: the record and its bytes.
func TestPublishAllocs(t *testing.T) {
	testenv.Allocs(t)
	r, err := registry.New(registry.Options{Log: memlog.New(memlog.Options{}), Key: key("registry")})
	require.NoError(t, err)
	defer r.Close()
	frames := registry.NewFrames(r, key("a").Public().(ed25519.PublicKey))
	n := 0
	var bodies [][]byte
	for i := range 3001 {
		bodies = append(bodies, (&protocol.Publish{N: 1, Key: fmt.Append(nil, i), Topic: "jobs", Payload: make([]byte, 128)}).Append(nil))
	}
	allocs := testing.AllocsPerRun(3000, func() {
		if err := frames.Take(bodies[n]); err != nil {
			t.Fatal(err)
		}
		n++
	})
	require.LessOrEqual(t, allocs, 3.0)
}

// A client may have a thousand subscriptions and read none. What it holds up must
// not lie in memory a thousand times.
func TestReadersThatDoNotReadShareWhatTheyWaitFor(t *testing.T) {
	const readers, size = 300, 256 << 10
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		for range 3 {
			a.publish(lane, "large", string(make([]byte, size)))
		}
		b := w.joinWith("b", link.Limits{Window: 1 << 10, Total: 1 << 20})
		defer b.close()
		own := b.message("large", string(make([]byte, size)))
		lane = b.lane(protocol.LaneNormal)
		lane.send(own)
		lane.ack()
		before := heapInUse()
		for i := range readers {
			b.open(&protocol.Subscribe{Pattern: "*", Start: protocol.StartAfter, After: protocol.Seq(i % 4)})
		}
		time.Sleep(10 * time.Second)
		require.Len(t, w.reg.Subscriptions(), readers)
		require.Less(t, heapInUse()-before, int64(readers*size/4))
	})
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
