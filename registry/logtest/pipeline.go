package logtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// pipeline is a log to which batches go while others are on their way.
type pipeline struct {
	*log
	begun []<-chan error // and not received from
}

func (s Suite) pipeline(t *testing.T, keep registry.Retention) *pipeline {
	t.Helper()
	return &pipeline{log: s.open(t, keep)}
}

func (p *pipeline) tryBegin(list ...*registry.Record) error {
	return p.begins(p.Log.(registry.PipelinedLog).Begin(&registry.Batch{Records: list}))
}

func (p *pipeline) begins(done <-chan error, err error) error {
	if err == nil {
		p.begun = append(p.begun, done)
	}
	return err
}

func (p *pipeline) beginPurge(topic string, upTo protocol.Seq) {
	p.t.Helper()
	check(p.t, p.begins(p.Log.(registry.PipelinedLog).BeginPurge(topic, upTo)))
}

func (p *pipeline) beginExpire() {
	p.t.Helper()
	check(p.t, p.begins(p.Log.(registry.PipelinedLog).BeginExpire(p.now)))
}

func (p *pipeline) begin(list ...*registry.Record) {
	p.t.Helper()
	check(p.t, p.tryBegin(list...))
}

// settle waits until at most most batches are on their way.
func (p *pipeline) settle(most int) {
	p.t.Helper()
	for len(p.begun) > most {
		check(p.t, <-p.begun[0])
		p.begun = p.begun[1:]
	}
}

// settled requires that nothing is on its way any more.
func (p *pipeline) settled(what string) {
	p.t.Helper()
	for i, done := range p.begun {
		equal(p.t, len(done), 1, fmt.Sprintf("%s: what batch %d of %d begun has told", what, i+1, len(p.begun)))
	}
	p.settle(0)
}

// hold keeps what is begun on its way, where the suite can.
func (p *pipeline) hold() (release func()) {
	if p.suite.Hold == nil {
		return func() {}
	}
	return p.suite.Hold(p.t, p.Log)
}

// Nothing of a batch is read before it is done, and batches are done in order.
func testPipelineOrder(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{Messages: 3})
	p.append(p.record(1, "a"), p.record(1, "", to(3))) // 1, 2
	before := p.state()
	release := p.hold()
	for range 4 { // 3 … 10
		p.begin(p.record(1, "a"), p.record(1, "", to(3)))
	}
	p.begin(p.record(1, "b")) // 11
	if s.Hold != nil {
		p.want("*", 1)
		equal(t, p.mark(registry.Selection{Pattern: "*", Direct: 3}), 0, "mark")
		page := registry.Page{}
		check(t, p.ReadNewest(&registry.Selection{Topics: set("a", "b"), Direct: 3}, 0, 10, 10, &page))
		equal(t, seqsOf(page.Records), seqs(1, 2), "the newest")
		head, _ := p.Head()
		equal(t, head, 2, "head")
		equal(t, p.Topic("a"), registry.TopicStats{Topic: "a", Messages: 1, First: 1, Last: 1}, "a")
		equal(t, p.Topic("b"), registry.TopicStats{Topic: "b"}, "b")
		equal(t, p.Stats(), registry.LogStats{Topics: 1, Messages: 2, Keys: 2}, "sums")
		list, err := p.Topics("", 10)
		check(t, err)
		equal(t, len(list), 1, "topics")
		equal(t, p.state(), before, "state")
		for _, done := range p.begun {
			equal(t, len(done), 0, "told before it is done")
		}
	}
	release()
	check(t, <-p.begun[len(p.begun)-1])
	p.begun = p.begun[:len(p.begun)-1]
	p.settled("the last is done")
	for range 2 {
		p.want("*", 5, 7, 9, 11)
		direct, mark := p.read(registry.Selection{Direct: 3}, 0)
		equal(t, direct, seqs(6, 8, 10), "direct")
		equal(t, mark, 4, "mark of the inbox")
		equal(t, p.Stats(), registry.LogStats{Topics: 2, Messages: 7, Keys: 11}, "sums")
		head, _ := p.Head()
		equal(t, head, 11, "head")
		p.reopen()
	}
}

