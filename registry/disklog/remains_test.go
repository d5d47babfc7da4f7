package disklog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// ground is a log whose rows are counted.
type ground struct {
	*testing.T
	*Log
	o   Options
	seq protocol.Seq
	now protocol.Time
	rng *rand.Rand
}

func newGround(t *testing.T, keep registry.Retention) *ground {
	g := &ground{T: t, o: Options{FS: vfs.NewMem(), Reserve: -1, Retention: keep}, now: 1e18, rng: rand.New(rand.NewPCG(4, 2))}
	g.open()
	return g
}

func (g *ground) open() {
	g.Helper()
	l, err := Open("log", g.o)
	require.NoError(g.T, err)
	g.Log = l
	g.Cleanup(func() { require.NoError(g.T, l.Close()) })
}

// reopen also looks whether all is as it should be.
func (g *ground) reopen() {
	g.Helper()
	require.NoError(g.T, g.Close())
	r, err := Check("log", g.o)
	require.NoError(g.T, err)
	require.Empty(g.T, r.Faults)
	g.open()
	require.Equal(g.T, r.Messages, g.Stats().Messages)
}

// publish appends n messages in batches.
func (g *ground) publish(n, size int, topic, slot func(protocol.Seq) string) {
	g.Helper()
	for n > 0 {
		b := &registry.Batch{}
		for range min(n, 100) {
			g.seq++
			g.now += protocol.Time(time.Microsecond)
			r := &registry.Record{}
			r.Seq, r.Time, r.Sender, r.Topic, r.Slot = g.seq, g.now, 1, topic(g.seq), slot(g.seq)
			r.Payload, r.Key = make([]byte, size), fmt.Append(nil, g.seq)
			r.Seal()
			b.Records = append(b.Records, r)
		}
		n -= len(b.Records)
		require.NoError(g.T, g.Append(b))
	}
}

// rows counts those of a kind.
func (g *ground) rows(kind byte) (n int) {
	g.Helper()
	require.NoError(g.T, eachRow(g.db, kind, func(_, _ []byte) error { n++; return nil }))
	return n
}

// clean requires that of messages there is what is retained, and nothing else.
func (g *ground) clean() {
	g.Helper()
	live := g.Stats().Messages
	require.Equal(g.T, []int{live, live, 0}, []int{g.rows(kindIndex), g.rows(kindRun), g.rows(kindDead)})
}

func always(s string) func(protocol.Seq) string { return func(protocol.Seq) string { return s } }

// What goes in the order in which it came costs a row for each batch, and a window
// goes at once.
func TestWindowsOfDeadMessagesAreRemovedWhole(t *testing.T) {
	g := newGround(t, registry.Retention{Messages: 1000})
	g.publish(3*window, 10, always("a"), always(""))
	require.Equal(t, 1000, g.Stats().Messages)
	require.Less(t, g.rows(kindIndex), 1000+window+100)
	require.Equal(t, g.rows(kindIndex), g.rows(kindRun))
	require.LessOrEqual(t, g.rows(kindDead), window/100+1)
	g.reopen()
	require.Equal(t, 1000, g.Stats().Messages)
	g.publish(window, 10, always("a"), always(""))
	require.Less(t, g.rows(kindIndex), 1000+window+100)
	g.reopen()
}

