package election

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// The simulation: members around one registry, in virtual time. The registry
// keeps the contract, links delay, stall and break, processes pause, die and
// come back. Everything random comes from one seed.

// sim is the world. Times without a process are world time.
type sim struct {
	rand  *rand.Rand
	now   time.Duration
	due   agenda
	n     int // breaks ties in due
	reg   simRegistry
	procs []*proc
	o     simOptions

	led    map[Token]*proc
	wrote  map[protocol.EpochID]uint64 // highest claim accepted
	broken []string                    // what went wrong
	trace  func(format string, args ...any)
	watch  func(p *proc, a action) // may be nil

	lateness time.Duration // writes under a lost leadership go out for so long after it; 0: none do

	claims, conflicts, refused, candidacies, handovers int
	steps, written, faults                             int
	leaderless                                         time.Duration
	lastLead, lastLost, lastClaim                      time.Duration
	sole                                               *proc
}

type simOptions struct {
	timing    Timing
	preempt   Preemption
	plain     PlainPolicy
	delay     [2]time.Duration // of one leg, member to registry or back
	retention int              // messages kept per sender; 0 = all
	gaps      bool             // readers are told what they missed
	idle      time.Duration    // until a silent link is given up
	redial    time.Duration    // the longest delay before a dial, as those of a client grow; 0: they do not
	born      uint64           // the registry's wall clock at the start
	mutant    mutant
	straight  bool // messages do not go by way of their bytes, which takes time

	// What the surroundings do wrong in a test of a rule.
	sameNonce     bool // a restarted process has the instance of its predecessor
	sleepingClock bool // clocks stand still while their machine sleeps
	overtake      bool // publishes of one member overtake each other
	open          bool // there is no registry: each reader has an order of its own
	topicCompare  bool // S moves with every message, as in a compare-and-set on the topic
}

func (o *simOptions) step(s machine, now instant, e event) (machine, []action) {
	if o.mutant.bend == nil && o.mutant.twist == nil {
		return s.Step(now, e) // without its copies
	}
	return o.mutant.step(s, now, e)
}

type task struct {
	at time.Duration
	n  int
	do func()
}

type agenda []task

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(task)) }
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	old[len(old)-1] = task{}
	*a = old[:len(old)-1]
	return x
}

func newSim(seed uint64, o simOptions) *sim {
	if o.delay[1] == 0 {
		o.delay = [2]time.Duration{time.Millisecond, 2 * time.Millisecond}
	}
	if o.idle == 0 {
		o.idle = 3 * o.timing.Silence
	}
	s := &sim{
		rand:  rand.New(rand.NewPCG(seed, 1)),
		o:     o,
		led:   map[Token]*proc{},
		wrote: map[protocol.EpochID]uint64{},
		trace: func(string, ...any) {},
	}
	s.reg = simRegistry{sim: s, up: true, clock: o.born}
	s.reg.begin()
	return s
}

func (s *sim) at(t time.Duration, do func()) {
	s.n++
	heap.Push(&s.due, task{max(t, s.now), s.n, do})
}

func (s *sim) in(d time.Duration, do func()) { s.at(s.now+d, do) }

// run lets the world go on for d.
func (s *sim) run(d time.Duration) {
	end := s.now + d
	for len(s.due) > 0 && s.due[0].at <= end {
		t := heap.Pop(&s.due).(task)
		s.now = t.at
		t.do()
	}
	s.now = end
}

func (s *sim) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(s.rand.Int64N(int64(hi-lo)))
}

func (s *sim) leg() time.Duration { return s.between(s.o.delay[0], s.o.delay[1]) }

func (s *sim) fail(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf("%v: ", s.now)+fmt.Sprintf(format, args...))
}

// The registry.

type simRegistry struct {
	sim      *sim
	up       bool
	lost     bool // the log, while it is down
	restarts int
	clock    uint64 // its wall clock at world time 0, unix seconds
	epoch    protocol.Epoch
	fence    protocol.Fence
	seq      protocol.Seq
	log      []simRecord
	gone     protocol.Seq // the highest seq that retention took
	keys     map[simKey]protocol.Seq
}

type simKey struct {
	node protocol.NodeID
	key  key
}

type simRecord struct {
	messageRead
	slot  string
	other bool // on another topic
}

