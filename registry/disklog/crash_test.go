package disklog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// work makes random changes, the same for each log with one seed.
type work struct {
	rng *rand.Rand
	seq protocol.Seq
	now protocol.Time
}

var workTopics = []string{"a", "a.b", "b", "config:x", "election:g"}

func newWork(seed uint64) *work { return &work{rng: rand.New(rand.NewPCG(seed, 3)), now: 1e18} }

func (w *work) next() func(registry.Log) error {
	switch w.rng.IntN(12) {
	case 0:
		topic, upTo := workTopics[w.rng.IntN(len(workTopics))], protocol.Seq(w.rng.Uint64N(uint64(w.seq)+1))
		return func(l registry.Log) error { return l.Purge(topic, upTo) }
	case 1:
		most := time.Second
		if w.rng.IntN(8) == 0 {
			most = 2 * time.Minute // long enough for rows of the dead to go
		}
		w.now += protocol.Time(w.rng.Uint64N(uint64(most)))
		now := w.now
		return func(l registry.Log) error { return l.Expire(now) }
	}
	b := &registry.Batch{}
	for range w.rng.IntN(20) {
		b.Records = append(b.Records, w.record())
	}
	if w.rng.IntN(3) == 0 {
		b.KeyFloor = protocol.Seq(w.rng.Uint64N(uint64(w.seq) + 1))
	}
	for range w.rng.IntN(3) {
		b.Fences = append(b.Fences, registry.FenceEntry{Topic: workTopics[w.rng.IntN(3)], Fence: protocol.Fence{K: w.rng.Uint64N(99), S: w.seq}})
		e := registry.Entry{Table: "nodes", Key: fmt.Sprint(w.rng.IntN(9))}
		if w.rng.IntN(3) > 0 {
			e.Value = fmt.Append(nil, w.seq)
		}
		b.Entries = append(b.Entries, e)
	}
	return func(l registry.Log) error { return l.Append(b) }
}

func (w *work) record() *registry.Record {
	w.seq += 1 + protocol.Seq(w.rng.IntN(2))
	w.now += protocol.Time(w.rng.IntN(int(20 * time.Millisecond)))
	r := &registry.Record{Digest: [16]byte{byte(w.seq)}, Epoch: 7}
	r.Seq, r.Time, r.Sender, r.Topic = w.seq, w.now, protocol.NodeID(1+w.rng.IntN(3)), workTopics[w.rng.IntN(len(workTopics))]
	if w.rng.IntN(6) == 0 {
		r.Topic, r.To = "", protocol.NodeID(1+w.rng.IntN(2))
	}
	if w.rng.IntN(3) == 0 {
		r.Slot = fmt.Sprint("slot ", w.rng.IntN(2))
	}
	r.Payload, r.Key = []byte(strings.Repeat(fmt.Sprint(w.seq), w.rng.IntN(200))), fmt.Append(nil, "key ", w.seq)
	r.Seal()
	return r
}

var workKeep = registry.Retention{Messages: 20, Versions: 15, Age: 2 * time.Second}

// print tells all of a log that a client could see.
func print(t *testing.T, l registry.Log) string {
	t.Helper()
	var b strings.Builder
	head, at := l.Head()
	fmt.Fprintln(&b, head, at, l.Stats())
	for _, sel := range []registry.Selection{{Pattern: "*"}, {Direct: 1}, {Direct: 2}, {Pattern: "a"}, {Pattern: "a.*"}, {Pattern: "b"}, {Pattern: "config:x"}, {Pattern: "election:g"}} {
		page := registry.Page{}
		require.NoError(t, l.Read(&sel, 0, head, &page))
		fmt.Fprintln(&b, sel.Pattern, sel.Direct, page.Evicted, page.Scanned)
		for _, r := range page.Records {
			fmt.Fprintf(&b, "%x %q %x %x %x\n", r.Frame(), r.Slot, r.Key, r.Digest, r.Epoch)
		}
	}
	require.NoError(t, l.Load(registry.State{
		Fence: func(e registry.FenceEntry) error { _, err := fmt.Fprintln(&b, e); return err },
		Entry: func(e registry.Entry) error { _, err := fmt.Fprintln(&b, e); return err },
		Key:   func(e registry.KeyEntry) error { _, err := fmt.Fprintln(&b, e); return err },
		Floor: func(s protocol.Seq) error { _, err := fmt.Fprintln(&b, s); return err },
	}))
	return b.String()
}

// crash is what a machine would find on its disk if it lost its power now.
type crash struct {
	fs           *vfs.MemFS
	acked, begun int // changes
}

// crasher takes pictures of the disk between two of its operations.
type crasher struct {
	fs *vfs.MemFS

	mu           sync.Mutex
	rng          *rand.Rand
	every        int
	acked, begun int
	taken        []crash
}

func (c *crasher) MaybeError(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && c.rng.IntN(c.every) == 0 {
		unsynced := []int{0, 0, 50, 100}[c.rng.IntN(4)]
		clone := c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: c.rng})
		c.taken = append(c.taken, crash{clone, c.acked, c.begun})
	}
	return nil
}

func (c *crasher) String() string { return "crasher" }

func (c *crasher) did() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
}

func (c *crasher) begins() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
}

// Wherever the power goes: what was acknowledged is there, and of the changes
// that were not, the first ones, whole.
func TestNothingIsLostInACrash(t *testing.T) {
	for seed := range testenv.Raced[uint64](6, 2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			const changes = 150
			c := &crasher{fs: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 9)), every: 8}
			l, err := disklog.Open("log", disklog.WithMemTable(disklog.Options{
				FS: breakableFS(c.fs, c), Retention: workKeep, Recent: 10 << 10,
			}, 64<<10))
			require.NoError(t, err)
			epoch := l.Epoch()

			w, m := newWork(seed), memlog.New(memlog.Options{Retention: workKeep})
			p := &pipe{Log: l, done: c.did}
			c.mu.Lock()
			opened := len(c.taken) // before this the log itself may not be there
			c.mu.Unlock()
			want := []string{print(t, m)}
			for range changes {
				do := w.next()
				require.NoError(t, do(m))
				want = append(want, print(t, m))
				c.begins()
				if seed%2 == 1 {
					p.most = w.rng.IntN(5)
				}
				require.NoError(t, do(p))
			}
			require.NoError(t, p.settle(0))
			require.Equal(t, want[changes], print(t, l))
			require.NoError(t, l.Close())

			require.Greater(t, len(c.taken), opened+10)
			several := 0
			for i, crash := range c.taken {
				l, err := disklog.Open("log", disklog.Options{FS: crash.fs, Retention: workKeep})
				require.NoError(t, err, "crash %d", i)
				if i >= opened {
					require.Equal(t, epoch, l.Epoch(), "crash %d", i)
				}
				if crash.begun > crash.acked+1 {
					several++
				}
				require.Contains(t, want[crash.acked:crash.begun+1], print(t, l), "crash %d, %d changes acknowledged and %d begun", i, crash.acked, crash.begun)
				require.NoError(t, l.Append(&registry.Batch{Records: []*registry.Record{w.record()}}))
				require.NoError(t, l.Close())
				r, err := disklog.Check("log", disklog.Options{FS: crash.fs})
				require.NoError(t, err)
				require.Empty(t, r.Faults)
			}
			require.Equal(t, seed%2 == 1, several > 5, "crashes with several changes on their way")
		})
	}
}