// Where some live on, the rows of the others go after a while, a window at a time.
func TestRowsOfTheDeadDoNotStayForLong(t *testing.T) {
	for name, slot := range map[string]func(g *ground) string{
		"few live":    func(g *ground) string { return fmt.Sprint(g.seq % 3) },
		"half lives":  func(g *ground) string { return fmt.Sprint(g.rng.IntN(5000)) },
		"most live":   func(g *ground) string { return fmt.Sprint(min(g.seq, 9000+g.seq%100)) },
		"those apart": func(g *ground) string { return []string{fmt.Sprint(g.seq), "", "same"}[g.seq/40%3] },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, registry.Retention{Messages: 20_000})
			topic := func(seq protocol.Seq) string { return fmt.Sprint("t.", seq*seq%97) }
			g.publish(10_000, 1, topic, func(protocol.Seq) string { return slot(g) })
			require.Greater(t, g.rows(kindIndex), g.Stats().Messages)
			require.Positive(t, g.rows(kindDead))
			g.reopen()
			for range 4 {
				g.now += protocol.Time(remainsAge)
				require.NoError(t, g.Expire(g.now))
			}
			g.clean()
			g.reopen()
			g.clean()
		})
	}
}

// A row of the dead that names a message of the first format, which none does, is
// damage like any other.
func TestNoRowOfTheDeadNamesTheOldest(t *testing.T) {
	g := newGround(t, registry.Retention{})
	g.publish(1, 10, always("a"), always(""))
	x := *g.view.All.Last()
	x.old = true
	key, row := deadRow(note{0, []uint16{1}})
	b := g.db.NewBatch()
	require.NoError(t, b.Set(seqKey(nil, kindIndex, x.seq), appendIndex(nil, &x), nil))
	require.NoError(t, b.Set(key, row, nil))
	require.NoError(t, g.committer.set(b))
	require.NoError(t, g.Close())
	_, err := Open("log", g.o)
	var damaged *DamagedError
	require.ErrorAs(t, err, &damaged)
}

// While nobody publishes several windows go with each look at what is too old; a
// publish is held up by one at most.
func TestRowsOfTheDeadGoWhileNobodyPublishes(t *testing.T) {
	const windows = 2*agedMost + 1
	g := newGround(t, registry.Retention{Messages: -1})
	slot := func(seq protocol.Seq) string {
		if seq%window == 1 {
			return fmt.Sprint("alive ", seq)
		}
		return fmt.Sprint(seq % 100) // until the next batch
	}
	lying := func() int { return (g.rows(kindIndex) - g.Stats().Messages + window - 1) / window }
	g.publish(windows*window-1, 1, always("a"), slot)
	require.Equal(t, windows, lying())
	g.now += protocol.Time(remainsAge)
	g.publish(1, 1, always("a"), always(""))
	require.Equal(t, windows-1, lying())
	for left := windows - 1; left > 0; left -= agedMost {
		require.Equal(t, left, lying())
		require.NoError(t, g.Expire(g.now))
	}
	g.clean()
}

// However large the dead are, what remains of them is bounded.
func TestRemainsAreBounded(t *testing.T) {
	g := newGround(t, registry.Retention{})
	const size = 512 << 10
	slot := func(seq protocol.Seq) string { return fmt.Sprint(min(seq, 1+seq%3)) }
	for range 4 {
		g.publish(100, size, always("a"), slot)
		live := g.Stats().Messages
		require.Less(t, live, 4)
		require.LessOrEqual(t, g.rows(kindRun)-live, remainsMost/size)
	}
	g.reopen()
}

// What is purged is removed in the same step, and all that lies with it.
func TestAPurgeLeavesNoRows(t *testing.T) {
	g := newGround(t, registry.Retention{})
	g.publish(300, 10, func(seq protocol.Seq) string { return fmt.Sprint("t.", seq%3) }, func(seq protocol.Seq) string { return fmt.Sprint(seq % 50) })
	require.Greater(t, g.rows(kindRun), g.Stats().Messages)
	require.NoError(t, g.Purge("t.1", g.seq))
	g.clean()
	g.reopen()
	g.clean()
}