// begin begins a new log.
func (r *simRegistry) begin() {
	r.epoch = protocol.Epoch{ID: r.epoch.ID + 1, Born: r.clock + uint64(r.sim.now/time.Second)}
	r.fence, r.seq, r.log, r.gone, r.keys = protocol.Fence{}, 0, nil, 0, map[simKey]protocol.Seq{}
	r.lost = false
}

// verdict is what the contract says of a condition.
func verdict(c protocol.Condition, epoch protocol.EpochID, f protocol.Fence) protocol.Code {
	switch {
	case c.Epoch != epoch:
		return protocol.ErrWrongEpoch
	case c.Term < f.K, c.Term > f.K && c.Raise == 0, c.Raise != 0 && !c.HasExpect && c.Raise <= f.K:
		return protocol.ErrStaleTerm
	case c.HasExpect && c.Expect != f.S:
		return protocol.ErrConflict
	}
	return 0
}

// publish decides one publish of a member.
func (r *simRegistry) publish(p *proc, b simPublish) (ack event) {
	id := simKey{p.node, key{p.state.Instance, b.send.Attempt}}
	c := b.send.Condition
	refuse := func(code protocol.Code) event {
		return refused{Attempt: b.send.Attempt, Token: b.token, Code: code, Epoch: r.epoch.ID, Fence: r.fence}
	}
	if _, known := r.keys[id]; known {
		return acked{Attempt: b.send.Attempt, Epoch: r.epoch.ID}
	}
	if b.resend && b.epoch != r.epoch.ID {
		return unanswered{b.send.Attempt}
	}
	if c.Term != 0 {
		if code := verdict(c, r.epoch.ID, r.fence); code != 0 {
			r.sim.refused++
			if code == protocol.ErrConflict {
				r.sim.conflicts++
			}
			return refuse(code)
		}
		r.fence.K = max(r.fence.K, c.Raise)
	}
	r.seq++
	rec := simRecord{other: b.other, slot: b.send.Slot, messageRead: messageRead{Epoch: r.epoch, Seq: r.seq, Sender: p.node, Term: c.Term}}
	if !b.other {
		rec.messageRead = r.reading(id, b.send)
	}
	if !b.other && (c.Term != 0 || r.sim.o.topicCompare) {
		r.fence.S = r.seq
	}
	r.keys[id] = r.seq
	r.sim.accepted(p, rec)
	r.append(rec)
	return acked{Attempt: b.send.Attempt, Epoch: r.epoch.ID}
}

// reading is what readers get of a publish, by way of its bytes.
func (r *simRegistry) reading(id simKey, s sendAction) messageRead {
	if r.sim.o.straight {
		return messageRead{Epoch: r.epoch, Seq: r.seq, Sender: id.node, Key: id.key, Term: s.Condition.Term, Message: s.Message}
	}
	m := protocol.Message{
		Seq: r.seq, Sender: id.node, Topic: "election:sim", Key: id.key.Append(nil),
		Payload: s.Message.Append(nil, time.Unix(int64(r.clock), 0)),
	}
	if s.Condition.Term != 0 {
		m.Fences = []protocol.Mark{{Topic: m.Topic, Term: s.Condition.Term}}
	}
	return readingOf(&m, r.epoch)
}

// plain stores a message of somebody who is no member.
func (r *simRegistry) plain(sender protocol.NodeID, m Message) {
	if !r.up {
		return
	}
	r.seq++
	if r.sim.o.topicCompare {
		r.fence.S = r.seq
	}
	r.append(simRecord{messageRead: messageRead{Epoch: r.epoch, Seq: r.seq, Sender: sender, Message: m}})
}

func (r *simRegistry) append(rec simRecord) {
	if rec.other {
		return
	}
	if rec.slot != "" { // later readers get the last one only
		r.log = slices.DeleteFunc(r.log, func(o simRecord) bool { return o.Sender == rec.Sender && o.slot == rec.slot })
	}
	r.log = append(r.log, rec)
	r.retain(rec.Sender)
	for _, p := range r.sim.procs {
		if p.conn != nil && p.conn.subscribed {
			p.conn.push(rec)
		}
	}
}

func (r *simRegistry) retain(sender protocol.NodeID) {
	if r.sim.o.retention == 0 {
		return
	}
	n := 0
	for i := len(r.log) - 1; i >= 0; i-- {
		if r.log[i].Sender != sender {
			continue
		}
		if n++; n > r.sim.o.retention {
			r.gone = max(r.gone, r.log[i].Seq)
			r.log = slices.Delete(r.log, i, i+1)
			return
		}
	}
}

