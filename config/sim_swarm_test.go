package config

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// simSwarm is a swarm in simulated time with all who write: agents that report,
// programs and scripts that publish, drivers of rollouts, and people. What the
// agents do is the machine's; what the others do is put together here from the
// same parts as in the program, one look or write at a time.
type simSwarm struct {
	*sim
	rand  *rand.Rand
	flaw  flaw
	judge *simJudge
	trace func(format string, args ...any) // nil where nobody reads it

	papers  []*Document // of the log
	reports map[protocol.NodeID]simReport
	rollout protocol.Fence
	traits  map[Digest]traits
	scripts []*simScript
	flows   []*simFlow
	drivers []*simFlow // of them

	down    moment // until then the registry is away
	counts  bool   // versions are 1, 2, 3 and not seconds
	trouble bool
	docs    int
}

// flaw is a rule that a program around the machine breaks.
type flaw struct {
	unstamped   bool // publishes under no fence
	retries     bool // takes what a refusal told for read
	taken       bool // takes any content for its own
	noBake      bool // does not wait before the next step
	all         bool // goes to all at once
	unexpecting bool // writes progress whatever was written meanwhile
	deaf        bool // sees no failure
	reported    bool // believes those that report, and not those it should reach
	blind       bool // ends a rollout whatever was written meanwhile
	deafened    bool // pauses though the end is decided on
}

// traits are what becomes of a document.
type traits struct {
	bad  bool // no agent takes it
	weak int  // each agent whose number divides it cannot apply it; 0: all can
}

type simReport struct {
	Report
	at time.Time
}

var birth = time.Unix(1_800_000_000, 0)

func (f *simSwarm) time() time.Time { return birth.Add(f.now) }

func (f *simSwarm) note(format string, args ...any) {
	if f.trace != nil {
		f.trace("%11.3f "+format, append([]any{f.now.Seconds()}, args...)...)
	}
}

func (f *simSwarm) upTo(d time.Duration) time.Duration {
	return time.Duration(f.rand.Int64N(int64(d) + 1))
}

// The registry.

func refusal(fence protocol.Fence, epoch protocol.EpochID, c *protocol.Condition) error {
	raises := c.Raise > fence.K
	switch {
	case c.Epoch != epoch:
		return protocol.ErrWrongEpoch
	case c.Term < fence.K, c.Term > fence.K && !raises, c.Raise != 0 && !c.HasExpect && !raises:
		return protocol.ErrStaleTerm
	case c.HasExpect && c.Expect != fence.S:
		return protocol.ErrConflict
	}
	return nil
}

// store is a publish on the topic; c nil has no condition.
func (f *simSwarm) store(who string, d *Document, c *protocol.Condition) (*Document, error) {
	m := &protocol.Message{Seq: protocol.Seq(len(f.log) + 1), Time: protocol.TimeOf(f.time()), Topic: "config:sim", Payload: d.Append(nil)}
	if c != nil {
		if err := refusal(f.fence, f.epoch, c); err != nil {
			f.note("%s: version %d is refused: %v", who, d.Version, err)
			return nil, err
		}
		m.Fences = []protocol.Mark{{Topic: m.Topic, Term: c.Term}}
	}
	read, err := stamped(m, f.epoch)
	e := documentRead{Epoch: f.epoch, Seq: m.Seq, Stamped: c != nil, Void: voidOf(err)}
	if err == nil {
		e.Doc = refOf(read)
	} else {
		read = nil
	}
	f.note("%s: version %d is stored at %d, staged %v, void %v", who, d.Version, m.Seq, d.Staged, e.Void)
	f.judge.stored(who, e)
	if c != nil {
		f.fence = protocol.Fence{K: max(f.fence.K, c.Raise), S: m.Seq}
	}
	f.log, f.papers = append(f.log, e), append(f.papers, read)
	f.pump()
	return read, nil
}

// write is a publish of progress.
func (f *simSwarm) write(who string, p *Progress, c *protocol.Condition) error {
	if err := refusal(f.rollout, f.epoch, c); err != nil {
		return err
	}
	read, err := ParseProgress(p.Append(nil))
	if err != nil {
		return err
	}
	f.note("%s: rollout of %d: %s, step %d, share %.2f", who, p.Version, p.State, p.Step, p.Share)
	f.judge.progressed(who, read)
	f.rollout = protocol.Fence{K: max(f.rollout.K, c.Raise), S: f.rollout.S + 1}
	f.progress = append(f.progress, *read)
	f.pump()
	return nil
}

func (f *simSwarm) pump() {
	for _, a := range f.agents {
		a.pump()
	}
}

func (f *simSwarm) loseAll() {
	f.note("the log is lost")
	f.lose()
	f.papers, f.rollout, f.reports = nil, protocol.Fence{}, map[protocol.NodeID]simReport{}
}

