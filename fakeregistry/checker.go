package fakeregistry

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
)

// Checker compares what clients were told with what was in the log, and reports
// each broken promise as it sees it. It knows every message that the registry
// ever stored, also those that retention has taken since.
//
//	check := fakeregistry.NewChecker(t, reg)
//	jobs := check.Reader("b", "jobs.*")
//
// and, for each item of the subscription,
//
//	switch item.Kind {
//	case client.ItemEpoch:
//		jobs.Epoch(item.Epoch.ID)
//	case client.ItemMessage:
//		jobs.Message(item.Message)
//	case client.ItemGap:
//		jobs.Gap(item.From, item.To)
//	case client.ItemCaughtUp:
//		jobs.CaughtUp(item.Seq)
//	}
//
// Its methods may be called from any goroutine.
type Checker struct {
	registry *Registry
	report   func(error)

	mu      sync.Mutex
	readers []*Reader
	errs    []error
}

// NewChecker makes a checker that calls t.Errorf with what it finds.
func NewChecker(t TB, r *Registry) *Checker {
	return &Checker{registry: r, report: func(err error) {
		t.Helper()
		t.Errorf("%v", err)
	}}
}

// Err is everything that was found so far, joined; nil when all is well.
func (c *Checker) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// complain is called under mu.
func (c *Checker) complain(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	c.errs = append(c.errs, err)
	c.report(err)
}

// Acked checks that an acknowledged message is in the log of that epoch, or was
// until retention took it.
func (c *Checker) Acked(epoch protocol.EpochID, seq protocol.Seq, topic string, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.registry.history
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, _ := h.chapter(epoch)
	if ch == nil {
		c.complain("seq %d was acked in epoch %v, which this registry never had", seq, epoch)
		return
	}
	i, ok := ch.find(seq)
	switch {
	case seq <= ch.cut:
	case !ok:
		c.complain("seq %d was acked and is not in the log", seq)
	case ch.entries[i].topic != topic || ch.entries[i].payload != hash(payload):
		c.complain("seq %d was acked for a message on %q, and is another one on %q", seq, topic, ch.entries[i].topic)
	}
}

// Settled checks that every reader has been told of all that is in the log now:
// by the message itself, by a gap, or by a later message in the same slot. Call
// it when nothing is under way any more, as after synctest.Wait.
func (c *Checker) Settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.registry.history
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := h.chapters[len(h.chapters)-1]
	head := newest.cut
	if n := len(newest.entries); n > 0 {
		head = newest.entries[n-1].seq
	}
	for _, r := range c.readers {
		if r.epoch != newest.epoch.ID {
			c.complain("%s: is in epoch %v, and the registry in %v", r.name, r.epoch, newest.epoch.ID)
			continue
		}
		r.settle(newest, head, "the log goes on")
	}
}

// Reader follows one subscription of a client, over all its reconnects. Where
// the client begins a new subscription, make a new Reader.
type Reader struct {
	checker *Checker
	name    string
	pattern string

	// Under the checker's lock:
	epoch  protocol.EpochID
	nth    int          // chapter of epoch
	placed bool         // at is known
	at     protocol.Seq // settled up to here
	gaps   []span
}

type span struct{ from, to protocol.Seq }

// Reader follows a subscription to pattern, beginning with its first item: what
// came before that is not checked. The name is for the reports.
func (c *Checker) Reader(name, pattern string) *Reader {
	return c.reader(name, pattern, false, 0)
}

// ReaderAfter follows a subscription that begins after seq; 0 with the first
// message of the log.
func (c *Checker) ReaderAfter(name, pattern string, seq protocol.Seq) *Reader {
	return c.reader(name, pattern, true, seq)
}

func (c *Checker) reader(name, pattern string, placed bool, at protocol.Seq) *Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.registry.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := protocol.ValidPattern(pattern); err != nil {
		c.complain("%s: %w", name, err)
	}
	nth := len(h.chapters) - 1
	r := &Reader{checker: c, name: name, pattern: pattern, epoch: h.chapters[nth].epoch.ID, nth: nth, placed: placed, at: at}
	c.readers = append(c.readers, r)
	return r
}

