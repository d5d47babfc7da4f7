package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// FollowOptions vary a follower. The zero value works.
type FollowOptions struct {
	// Validators judge each version before it is applied.
	Validators []Validator

	// Agent is the label in reports; by default the node's id. Labels are what the
	// selectors of rollouts look at. Together they may take 16 KiB of a report.
	Agent  string
	Labels map[string]string

	// ReportEvery is how often to report when nothing changes, so that others know
	// that this agent is there: a minute by default, in whole seconds, and below 0
	// never. NoReport reports nothing at all.
	ReportEvery time.Duration
	NoReport    bool

	// Retry is the delay after a version could not be applied, 1 s by default. It
	// doubles up to MaxRetry, a minute by default.
	Retry, MaxRetry time.Duration

	// Unpin ends the hold of an earlier local rollback, if the applier is a
	// [Pinner].
	Unpin bool

	// Notify is told of all that happens, in order and from one goroutine, which
	// waits for it.
	Notify func(Change)

	settled func() // is called when there is nothing to do but wait for what comes
}

// maxLabels leaves room for the rest of a report: others void one above maxReport.
const maxLabels = 16 << 10

func (o *FollowOptions) validate(self client.Self) error {
	if o.Agent == "" {
		o.Agent = self.Node.String()
	}
	if o.ReportEvery == 0 {
		o.ReportEvery = time.Minute
	}
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.MaxRetry == 0 {
		o.MaxRetry = max(o.Retry, time.Minute)
	}
	if o.Notify == nil {
		o.Notify = func(Change) {}
	}
	switch {
	case o.ReportEvery > 0 && o.ReportEvery < time.Second:
		return protocol.Errorf(protocol.ErrInvalid, "reports every %v, at least a second", o.ReportEvery)
	case o.Retry < 0, o.MaxRetry < o.Retry:
		return protocol.Errorf(protocol.ErrInvalid, "retry after %v up to %v", o.Retry, o.MaxRetry)
	case len((&Report{Agent: o.Agent, Labels: o.Labels}).Append(nil)) > maxLabels:
		return protocol.Errorf(protocol.ErrTooLarge, "agent and labels take more than %d bytes of a report", maxLabels)
	}
	o.ReportEvery = max(0, o.ReportEvery).Truncate(time.Second)
	o.Labels = maps.Clone(o.Labels)
	return nil
}

