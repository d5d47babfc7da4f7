package registry

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

const (
	// waitingJobs is how many jobs wait in line before those who bring one wait.
	waitingJobs = 256

	// gatherItems and gatherBytes are about how much is stored in one step: not
	// much more than is kept of one sender on a topic, see laneItems.
	gatherItems = 1024
	gatherBytes = 8 << 20

	// crowded is when to try again what a log had no room for: retention or an
	// operator has to make some first.
	crowded = 5 * time.Second

	// tidyEvery is how often what is too old is dropped while nobody publishes.
	tidyEvery = time.Minute
)

// item is one publish of a job and the answer to it.
type item struct {
	pub    protocol.Publish
	digest [16]byte

	// fault is why it is refused, unless it is in the log already. With passed it
	// is refused whatever the log has.
	fault  *protocol.Error
	passed bool

	refuse *protocol.Refuse // nil = accepted
	ack    protocol.Ack
}

// job is work for the sequencer: publishes of one node in their order, or one
// change. It belongs to the sequencer from do to the token in done.
type job struct {
	sender protocol.NodeID
	urgent bool // goes before those that are not
	items  []item
	bytes  int // of the items' payloads, about

	change func(b *broker, now protocol.Time) *protocol.Error
	keep   bool // the change holds also when it cannot be stored
	fresh  bool // the answer must know all that is in a shared log
	err    *protocol.Error

	// over, when set, is true once the client has a newer session on another
	// registry of the log.
	over *atomic.Bool

	// lost: nobody is answered, since whether what it brings is in the log cannot
	// be told, or since it came over a session that is over. The client asks
	// again on its next session.
	lost bool

	done chan struct{} // holds one token
}

// sequencer gives every message its place. One goroutine takes all jobs that
// wait, decides them in order, stores what comes of them in one step, and then
// tells those who wait for it and the readers.
type sequencer struct {
	log      Log
	shared   SharedLog // the same, or nil
	index    *index
	hooks    *Hooks
	observer *Observer
	now      func() time.Time
	judged   func(*broker, *protocol.KeyHash) // told what was said about a key, or with nil about all
	lost     func(error)                      // told when a shared log cannot be followed

	head      atomic.Uint64 // seq up to which readers may read
	published atomic.Uint64

	in     chan *job
	urgent chan *job
	stop   chan struct{}
	ended  chan struct{}
	tidy   func() // called now and then, between appends

	mu     sync.Mutex
	broker *broker
	grown  chan struct{} // closed when others have moved the head of a shared log

	// Owned by run, what is carried out together:
	jobs  []*job
	items int
	bytes int
}

func newSequencer(l Log, b *broker, x *index, h *Hooks, o *Observer, now func() time.Time) *sequencer {
	q := &sequencer{
		log: l, broker: b, index: x, hooks: h, observer: o, now: now,
		in:     make(chan *job, waitingJobs),
		urgent: make(chan *job, waitingJobs),
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
		grown:  make(chan struct{}),
	}
	q.shared, _ = l.(SharedLog)
	head, _ := l.Head()
	q.head.Store(uint64(head))
	return q
}

// do carries out a job and returns when it is done. Nobody calls it after close.
func (q *sequencer) do(j *job) {
	if j.urgent {
		q.urgent <- j
	} else {
		q.in <- j
	}
	<-j.done
}

// change carries out one change.
func (q *sequencer) change(f func(b *broker, now protocol.Time) *protocol.Error) *protocol.Error {
	j := &job{change: f, done: make(chan struct{}, 1)}
	q.do(j)
	return j.err
}

// note is change for what holds also when the log is full.
func (q *sequencer) note(f func(b *broker, now protocol.Time) *protocol.Error) *protocol.Error {
	j := &job{change: f, keep: true, done: make(chan struct{}, 1)}
	q.do(j)
	return j.err
}

