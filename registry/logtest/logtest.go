// Package logtest tests that a log keeps what registry.Log promises.
package logtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Suite says how to make the logs under test.
type Suite struct {
	// New makes an empty log with this retention.
	New func(*testing.T, registry.Retention) registry.Log

	// Reopen closes a log that New made and opens what it stored, with the same
	// retention. Nil for logs that do not outlive their process.
	Reopen func(*testing.T, registry.Log) registry.Log

	// Hold keeps what is begun in a registry.PipelinedLog on its way until release
	// is called. Nil for logs of which a test cannot say when they are done.
	Hold func(*testing.T, registry.Log) (release func())

	// Seeds is how often random work is done, each time another; 0 = 8.
	Seeds uint64
}

// Run tests logs made by the suite: what registry.Log promises, and what
// registry.SenderLog and registry.PipelinedLog do if they are that.
func Run(t *testing.T, s Suite) {
	runAll(t, s, tests)
	l := s.open(t, registry.Retention{}).Log
	if _, ok := l.(registry.SenderLog); ok {
		runAll(t, s, senderTests)
	}
	if _, ok := l.(registry.PipelinedLog); ok {
		runAll(t, s, pipelineTests)
	}
}

// test is one part of what is promised.
type test struct {
	name string
	run  func(*testing.T, Suite)
}

func runAll(t *testing.T, s Suite, tests []test) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

var (
	tests = []test{
		{"an empty log", testEmpty},
		{"records come back whole and in order", testRoundTrip},
		{"selections", testSelections},
		{"a page ends by records and by bytes", testPages},
		{"a long log", testLong},
		{"the last of each topic", testLastPerTopic},
		{"a slot replaces the sender's own message", testSlots},
		{"nobody pushes out another's messages", testMessagesPerSender},
		{"config versions outlive their age", testVersions},
		{"messages age", testAge},
		{"a topic remembers what left it", testMarks},
		{"at a topic's cap the largest sender loses", testTopicBytes},
		{"at the log's cap the largest sender loses", testTotalBytes},
		{"the newest of an inbox", testReadNewest},
		{"topics and sums", testStats},
		{"purge", testPurge},
		{"a refused batch leaves nothing", testRefusedBatch},
		{"state comes back", testState},
		{"readers while it grows", testConcurrentReaders},
		{"readers while it forgets", testForgetfulReaders},
		{"a closed log", testClosed},
		{"random work", testModel},
	}
	senderTests = []test{
		{"what is retained of a node", testRetained},
	}
	pipelineTests = []test{
		{"batches are done in order, and read then", testPipelineOrder},
		{"readers see whole batches in order", testPipelineReads},
		{"retention counts what is on its way", testPipelineRetention},
		{"a purge is behind what was begun", testPipelinePurge},
		{"drops among batches", testPipelineDrops},
		{"a batch refused between others", testPipelineRefusal},
		{"closed while batches are on their way", testPipelineClose},
		{"random work with batches on their way", testPipelineModel},
	}
)

// unbounded keeps everything.
var unbounded = registry.Retention{Messages: -1, Age: -1, Versions: -1, TopicBytes: -1, TotalBytes: -1}

// log drives the log under test. Its methods fail the test on an error.
type log struct {
	registry.Log
	t     *testing.T
	suite Suite
	seq   protocol.Seq
	now   protocol.Time
}

func (s Suite) open(t *testing.T, keep registry.Retention) *log {
	t.Helper()
	l := &log{Log: s.New(t, keep), t: t, suite: s, now: start}
	t.Cleanup(func() { l.Close() })
	return l
}

var start = protocol.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// reopen closes and opens the log, if it is one that outlives that.
func (l *log) reopen() {
	l.t.Helper()
	if l.suite.Reopen != nil {
		l.Log = l.suite.Reopen(l.t, l.Log)
	}
}

// record makes the next record, one millisecond after the one before.
func (l *log) record(sender protocol.NodeID, topic string, more ...func(*registry.Record)) *registry.Record {
	l.seq++
	l.now += protocol.Time(time.Millisecond)
	r := &registry.Record{Epoch: l.Epoch().ID}
	r.Seq, r.Time, r.Sender, r.Topic = l.seq, l.now, sender, topic
	r.Key = fmt.Appendf(nil, "key %d", l.seq)
	r.Digest = [16]byte{15: byte(l.seq)}
	for _, change := range more {
		change(r)
	}
	r.Seal()
	return r
}

func to(node protocol.NodeID) func(*registry.Record) {
	return func(r *registry.Record) { r.Topic, r.To = "", node }
}

func slot(name string) func(*registry.Record) {
	return func(r *registry.Record) { r.Slot = name }
}

func payload(size int) func(*registry.Record) {
	return func(r *registry.Record) { r.Payload = slices.Repeat([]byte("x"), size) }
}

func (l *log) append(list ...*registry.Record) {
	l.t.Helper()
	check(l.t, l.Append(&registry.Batch{Records: list}))
}

// publish appends one record per call and returns its seq.
func (l *log) publish(sender protocol.NodeID, topic string, more ...func(*registry.Record)) protocol.Seq {
	l.t.Helper()
	r := l.record(sender, topic, more...)
	l.append(r)
	return r.Seq
}

// read reads a whole selection in small pages, and tells the highest Evicted of
// the first page.
func (l *log) read(sel registry.Selection, after protocol.Seq) (seqs []protocol.Seq, evicted protocol.Seq) {
	l.t.Helper()
	head, _ := l.Head()
	page := registry.Page{MaxRecords: 3}
	for at, first := after, true; first || at < head; first = false {
		check(l.t, l.Read(&sel, at, head, &page))
		if first {
			evicted = page.Evicted
		}
		if page.Scanned <= at && head > at {
			l.t.Fatalf("read behind %d: scanned only up to %d", at, page.Scanned)
		}
		seqs = append(seqs, seqsOf(page.Records)...)
		at = page.Scanned
	}
	return seqs, evicted
}

func (l *log) want(pattern string, want ...protocol.Seq) {
	l.t.Helper()
	got, _ := l.read(registry.Selection{Pattern: pattern}, 0)
	equal(l.t, got, want, "messages of "+pattern)
}

// mark is the highest seq that left a selection.
func (l *log) mark(sel registry.Selection) protocol.Seq {
	l.t.Helper()
	_, evicted := l.read(sel, 0)
	return evicted
}

func seqsOf(list []*registry.Record) []protocol.Seq {
	var seqs []protocol.Seq
	for _, r := range list {
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

func seqs(list ...protocol.Seq) []protocol.Seq { return list }

// between lists from … to.
func between(from, to protocol.Seq) []protocol.Seq {
	var list []protocol.Seq
	for ; from <= to; from++ {
		list = append(list, from)
	}
	return list
}

func set(topics ...string) map[string]struct{} {
	m := make(map[string]struct{})
	for _, t := range topics {
		m[t] = struct{}{}
	}
	return m
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t *testing.T, got, want T, what string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) && (reflect.ValueOf(got).Kind() != reflect.Slice || reflect.ValueOf(got).Len()+reflect.ValueOf(want).Len() > 0) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}