// step sets the registry's wall clock: epochs are born by it.
func (r *simRegistry) step(d time.Duration) {
	r.sim.trace("wall clock by %v", d)
	r.clock += uint64(d / time.Second)
}

func (r *simRegistry) purge() {
	r.sim.trace("purge")
	r.log, r.gone = nil, r.seq
}

// restart stops the registry for a while.
func (r *simRegistry) restart(d time.Duration, keepLog bool) {
	r.sim.trace("registry down for %v, log kept: %v", d, keepLog)
	r.up = false
	r.lost = r.lost || !keepLog
	r.restarts++
	n := r.restarts
	for _, p := range r.sim.procs {
		p.drop()
	}
	r.sim.in(d, func() {
		if n != r.restarts {
			return // the next one has begun
		}
		r.up = true
		if r.lost {
			r.begin()
		}
	})
}

// Processes.

type proc struct {
	sim   *sim
	name  string
	node  protocol.NodeID
	state machine
	dead  bool

	born     time.Duration // the clock's zero
	rate     float64
	lag      time.Duration // of a clock that stood still
	frozen   bool
	frozenAt instant
	paused   bool
	input    []event
	timer    int // generation of the timer

	conn             *conn
	dials            int // that failed, one after the other
	position         protocol.Seq
	epoch, known     protocol.EpochID // of the position; of the session
	cutUp, cutDown   bool
	slowUp, slowDown time.Duration // at most so much later than usual
	outbox           []*simPublish
	writes           uint64

	stopDelay time.Duration // how long its work takes to stop
	highest   Token         // term that it saw
	holds     Token         // the leadership that it was told of
	canceled  bool
}

type simPublish struct {
	send   sendAction
	other  bool
	token  Token
	sent   bool
	resend bool
	done   bool
	epoch  protocol.EpochID
}

// conn is one connection, as both ends see it.
type conn struct {
	p          *proc
	subscribed bool

	// Publishes of the member go up the urgent lane, those of its work another.
	up, work, down, acks pipe
}

// pipe keeps the order and delays. What is sent while it is stalled waits.
type pipe struct {
	sim     *sim
	last    time.Duration
	slow    time.Duration
	stalled bool
	loose   bool // order is not kept
	waiting []func()
}

func (q *pipe) send(f func()) {
	if q.stalled {
		q.waiting = append(q.waiting, f)
		return
	}
	at := q.sim.now + q.sim.leg() + q.sim.between(0, q.slow)
	if !q.loose {
		at = max(at, q.last)
	}
	q.last = at
	q.sim.at(at, f)
}

func (q *pipe) stall(on bool) {
	q.stalled = on
	if !on {
		w := q.waiting
		q.waiting = nil
		for _, f := range w {
			q.send(f)
		}
	}
}

// join starts a process of a node.
func (s *sim) join(name string, node protocol.NodeID, priority int64, instance byte) *proc {
	var id protocol.Instance
	id[0], id[1], id[2] = instance, byte(len(s.procs)), byte(len(s.procs)>>8)
	if s.o.sameNonce {
		id = protocol.Instance{byte(node)}
	}
	p := &proc{
		sim: s, name: name, node: node, rate: 1, born: s.now - s.between(0, time.Hour),
		stopDelay: s.o.timing.Stop / 4,
		state: start(settings{
			Topic: "election:sim", Node: node, Instance: id, Seed: s.rand.Uint64(), Priority: priority,
			Timing: s.o.timing, Preempt: s.o.preempt, Plain: s.o.plain, BestEffort: s.o.open,
		}),
	}
	s.procs = append(s.procs, p)
	if s.o.open {
		p.happen(caughtUp{Epoch: s.reg.epoch})
	} else {
		p.dialLater(0)
	}
	return p
}

func (s *sim) member(name string, node protocol.NodeID, priority int64) *proc {
	p := s.join(name, node, priority, 0xaa)
	p.happen(campaignAsked{})
	return p
}

// clock is the process's own reading.
func (p *proc) clock() instant {
	if p.frozen {
		return p.frozenAt
	}
	return instant(float64(p.sim.now-p.born-p.lag) * p.rate)
}

// when is the world time of a reading.
func (p *proc) when(t instant) time.Duration {
	if t == never {
		return 1 << 62
	}
	return time.Duration(float64(t)/p.rate) + 1 + p.born + p.lag
}

