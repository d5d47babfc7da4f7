package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
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

	// mostFlights is how many steps are on their way to a PipelinedLog at a time:
	// one that it waits for, some that follow at once, and what comes meanwhile makes
	// a larger one.
	mostFlights = 3

	// mostNotes is how many notes wait for the next step before those who bring
	// one wait: many more than sessions that come and go while a disk is slow.
	mostNotes = 64 << 10

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
// change. It belongs to the sequencer from start until done has it.
type job struct {
	sender protocol.NodeID
	urgent bool // goes before those that are not
	items  []item
	bytes  int // of the items' payloads, about

	change func(b *broker, now protocol.Time) *protocol.Error
	ahead  func() // once before the change, while others can look at the state; see drop
	keep   bool   // the change holds also when it cannot be stored
	told   bool   // a change that who brought it knows to be done
	fresh  bool   // the answer must know all that is in a shared log
	err    *protocol.Error

	// over, when set, is true once the client has a newer session on another
	// registry of the log.
	over *atomic.Bool

	// lost: nobody is answered, since whether what it brings is in the log cannot
	// be told, or since it came over a session that is over. The client asks
	// again on its next session.
	lost bool

	done  chan *job // has room for it
	piece *piece    // of a lane, that the job is part of
}

// flight is a step that is on its way to the log, or what the log drops, and the
// jobs that wait for it.
type flight struct {
	batch  *Batch // nil for a drop
	jobs   []*job
	began  time.Time
	landed <-chan error
	failed func(error) // of a drop
}

// sequencer gives every message its place. One goroutine takes all jobs that
// wait, decides them in order, stores what comes of them in one step, and then
// tells those who wait for it and the readers. A log that can takes the next step
// meanwhile.
type sequencer struct {
	log      Log
	shared   SharedLog    // the same, or nil
	piped    PipelinedLog // the same, or nil
	index    *index
	hooks    *Hooks
	observer *Observer
	now      func() time.Time
	judged   func(*broker, *protocol.KeyHash) // told what was said about a key, or with nil about all
	lost     func(error)                      // told when a shared log cannot be followed
	unstored func(error)                      // told when the log has begun to take no steps
	restored func(steps int)                  // told when it takes them again, and how many it has not taken

	head      atomic.Uint64 // seq up to which readers may read
	published atomic.Uint64
	storing   atomic.Int64 // since when the oldest step is stored, in Unix ns; 0 = nothing is

	in     chan *job
	urgent chan *job
	notes  chan *job
	stop   chan struct{}
	ended  chan struct{}

	// tidy is called now and then; idle is that nothing is on its way to the log.
	tidy func(idle bool)

	// mu guards what is read from outside. The goroutine of run, which alone
	// changes it, never holds mu while the log writes.
	mu     sync.Mutex
	broker *broker
	grown  chan struct{} // closed when others have moved the head of a shared log

	// Owned by run:
	flights []flight // oldest first
	failed  bool     // some did not arrive; what they brought may be in the log, and nobody knows its keys
	missed  int      // steps that the log has not taken since it took one
	jobs    []*job   // what is carried out together; between two steps those told
	items   int
	bytes   int
}

func newSequencer(l Log, b *broker, x *index, h *Hooks, o *Observer, now func() time.Time) *sequencer {
	q := &sequencer{
		log: l, broker: b, index: x, hooks: h, observer: o, now: now,
		in:     make(chan *job, waitingJobs),
		urgent: make(chan *job, waitingJobs),
		notes:  make(chan *job, waitingJobs),
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
		grown:  make(chan struct{}),
	}
	q.shared, _ = l.(SharedLog)
	q.piped, _ = l.(PipelinedLog)
	head, _ := l.Head()
	q.head.Store(uint64(head))
	return q
}

// start lets a job be carried out behind those that were started before, but for
// urgent ones. Nobody calls it after close.
func (q *sequencer) start(j *job) {
	if j.urgent {
		q.urgent <- j
	} else {
		q.in <- j
	}
}

// do carries out a job and returns when it is done.
func (q *sequencer) do(j *job) *protocol.Error {
	j.done = make(chan *job, 1)
	q.start(j)
	<-j.done
	return j.err
}

// change carries out one change.
func (q *sequencer) change(f func(b *broker, now protocol.Time) *protocol.Error) *protocol.Error {
	return q.do(&job{change: f})
}

