package logtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// model is a log as simple as can be, to compare with.
type model struct {
	keep registry.Retention
	list []*registry.Record
	mark map[string]protocol.Seq // by stream
}

// streamOf names a topic, or the direct messages to a node.
func streamOf(r *registry.Record) string {
	if r.To != 0 {
		return fmt.Sprint("*", r.To)
	}
	return r.Topic
}

func (m *model) append(r *registry.Record) {
	mine := 0
	for _, old := range slices.Backward(m.list) {
		if streamOf(old) != streamOf(r) || old.Sender != r.Sender {
			continue
		}
		mine++
		switch {
		case r.Slot != "" && old.Slot == r.Slot:
			m.drop(old)
			mine--
		case mine >= m.most(r.Topic):
			m.evict(old)
		}
	}
	m.list = append(m.list, r)
}

func (m *model) most(topic string) int {
	if registry.HasVersions(topic) {
		return m.keep.Versions
	}
	return m.keep.Messages
}

func (m *model) expire(now protocol.Time) {
	for _, r := range slices.Clone(m.list) {
		if !registry.HasVersions(r.Topic) && r.Time+protocol.Time(m.keep.Age) < now {
			m.evict(r)
		}
	}
}

func (m *model) purge(topic string, upTo protocol.Seq) {
	for _, r := range slices.Clone(m.list) {
		if r.To == 0 && r.Topic == topic && r.Seq <= upTo {
			m.evict(r)
		}
	}
}

func (m *model) drop(r *registry.Record) {
	m.list = slices.DeleteFunc(m.list, func(x *registry.Record) bool { return x == r })
}

func (m *model) evict(r *registry.Record) {
	m.drop(r)
	m.mark[streamOf(r)] = max(m.mark[streamOf(r)], r.Seq)
}

func selects(sel *registry.Selection, stream string) bool {
	if stream[0] == '*' {
		return stream == fmt.Sprint("*", sel.Direct)
	}
	_, ok := sel.Topics[stream]
	return (ok || protocol.Match(sel.Pattern, stream)) && (sel.Readable == nil || sel.Readable(stream))
}

func (m *model) read(sel *registry.Selection, after protocol.Seq) (seqs []protocol.Seq, evicted protocol.Seq) {
	last := make(map[string]protocol.Seq)
	for _, r := range m.list {
		if selects(sel, streamOf(r)) {
			last[streamOf(r)] = r.Seq
		}
	}
	for _, r := range m.list {
		if r.Seq > after && selects(sel, streamOf(r)) && r.Time >= sel.Since &&
			(!sel.LastPerTopic || last[streamOf(r)] == r.Seq) {
			seqs = append(seqs, r.Seq)
		}
	}
	for stream, mark := range m.mark {
		if selects(sel, stream) {
			evicted = max(evicted, mark)
		}
	}
	if evicted <= after {
		evicted = 0
	}
	return seqs, evicted
}

// newest is what ReadNewest shows.
func (m *model) newest(sel *registry.Selection, after protocol.Seq, newest, perTopic int) (seqs []protocol.Seq, truncated bool) {
	seen := make(map[string]int)
	for _, r := range slices.Backward(m.list) {
		if r.Seq <= after || !selects(sel, streamOf(r)) {
			continue
		}
		seen[streamOf(r)]++
		if newest > 0 || seen[streamOf(r)] <= perTopic {
			seqs = append(seqs, r.Seq)
		} else {
			truncated = true
		}
		newest--
	}
	slices.Reverse(seqs)
	return seqs, truncated
}

func testModel(t *testing.T, s Suite) {
	for seed := range cmp.Or(s.Seeds, 8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, s, seed) })
	}
}