// Message checks a message: in the log and as it was stored there, matching,
// behind everything before it, and nothing passed over without a gap.
func (r *Reader) Message(m *protocol.Message) {
	r.told(func(ch *chapter) {
		c := r.checker
		if r.placed && m.Seq <= r.at {
			c.complain("%s: seq %d came when all up to %d was settled: late or twice", r.name, m.Seq, r.at)
			return
		}
		if !protocol.Match(r.pattern, m.Topic) {
			c.complain("%s: seq %d is on %q, which %q does not match", r.name, m.Seq, m.Topic, r.pattern)
		}
		i, ok := ch.find(m.Seq)
		switch {
		case m.Seq <= ch.cut:
		case !ok:
			c.complain("%s: seq %d is not in the log", r.name, m.Seq)
		case !ch.entries[i].is(m):
			c.complain("%s: seq %d is not the message in the log", r.name, m.Seq)
		}
		r.settle(ch, m.Seq-1, fmt.Sprintf("seq %d came", m.Seq))
		r.at = m.Seq
	})
}

func (e *entry) is(m *protocol.Message) bool {
	return e.sender == m.Sender && e.to == m.To && e.topic == m.Topic && e.payload == hash(m.Payload)
}

// Gap checks that a gap lies ahead and that there was something to lose in it.
func (r *Reader) Gap(from, to protocol.Seq) {
	r.told(func(ch *chapter) {
		switch {
		case from > to:
			r.checker.complain("%s: gap from %d to %d", r.name, from, to)
		case r.placed && to <= r.at:
			r.checker.complain("%s: gap up to %d when all up to %d was settled", r.name, to, r.at)
		case from > ch.cut && !slices.ContainsFunc(ch.between(from-1, to), r.matches):
			r.checker.complain("%s: gap from %d to %d, where the log never had anything for %q", r.name, from, to, r.pattern)
		}
		r.gaps = append(r.gaps, span{from, to})
		if !r.placed {
			r.at = from - 1
		}
	})
}

// CaughtUp checks that nothing up to seq was passed over without a gap.
func (r *Reader) CaughtUp(seq protocol.Seq) {
	r.told(func(ch *chapter) {
		r.settle(ch, seq, fmt.Sprintf("caught up at %d", seq))
		r.at = max(r.at, seq)
	})
}

// Epoch tells that the subscription goes on in a new log.
func (r *Reader) Epoch(id protocol.EpochID) {
	c := r.checker
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.registry.history
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, nth := h.chapter(id)
	switch {
	case ch == nil:
		c.complain("%s: told of epoch %v, which this registry never had", r.name, id)
	case nth < r.nth:
		c.complain("%s: told of epoch %v, which was over before %v", r.name, id, r.epoch)
	case nth > r.nth:
		r.epoch, r.nth, r.placed, r.at, r.gaps = id, nth, true, 0, nil
	}
}

// told runs check with the reader's chapter of the history.
func (r *Reader) told(check func(*chapter)) {
	c := r.checker
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.registry.history
	h.mu.Lock()
	defer h.mu.Unlock()
	check(h.chapters[r.nth])
	r.placed = true
}

// settle complains about what was passed over on the way to upTo.
func (r *Reader) settle(ch *chapter, upTo protocol.Seq, when string) {
	if !r.placed || upTo <= r.at {
		return
	}
	for _, e := range ch.between(r.at, upTo) {
		if r.matches(e) && !e.replaced && !slices.ContainsFunc(r.gaps, func(g span) bool { return g.from <= e.seq && e.seq <= g.to }) {
			r.checker.complain("%s: seq %d on %q was passed over without a gap (%s)", r.name, e.seq, e.topic, when)
		}
	}
	r.at = upTo
	r.gaps = slices.DeleteFunc(r.gaps, func(g span) bool { return g.to <= upTo })
}

// matches is false for direct messages, which are on no topic, and for what
// Inject put on an invalid one: readers skip it.
func (r *Reader) matches(e entry) bool {
	return protocol.Match(r.pattern, e.topic) && protocol.ValidTopic(e.topic) == nil
}