// pause stops the process for d. Its clock goes on, unless it sleeps and clocks
// do not count that here.
func (p *proc) pause(d time.Duration) {
	if p.dead || p.paused {
		return
	}
	p.sim.trace("%s pauses for %v", p.name, d)
	p.paused = true
	if p.sim.o.sleepingClock {
		p.frozen, p.frozenAt = true, p.clock()
	}
	p.sim.in(d, func() {
		p.paused = false
		if p.frozen {
			p.frozen = false
			p.lag += d
		}
		p.wake()
	})
}

// wake hands over what came during a pause, then lets the timer fire.
func (p *proc) wake() {
	in := p.input
	p.input = nil
	for i, e := range in {
		if p.paused {
			p.input = append(in[i:], p.input...)
			return
		}
		p.happen(e)
	}
	p.happen(timerFired{})
}

// kill ends the process: its work is over and its connection closed.
func (p *proc) kill() {
	if p.dead {
		return
	}
	p.sim.trace("%s dies", p.name)
	p.drop()
	p.dead, p.holds = true, Token{}
	p.sim.settle()
}

func (p *proc) valid() bool {
	return !p.dead && p.state.leads() && p.clock() < p.state.lease.Until
}

// happen runs one step.
func (p *proc) happen(e event) {
	if p.dead {
		return
	}
	if p.paused {
		p.input = append(p.input, e)
		return
	}
	p.sim.steps++
	s, actions := p.sim.o.step(p.state, p.clock(), e)
	p.state = s
	if _, fired := e.(timerFired); fired && s.deadline() <= p.clock() {
		p.sim.fail("%s has nothing to do and is due", p.name)
	}
	for _, a := range actions {
		p.do(a)
	}
	if p.state.leads() {
		p.sim.checkLeases()
	}
}

func (p *proc) do(a action) {
	s := p.sim
	if s.watch != nil {
		s.watch(p, a)
	}
	switch a := a.(type) {
	case sendAction:
		if s.o.open {
			p.broadcast(a)
			return
		}
		b := &simPublish{send: a}
		p.outbox = append(p.outbox, b)
		p.push(b)
		s.at(p.when(a.Until), func() { p.giveUp(b) })
	case timerAction:
		p.timer++
		n := p.timer
		if a.At != never {
			s.at(p.when(a.At), func() {
				if n == p.timer {
					p.happen(timerFired{})
				}
			})
		}
	case leadAction:
		s.trace("%s leads %d", p.name, a.Token.Term)
		p.told(p.holds == Token{}, "leads and did not lose the one before")
		p.holds, p.canceled = a.Token, false
		s.lead(p, a.Token)
	case cancelAction:
		s.trace("%s cancels: %v", p.name, a.Reason)
		p.told(p.holds != Token{} && !p.canceled, "cancels what does not go on")
		p.canceled = true
		n := p.state.lease.Claim
		s.in(p.stopDelay, func() {
			if p.state.phase == stopping && p.state.lease.Claim == n {
				p.happen(workStopped{})
			}
		})
	case lostAction:
		s.trace("%s lost %d: %v", p.name, a.Token.Term, a.Reason)
		p.told(p.holds == a.Token && p.canceled, "lost what it did not lead and cancel")
		p.holds = Token{}
		s.settle()
		if s.lateness > 0 {
			s.in(s.between(0, s.lateness), func() { p.writeUnder(a.Token) })
		}
	case showAction:
		p.shown(a.View)
	case renewAction, countAction:
	}
}

// told checks that what is told of a leadership makes sense.
func (p *proc) told(ok bool, text string) {
	if !ok {
		p.sim.fail("%s %s", p.name, text)
	}
}

// broadcast is a publish without a registry. The link tells neither its senders
// nor where its messages are, and keeps no order.
func (p *proc) broadcast(a sendAction) {
	if p.cutUp {
		return
	}
	m, err := Parse(a.Message.Append(nil, time.Unix(birthday, 0)))
	if err != nil {
		panic(err)
	}
	for _, q := range p.sim.procs {
		if q == p {
			continue
		}
		p.sim.in(p.sim.leg()+p.sim.leg(), func() {
			if !q.cutDown {
				q.position++
				q.happen(messageRead{Epoch: p.sim.reg.epoch, Seq: q.position, Message: m})
			}
		})
	}
	p.sim.in(0, func() { p.happen(acked{a.Attempt, p.sim.reg.epoch.ID}) })
}