// note is change for what holds also when the log is full. A PipelinedLog is not
// waited for. It may be carried out before what came earlier and is no note, and f is
// called again, when note has returned, if the log fails.
func (q *sequencer) note(f func(b *broker, now protocol.Time) *protocol.Error) *protocol.Error {
	j := &job{change: f, keep: true}
	if q.piped == nil {
		return q.do(j)
	}
	j.done = make(chan *job, 1)
	q.notes <- j
	<-j.done
	return j.err
}

// latest is view as of the newest message that any registry of a shared log has
// acknowledged.
func (q *sequencer) latest(f func(b *broker)) *protocol.Error {
	if q.shared == nil {
		q.view(f)
		return nil
	}
	return q.do(&job{fresh: true, change: looking(f)})
}

// looking is a change that changes nothing.
func looking(f func(*broker)) func(*broker, protocol.Time) *protocol.Error {
	return func(b *broker, _ protocol.Time) *protocol.Error {
		f(b)
		return nil
	}
}

// steady is view with the joins that are in the log.
func (q *sequencer) steady(f func(b *broker)) *protocol.Error {
	if q.viewSteady(f) {
		return nil
	}
	return q.do(&job{change: looking(f)})
}

func (q *sequencer) viewSteady(f func(b *broker)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broker.joining() {
		return false
	}
	f(q.broker)
	return true
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

// view looks at the state. Fences are as of the newest message that readers may
// read; nodes, joins and the like may be on their way to the log.
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
		case err := <-q.landing(): // before anything else
			q.arrive(err)
			continue
		default:
		}
		in, urgent, notes := q.in, q.urgent, q.notes
		switch room := len(q.flights) < mostFlights; {
		case !room:
			in, urgent = nil, nil
		case len(q.jobs) > 0:
			q.carryOut()
			continue
		}
		if len(q.jobs) >= mostNotes {
			notes = nil
		}
		select {
		case err := <-q.landing():
			q.arrive(err)
		case j := <-notes:
			q.takeNote(j)
		case j := <-urgent:
			q.gather(j)
		case j := <-in:
			q.gather(j)
		case <-news:
			q.follow()
		case <-tidy.C:
			q.tidy(len(q.flights) == 0)
		case <-q.stop:
			q.storeNotes()
			return
		}
	}
}

// arrive ends the oldest flight.
func (q *sequencer) arrive(err error) {
	q.land(err)
	if err != nil { // notes are staged behind it, perhaps
		q.refuseAll(q.registryTime(), err)
		q.finish()
	}
}

// storeNotes stores those for which there was no room.
func (q *sequencer) storeNotes() {
	if len(q.jobs) > 0 {
		q.landAll()
		q.carryOut()
	}
}

// takeNote decides a note, which is stored with the next step.
func (q *sequencer) takeNote(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.err = j.change(q.broker, q.registryTime()); j.err == nil {
		q.jobs = append(q.jobs, &job{change: j.change, keep: true, told: true})
	}
	j.done <- j
}

func (q *sequencer) registryTime() protocol.Time { return protocol.TimeOf(q.now()) }

// gather takes the jobs that wait, about as many as make one step: urgent ones
// first, then the one at hand, then the others.
func (q *sequencer) gather(j *job) {
	q.items, q.bytes = 0, 0
	q.drain(q.urgent)
	q.add(j)
	q.drain(q.in)
}

// drain stops at a drop, which makes a flight of its own.
func (q *sequencer) drain(from chan *job) {
	for q.items < gatherItems && q.bytes < gatherBytes && !q.drops() {
		select {
		case j := <-from:
			q.add(j)
		default:
			return
		}
	}
}

// drops reports whether the last job at hand is a drop.
func (q *sequencer) drops() bool {
	n := len(q.jobs)
	return n > 0 && q.jobs[n-1].ahead != nil
}

func (q *sequencer) add(j *job) {
	q.jobs = append(q.jobs, j)
	q.items += len(j.items)
	q.bytes += j.bytes
}

// carryOut decides the jobs at hand and stores what comes of them.
func (q *sequencer) carryOut() {
	for _, j := range q.jobs {
		if j.ahead != nil {
			j.ahead()
		}
	}
	now := q.registryTime()
	err := q.decideAll(now)
	for errors.Is(err, ErrBehind) {
		if err = q.take(); err == nil {
			err = q.decideAll(now)
		}
	}
	if err != nil {
		q.miss(err)
		q.refuseAll(now, err)
	}
	q.finish()
}

// decideAll decides the jobs at hand and stores what comes of them, or leaves
// all as it was.
func (q *sequencer) decideAll(now protocol.Time) error {
	if batch := q.stage(now); batch != nil {
		return q.store(batch)
	}
	return nil
}

