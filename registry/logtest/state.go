package logtest

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// state is what a log hands over, in text.
type state struct {
	fences, entries map[string]string
	keys            []string
	floor           protocol.Seq
}

func (l *log) state() state {
	l.t.Helper()
	s := state{fences: make(map[string]string), entries: make(map[string]string)}
	check(l.t, l.Load(registry.State{
		Fence: func(e registry.FenceEntry) error {
			s.fences[e.Topic] = fmt.Sprint(e.Fence)
			return nil
		},
		Entry: func(e registry.Entry) error {
			s.entries[e.Table+" "+e.Key] = string(e.Value)
			return nil
		},
		Key: func(e registry.KeyEntry) error {
			s.keys = append(s.keys, fmt.Sprintf("%d %s %d %d %d", e.Sender, e.Key, e.Seq, e.Time-start, e.Digest[15]))
			return nil
		},
		Floor: func(f protocol.Seq) error {
			s.floor = f
			return nil
		},
	}))
	return s
}

func testState(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Messages: 1})
	check(t, l.Append(&registry.Batch{
		Records: []*registry.Record{l.record(1, "a"), l.record(1, "a"), l.record(2, "", to(1))},
		Fences:  []registry.FenceEntry{{Topic: "a", Fence: protocol.Fence{K: 1, S: 2}}, {Topic: "a", Fence: protocol.Fence{K: 3, S: 2}}},
		Entries: []registry.Entry{
			{Table: "nodes", Key: "\x00\xff", Value: []byte{1}},
			{Table: "nodes", Key: "gone", Value: []byte{2}},
			{Table: "nodes", Key: "", Value: []byte{}},
			{Table: "nodesjoins", Key: "", Value: []byte{3}},
		},
	}))
	// State alone is a batch too.
	check(t, l.Append(&registry.Batch{
		Fences: []registry.FenceEntry{{Topic: "ab", Fence: protocol.Fence{K: protocol.MaxTerm}}},
		Entries: []registry.Entry{
			{Table: "nodes", Key: "gone"},
			{Table: "nodes", Key: "never"},
			{Table: "joins", Key: "k", Value: []byte{4}},
			{Table: "joins", Key: "k", Value: []byte{5}},
		},
	}))
	want := state{
		fences:  map[string]string{"a": "{3 2}", "ab": fmt.Sprintf("{%d 0}", uint64(protocol.MaxTerm))},
		entries: map[string]string{"nodes \x00\xff": "\x01", "nodes ": "", "nodesjoins ": "\x03", "joins k": "\x05"},
		keys:    []string{"1 key 1 1 1000000 1", "1 key 2 2 2000000 2", "2 key 3 3 3000000 3"}, // 1 is evicted, its key is not
	}
	for range 2 {
		equal(t, l.state(), want, "state")
		l.reopen()
	}
	check(t, l.Append(&registry.Batch{Records: []*registry.Record{l.record(1, "b")}, KeyFloor: 2}))
	want.keys, want.floor = []string{"2 key 3 3 3000000 3", "1 key 4 4 4000000 4"}, 2
	for range 2 {
		equal(t, l.state(), want, "state above the floor")
		equal(t, l.Stats().Keys, 2, "keys")
		l.reopen()
	}
	check(t, l.Append(&registry.Batch{Records: []*registry.Record{l.record(1, "b")}}))
	equal(t, l.state().floor, 2, "a floor that is not told stays")

	check(t, l.Load(registry.State{})) // nobody asks for anything
	stop := errors.New("stop")
	wantError(t, l.Load(registry.State{Fence: func(registry.FenceEntry) error { return stop }}), stop)
	wantError(t, l.Load(registry.State{Floor: func(protocol.Seq) error { return stop }}), stop)
}

func testRefusedBatch(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	l.publish(1, "a")
	good, bad := l.record(1, "b"), l.record(1, "b")
	bad.Seq = good.Seq
	err := l.Append(&registry.Batch{
		Records: []*registry.Record{good, bad},
		Fences:  []registry.FenceEntry{{Topic: "b", Fence: protocol.Fence{K: 1}}},
		Entries: []registry.Entry{{Table: "nodes", Key: "k", Value: []byte{1}}},
	})
	if err == nil {
		t.Fatal("a seq that is not above the one before was taken")
	}
	for range 2 {
		l.want("*", 1)
		equal(t, l.state(), state{fences: map[string]string{}, entries: map[string]string{}, keys: []string{"1 key 1 1 1000000 1"}}, "state")
		seq, _ := l.Head()
		equal(t, seq, 1, "head")
		l.reopen()
	}
	l.append(good)
	l.want("*", 1, 2)
}

// Readers see a growing beginning of the log, without holes.
func testConcurrentReaders(t *testing.T, s Suite) {
	const batches, size, readers = 200, 10, 8
	l := s.open(t, unbounded)
	grown := newBell()
	var wg sync.WaitGroup
	for i := range readers {
		sel := registry.Selection{Pattern: []string{"a", "*", "a.*", ""}[i%4], Topics: map[bool]map[string]struct{}{true: set("a", "a.b")}[i%4 == 3]}
		wg.Go(func() {
			if err := follow(l.Log, &grown, &sel, batches*size); err != nil {
				t.Error(err)
			}
		})
	}
	for range batches {
		var list []*registry.Record
		for i := range size {
			list = append(list, l.record(protocol.NodeID(i%3+1), []string{"a", "a.b"}[i%2]))
		}
		if err := l.Append(&registry.Batch{Records: list}); err != nil {
			t.Error(err)
			l.Close() // ends the readers
			break
		}
		grown.ring()
	}
	grown.stop()
	wg.Wait()
}