// shown checks that terms never fall for who looks.
func (p *proc) shown(v View) {
	was := p.highest
	if v.Leader == "" || v.Plain {
		return
	}
	if v.Token.Term < was.Term || !p.sim.o.open && v.Token.Term == was.Term && v.Token != was {
		p.sim.fail("%s sees term %d after %d", p.name, v.Token.Term, was.Term)
	}
	p.highest = v.Token
}

// write publishes something that only the leader may write, elsewhere.
func (p *proc) write() {
	if !p.valid() || p.paused {
		return
	}
	p.writeUnder(p.state.lease.Token)
}

// writeUnder is such a write under any token: of a leader that may not have
// noticed that it is none any more.
func (p *proc) writeUnder(t Token) {
	if p.dead {
		return
	}
	p.sim.written++
	p.writes++
	b := &simPublish{other: true, token: t, send: sendAction{
		Attempt:   1<<40 + p.writes, // numbers of its own
		Condition: protocol.Condition{Topic: "election:sim", Epoch: t.Epoch, Term: t.Term},
	}}
	p.outbox = append(p.outbox, b)
	p.push(b)
}

// push puts a publish on the connection.
func (p *proc) push(b *simPublish) {
	c := p.conn
	if c == nil || b.done {
		return
	}
	if b.send.Message.Kind == KindCandidacy {
		p.sim.candidacies++
	}
	if !b.sent {
		b.epoch = p.known
	}
	b.resend, b.sent = b.sent, true
	lane := &c.up
	if b.other {
		lane = &c.work
	}
	lane.send(func() {
		r := &p.sim.reg
		if p.conn != c || !r.up {
			return
		}
		answer := r.publish(p, *b)
		c.acks.send(func() {
			if p.conn == c && !b.done {
				b.done = true
				p.answered(b, answer)
			}
		})
	})
}

func (p *proc) answered(b *simPublish, e event) {
	p.outbox = slices.DeleteFunc(p.outbox, func(o *simPublish) bool { return o.done })
	if b.other {
		if r, ok := e.(refused); ok {
			r.Attempt = 0
			p.happen(r)
		}
		return
	}
	p.happen(e)
}

func (p *proc) giveUp(b *simPublish) {
	if b.done || p.dead {
		return
	}
	b.done = true
	p.answered(b, unanswered{b.send.Attempt})
}

// Connections.

func (p *proc) dialLater(least time.Duration) {
	if most := p.sim.o.redial; most > 0 {
		delay := min(most, 50*time.Millisecond<<min(p.dials, 10))
		p.sim.in(p.sim.between(delay/2, delay), p.dial)
		return
	}
	p.sim.in(least+p.sim.between(0, p.sim.o.timing.Heartbeat/2), p.dial)
}

func (p *proc) dial() {
	if p.dead || p.conn != nil {
		return
	}
	if !p.sim.reg.up || p.cutUp || p.cutDown {
		p.dials++
		p.dialLater(p.sim.o.timing.Heartbeat / 4)
		return
	}
	c := &conn{p: p}
	c.up = pipe{sim: p.sim, slow: p.slowUp, loose: p.sim.o.overtake}
	c.work = pipe{sim: p.sim, slow: p.slowUp}
	c.down, c.acks = pipe{sim: p.sim, slow: p.slowDown}, pipe{sim: p.sim, slow: p.slowDown}
	p.conn, p.dials = c, 0
	c.up.send(func() {
		if p.conn == c && p.sim.reg.up {
			c.subscribe()
		}
	})
	for _, b := range slices.Clone(p.outbox) {
		p.push(b)
	}
}

// subscribe goes on behind the position: what is retained, then the marker.
func (c *conn) subscribe() {
	r, p := &c.p.sim.reg, c.p
	after, epoch := p.position, r.epoch
	if p.epoch != epoch.ID {
		after = 0
		c.item(func() { p.position, p.epoch = 0, epoch.ID; p.known = epoch.ID }, epochBegan{epoch})
	}
	c.subscribed = true
	if p.sim.o.gaps && after < r.gone {
		c.item(nil, gapFound{})
	}
	for _, rec := range r.log {
		if rec.Seq > after {
			c.push(rec)
		}
	}
	seq, f := r.seq, r.fence
	c.item(func() { p.position = max(p.position, seq) }, caughtUp{epoch, seq, f})
}