// stage decides the jobs at hand. What comes of them is nil when there is nothing
// to store.
func (q *sequencer) stage(now protocol.Time) *Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if !j.told {
			q.decide(j, now)
		}
	}
	batch := q.broker.staged()
	switch {
	case batch != nil:
		return batch
	case q.doubtful():
		return &Batch{}
	case len(q.flights) == 0:
		q.broker.commit()
	}
	return nil
}

// finish tells those who wait for the jobs at hand, or has them told with those
// before.
func (q *sequencer) finish() {
	if n := len(q.flights); n > 0 {
		last := &q.flights[n-1]
		last.jobs = append(last.jobs, q.jobs...)
	} else {
		tell(q.jobs)
	}
	q.release()
}

// release lets go of the jobs at hand.
func (q *sequencer) release() {
	clear(q.jobs)
	q.jobs = q.jobs[:0]
}

func tell(jobs []*job) {
	for _, j := range jobs {
		if !j.told {
			j.done <- j
		}
	}
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
	switch {
	case it.fault != nil:
		a = q.broker.refuseUnlessKnown(now, j.sender, &it.pub, it.digest, it.fault)
	case q.failed:
		a = q.broker.refuseUnlessKnown(now, j.sender, &it.pub, it.digest, drainRefusal())
	default:
		a = q.broker.publish(now, j.sender, &it.pub, it.digest)
	}
	it.ack, it.refuse = a.Ack, a.Refuse
	return a.Record != nil
}

// store appends what is staged and lets readers have it, now or when it has
// landed. On an error all that is staged is taken back, and nothing is on its way.
func (q *sequencer) store(batch *Batch) error {
	f := flight{batch: batch, began: time.Now()}
	if len(q.flights) == 0 {
		q.storing.Store(f.began.UnixNano())
	}
	err := q.append(&f)
	if f.landed == nil {
		q.storing.Store(q.oldest())
	}
	switch {
	case err != nil:
		q.takeBack(batch)
		q.landAll()
		return err
	case f.landed != nil:
		q.seal(f)
		return nil
	}
	q.stored(&f, q.jobs)
	q.release()
	return nil
}

func (q *sequencer) append(f *flight) (err error) {
	if before := q.hooks.BeforeStore; before != nil && len(f.batch.Records) > 0 {
		if err := before(f.batch.Records); err != nil {
			return err
		}
	}
	if q.piped == nil {
		return q.log.Append(f.batch)
	}
	f.landed, err = q.piped.Begin(f.batch)
	return err
}

// takeBack takes back what is staged. Meanwhile it may have been looked at.
func (q *sequencer) takeBack(batch *Batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := slices.Clone(batch.Entries)
	q.broker.abort()
	q.retell(entries)
}

// retell lets sessions and inboxes know how rows of tables are now.
func (q *sequencer) retell(entries []Entry) {
	q.rejoin(entries)
	q.tellJudged(entries)
}

// seal lets a step land while the next one is decided.
func (q *sequencer) seal(f flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broker.seal()
	q.flights = append(q.flights, f)
}

// drop makes the log drop messages, which holds up nobody but those who wait for
// it. It comes behind what is on its way. failed is told why it has not dropped
// them, or perhaps not.
func (q *sequencer) drop(whole func() error, begin func(PipelinedLog) (<-chan error, error), failed func(error)) {
	if q.piped == nil {
		if err := whole(); err != nil {
			failed(err)
		}
		return
	}
	f := flight{began: time.Now(), failed: failed}
	var err error
	if f.landed, err = begin(q.piped); err != nil {
		failed(err)
		return
	}
	q.flights = append(q.flights, f)
	q.storing.Store(q.oldest())
}

// oldest is since when something is on its way, as in storing.
func (q *sequencer) oldest() int64 {
	if len(q.flights) == 0 {
		return 0
	}
	return q.flights[0].began.UnixNano()
}

// landing tells of the oldest flight; nil while there is none.
func (q *sequencer) landing() <-chan error {
	if len(q.flights) == 0 {
		return nil
	}
	return q.flights[0].landed
}

// land ends the oldest flight, or all of them when it did not arrive: the log
// takes nothing more then.
func (q *sequencer) land(err error) {
	if err != nil {
		q.crash(err)
		return
	}
	f := q.flights[0]
	q.flights = slices.Delete(q.flights, 0, 1)
	q.storing.Store(q.oldest())
	if f.batch == nil {
		tell(f.jobs)
		return
	}
	q.stored(&f, f.jobs)
}