// report stores an agent's report once it gets through, unless there is a newer.
func (f *simSwarm) report(a *simAgent, r report) {
	f.judge.told(a, r)
	a.said++
	f.sendReport(a, r, a.life, a.said)
}

func (f *simSwarm) sendReport(a *simAgent, r report, life int, number uint64) {
	f.after(a.delay, func() {
		switch {
		case a.life != life || a.said != number:
		case !a.on || f.now < f.down:
			f.after(time.Second, func() { f.sendReport(a, r, life, number) })
		default:
			f.reports[a.node] = simReport{Report{
				Agent: a.name, AppliedVersion: r.Applied, Digest: r.Digest, State: r.State, Version: r.Version, Error: r.Error,
				Pinned: r.Pinned, Held: r.Held, Behind: r.Behind, Every: usual.Every, Labels: a.labels,
				Instance: fmt.Sprint(life), Number: number,
			}, f.time()}
		}
	})
}

func (f *simSwarm) compliance(version uint64) Compliance {
	t := newTally(nil)
	for node, r := range f.reports {
		t.add(&protocol.Message{Sender: node, Time: protocol.TimeOf(r.at), Payload: r.Append(nil)})
	}
	want := target{Version: version}
	if d := f.find(version); d != nil {
		want.Digest = d.Digest
	}
	return t.measure(want, nil, f.time(), 0)
}

func (f *simSwarm) find(version uint64) (found *Document) {
	for _, d := range f.papers[f.gone:] {
		switch {
		case d == nil || d.Version != version:
		case found == nil:
			found = d
		default:
			found = earlier(found, d)
		}
	}
	return found
}

// simHead is what the log says.
type simHead struct {
	epoch          protocol.EpochID
	fence          protocol.Fence
	latest, staged *Document
}

func (h *simHead) top() (v uint64) {
	for _, d := range []*Document{h.latest, h.staged} {
		if d != nil {
			v = max(v, d.Version)
		}
	}
	return v
}

func (f *simSwarm) head() simHead {
	h, s := simHead{epoch: f.epoch, fence: f.fence}, f.truth()
	if s.latest.Version != 0 {
		h.latest = f.find(s.latest.Version)
	}
	if s.isStaged() {
		h.staged = f.find(s.staged.Version)
	}
	return h
}

// Who does one thing after another.

// simFlow is somebody who looks at the registry, waits and writes. It runs as a
// coroutine of the simulation.
type simFlow struct {
	*simSwarm
	name   string
	yield  func(struct{}) bool
	resume func() (struct{}, bool)
	end    func()
}

var errEnded = errors.New("ended")

// flow begins a flow, which runs until it first waits.
func (f *simSwarm) flow(name string, do func(p *simFlow)) *simFlow {
	p := &simFlow{simSwarm: f, name: name}
	p.resume, p.end = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer func() {
			if r := recover(); r != nil && r != any(errEnded) {
				panic(r)
			}
		}()
		do(p)
	})
	f.flows = append(f.flows, p)
	p.resume()
	return p
}

func (p *simFlow) sleep(d time.Duration) {
	p.after(d, func() { p.resume() })
	if !p.yield(struct{}{}) {
		panic(errEnded)
	}
}

// arrive is a request's way, however often it has to be sent.
func (p *simFlow) arrive() {
	p.sleep(1 + p.upTo(50*time.Millisecond))
	for p.now < p.down || p.trouble && p.rand.IntN(8) == 0 {
		p.sleep(p.upTo(5 * time.Second))
	}
}

// look reads the head of the log.
func (p *simFlow) look() simHead {
	p.arrive()
	h := p.head()
	p.sleep(p.upTo(50 * time.Millisecond))
	return h
}

// send does something at the registry, once, whatever is lost on the way.
func (p *simFlow) send(do func() error) error {
	p.arrive()
	err := do()
	for sent := p.epoch; p.trouble && p.rand.IntN(8) == 0; {
		p.arrive()
		if p.epoch != sent {
			return protocol.ErrUnknownOutcome
		}
	}
	p.sleep(p.upTo(50 * time.Millisecond))
	return err
}

// weak tells whether an agent cannot apply a document.
func (f *simSwarm) weak(a *simAgent, d ref) bool {
	n := f.traits[d.Digest].weak
	return n > 0 && int(a.node)%n == 0
}

// document makes the next content.
func (f *simSwarm) document(t traits) *Document {
	f.docs++
	d, err := NewDocument(0, fmt.Appendf(nil, ` {"n":%d,"max":18446744073709551615,"x":1.0} `, f.docs))
	if err != nil {
		panic(err)
	}
	f.traits[d.Digest] = t
	return d
}

