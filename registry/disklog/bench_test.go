package disklog_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// feeder makes records as a registry does.
type feeder struct {
	seq     protocol.Seq
	topics  []string
	payload []byte
	batch   registry.Batch
}

func newFeeder(topics, payload int) *feeder {
	f := &feeder{payload: make([]byte, payload)}
	for i := range f.payload {
		f.payload[i] = byte(i*7 + i*i/3) // does not shrink much
	}
	for i := range topics {
		f.topics = append(f.topics, fmt.Sprint("jobs.", i))
	}
	return f
}

func (f *feeder) next(n int) *registry.Batch {
	f.batch.Records = f.batch.Records[:0]
	for range n {
		f.seq++
		r := &registry.Record{}
		r.Seq, r.Time, r.Sender = f.seq, protocol.Time(f.seq), protocol.NodeID(1+f.seq%100)
		r.Topic, r.Payload, r.Key = f.topics[int(f.seq)%len(f.topics)], f.payload, []byte("0123456789abcdef01234567")
		r.Digest = [16]byte{byte(f.seq), byte(f.seq >> 8), byte(f.seq >> 16)}
		r.Seal()
		f.batch.Records = append(f.batch.Records, r)
	}
	f.batch.KeyFloor = f.seq - min(f.seq, 1_000_000)
	return &f.batch
}

func (f *feeder) fill(tb testing.TB, l registry.Log, n int) {
	tb.Helper()
	for ; n > 0; n -= 1024 {
		require.NoError(tb, l.Append(f.next(min(n, 1024))))
	}
}

func openLog(tb testing.TB, dir string, o disklog.Options) *disklog.Log {
	tb.Helper()
	l, err := disklog.Open(dir, o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

// An operation is one record of 128 bytes, made and appended, one batch at a
// time. Where the log is full each also pushes one out.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64, 256, 1024} {
		for _, fill := range []int{0, 150_000} {
			b.Run(fmt.Sprintf("batch=%d/full=%v", size, fill > 0), func(b *testing.B) {
				l := openLog(b, b.TempDir(), disklog.Options{Retention: registry.Retention{Messages: 1000}})
				f := newFeeder(100, 128)
				f.fill(b, l, fill)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if n%size == 0 {
						if err := l.Append(f.next(size)); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// An operation is one record of 128 bytes, made and begun, with up to depth
// batches on their way.
func BenchmarkBegin(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		for _, depth := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("batch=%d/depth=%d", size, depth), func(b *testing.B) {
				l := openLog(b, b.TempDir(), disklog.Options{Retention: registry.Retention{Messages: 1000}})
				f := newFeeder(100, 128)
				begun := make([]<-chan error, depth) // a ring
				settle := func(i int) {
					if begun[i] != nil {
						if err := <-begun[i]; err != nil {
							b.Fatal(err)
						}
					}
					begun[i] = nil
				}
				b.ReportAllocs()
				for n, i := 0, 0; b.Loop(); n++ {
					if n%size > 0 {
						continue
					}
					settle(i)
					batch := *f.next(size)
					batch.Records = slices.Clone(batch.Records)
					var err error
					if begun[i], err = l.Begin(&batch); err != nil {
						b.Fatal(err)
					}
					i = (i + 1) % depth
				}
				for i := range begun {
					settle(i)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

func readAll(b *testing.B, l *disklog.Log, f *feeder, sel *registry.Selection) {
	page := registry.Page{MaxRecords: 256, MaxBytes: 32 << 10}
	b.ReportAllocs()
	read, rounds := 0, 0
	for at := protocol.Seq(0); b.Loop(); read-- {
		if read > 0 {
			continue
		}
		if at >= f.seq {
			at = 0
			if protocol.IsExact(sel.Pattern) && sel.Direct == 0 {
				rounds++ // to a topic that is not in the store's cache
				sel = &registry.Selection{Pattern: f.topics[rounds%len(f.topics)]}
			}
		}
		if err := l.Read(sel, at, f.seq, &page); err != nil {
			b.Fatal(err)
		}
		read, at = len(page.Records), page.Scanned
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// An operation is one record read by a subscriber that catches up, from the
// disk (as far as the system's own cache is one) or from memory.
func BenchmarkCatchUp(b *testing.B) {
	const records = 400_000
	dir := b.TempDir()
	f := newFeeder(100, 128)
	l, err := disklog.Open(dir, disklog.Options{Retention: registry.Retention{Messages: -1}})
	require.NoError(b, err)
	f.fill(b, l, records)
	require.NoError(b, l.Close())
	topics := make(map[string]struct{})
	for _, t := range f.topics[:50] {
		topics[t] = struct{}{}
	}
	catchUp := func(name string, l *disklog.Log) {
		for _, sel := range []*registry.Selection{{Pattern: f.topics[0]}, {Pattern: "jobs.*"}, {Pattern: "*"}, {Topics: topics, Direct: 1}} {
			b.Run(fmt.Sprintf("%s/pattern=%s,topics=%d", name, sel.Pattern, len(sel.Topics)), func(b *testing.B) {
				readAll(b, l, f, sel)
			})
		}
	}
	catchUp("disk", openLog(b, dir, disklog.Options{Recent: -1, Retention: registry.Retention{Messages: -1}}))

	l = openLog(b, b.TempDir(), disklog.Options{Recent: 1 << 30, Retention: registry.Retention{Messages: -1}})
	f = newFeeder(100, 128)
	f.fill(b, l, records)
	catchUp("memory", l)
}

// An operation is one append of one record and its read by a subscriber.
func BenchmarkPublishAndPush(b *testing.B) {
	l := openLog(b, b.TempDir(), disklog.Options{})
	f := newFeeder(1, 128)
	page := registry.Page{MaxRecords: 256}
	sel := &registry.Selection{Pattern: f.topics[0]}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Append(f.next(1)); err != nil {
			b.Fatal(err)
		}
		if err := l.Read(sel, f.seq-1, f.seq, &page); err != nil || len(page.Records) != 1 {
			b.Fatal(err, len(page.Records))
		}
	}
}

// An operation is the opening of a log with a million messages and keys.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := disklog.Options{Retention: registry.Retention{Messages: -1}}
	l, err := disklog.Open(dir, o)
	require.NoError(b, err)
	newFeeder(1000, 128).fill(b, l, 1_000_000)
	require.NoError(b, l.Close())
	for b.Loop() {
		l, err := disklog.Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := l.Stats().Messages; n != 1_000_000 {
			b.Fatal(n)
		}
		require.NoError(b, l.Close())
		b.StartTimer()
	}
}