// A batch is done once it is read, whichever it is.
func testPipelineReads(t *testing.T, s Suite) {
	p := s.pipeline(t, unbounded)
	for range 50 {
		for range 4 {
			p.begin(p.record(1, "a"), p.record(1, "b"))
		}
		for i := range 4 {
			p.settle(3 - i)
			head, _ := p.Head()
			if least := p.seq - 2*protocol.Seq(3-i); head < least {
				t.Fatalf("head %d, and %d is done", head, least)
			}
			got, _ := p.read(registry.Selection{Pattern: "*"}, p.seq-8)
			equal(t, got, between(p.seq-7, p.seq)[:len(got)], "a beginning of what was begun")
			equal(t, len(got)%2 == 0 && len(got) >= 2*(i+1), true, fmt.Sprintf("whole batches, at least %d: %v", i+1, got))
		}
	}
}

// Retention counts what is on its way.
func testPipelineRetention(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{Messages: 2, Age: time.Hour})
	release := p.hold()
	p.begin(p.record(1, "status", slot("s")))                                   // 1
	p.begin(p.record(1, "status", slot("s")))                                   // 2 for 1
	p.begin(p.record(1, "status", slot("s")), p.record(1, "status", slot("s"))) // 3 for 2, 4 for 3
	p.begin(p.record(2, "jobs"), p.record(2, "jobs"), p.record(2, "jobs"))      // 5 … 7, without 5
	p.begin(p.record(2, "jobs"))                                                // 8 pushes 6 out
	p.begin(p.record(3, "old"))                                                 // 9
	p.now += protocol.Time(2 * time.Hour)
	p.begin(p.record(3, "new")) // 10 comes when all others are too old
	p.begin(p.record(3, "new", slot("s")))
	release()
	p.settle(0)
	for range 2 {
		p.want("*", 10, 11)
		equal(t, p.mark(registry.Selection{Pattern: "status"}), 4, "mark of status")
		equal(t, p.mark(registry.Selection{Pattern: "jobs"}), 8, "mark of jobs")
		equal(t, p.mark(registry.Selection{Pattern: "old"}), 9, "mark of old")
		equal(t, p.Stats(), registry.LogStats{Topics: 1, Messages: 2, Keys: 11}, "sums")
		p.reopen()
	}
}

// Purge and Expire are behind what was begun before them.
func testPipelinePurge(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{Age: time.Hour})
	p.publish(1, "a")         // 1
	p.begin(p.record(1, "a")) // 2
	p.begin(p.record(2, "a")) // 3
	p.begin(p.record(1, "b")) // 4
	check(t, p.Purge("a", 2)) // also of what is on its way
	p.settled("purged")       // or what was purged would come back
	p.want("*", 3, 4)
	equal(t, p.mark(registry.Selection{Pattern: "a"}), 2, "mark of a")
	p.begin(p.record(1, "c")) // 5
	p.now += protocol.Time(2 * time.Hour)
	check(t, p.Expire(p.now))
	p.settled("expired")
	p.want("*")
	p.begin(p.record(1, "c"))
	check(t, p.Append(&registry.Batch{Records: []*registry.Record{p.record(1, "c")}}))
	p.settled("appended")
	p.want("*", 6, 7)
	p.reopen()
	p.want("*", 6, 7)
	equal(t, p.mark(registry.Selection{Pattern: "c"}), 5, "mark of c")
}