// landAll waits for all flights.
func (q *sequencer) landAll() {
	for len(q.flights) > 0 {
		q.land(<-q.flights[0].landed)
	}
}

// crash gives up all flights. Whether what they bring is in the log is unknown.
func (q *sequencer) crash(err error) {
	lost := q.flights
	q.flights, q.failed = nil, true
	q.miss(err)
	q.storing.Store(0)
	var entries []Entry
	for i := range lost {
		if f := &lost[i]; f.batch != nil {
			entries = append(entries, f.batch.Entries...)
		} else {
			f.failed(err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broker.fail()
	q.retell(entries)
	now := q.registryTime()
	for i := range lost {
		for _, j := range lost[i].jobs {
			q.refuse(j, now, err)
		}
		tell(lost[i].jobs)
	}
}

// miss notes that the log has not taken a step. What follows from the same failure
// is no news.
func (q *sequencer) miss(err error) {
	if q.missed++; q.missed == 1 {
		q.unstored(err)
	}
}

// after is what follows when the log has not taken a step for err.
func (q *sequencer) after(err error) string {
	switch code := protocol.CodeOf(err); {
	case q.failed:
		return "publishes are refused until a registry opens the log anew; reads go on"
	case code == protocol.ErrUnknownOutcome:
		return "sessions that wait for it end, and their clients ask again"
	case code == protocol.ErrStorageFull:
		return "publishes are refused until there is room; reads go on"
	default:
		return "publishes are refused until the log takes them again; reads go on"
	}
}

// hit notes that the log has taken a step.
func (q *sequencer) hit() {
	if q.missed > 0 {
		q.restored(q.missed)
		q.missed = 0
	}
}

// stored makes last what is in the log, tells those who wait for it, and lets
// readers have it.
func (q *sequencer) stored(f *flight, jobs []*job) {
	q.hit()
	q.observer.stored(f.batch.Records, f.began)
	if after := q.hooks.AfterStore; after != nil && len(f.batch.Records) > 0 {
		after(f.batch.Records)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retell(f.batch.Entries)
	if n := len(f.batch.Records); n > 0 {
		q.head.Store(uint64(f.batch.Records[n-1].Seq))
		q.published.Add(uint64(n))
	}
	// Readers are woken after the lanes: of the goroutines that this one makes
	// ready the last runs first, and a push is worth more than an ack.
	tell(jobs)
	q.index.wake(f.batch.Records)
	if f.landed == nil {
		q.broker.seal()
	}
	q.broker.settle()
}

// refuseAll is refuse for the jobs at hand.
func (q *sequencer) refuseAll(now protocol.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		q.refuse(j, now, err)
	}
}

// refuse asks again, one by one, after the log took nothing: duplicates and
// refusals are told as they are, and what would have changed something is
// refused with the log's error.
func (q *sequencer) refuse(j *job, now protocol.Time, err error) {
	told := refusal(err, protocol.ErrInternal)
	j.lost = j.lost || told.Code == protocol.ErrUnknownOutcome
	switch told.Code {
	case protocol.ErrClosed, protocol.ErrDraining:
		told = drainRefusal() // the log was closed before the registry, or has failed
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
			it.refuse = refuseWith(it.pub.N, q.unsure(it, told))
		}
		q.broker.abort()
	}
}

// unsure is a log's error as it is told of one publish. That a log has no room is
// an answer for good, which nobody gives while another registry of the log may
// still be storing what it was sent first.
func (q *sequencer) unsure(it *item, told *protocol.Error) *protocol.Error {
	if q.shared == nil || told.Code != protocol.ErrStorageFull || it.pub.Flags&protocol.FlagResend == 0 {
		return told
	}
	return &protocol.Error{Code: protocol.ErrDraining, RetryAfter: told.RetryAfter, Detail: told.Detail}
}

// tellJudged lets the sessions of keys know what was said about these.
func (q *sequencer) tellJudged(entries []Entry) {
	for i := range entries {
		if e := &entries[i]; e.Table == tableStandings && len(e.Key) == len(protocol.KeyHash{}) {
			key := protocol.KeyHash([]byte(e.Key))
			q.judged(q.broker, &key)
		}
	}
}

// rejoin lets open inboxes know of joins, which count from the head on.
func (q *sequencer) rejoin(entries []Entry) {
	if changed := rejoined(entries); changed != nil {
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