// A window may have messages of format 1 in its lower part.
func TestMessagesOfFormat1StayWhenOthersOfTheirWindowGo(t *testing.T) {
	for _, n := range []int{1, 2 * runLeast} {
		g := &ground{T: t, o: Options{FS: vfs.NewMem(), Reserve: -1}}
		copied, err := vfs.Clone(vfs.Default, g.o.FS, "testdata/format1", "log")
		require.NoError(t, err)
		require.True(t, copied)
		g.open()
		g.seq, g.now = g.Head()
		old := g.Stats().Messages
		require.Positive(t, old)
		g.publish(n, 10, always("new"), always(""))
		require.NoError(t, g.Purge("new", g.seq))
		require.Equal(t, old, g.Stats().Messages)
		g.reopen()
		require.Equal(t, old, g.Stats().Messages)
	}
}

// sound requires that the rows, the writer's account of them and what readers see
// agree.
func (g *ground) sound() {
	g.Helper()
	live := make(map[protocol.Seq]bool)
	for x := range g.view.All.All() {
		live[x.seq] = true
	}
	graves := make(graveyard)
	require.NoError(g.T, eachRow(g.db, kindDead, graves.load))
	var want, got []string // keys of contents
	var charge int64
	alive, dead := 0, make(map[protocol.Seq]int)
	require.NoError(g.T, eachRow(g.db, kindIndex, func(key, row []byte) error {
		seq, _ := cutSeqKey(key)
		x, err := parseIndex(row, seq, detached)
		require.NoError(g.T, err)
		require.NotEqual(g.T, live[seq], graves.has(seq), "message %d", seq)
		want = append(want, string(x.row(nil)))
		if live[seq] {
			alive++
		} else {
			dead[seq&^(window-1)]++
			charge += int64(x.charge)
		}
		return nil
	}))
	require.NoError(g.T, eachRow(g.db, kindRun, func(key, _ []byte) error { got = append(got, string(key)); return nil }))
	slices.Sort(want)
	require.Equal(g.T, want, got)
	require.Len(g.T, live, alive)

	m := &g.books.remains
	require.Equal(g.T, charge, m.charge)
	require.Len(g.T, dead, len(graves))
	for first, p := range m.panes {
		require.Equal(g.T, dead[first], p.dead, "window %d", first)
		require.Less(g.T, p.dead, len(p.stubs))
		waits := 0
		for _, w := range m.waiting {
			if w.pane == p && w.sweeps == p.sweeps {
				waits++
			}
		}
		require.Equal(g.T, min(1, p.dead), waits)
		delete(dead, first)
	}
	require.Empty(g.T, dead)
}

// Whatever goes, and in whatever order, after each change there are the rows of
// what lives, and those of the dead that are noted.
func TestRowsAreThoseOfTheLivingAndOfTheNoted(t *testing.T) {
	for seed := range testenv.Raced[uint64](8, 2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			keep := registry.Retention{Messages: 1 + rng.IntN(60), Age: time.Duration(1+rng.IntN(900)) * time.Millisecond}
			g := newGround(t, keep)
			slots := 1 + rng.IntN(200)
			topic := func(protocol.Seq) string { return fmt.Sprint("t.", rng.IntN(9)) }
			slot := func(protocol.Seq) string { return []string{"", fmt.Sprint(rng.IntN(slots))}[rng.IntN(2)] }
			for range 250 {
				switch rng.IntN(10) {
				case 0:
					require.NoError(t, g.Purge(topic(0), protocol.Seq(rng.Uint64N(uint64(g.seq)+1))))
				case 1:
					g.now += protocol.Time(rng.Uint64N(uint64([]time.Duration{time.Millisecond, 2 * remainsAge}[rng.IntN(2)])))
					require.NoError(t, g.Expire(g.now))
				case 2:
					g.o.Retention.Messages = 1 + rng.IntN(60)
					require.NoError(t, g.Retain(g.o.Retention))
				case 3:
					g.reopen()
				default:
					g.seq += protocol.Seq(rng.IntN(300)) // windows with few messages
					g.publish(1+rng.IntN(150), 1, topic, slot)
				}
				g.sound()
			}
			require.Greater(t, g.seq, protocol.Seq(5*window))
		})
	}
}