// bell wakes readers that have read all there is.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // closed with the next ring
	over bool
}

func newBell() bell { return bell{next: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		close(b.next)
		b.next = make(chan struct{})
	}
}

// stop is the last ring.
func (b *bell) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	close(b.next)
}

func (b *bell) heard() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

func follow(l registry.Log, grown *bell, sel *registry.Selection, upTo protocol.Seq) error {
	page := registry.Page{MaxRecords: 7}
	step := protocol.Seq(1)
	if sel.Pattern == "a" || sel.Pattern == "a.*" {
		step = 2
	}
	last := protocol.Seq(0)
	for at := protocol.Seq(0); at < upTo; at = page.Scanned {
		more := grown.heard()
		head, _ := l.Head()
		if head == at {
			<-more
			head, _ = l.Head()
		}
		if err := l.Read(sel, at, head, &page); err != nil {
			return err
		}
		for _, r := range page.Records {
			if last != 0 && r.Seq != last+step || r.Seq <= at || r.Seq > page.Scanned {
				return fmt.Errorf("pattern %q: seq %d after %d, scanned %d", sel.Pattern, r.Seq, last, page.Scanned)
			}
			last = r.Seq
		}
		if page.Scanned < at {
			return fmt.Errorf("scanned back to %d from %d", page.Scanned, at)
		}
	}
	return nil
}

// Readers that are slower than retention get each record or are told of a gap.
func testForgetfulReaders(t *testing.T, s Suite) {
	const batches, size, last = 300, 20, 300 * 20
	l := s.open(t, registry.Retention{Messages: 15, TopicBytes: 400})
	grown := newBell()
	var wg sync.WaitGroup
	for _, sel := range []registry.Selection{
		{Pattern: "a"}, {Pattern: "*"}, {Pattern: "a.*"}, {Topics: set("a", "a.b"), Direct: 3}, {Direct: 3},
	} {
		wg.Go(func() {
			if err := account(l.Log, &grown, &sel, last); err != nil {
				t.Error(err)
			}
		})
	}
	for range batches {
		var list []*registry.Record
		for range size {
			list = append(list, forgetful(l))
		}
		err := l.Append(&registry.Batch{Records: list})
		if err == nil {
			err = l.Purge("a.b", l.seq-size)
		}
		if err != nil {
			t.Error(err)
			l.Close() // ends the readers
			break
		}
		grown.ring()
	}
	grown.stop()
	wg.Wait()
}

// forgetful makes the next record; its seq tells where it goes.
func forgetful(l *log) *registry.Record {
	sender := protocol.NodeID(1 + l.seq%2)
	if topic := forgetfulTopic(l.seq + 1); topic != "" {
		return l.record(sender, topic, payload(10))
	}
	return l.record(sender, "", to(3), payload(10))
}

// forgetfulTopic is "" for a direct message to 3.
func forgetfulTopic(seq protocol.Seq) string { return []string{"a", "a.b", "a.c", ""}[seq%4] }

// account reads to the end of the log and holds each record of the selection that
// did not come against the gaps that were told.
func account(l registry.Log, grown *bell, sel *registry.Selection, last protocol.Seq) error {
	page := registry.Page{MaxRecords: 5}
	for at := protocol.Seq(0); at < last; {
		more := grown.heard()
		head, _ := l.Head()
		if head == at {
			<-more
			head, _ = l.Head()
		}
		if err := l.Read(sel, at, head, &page); err != nil {
			return err
		}
		came := make(map[protocol.Seq]bool)
		for _, r := range page.Records {
			came[r.Seq] = true
		}
		for seq := at + 1; seq <= page.Scanned; seq++ {
			stream := cmp.Or(forgetfulTopic(seq), "*3")
			if selects(sel, stream) && !came[seq] && seq > page.Evicted {
				return fmt.Errorf("%+v behind %d: seq %d neither came nor is it in the gap up to %d", sel, at, seq, page.Evicted)
			}
		}
		at = page.Scanned
	}
	return nil
}

func testClosed(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	l.publish(1, "a")
	check(t, l.Close())
	check(t, l.Close())
	page := registry.Page{}
	wantError(t, l.Append(&registry.Batch{Records: []*registry.Record{l.record(1, "a")}}), protocol.ErrClosed)
	wantError(t, l.Read(&registry.Selection{Pattern: "a"}, 0, 1, &page), protocol.ErrClosed)
	wantError(t, l.ReadNewest(&registry.Selection{Topics: set("a")}, 0, 1, 1, &page), protocol.ErrClosed)
	wantError(t, l.Load(registry.State{}), protocol.ErrClosed)
	wantError(t, l.Purge("a", 1), protocol.ErrClosed)
	wantError(t, l.Expire(start), protocol.ErrClosed)
	_, err := l.Topics("", 1)
	wantError(t, err, protocol.ErrClosed)
}
