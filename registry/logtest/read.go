package logtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func testEmpty(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	seq, at := l.Head()
	equal(t, seq, 0, "head")
	equal(t, at, 0, "time of the head")
	if l.Epoch().ID == 0 {
		t.Fatal("no epoch")
	}
	l.want("*")
	page := registry.Page{Records: make([]*registry.Record, 7), Evicted: 9, Truncated: true}
	check(t, l.Read(&registry.Selection{Pattern: "*"}, 12, 99, &page))
	equal(t, len(page.Records), 0, "records")
	equal(t, page.Scanned, 12, "scanned, where there is nothing to scan")
	equal(t, page.Evicted, 0, "evicted")
	equal(t, page.Truncated, false, "truncated")
	equal(t, l.Topic("jobs"), registry.TopicStats{Topic: "jobs"}, "an unknown topic")
	equal(t, l.Stats(), registry.LogStats{}, "sums")
}

func testRoundTrip(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	first := l.record(1<<31|5, "election:blue", payload(300), slot("beat"), func(r *registry.Record) {
		r.Origin = 77
		r.Key = []byte("0123456789abcdef0123456789abcdef")
		r.Fences = []protocol.Mark{{Topic: "election:blue", Term: 1<<53 - 1}, {Topic: "config:a", Term: 3}}
		r.Digest = [16]byte{1, 2, 3, 15: 4}
	})
	second := l.record(6, "ünïcode 🛰 topic")
	l.seq += 41 // seqs may leave gaps
	third := l.record(7, "", to(6), payload(3))
	batch := &registry.Batch{Records: []*registry.Record{first, second, third}}
	check(t, l.Append(batch))
	clear(batch.Records) // the batch is the caller's again

	for range 2 {
		page := registry.Page{}
		check(t, l.Read(&registry.Selection{Pattern: "*", Direct: 6}, 0, 99, &page))
		equal(t, len(page.Records), 3, "records")
		for i, want := range []*registry.Record{first, second, third} {
			sameRecord(t, page.Records[i], want)
		}
		equal(t, page.Scanned, third.Seq, "scanned")
		seq, at := l.Head()
		equal(t, seq, third.Seq, "head")
		equal(t, at, third.Time, "time of the head")
		l.reopen()
	}
}

// sameRecord takes empty and nil for the same.
func sameRecord(t *testing.T, got, want *registry.Record) {
	t.Helper()
	equal(t, string(got.Payload), string(want.Payload), "payload")
	equal(t, string(got.Key), string(want.Key), "key")
	equal(t, got.Fences, want.Fences, "fences")
	equal(t, string(got.Frame()), string(want.Frame()), "frame")
	g, w := *got, *want
	for _, r := range []*registry.Record{&g, &w} {
		r.Payload, r.Key, r.Fences = nil, nil, nil
		r.Seal() // levels the frame
	}
	equal(t, g, w, "record")
}

func testSelections(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	l.append(
		l.record(1, "a"),          // 1
		l.record(1, "a.b"),        // 2
		l.record(2, "a.b.c"),      // 3
		l.record(2, "a:b"),        // 4
		l.record(1, "", to(9)),    // 5
		l.record(1, "a."),         // 6
		l.record(9, "", to(1)),    // 7
		l.record(1, "ab"),         // 8
		l.record(1, "b"),          // 9
		l.record(3, "a"),          // 10
		l.record(3, "a.b"),        // 11
		l.record(3, "\U0010ffff"), // 12
	)
	sixth := start + 6*protocol.Time(time.Millisecond)
	for _, test := range []struct {
		name  string
		sel   registry.Selection
		after protocol.Seq
		want  []protocol.Seq
	}{
		{"nothing", registry.Selection{}, 0, nil},
		{"a topic", registry.Selection{Pattern: "a"}, 0, seqs(1, 10)},
		{"a topic that is not there", registry.Selection{Pattern: "c"}, 0, nil},
		{"a prefix has at least one more byte", registry.Selection{Pattern: "a.*"}, 0, seqs(2, 3, 11)},
		{"a prefix by colon", registry.Selection{Pattern: "a:*"}, 0, seqs(4)},
		{"every topic, but no direct message", registry.Selection{Pattern: "*"}, 0, seqs(1, 2, 3, 4, 6, 8, 9, 10, 11, 12)},
		{"direct messages", registry.Selection{Direct: 9}, 0, seqs(5)},
		{"direct messages to another", registry.Selection{Direct: 8}, 0, nil},
		{"an inbox", registry.Selection{Topics: set("a", "b", "zzz"), Direct: 1}, 0, seqs(1, 7, 9, 10)},
		{"both ways at once", registry.Selection{Pattern: "a.*", Topics: set("a.b", "a"), Direct: 9}, 0, seqs(1, 2, 3, 5, 10, 11)},
		{"behind a seq", registry.Selection{Pattern: "a"}, 1, seqs(10)},
		{"behind the last", registry.Selection{Pattern: "a"}, 10, nil},
		{"a prefix behind a seq", registry.Selection{Pattern: "a.*"}, 2, seqs(3, 11)},
		{"since a time", registry.Selection{Pattern: "*", Since: sixth}, 0, seqs(6, 8, 9, 10, 11, 12)},
		{"a topic since a time", registry.Selection{Pattern: "a", Since: sixth}, 0, seqs(10)},
		{"since now", registry.Selection{Pattern: "*", Since: sixth + protocol.Time(time.Hour)}, 0, nil},
		{"readable topics", registry.Selection{Pattern: "a.*", Readable: func(s string) bool { return strings.HasSuffix(s, "c") }}, 0, seqs(3)},
		{"an unreadable topic", registry.Selection{Pattern: "a", Readable: func(string) bool { return false }}, 0, nil},
		{"an unreadable topic in an inbox", registry.Selection{Topics: set("a", "b"), Direct: 9, Readable: func(s string) bool { return s == "b" }}, 0, seqs(5, 9)},
	} {
		got, evicted := l.read(test.sel, test.after)
		equal(t, got, test.want, test.name)
		equal(t, evicted, 0, test.name+": evicted")
	}
}