// latest is view as of the newest message that any registry of a shared log has
// acknowledged.
func (q *sequencer) latest(f func(b *broker)) *protocol.Error {
	if q.shared == nil {
		q.view(f)
		return nil
	}
	j := &job{fresh: true, done: make(chan struct{}, 1)}
	j.change = func(b *broker, _ protocol.Time) *protocol.Error {
		f(b)
		return nil
	}
	q.do(j)
	return j.err
}

// await waits until readers may read up to a seq, which another registry of a
// shared log has told.
func (q *sequencer) await(ctx context.Context, seq protocol.Seq) {
	for q.shared != nil && q.headSeq() < seq {
		q.mu.Lock()
		grown, there := q.grown, q.headSeq() >= seq
		q.mu.Unlock()
		if there {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return
		}
	}
}

// view looks at the state as of the newest message that readers may read.
func (q *sequencer) view(f func(b *broker)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f(q.broker)
}

func (q *sequencer) headSeq() protocol.Seq { return protocol.Seq(q.head.Load()) }

// close ends run, which has no more jobs, and waits for it.
func (q *sequencer) close() {
	close(q.stop)
	<-q.ended
}

func (q *sequencer) run() {
	defer close(q.ended)
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	var news <-chan struct{}
	if q.shared != nil {
		news = q.shared.News()
	}
	for {
		select {
		case j := <-q.urgent:
			q.gather(j)
		case j := <-q.in:
			q.gather(j)
		case <-news:
			q.follow()
			continue
		case <-tidy.C:
			q.tidy()
			continue
		case <-q.stop:
			return
		}
		q.carryOut()
	}
}

func (q *sequencer) registryTime() protocol.Time { return protocol.TimeOf(q.now()) }

// gather takes the jobs that wait, about as many as make one step: urgent ones
// first, then the one at hand, then the others.
func (q *sequencer) gather(j *job) {
	q.jobs, q.items, q.bytes = q.jobs[:0], 0, 0
	q.drain(q.urgent)
	q.add(j)
	q.drain(q.in)
}

func (q *sequencer) drain(from chan *job) {
	for q.items < gatherItems && q.bytes < gatherBytes {
		select {
		case j := <-from:
			q.add(j)
		default:
			return
		}
	}
}

func (q *sequencer) add(j *job) {
	q.jobs = append(q.jobs, j)
	q.items += len(j.items)
	q.bytes += j.bytes
}

// carryOut decides the jobs at hand and stores what comes of them.
func (q *sequencer) carryOut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.registryTime()
	err := q.decideAll(now)
	for errors.Is(err, ErrBehind) {
		if err = q.take(); err == nil {
			err = q.decideAll(now)
		}
	}
	if err != nil {
		for _, j := range q.jobs {
			q.refuse(j, now, err)
		}
	}
	q.finish()
}

// decideAll decides the jobs at hand and stores what comes of them, or leaves
// all as it was.
func (q *sequencer) decideAll(now protocol.Time) error {
	for _, j := range q.jobs {
		q.decide(j, now)
	}
	return q.store()
}

// finish tells those who wait for the jobs at hand.
func (q *sequencer) finish() {
	for i, j := range q.jobs {
		j.done <- struct{}{}
		q.jobs[i] = nil
	}
	q.jobs = q.jobs[:0]
}

// decide puts a job to the broker.
func (q *sequencer) decide(j *job, now protocol.Time) {
	if j.change != nil {
		j.err = j.change(q.broker, now)
		return
	}
	if j.over != nil && j.over.Load() {
		j.lost = true
		return
	}
	for i := range j.items {
		if it := &j.items[i]; !it.passed {
			q.ask(j, it, now)
		}
	}
}

// ask puts one publish to the broker and reports whether it is a new message.
func (q *sequencer) ask(j *job, it *item, now protocol.Time) (fresh bool) {
	var a answer
	if it.fault != nil {
		a = q.broker.refuseUnlessKnown(j.sender, &it.pub, it.digest, it.fault)
	} else {
		a = q.broker.publish(now, j.sender, &it.pub, it.digest)
	}
	it.ack, it.refuse = a.Ack, a.Refuse
	return a.Record != nil
}