func runModel(t *testing.T, s Suite, seed uint64) {
	keep := registry.Retention{Messages: 20, Versions: 30, Age: 2 * time.Second, TopicBytes: -1, TotalBytes: -1}
	l := s.open(t, keep)
	m := &model{keep: keep, mark: make(map[string]protocol.Seq)}
	rng := rand.New(rand.NewPCG(seed, 1))
	topics := []string{"a", "a.b", "a.b.c", "a:b", "b", "config:x", "config:status:x"}
	for range 150 {
		switch n := rng.IntN(20); {
		case n < 15:
			l.append(l.randomBatch(rng, topics, m)...)
		case n < 16:
			topic, upTo := topics[rng.IntN(len(topics))], protocol.Seq(rng.IntN(int(l.seq)+1))
			check(t, l.Purge(topic, upTo))
			m.purge(topic, upTo)
		case n < 18:
			l.now += protocol.Time(rng.IntN(int(time.Second)))
			check(t, l.Expire(l.now))
			m.expire(l.now)
		case n < 19:
			l.reopen()
		}
		l.compare(rng, topics, m)
	}
}

// randomBatch makes the records of a batch, which the model has from then on.
func (l *log) randomBatch(rng *rand.Rand, topics []string, m *model) (batch []*registry.Record) {
	for range 1 + rng.IntN(40) {
		l.now += protocol.Time(rng.IntN(int(20 * time.Millisecond)))
		batch = append(batch, l.record(protocol.NodeID(1+rng.IntN(3)), topics[rng.IntN(len(topics))], func(r *registry.Record) {
			if rng.IntN(8) == 0 {
				r.Topic, r.To = "", protocol.NodeID(1+rng.IntN(2))
			}
			if rng.IntN(4) == 0 {
				r.Slot = fmt.Sprint("slot ", rng.IntN(2))
			}
		}))
	}
	for _, r := range batch {
		m.append(r)
	}
	m.expire(l.now)
	return batch
}

func (l *log) compare(rng *rand.Rand, topics []string, m *model) {
	l.t.Helper()
	joined := set(topics[:1+rng.IntN(len(topics))]...)
	odd := func(topic string) bool { return len(topic)%2 == 1 }
	for _, sel := range []registry.Selection{
		{Pattern: topics[rng.IntN(len(topics))]},
		{Pattern: "*"},
		{Pattern: "a.*"},
		{Pattern: "config:*", Readable: odd},
		{Topics: joined, Direct: 1},
		{Topics: joined, Direct: 2, Readable: odd},
		{Direct: 2},
	} {
		after := protocol.Seq(rng.IntN(int(l.seq) + 1))
		sel.LastPerTopic = rng.IntN(4) == 0
		if rng.IntN(4) == 0 {
			sel.Since = start + protocol.Time(rng.Uint64N(uint64(l.now-start)+1))
		}
		what := fmt.Sprintf("%+v behind %d", sel, after)
		got, evicted := l.read(sel, after)
		want, mark := m.read(&sel, after)
		equal(l.t, got, want, what)
		equal(l.t, evicted, mark, "evicted, "+what)
	}
	l.compareNewest(rng, joined, m)
	l.compareStats(m)
}

func (l *log) compareNewest(rng *rand.Rand, joined map[string]struct{}, m *model) {
	l.t.Helper()
	sel := registry.Selection{Topics: joined, Direct: 1}
	after, newest, perTopic := protocol.Seq(rng.IntN(int(l.seq)+1)), rng.IntN(60), rng.IntN(5)
	page := registry.Page{}
	check(l.t, l.ReadNewest(&sel, after, newest, perTopic, &page))
	want, truncated := m.newest(&sel, after, newest, perTopic)
	what := fmt.Sprintf("newest %d, %d per topic, of %v behind %d", newest, perTopic, slices.Sorted(maps.Keys(joined)), after)
	equal(l.t, seqsOf(page.Records), want, what)
	equal(l.t, page.Truncated, truncated, "truncated, "+what)
}

func (l *log) compareStats(m *model) {
	l.t.Helper()
	byTopic := make(map[string]int)
	for _, r := range m.list {
		if r.To == 0 {
			byTopic[r.Topic]++
		}
	}
	stats := l.Stats()
	equal(l.t, stats.Messages, len(m.list), "messages")
	equal(l.t, stats.Topics, len(byTopic), "topics")
	list, err := l.Topics("", 100)
	check(l.t, err)
	got := make(map[string]int)
	for _, s := range list {
		got[s.Topic] = s.Messages
	}
	equal(l.t, got, byTopic, "messages by topic")
}