func (f *simSwarm) anyDocument() *Document {
	t := traits{}
	switch f.rand.IntN(10) {
	case 0:
		t.bad = f.trouble
	case 1, 2:
		t.weak = 1 + f.rand.IntN(3)
	}
	return f.document(t)
}

// publish is Swarm.Publish behind what was read.
func (p *simFlow) publish(d *Document, h simHead, expect uint64) error {
	return p.publishTold(d, h, expect, func() {})
}

// publishTold is publish, and calls told at the registry.
func (p *simFlow) publishTold(d *Document, h simHead, expect uint64, told func()) error {
	if expect != 0 && expect != h.top() {
		return protocol.ErrConflict
	}
	d.Version = max(h.fence.K, h.top()) + 1
	if !p.counts {
		d.Version = max(d.Version, uint64(p.time().Unix()))
	}
	p.judge.expected(d.Version, d.Digest, h.top())
	c := &protocol.Condition{Epoch: h.epoch, Term: d.Version, Raise: d.Version, HasExpect: true, Expect: h.fence.S}
	if p.flaw.unstamped {
		c = nil
	}
	store := func() error {
		told()
		_, err := p.store(p.name, d, c)
		return err
	}
	err := p.send(store)
	if errors.Is(err, protocol.ErrConflict) && p.flaw.retries {
		c.Expect = p.fence.S
		err = p.send(store)
	}
	if err != nil {
		err = p.foundTaken(d, err)
	}
	p.judge.outcome(p.name, d, err)
	return err
}

// foundTaken is Swarm.taken.
func (p *simFlow) foundTaken(d *Document, refused error) error {
	here := errors.Is(refused, protocol.ErrConflict) || errors.Is(refused, protocol.ErrStaleTerm)
	if !here && !errors.Is(refused, protocol.ErrUnknownOutcome) {
		return refused
	}
	p.arrive()
	found, k := p.find(d.Version), p.fence.K
	p.sleep(p.upTo(50 * time.Millisecond))
	switch {
	case found != nil && (sameContent(found, d) && found.Staged == d.Staged || p.flaw.taken):
		return nil
	case k < d.Version && !here:
		return refused
	}
	return protocol.ErrConflict
}

// writer publishes something as a program does.
func (f *simSwarm) writer() {
	d := f.anyDocument()
	f.flow(fmt.Sprint("writer ", f.docs), func(p *simFlow) {
		expect := uint64(0)
		if p.rand.IntN(2) == 0 { // somebody edits what they have read
			h := p.look()
			expect = h.top()
			p.sleep(p.upTo(2 * time.Second))
		}
		_ = p.publish(d, p.look(), expect)
	})
}

// goBack is Swarm.Rollback to the version before.
func (f *simSwarm) goBack() {
	f.flow("rollback", func(p *simFlow) {
		h := p.look()
		var old *Document
		for _, d := range p.papers[p.gone:] {
			if d != nil && !d.Staged && h.latest != nil && d.Version < h.latest.Version {
				old = d
			}
		}
		if old != nil {
			_ = p.publish(&Document{Config: old.Config, Digest: old.Digest, RolledBackFrom: h.top(), RolledBackTo: old.Version}, h, 0)
		}
	})
}

// plain publishes as a script does: under seconds, whatever there is.
func (f *simSwarm) plain() {
	d := f.anyDocument()
	f.flow(fmt.Sprint("script writer ", f.docs), func(p *simFlow) {
		d.Version = uint64(p.time().Unix())
		if p.counts {
			h := p.look()
			d.Version = h.top() + 1
		}
		err := p.send(func() error {
			_, err := p.store(p.name, d, &protocol.Condition{Epoch: p.epoch, Term: d.Version, Raise: d.Version})
			return err
		})
		p.judge.outcome(p.name, d, err)
	})
}

// simScript is an agent that is a script: it looks now and then, takes the newest,
// and tells once.
type simScript struct {
	*simSwarm
	name string
	node protocol.NodeID
	has  ref
}

func (s *simScript) poll() {
	s.after(5*time.Second+s.upTo(10*time.Second), s.poll)
	if s.now < s.down || s.trouble && s.rand.IntN(5) == 0 {
		return
	}
	newest := ref{}
	for i, e := range s.log[s.gone:] {
		if d := s.papers[s.gone+i]; d != nil && e.Void == 0 && !d.Staged && d.Version >= newest.Version {
			newest = e.Doc
		}
	}
	if newest.Version > s.has.Version {
		s.judge.ran(s.name, s.has.Version, newest)
		s.has = newest
		s.reports[s.node] = simReport{Report{AppliedVersion: newest.Version}, s.time()}
	}
}