func testPages(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	for i := range 6 {
		l.publish(1, "a", payload(10))
		l.publish(protocol.NodeID(i+1), "b", payload(50))
	}
	head, _ := l.Head()
	page := registry.Page{}
	read := func(sel registry.Selection, after, upTo protocol.Seq, records, bytes int, scanned protocol.Seq, want ...protocol.Seq) {
		t.Helper()
		page.MaxRecords, page.MaxBytes = records, bytes
		check(t, l.Read(&sel, after, upTo, &page))
		equal(t, seqsOf(page.Records), want, "records")
		equal(t, page.Scanned, scanned, "scanned")
	}
	a, all := registry.Selection{Pattern: "a"}, registry.Selection{Pattern: "*"}
	inbox := registry.Selection{Topics: set("a", "b")}
	read(a, 0, head, 2, 0, 3, 1, 3)
	read(a, 3, head, 2, 0, 7, 5, 7)
	read(a, 5, head, 2, 0, 9, 7, 9)
	read(a, 11, head, 2, 0, head)
	read(a, 0, 6, 0, 0, 6, 1, 3, 5)
	read(a, 0, 99, 0, 30, 5, 1, 3, 5)
	read(a, 0, 99, 0, 29, 3, 1, 3)
	read(a, 0, 99, 0, 1, 1, 1) // one at least
	read(all, 1, 99, 0, 60, 3, 2, 3)
	read(all, 1, 4, 0, 0, 4, 2, 3, 4)
	read(inbox, 1, 99, 0, 60, 3, 2, 3)
	read(inbox, 10, 99, 5, 0, head, 11, 12)
	read(a, 0, 0, 5, 0, 0)
	read(a, 9, 4, 5, 0, 9)
}

// Whatever a log does about reading much, it leaves nothing out and shows
// nothing twice.
func testLong(t *testing.T, s Suite) {
	const records, topics = 12_000, 400
	l := s.open(t, registry.Retention{})
	joined := make(map[string]struct{})
	for range records / 100 {
		var batch []*registry.Record
		for range 100 {
			batch = append(batch, l.record(1, fmt.Sprint("a.", (l.seq+1)%topics)))
		}
		l.append(batch...)
	}
	for i := range 10 {
		joined[fmt.Sprint("a.", i)] = struct{}{}
	}
	every := func(n protocol.Seq) (list []protocol.Seq) {
		for seq := n; seq <= records; seq += n {
			list = append(list, seq)
		}
		return list
	}
	for _, test := range []struct {
		name string
		sel  registry.Selection
		want []protocol.Seq
	}{
		{"everything", registry.Selection{Pattern: "*"}, every(1)},
		{"a prefix of many topics", registry.Selection{Pattern: "a.*", Topics: joined}, every(1)},
		{"few of many topics", registry.Selection{Pattern: "a.*", Readable: func(s string) bool { return s == "a.0" }}, every(topics)},
		{"none of many topics", registry.Selection{Pattern: "a.*", Readable: func(string) bool { return false }}, nil},
		{"a topic", registry.Selection{Pattern: "a.0"}, every(topics)},
		{"nothing", registry.Selection{Pattern: "b.*"}, nil},
	} {
		got, _ := l.read(test.sel, 0)
		equal(t, got, test.want, test.name)
	}
	got, _ := l.read(registry.Selection{Pattern: "a.1.*", Topics: joined}, 0)
	equal(t, len(got), records/topics*len(joined), "records of an inbox")
	got, _ = l.read(registry.Selection{Pattern: "a.*", LastPerTopic: true}, 0)
	equal(t, got, between(records-topics+1, records), "the last of each topic")
	// Few topics of a prefix, some of them joined too.
	for i := range 1200 {
		l.publish(1, fmt.Sprint("b.", i%3))
	}
	got, _ = l.read(registry.Selection{Pattern: "b.*", Topics: set("b.1", "b.2"), Direct: 1}, 0)
	equal(t, got, between(records+1, records+1200), "a prefix and its topics at once")
}

