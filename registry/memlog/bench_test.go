package memlog_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
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
		r.Seal()
		f.batch.Records = append(f.batch.Records, r)
	}
	return &f.batch
}

func (f *feeder) fill(b *testing.B, l *memlog.Log, n int) {
	b.Helper()
	for ; n > 0; n -= 64 {
		batch := f.next(min(n, 64))
		batch.KeyFloor = f.seq - min(f.seq, 100_000)
		if err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// An operation is one record, made and appended in a batch of 64; at a hundred
// topics each of them also pushes one out.
func BenchmarkAppend(b *testing.B) {
	for _, test := range []struct {
		name            string
		topics, payload int
		keep            registry.Retention
	}{
		{"topics=100", 100, 128, registry.Retention{}},
		{"topics=20000", 20_000, 128, registry.Retention{}},
		{"topics=100/at the topic's cap", 100, 128, registry.Retention{Messages: -1, TopicBytes: 128 * 2000}},
		{"topics=100/at the log's cap", 100, 128, registry.Retention{Messages: -1, TotalBytes: 200_000 * (128 + registry.RecordOverhead)}},
	} {
		b.Run(test.name, func(b *testing.B) {
			l := memlog.New(memlog.Options{Retention: test.keep})
			f := newFeeder(test.topics, test.payload)
			f.fill(b, l, 250_000)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%64 == 0 {
					f.fill(b, l, 64)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// An operation is one read of one new record at the head.
func BenchmarkReadAtHead(b *testing.B) {
	l := memlog.New(memlog.Options{})
	f := newFeeder(100, 128)
	f.fill(b, l, 200_000)
	topics := make(map[string]struct{})
	for _, t := range f.topics[:50] {
		topics[t] = struct{}{}
	}
	for _, sel := range []*registry.Selection{
		{Pattern: f.topics[int(f.seq)%len(f.topics)]},
		{Pattern: "jobs.*"},
		{Pattern: "*"},
		{Topics: topics, Direct: 1},
	} {
		b.Run(fmt.Sprintf("pattern=%s topics=%d", sel.Pattern, len(sel.Topics)), func(b *testing.B) {
			page := registry.Page{MaxRecords: 64}
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Read(sel, f.seq-1, f.seq, &page); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// An operation is one record read, of everything there is.
func BenchmarkReadAll(b *testing.B) {
	l := memlog.New(memlog.Options{})
	f := newFeeder(100, 128)
	f.fill(b, l, 200_000)
	topics := make(map[string]struct{})
	for _, t := range f.topics[:50] {
		topics[t] = struct{}{}
	}
	for _, sel := range []*registry.Selection{{Pattern: f.topics[0]}, {Pattern: "jobs.*"}, {Pattern: "*"}, {Topics: topics, Direct: 1}} {
		b.Run(fmt.Sprintf("pattern=%s topics=%d", sel.Pattern, len(sel.Topics)), func(b *testing.B) {
			page := registry.Page{MaxRecords: 256}
			b.ReportAllocs()
			read := 0
			for at := protocol.Seq(0); b.Loop(); read-- {
				if read > 0 {
					continue
				}
				if at >= f.seq {
					at = 0
				}
				if err := l.Read(sel, at, f.seq, &page); err != nil {
					b.Fatal(err)
				}
				read, at = len(page.Records), page.Scanned
			}
		})
	}
}

// An operation is the listing of a whole inbox of 10,000 messages out of
// 100,000, in pages of 1 MiB.
func BenchmarkReadNewest(b *testing.B) {
	for _, joined := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint("topics=", joined), func(b *testing.B) {
			l := memlog.New(memlog.Options{Retention: registry.Retention{Messages: -1}})
			f := newFeeder(joined, 128)
			f.fill(b, l, 100_000)
			sel := &registry.Selection{Topics: make(map[string]struct{}), Direct: 1}
			for _, t := range f.topics {
				sel.Topics[t] = struct{}{}
			}
			page := registry.Page{MaxBytes: 1 << 20}
			b.ReportAllocs()
			for b.Loop() {
				for at := protocol.Seq(0); at < f.seq; at = page.Scanned {
					if err := l.ReadNewest(sel, at, 10_000, 100, &page); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// An operation is one batch of 64 records appended and read by each of a
// thousand readers.
func BenchmarkFanOut(b *testing.B) {
	const readers = 1000
	l := memlog.New(memlog.Options{})
	f := newFeeder(1, 128)
	sel := &registry.Selection{Pattern: f.topics[0]}
	pages := make([]registry.Page, readers)
	b.ReportAllocs()
	for b.Loop() {
		at := f.seq
		f.fill(b, l, 64)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := w; i < readers; i += 8 {
					if err := l.Read(sel, at, f.seq, &pages[i]); err != nil {
						b.Error(err)
					}
					for _, r := range pages[i].Records {
						_ = r.Frame()
					}
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N)*64*readers/b.Elapsed().Seconds(), "deliveries/s")
}