// Purges and expiries that have begun are done in their order among the batches,
// and nobody waits for them meanwhile.
func testPipelineDrops(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{Age: time.Hour})
	p.publish(1, "a") // 1
	p.publish(1, "b") // 2
	before := p.Stats()
	release := p.hold()
	p.begin(p.record(1, "a")) // 3
	p.beginPurge("a", 3)
	p.begin(p.record(1, "a")) // 4
	p.beginPurge("none", 3)
	p.beginPurge("a", 1) // which has gone
	p.now += protocol.Time(2 * time.Hour)
	p.beginExpire()           // 2 and 4
	p.begin(p.record(2, "a")) // 5
	if s.Hold != nil {
		p.want("*", 1, 2)
		equal(t, p.Stats(), before, "sums")
		for i, done := range p.begun {
			equal(t, len(done), 0, fmt.Sprintf("what change %d told before it is done", i))
		}
	}
	release()
	p.settle(0)
	for range 2 {
		p.want("*", 5)
		equal(t, p.mark(registry.Selection{Pattern: "a"}), 4, "mark of a")
		equal(t, p.mark(registry.Selection{Pattern: "b"}), 2, "mark of b")
		p.reopen()
	}
	check(t, p.Close())
	drops := p.Log.(registry.PipelinedLog)
	wantError(t, p.begins(drops.BeginPurge("a", 5)), protocol.ErrClosed)
	wantError(t, p.begins(drops.BeginExpire(p.now)), protocol.ErrClosed)
}

// A batch that is refused leaves those before and behind it as they are.
func testPipelineRefusal(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{})
	release := p.hold()
	p.begin(p.record(1, "a"), p.record(1, "a"))
	again := p.record(1, "b")
	again.Seq = 2 // of a batch that is on its way
	if err := p.tryBegin(again); err == nil {
		t.Fatal("a seq that is not above the one before was taken")
	}
	p.begin(p.record(1, "c"))
	release()
	p.settle(0)
	for range 2 {
		p.want("*", 1, 2, 4)
		equal(t, p.Stats(), registry.LogStats{Topics: 2, Messages: 3, Keys: 3}, "sums")
		p.reopen()
	}
}

// What was begun before Close is done.
func testPipelineClose(t *testing.T, s Suite) {
	p := s.pipeline(t, registry.Retention{})
	for range 4 {
		p.begin(p.record(1, "a"))
	}
	check(t, p.Close())
	p.settled("closed")
	wantError(t, p.tryBegin(p.record(1, "a")), protocol.ErrClosed)
	if s.Reopen != nil {
		p.reopen()
		p.want("*", 1, 2, 3, 4)
	}
}

func testPipelineModel(t *testing.T, s Suite) {
	for seed := range cmp.Or(s.Seeds, 8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runPipelineModel(t, s, seed) })
	}
}

// runPipelineModel is runModel with up to four batches on their way.
func runPipelineModel(t *testing.T, s Suite, seed uint64) {
	keep := registry.Retention{Messages: 20, Versions: 30, Age: 2 * time.Second, TopicBytes: -1, TotalBytes: -1}
	p := s.pipeline(t, keep)
	m := &model{keep: keep, mark: make(map[string]protocol.Seq)}
	rng := rand.New(rand.NewPCG(seed, 2))
	topics := []string{"a", "a.b", "a.b.c", "a:b", "b", "config:x", "config:status:x"}
	for range 250 {
		switch n := rng.IntN(20); {
		case n < 16:
			p.begin(p.randomBatch(rng, topics, m)...)
			p.settle(rng.IntN(4))
		case n < 17:
			topic, upTo := topics[rng.IntN(len(topics))], protocol.Seq(rng.IntN(int(p.seq)+1))
			if m.purge(topic, upTo); rng.IntN(2) == 0 {
				p.beginPurge(topic, upTo)
			} else {
				check(t, p.Purge(topic, upTo))
			}
		case n < 18:
			p.now += protocol.Time(rng.IntN(int(time.Second)))
			if m.expire(p.now); rng.IntN(2) == 0 {
				p.beginExpire()
			} else {
				check(t, p.Expire(p.now))
			}
		case n < 19 && rng.IntN(2) == 0 && s.Reopen != nil:
			p.reopen()
			p.settled("reopened")
		default:
			p.settle(0)
			p.compare(rng, topics, m)
		}
	}
	p.settle(0)
	p.compare(rng, topics, m)
}
