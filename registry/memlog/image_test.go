package memlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/logtest"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// A log that begins with another's image is that log.
func TestLogFromImage(t *testing.T) {
	keeps := make(map[registry.Log]registry.Retention)
	logtest.Run(t, logtest.Suite{
		New: func(_ *testing.T, keep registry.Retention) registry.Log {
			l := memlog.New(memlog.Options{Retention: keep})
			keeps[l] = keep
			return l
		},
		Reopen: func(t *testing.T, old registry.Log) registry.Log {
			l := memlog.FromImage(memlog.Options{Retention: keeps[old]}, again(old.(*memlog.Log).Image()))
			keeps[l] = keeps[old]
			require.NoError(t, old.Close())
			return l
		},
	})
}

// again makes an image by its exported parts, as one that was stored is made.
func again(i *memlog.Image) *memlog.Image {
	c := &memlog.Image{
		Epoch: i.Epoch, Head: i.Head, Time: i.Time, Records: i.Records, Fences: i.Fences,
		Entries: i.Entries, Marks: i.Marks, Floor: i.Floor, Forgotten: i.Forgotten, Aged: i.Aged,
	}
	for k := range i.Keys() {
		c.AddKey(k)
	}
	return c
}

// Logs that get the same batches lose the same messages, also when one of them
// was made anew on the way: at shared caps, with senders that have as much as
// each other.
func TestSameBatchesSameLog(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			keep := registry.Retention{Messages: 20, Age: 2 * time.Second, TopicBytes: 900, TotalBytes: 40 * (100 + registry.RecordOverhead)}
			rng := rand.New(rand.NewPCG(seed, 3))
			epoch := protocol.Epoch{ID: 1}
			a := memlog.New(memlog.Options{Epoch: epoch, Retention: keep})
			b := memlog.New(memlog.Options{Epoch: epoch, Retention: keep})
			for seq := protocol.Seq(1); seq < 3000; {
				batch := &registry.Batch{}
				for range 1 + rng.IntN(5) {
					batch.Records = append(batch.Records, record(rng, seq))
					seq++
				}
				require.NoError(t, a.Append(batch))
				require.NoError(t, b.Append(batch))
				if rng.IntN(20) == 0 {
					b = memlog.FromImage(memlog.Options{Retention: keep}, again(b.Image()))
				}
				require.Equal(t, contents(t, a), contents(t, b))
			}
		})
	}
}

func record(rng *rand.Rand, seq protocol.Seq) *registry.Record {
	r := &registry.Record{Epoch: 1}
	r.Seq, r.Time, r.Sender = seq, protocol.Time(seq)*protocol.Time(10*time.Millisecond), protocol.NodeID(1+rng.IntN(6))
	r.Topic, r.Payload, r.Key = fmt.Sprint("t", rng.IntN(6)), make([]byte, 100*rng.IntN(2)), fmt.Append(nil, seq)
	if rng.IntN(5) == 0 {
		r.Slot = "s"
	}
	r.Seal()
	return r
}

func contents(t *testing.T, l *memlog.Log) (seqs []protocol.Seq) {
	t.Helper()
	page := registry.Page{}
	head, _ := l.Head()
	require.NoError(t, l.Read(&registry.Selection{Pattern: "*"}, 0, head, &page))
	for _, r := range page.Records {
		seqs = append(seqs, r.Seq)
	}
	return append(seqs, page.Evicted)
}