// store appends what is staged and lets readers have it. On an error all of it
// is taken back.
func (q *sequencer) store() error {
	batch := q.broker.staged()
	if batch == nil && q.doubtful() {
		batch = &Batch{}
	}
	if batch == nil {
		q.broker.commit()
		return nil
	}
	if err := q.append(batch); err != nil {
		q.broker.abort()
		return err
	}
	q.rejoin(batch)
	q.tellJudged(batch)
	if n := len(batch.Records); n > 0 {
		q.head.Store(uint64(batch.Records[n-1].Seq))
		q.published.Add(uint64(n))
		// Readers are woken after the lanes: of the goroutines that this one makes
		// ready the last runs first, and a push is worth more than an ack.
		q.finish()
		q.index.wake(batch.Records)
	}
	q.broker.commit()
	return nil
}

func (q *sequencer) append(batch *Batch) error {
	if f := q.hooks.BeforeStore; f != nil && len(batch.Records) > 0 {
		if err := f(batch.Records); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := q.log.Append(batch); err != nil {
		return err
	}
	q.observer.stored(batch.Records, began)
	if f := q.hooks.AfterStore; f != nil && len(batch.Records) > 0 {
		f(batch.Records)
	}
	return nil
}

// refuse asks again, one by one, after the log took nothing: duplicates and
// refusals are told as they are, and what would have changed something is
// refused with the log's error.
func (q *sequencer) refuse(j *job, now protocol.Time, err error) {
	told := refusal(err, protocol.ErrInternal)
	j.lost = j.lost || told.Code == protocol.ErrUnknownOutcome
	switch told.Code {
	case protocol.ErrClosed:
		told = drainRefusal() // the log was closed before the registry
	case protocol.ErrStorageFull:
		told.RetryAfter = cmp.Or(told.RetryAfter, crowded)
	default: // as the log says
	}
	if j.change != nil {
		j.err = j.change(q.broker, now)
		switch {
		case q.broker.staged() == nil:
		case j.keep:
			q.broker.commit()
			return
		case j.err == nil:
			j.err = told
		}
		if j.fresh && j.err == nil {
			j.err = told
		}
		q.broker.abort()
		return
	}
	for i := range j.items {
		it := &j.items[i]
		if it.passed || j.lost {
			continue
		}
		fresh := q.ask(j, it, now)
		if fresh || q.shared != nil && it.refuse != nil && conditional(it.refuse.Code) {
			it.refuse = refuseWith(it.pub.N, told)
		}
		q.broker.abort()
	}
}

// tellJudged lets the sessions of keys know what was said about these.
func (q *sequencer) tellJudged(batch *Batch) {
	for i := range batch.Entries {
		if e := &batch.Entries[i]; e.Table == tableStandings && len(e.Key) == len(protocol.KeyHash{}) {
			key := protocol.KeyHash([]byte(e.Key))
			q.judged(q.broker, &key)
		}
	}
}

// rejoin lets open inboxes know of joins, which count from the head on.
func (q *sequencer) rejoin(batch *Batch) {
	if changed := rejoined(batch.Entries); changed != nil {
		q.index.rejoin(changed, q.headSeq(), q.broker.joinedSet)
	}
}

// rejoined tells the topics that nodes have joined or left; nil when there are
// none.
func rejoined(entries []Entry) map[protocol.NodeID][]string {
	var changed map[protocol.NodeID][]string
	for i := range entries {
		if entries[i].Table != tableJoins {
			continue
		}
		if changed == nil {
			changed = make(map[protocol.NodeID][]string)
		}
		if id, topic, err := cutNodeKey(entries[i].Key); err == nil {
			changed[id] = append(changed[id], topic)
		}
	}
	return changed
}