// Follow keeps an agent at the swarm's configuration until ctx ends: it reads,
// validates, applies and reports.
//
// At first it goes to the latest version, not through all before it. A version
// that a validator refuses, or an Apply whose error is ErrInvalid, changes nothing;
// one that cannot be applied is tried again; a newer one supersedes either. A panic
// of a validator refuses, one of Apply is an error. Versions of a rollout are
// applied once it reaches this agent. A version is never given up for a lower one,
// whatever the registry has or has lost.
//
// Each report takes the place of the one before, on config:status:SWARM; two agents
// with one node id would take each other's. What cannot be reported is not held
// against the agent: it goes on, and its report is made up for.
//
// a is used from one goroutine at a time, and not any more once Follow has
// returned; for that Follow waits for an Apply that has begun, without a bound: a
// goroutine cannot be ended from outside. An Apply that does not return within a
// second of the end of its context is told of, each minute, as ChangeStuck, and is
// part of the error in the end, as a [*StuckError]. A validator that does not look
// at its context is not waited for.
//
// The error is that of ctx; net.ErrClosed when the connection was closed; what the
// registry says when it refuses the subscription; or what a says about what is
// applied now.
func (s *Swarm) Follow(ctx context.Context, a Applier, o FollowOptions) error {
	if err := o.validate(s.conn.Self()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{s: s, a: a, o: o, events: make(chan event), docs: map[ref]*Document{}, began: time.Now()}
	defer f.all.Wait()
	defer cancel()
	if err := f.start(ctx); err != nil {
		return fmt.Errorf("follow config %q: %w", s.name, err)
	}
	err := f.run(ctx)
	cancel()
	if stuck := f.leave(); stuck != nil {
		return fmt.Errorf("follow config %q: %w: %w", s.name, err, stuck)
	}
	return fmt.Errorf("follow config %q: %w", s.name, err)
}

// How long an Apply may go on after its end without a word, and how often there is
// one after that.
const (
	stuckAfter = time.Second
	stuckEvery = time.Minute
)

// leave waits for what goes on, and returns an error where that took long.
func (f *follower) leave() error {
	end := f.now()
	for wait := stuckAfter; ; wait = stuckEvery {
		select {
		case <-f.job:
			if late := f.now() - end; late >= stuckAfter {
				return &StuckError{f.state.work.Version, f.now() - f.applyAt, late}
			}
			return nil
		case <-time.After(wait):
			f.tell(Change{ChangeStuck, f.state.work.Version, fmt.Sprintf(
				"Apply goes on for %v, though its context ended %v ago", f.now()-f.applyAt, f.now()-end)})
		}
	}
}

type follower struct {
	s      *Swarm
	a      Applier
	o      FollowOptions
	events chan event // to run
	fails  chan error // of the subscription
	began  time.Time
	all    sync.WaitGroup // the goroutines below

	// Owned by run:
	state    state
	docs     map[ref]*Document // those the machine may ask for
	progress progressRead      // of the newest rollout
	timer    *time.Timer
	calloff  context.CancelFunc // of the judge that is going on
	job      chan struct{}      // closed when the last judge or apply has ended
	applyAt  moment             // when the last apply began
	reports  *reporter
}

// start begins to read. The subscription is open when it returns.
func (f *follower) start(ctx context.Context) error {
	now, err := f.a.Current(ctx)
	if err != nil {
		return err
	}
	if p, ok := f.a.(Pinner); ok && f.o.Unpin && now.Pinned {
		if err := p.Pin(ctx, false); err != nil {
			return err
		}
		now.Pinned = false
	}
	f.state = newState(settings{
		BestEffort: !f.s.fenced, Retry: f.o.Retry, MaxRetry: f.o.MaxRetry, Every: f.o.ReportEvery,
	}, now)
	from := client.FromNew() // the machine asks for what there is
	if !f.s.fenced {
		from = client.FromAll()
	}
	f.fails = make(chan error, 1)
	f.job = make(chan struct{})
	close(f.job)
	f.calloff = func() {}
	f.reports = &reporter{f: f, next: make(chan report, 1)}
	stream, err := f.s.conn.Subscribe(ctx, f.s.topic, from)
	if err != nil {
		return err
	}
	f.all.Go(func() { f.readVersions(ctx, stream) })
	if f.s.fenced {
		f.all.Go(func() { f.readProgress(ctx) })
	}
	f.all.Go(func() { f.reports.run(ctx) })
	return nil
}

func (f *follower) now() moment { return time.Since(f.began) }

func (f *follower) run(ctx context.Context) error {
	f.timer = time.NewTimer(time.Hour)
	f.timer.Stop()
	defer f.timer.Stop()
	defer func() { f.calloff() }()
	if f.state.BestEffort { // there may be nothing to be read, ever
		f.step(ctx, timerFired{})
	}
	for {
		select {
		case e := <-f.events:
			f.step(ctx, e)
		case <-f.timer.C:
			f.step(ctx, timerFired{})
		case err := <-f.fails:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send hands an event to run.
func (f *follower) send(ctx context.Context, e event) {
	select {
	case f.events <- e:
	case <-ctx.Done():
	}
}

func (f *follower) step(ctx context.Context, e event) {
	switch e := e.(type) {
	case versionRead:
		f.docs[e.Doc] = e.doc
		f.turn(ctx, e.documentRead)
		f.turn(ctx, f.reached(e.Doc.Version)) // its progress may have come before it
		f.forget()
	case progressRead:
		f.progress = e // the last one counts; only a reset of the fence lets a version fall
		f.turn(ctx, f.reached(e.Version))
	default:
		f.turn(ctx, e)
	}
}

// versionRead is a documentRead with its document.
type versionRead struct {
	documentRead
	doc *Document
}

// progressRead is what a rollout has come to.
type progressRead struct {
	Progress
	epoch protocol.EpochID
}

func (progressRead) happen(*turn) {}

func (f *follower) reached(version uint64) stageMoved {
	p := f.progress
	here := p.Version == version && p.epoch == f.state.epoch
	return stageMoved{version, here && p.Reaches(f.s.conn.Self().Node, f.o.Labels)}
}

// forget drops documents that the machine cannot ask for any more.
func (f *follower) forget() {
	for r := range f.docs {
		if !r.is(f.state.latest) && !r.is(f.state.staged) && !r.is(f.state.work) {
			delete(f.docs, r)
		}
	}
}

func (f *follower) turn(ctx context.Context, e event) {
	var actions []action
	f.state, actions = f.state.Step(f.now(), e)
	for _, a := range actions {
		f.do(ctx, a)
	}
}

func (f *follower) do(ctx context.Context, a action) {
	switch a := a.(type) {
	case look:
		f.all.Go(func() { f.look(ctx) })
	case judge:
		f.judge(ctx, f.doc(a.Doc))
	case cancel:
		f.calloff()
	case apply:
		f.apply(ctx, f.doc(a.Doc))
	case tell:
		if f.o.settled != nil {
			f.o.settled()
		}
		f.reports.tell(a.report)
	case setTimer:
		f.setTimer(a.At)
	case show:
		f.tell(a.Change)
	case voided:
		f.reports.void.Add(1)
		f.s.o.Logger.Warn("config message is void", "swarm", f.s.name, "seq", a.Seq, "sender", a.Sender, "why", a.Void.String())
		f.o.Notify(Change{Kind: ChangeVoid, Reason: fmt.Sprintf("seq %d of %s: %s", a.Seq, a.Sender, a.Void.String())})
	}
}

func (f *follower) setTimer(at moment) {
	f.timer.Stop()
	if at != never {
		f.timer.Reset(at - f.now())
	}
}

// tell logs a change and hands it on.
func (f *follower) tell(c Change) {
	level := f.s.o.Logger.Info
	if c.Kind == ChangeRejected || c.Kind == ChangeFailed || c.Kind == ChangeBehind || c.Kind == ChangeStuck {
		level = f.s.o.Logger.Warn
	}
	level("config "+c.Kind.String(), "swarm", f.s.name, "version", c.Version, "reason", c.Reason)
	f.o.Notify(c)
}

// doc is the document that the machine means.
func (f *follower) doc(r ref) *Document {
	for known, d := range f.docs {
		if known.is(r) {
			return d
		}
	}
	panic("config: the machine asks for a document that it was not given")
}

// work does one thing after another, beside run.
func (f *follower) work(do func()) {
	before, ended := f.job, make(chan struct{})
	f.job = ended
	f.all.Go(func() {
		defer close(ended)
		<-before
		do()
	})
}

func (f *follower) judge(ctx context.Context, d *Document) {
	f.calloff() // frees what the one before had
	ctx, f.calloff = context.WithCancel(ctx)
	f.work(func() {
		err := d.Fault()
		if err == nil {
			err = judgeAll(ctx, d, f.o.Validators)
		}
		if ctx.Err() != nil {
			return // called off, and what it says is of the call
		}
		e := judged{Doc: refOf(d), OK: err == nil}
		if err != nil {
			f.s.logPanic(err)
			e.Reason = err.Error()
		}
		f.send(ctx, e)
	})
}

func (f *follower) apply(ctx context.Context, d *Document) {
	f.applyAt = f.now()
	f.work(func() {
		err := safely(func() error { return f.a.Apply(ctx, d) })
		e := done{Doc: refOf(d), OK: err == nil}
		if err != nil {
			f.s.logPanic(err)
			e.Refused, e.Error = errors.Is(err, protocol.ErrInvalid), err.Error()
			f.lookAgain(ctx)
		}
		f.send(ctx, e)
	})
}

// lookAgain reads what is applied after an error: a local rollback may be why.
func (f *follower) lookAgain(ctx context.Context) {
	var now Applied
	err := safely(func() (err error) {
		now, err = f.a.Current(ctx)
		return err
	})
	if err != nil {
		f.s.o.Logger.Warn("config in use cannot be read", "swarm", f.s.name, "error", err)
		return
	}
	f.send(ctx, currentFound{ref{Version: now.Version, Digest: now.Digest}, now.Highest, now.Pinned})
}

// look reads back what the log retains.
func (f *follower) look(ctx context.Context) {
	h, err := f.s.head(ctx)
	if err != nil {
		f.s.o.Logger.Warn("config cannot be read", "swarm", f.s.name, "error", err)
		f.send(ctx, lookedBack{})
		return
	}
	// The staged one first: it can have the version of what was read meanwhile, which
	// then counts for nothing, and hides the latest.
	for _, d := range []*Document{h.staged, h.latest} {
		if d != nil {
			f.send(ctx, versionRead{documentRead{
				Epoch: d.Epoch, Seq: d.Seq, Sender: d.Sender, Stamped: true, Looked: true, Doc: refOf(d),
			}, d})
		}
	}
	f.send(ctx, lookedBack{Epoch: h.Epoch.ID, Fence: h.Fence, OK: true})
}

// readVersions turns the subscription into events.
func (f *follower) readVersions(ctx context.Context, stream client.Stream) {
	defer stream.Close()
	for {
		item, err := next(ctx, stream)
		if err != nil {
			select {
			case f.fails <- err:
			case <-ctx.Done():
			}
			return
		}
		switch item.Kind {
		case client.ItemMessage:
			f.send(ctx, f.read(item.Message, item.Epoch.ID))
		case client.ItemCaughtUp:
			f.send(ctx, caughtUp{item.Epoch.ID, item.Fence})
		case client.ItemGap:
			f.send(ctx, gapFound{})
		case client.ItemEpoch:
			f.send(ctx, epochBegan{item.Epoch.ID})
		case client.ItemDisconnected:
		}
	}
}

func (f *follower) read(m *protocol.Message, epoch protocol.EpochID) event {
	read := stamped
	if !f.s.fenced {
		read = ReadDocument
	}
	d, err := read(m, epoch)
	e := documentRead{Epoch: epoch, Seq: m.Seq, Sender: m.Sender, Stamped: m.Term() != 0, Void: voidOf(err)}
	if err != nil {
		return e
	}
	e.Doc = refOf(d)
	return versionRead{e, d}
}

// readProgress follows the rollouts. Who may not read them gets their versions at
// the end.
func (f *follower) readProgress(ctx context.Context) {
	stream, err := f.s.conn.Subscribe(ctx, f.s.rollout, client.FromAll())
	if err != nil {
		if ctx.Err() == nil {
			f.s.o.Logger.Warn("config rollouts cannot be read", "swarm", f.s.name, "error", err)
		}
		return
	}
	defer stream.Close()
	for {
		item, err := next(ctx, stream)
		if err != nil {
			return // the other subscription tells why
		}
		if item.Kind == client.ItemMessage {
			if p := progressOf(item.Message); p != nil {
				f.send(ctx, progressRead{*p, item.Epoch.ID})
			}
		}
	}
}

// progressOf reads a message that passed the fence with its version.
func progressOf(m *protocol.Message) *Progress {
	p, err := ParseProgress(m.Payload)
	if err != nil || m.Term() != p.Version {
		return nil
	}
	return p
}

// reporter publishes the newest report.
type reporter struct {
	f    *follower
	next chan report // holds one
	n    uint64
	void atomic.Uint64
}

// tell replaces a report that is not on its way yet.
func (r *reporter) tell(next report) {
	if r.f.o.NoReport {
		return
	}
	select {
	case <-r.next:
	default:
	}
	r.next <- next // only run sends
}

func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case next := <-r.next:
			r.publish(ctx, next)
		case <-ctx.Done():
			return
		}
	}
}

// publish tries until the report is out of date.
func (r *reporter) publish(ctx context.Context, next report) {
	for {
		err := r.try(ctx, next)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := retryAfter(err, r.f.o.MaxRetry)
		if errors.Is(err, context.DeadlineExceeded) {
			wait = 0
		} else {
			r.f.s.o.Logger.Warn("config report was not published", "swarm", r.f.s.name, "error", err)
		}
		select {
		case next = <-r.next:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// try publishes once. It does not wait for ever: an answer that was lost must not
// hold up all later reports.
func (r *reporter) try(ctx context.Context, next report) error {
	ctx, cancel := context.WithTimeout(ctx, max(r.f.o.MaxRetry, time.Second))
	defer cancel()
	_, err := r.f.s.send(ctx, client.Publication{Topic: r.f.s.status, Payload: r.message(next), Slot: reportSlot}, nil)
	return err
}

// reportSlot is where each agent's newest report stands.
const reportSlot = "status"

func retryAfter(err error, usual time.Duration) time.Duration {
	var e *protocol.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return usual
}

func (r *reporter) message(next report) []byte {
	r.n++
	self := r.f.s.conn.Self()
	m := &Report{
		Agent: r.f.o.Agent, AppliedVersion: next.Applied, Digest: next.Digest,
		State: next.State, Version: next.Version, Error: cut(next.Error),
		Pinned: next.Pinned, Held: next.Held, Behind: next.Behind, Highest: next.Highest,
		At: r.f.s.o.WallClock(), Every: r.f.o.ReportEvery, Labels: r.f.o.Labels,
		Void: r.void.Load(), Instance: self.Instance.String(), Number: r.n,
	}
	return m.Append(nil)
}

// cut keeps a report short.
func cut(text string) string {
	const most = 1 << 10
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