func testLastPerTopic(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	l.append(
		l.record(1, "a"),          // 1
		l.record(1, "x.1"),        // 2
		l.record(1, "x.2"),        // 3
		l.record(2, "a"),          // 4
		l.record(1, "x.3"),        // 5
		l.record(2, "x.1"),        // 6
		l.record(2, "", to(1)),    // 7
		l.record(2, "", to(1)),    // 8
		l.record(2, "x.4"),        // 9
		l.record(2, "unreadable"), // 10
	)
	for _, test := range []struct {
		name  string
		sel   registry.Selection
		after protocol.Seq
		want  []protocol.Seq
	}{
		{"a topic", registry.Selection{Pattern: "a"}, 0, seqs(4)},
		{"a prefix", registry.Selection{Pattern: "x.*"}, 0, seqs(3, 5, 6, 9)},
		{"a prefix behind a seq", registry.Selection{Pattern: "x.*"}, 5, seqs(6, 9)},
		{"everything", registry.Selection{Pattern: "*"}, 0, seqs(3, 4, 5, 6, 9, 10)},
		{"an inbox", registry.Selection{Topics: set("a", "x.3"), Direct: 1}, 0, seqs(4, 5, 8)},
		{"since", registry.Selection{Pattern: "*", Since: start + 5*protocol.Time(time.Millisecond)}, 0, seqs(5, 6, 9, 10)},
		{"readable", registry.Selection{Pattern: "*", Readable: func(s string) bool { return s != "unreadable" }}, 0, seqs(3, 4, 5, 6, 9)},
	} {
		test.sel.LastPerTopic = true
		got, _ := l.read(test.sel, test.after)
		equal(t, got, test.want, test.name)
	}
	// A topic whose newest is beyond upTo comes later, as the newest it has then.
	page := registry.Page{}
	check(t, l.Read(&registry.Selection{Pattern: "*", LastPerTopic: true}, 0, 5, &page))
	equal(t, seqsOf(page.Records), seqs(3, 4, 5), "up to 5")
	equal(t, page.Scanned, 5, "scanned")
}

func testReadNewest(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	for i := range 30 { // busy has 1 2 3, 5 6 7, …, quiet has 4, 8, …
		if i%4 == 3 {
			l.publish(1, "quiet")
		} else {
			l.publish(1, "busy")
		}
	}
	l.publish(1, "", to(5)) // 31
	l.publish(1, "other")   // 32
	sel := registry.Selection{Topics: set("busy", "quiet", "silent"), Direct: 5}
	read := func(after protocol.Seq, newest, perTopic int, truncated bool, want ...protocol.Seq) {
		t.Helper()
		var got []protocol.Seq
		page := registry.Page{MaxRecords: 4}
		head, _ := l.Head()
		for at, first := after, true; at < head; first = false {
			check(t, l.ReadNewest(&sel, at, newest, perTopic, &page))
			if first {
				equal(t, page.Truncated, truncated, "truncated")
			}
			got = append(got, seqsOf(page.Records)...)
			at = page.Scanned
		}
		equal(t, got, want, "records")
	}
	read(0, 100, 1, false, between(1, 31)...)
	read(0, 31, 1, false, between(1, 31)...)
	read(0, 30, 1, true, between(2, 31)...)
	read(0, 5, 1, true, 27, 28, 29, 30, 31)
	read(0, 3, 3, true, 20, 24, 27, 28, 29, 30, 31)
	read(0, 1, 2, true, 24, 28, 29, 30, 31)
	read(0, 0, 1, true, 28, 30, 31)
	read(24, 1, 2, true, 28, 29, 30, 31)
	read(27, 4, 1, false, 28, 29, 30, 31)
	read(31, 4, 1, false)
	sel.Readable = func(topic string) bool { return topic != "busy" }
	read(0, 3, 1, true, 24, 28, 31)
	read(0, 8, 1, false, 4, 8, 12, 16, 20, 24, 28, 31)
}