func (c *conn) push(rec simRecord) {
	e := rec.messageRead
	if e.Sender != c.p.node {
		e.Key = key{}
	}
	c.item(func() { c.p.position = max(c.p.position, e.Seq) }, e)
}

func (c *conn) item(arrived func(), e event) {
	c.down.send(func() {
		if c.p.conn != c {
			return
		}
		if arrived != nil {
			arrived()
		}
		c.p.happen(e)
	})
}

// drop ends the connection; both ends notice.
func (p *proc) drop() {
	if p.conn == nil || p.dead {
		return
	}
	p.conn = nil
	p.happen(disconnected{})
	p.dialLater(0)
}

// cut holds up one or both directions for d. A connection that is silent for too
// long is given up.
func (p *proc) cut(up, down bool, d time.Duration) {
	p.sim.trace("%s cut (up %v, down %v) for %v", p.name, up, down, d)
	p.cutUp, p.cutDown = p.cutUp || up, p.cutDown || down
	p.stall()
	if c := p.conn; c != nil && d > p.sim.o.idle {
		p.sim.in(p.sim.o.idle, func() {
			if p.conn == c && (p.cutUp || p.cutDown) {
				p.drop()
			}
		})
	}
	p.sim.in(d, func() {
		p.cutUp, p.cutDown = false, false
		p.stall()
	})
}

func (p *proc) stall() {
	if c := p.conn; c != nil {
		c.up.stall(p.cutUp)
		c.work.stall(p.cutUp)
		c.down.stall(p.cutDown)
		c.acks.stall(p.cutDown)
	}
}

// slow makes what goes one way later, by up to a time, for d.
func (p *proc) slow(up, down, d time.Duration) {
	p.sim.trace("%s's link is slow (up %v, down %v) for %v", p.name, up, down, d)
	set := func(up, down time.Duration) {
		p.slowUp, p.slowDown = up, down
		if c := p.conn; c != nil {
			c.up.slow, c.work.slow, c.down.slow, c.acks.slow = up, up, down, down
		}
	}
	set(up, down)
	p.sim.in(d, func() { set(0, 0) })
}

// stallPush holds up only the subscription.
func (p *proc) stallPush(d time.Duration) {
	c := p.conn
	if c == nil {
		return
	}
	p.sim.trace("%s's push stalls for %v", p.name, d)
	c.down.stall(true)
	p.sim.in(d, func() { c.down.stall(p.cutDown) })
}

// What must hold.

// accepted looks at what the registry appends.
func (s *sim) accepted(p *proc, rec simRecord) {
	high := s.wrote[rec.Epoch.ID]
	switch {
	case rec.other && rec.Term < high:
		s.fail("%s wrote under term %d after the claim of %d", p.name, rec.Term, high)
	case rec.Message.Kind == KindClaim && rec.Term != 0:
		if rec.Term <= high {
			s.fail("%s's claim of %d was accepted after one of %d", p.name, rec.Term, high)
		}
		s.trace("%s's claim of %d is accepted at %d", p.name, rec.Term, rec.Seq)
		s.wrote[rec.Epoch.ID] = rec.Term
		s.claims++
		s.lastClaim = s.now
	}
}

func (s *sim) lead(p *proc, t Token) {
	if who, ok := s.led[t]; ok && !s.o.open {
		s.fail("%s and %s both lead term %d", who.name, p.name, t.Term)
	}
	s.led[t] = p
	s.handovers++
	s.settle()
}

func (s *sim) checkLeases() {
	var who []string
	for _, p := range s.procs {
		if p.valid() {
			who = append(who, fmt.Sprintf("%s (%d)", p.name, p.state.lease.Term))
		}
	}
	if len(who) > 1 && !s.o.open {
		s.fail("two leases: %v", who)
	}
}

// settle measures the time without a leader.
func (s *sim) settle() {
	var now *proc
	for _, p := range s.procs {
		if p.valid() {
			now = p
		}
	}
	switch {
	case s.sole == nil && now != nil:
		s.leaderless += s.now - s.lastLost
		s.lastLead = s.now
	case s.sole != nil && now == nil:
		s.lastLost = s.now
	}
	s.sole = now
}

// leader is who leads, or nil.
func (s *sim) leader() *proc {
	for _, p := range s.procs {
		if p.valid() && !p.paused {
			return p
		}
	}
	return nil
}
