package registry

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	// laneItems is how many publishes a lane hands over at once. It is well below
	// what is kept of a sender's messages on a topic, or readers that are awake
	// would miss some.
	laneItems = 256
	laneBytes = 1 << 20 // and about how many bytes
	chunkSize = 32 << 10

	// lanePieces is how many pieces of one lane are on their way to a log that takes
	// one step while others are on their way.
	lanePieces = 6
)

// lane is one channel of publishes. It hands over what has come in, a piece, and
// sends the answers: what comes in meanwhile is the next piece, and a client that
// does not read its answers is read no further.
type lane struct {
	s      *session
	ch     *link.Channel
	urgent bool

	slots   chan struct{} // holds a token for each piece that is not answered
	resting chan struct{} // holds a token from rest to resume
	done    chan *job     // pieces that were decided, in their order

	// Owned by the goroutine that reads:
	topic string // of the last publish, to allocate it once
}

func newLane(s *session, ch *link.Channel, urgent bool) *lane {
	pieces := 1
	if s.r.seq.piped != nil {
		pieces = min(max(1, s.r.limits.InFlight/laneItems), lanePieces)
	}
	return &lane{
		s: s, ch: ch, urgent: urgent,
		slots: make(chan struct{}, pieces), resting: make(chan struct{}, 1), done: make(chan *job, pieces),
	}
}

// serveLane runs a channel whose first frame is f, until either side ends it.
func (s *session) serveLane(ch *link.Channel, f *protocol.OpenLane) error {
	l := newLane(s, ch, f.Lane == protocol.LaneUrgent)
	if err := s.takeLane(f.Lane, l); err != nil {
		return err
	}
	defer s.leaveLane(f.Lane)
	if l.urgent {
		ch.SetUrgent()
	}
	ch.SetMaxFrame(s.r.maxFrame())
	return l.run()
}

func (s *session) takeLane(n protocol.Lane, l *lane) error {
	if n > protocol.LaneUrgent {
		return protocol.Errorf(protocol.ErrInvalid, "no lane %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes[n] != nil {
		return protocol.Errorf(protocol.ErrMalformed, "lane %d is open already", n)
	}
	s.lanes[n] = l
	return nil
}

func (s *session) leaveLane(n protocol.Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[n] = nil
}

// run reads until the client has ended the lane, or something is wrong with it,
// and returns when all that was read is answered.
func (l *lane) run() error {
	if cap(l.slots) == 1 {
		return l.readAll(func() error { return l.answer(<-l.done) })
	}
	var answers sync.WaitGroup
	var fault error
	answers.Go(func() { fault = l.answerAll() })
	err := l.readAll(func() error { return nil })
	_ = l.rest(context.Background()) // which does not end
	close(l.done)
	l.resume()
	answers.Wait()
	return cmp.Or(fault, err)
}

// readAll hands over what comes in, and calls handed behind each piece.
func (l *lane) readAll(handed func() error) error {
	for {
		body, err := l.ch.Next()
		if err != nil {
			return err
		}
		l.slots <- struct{}{}
		started, fault := l.hand(body)
		if !started {
			<-l.slots
			return fault
		}
		if err := handed(); err != nil {
			return err
		}
		if fault != nil {
			return fault
		}
	}
}

// hand has the sequencer decide the publishes that are at hand, of which body is
// the first, once it is this node's turn. With started there will be an answer
// to some of them, though there was a fault.
func (l *lane) hand(body []byte) (started bool, fault error) {
	p := pieces.Get().(*piece)
	p.began = time.Now()
	fault = l.collect(p, body)
	if len(p.items) == 0 {
		p.free()
		return false, fault
	}
	t := l.turns()
	p.units = t.units(len(p.items), p.bytes)
	if err := t.take(l.s.ctx, p.units); err != nil {
		p.free()
		return false, err
	}
	p.sender, p.urgent, p.done = l.s.caller.Node, l.urgent, l.done
	p.over, p.lost = &l.s.over, false
	l.s.r.seq.start(&p.job)
	return true, fault
}

func (l *lane) turns() *turns {
	if l.urgent {
		return l.s.account.urgent
	}
	return l.s.account.turns
}

// answerAll answers pieces until there will be no more. After a fault it answers
// none, and ends the reading.
func (l *lane) answerAll() (fault error) {
	for j := range l.done {
		if fault != nil {
			l.release(j.piece)
			continue
		}
		if fault = l.answer(j); fault != nil {
			_ = l.ch.SetReadDeadline(time.Unix(0, 1)) // which a broken channel needs no more
		}
	}
	return fault
}

// answer sends the answers to a piece that was decided.
func (l *lane) answer(j *job) error {
	p := j.piece
	defer l.release(p)
	if p.lost {
		l.s.end(errLost)
		return errLost
	}
	if err := l.reply(p); err != nil {
		return err
	}
	l.s.r.observer.published(len(p.acks.List), p.began)
	return nil
}

// release ends a piece.
func (l *lane) release(p *piece) {
	l.turns().give(p.units)
	p.free()
	<-l.slots
}

// errLost ends a session whose client must ask again.
var errLost = &protocol.Error{
	Code: protocol.ErrDraining, RetryAfter: comeBack, Detail: "what was sent last has no answer; send it again",
}

// piece is a job made from frames, with their bytes and the answers.
type piece struct {
	job
	began time.Time
	units int // of the node's turns
	chunk []byte
	acks  protocol.Acks
	out   []byte
}

var pieces = sync.Pool{New: func() any {
	p := &piece{chunk: make([]byte, 0, chunkSize)}
	p.piece = p
	return p
}}

func (p *piece) free() {
	if cap(p.items) > laneItems {
		p.items = nil
	}
	clear(p.items)
	p.over = nil
	p.items, p.bytes, p.done, p.chunk = p.items[:0], 0, nil, p.chunk[:0]
	p.acks.List, p.out = p.acks.List[:0], p.out[:0]
	if cap(p.chunk) > 4*chunkSize {
		p.chunk = make([]byte, 0, chunkSize)
	}
	pieces.Put(p)
}

// keep copies a frame: the channel reuses its memory. Frames kept before stay
// where they are.
func (p *piece) keep(body []byte) []byte {
	if len(body) > cap(p.chunk)-len(p.chunk) {
		p.chunk = make([]byte, 0, max(chunkSize, len(body)))
	}
	at := len(p.chunk)
	p.chunk = append(p.chunk, body...)
	p.bytes += len(body)
	return p.chunk[at:]
}

// collect fills a piece. What came before a malformed frame is in it.
func (l *lane) collect(p *piece, body []byte) error {
	now := time.Now()
	most := min(laneItems, l.s.r.limits.InFlight)
	for {
		if err := l.take(p, body, now); err != nil {
			return err
		}
		if len(p.items) == most || p.bytes >= laneBytes || !l.ch.Buffered() {
			return nil
		}
		var err error
		if body, err = l.ch.Next(); err != nil {
			return err
		}
	}
}

// take adds one publish to a piece.
func (l *lane) take(p *piece, body []byte, now time.Time) error {
	p.items = append(p.items, item{})
	it := &p.items[len(p.items)-1]
	it.pub.Topic = l.topic
	if err := it.pub.Parse(p.keep(body)); err != nil {
		p.items = p.items[:len(p.items)-1]
		return err
	}
	l.topic = it.pub.Topic
	if refused := l.before(&it.pub); refused != nil {
		it.passed, it.refuse = true, refuseWith(it.pub.N, refused)
		return nil
	}
	it.fault = l.screen(&it.pub, now)
	it.digest = digestOf(&it.pub)
	return nil
}

// before asks the hook.
func (l *lane) before(p *protocol.Publish) *protocol.Error {
	if l.s.r.hooks.Before == nil {
		return nil
	}
	return l.s.r.hooks.before(Operation{
		Op: OpPublish, Session: l.s.id, Node: l.s.caller.Node, Addr: l.s.caller.Addr, Topic: p.Topic, Publish: p,
	})
}

// screen finds what is wrong with a publish without a look at the log.
func (l *lane) screen(p *protocol.Publish, now time.Time) *protocol.Error {
	r := l.s.r
	if r.draining.Load() {
		return drainRefusal()
	}
	if most := r.limits.Payload; len(p.Payload) > most {
		return protocol.Errorf(protocol.ErrTooLarge, "payload of %d bytes, maximum %d", len(p.Payload), most)
	}
	if refused := l.s.mayPublish(p); refused != nil {
		return refused
	}
	return l.s.pace(len(p.Payload), now)
}

// mayPublish asks for the rights that a publish needs.
func (s *session) mayPublish(p *protocol.Publish) *protocol.Error {
	if s.operator || s.r.unguarded() {
		return nil
	}
	if refused := s.allow(Request{Right: RightPublish, Topic: p.Topic, To: p.To}); refused != nil {
		return refused
	}
	if p.Origin != 0 {
		if refused := s.allow(Request{Right: RightRelay, Topic: p.Topic, To: p.To}); refused != nil {
			return refused
		}
	}
	for i := range p.Conditions {
		c := &p.Conditions[i]
		if c.Raise == 0 || c.Topic == p.Topic {
			continue
		}
		if refused := s.allow(Request{Right: RightPublish, Topic: c.Topic}); refused != nil {
			return refused
		}
	}
	return nil
}

// reply sends the answers to a piece: one Acks for all that were accepted, and a
// Refuse for each of the others.
func (l *lane) reply(p *piece) error {
	for i := range p.items {
		it := &p.items[i]
		switch {
		case it.refuse != nil:
			p.out = protocol.AppendFrame(p.out, it.refuse)
			l.s.event(Event{Kind: EventRefused, Op: OpPublish, Topic: it.pub.Topic, Err: it.refuse.Err()})
		case l.pass(it):
			p.acks.List = append(p.acks.List, it.ack)
		}
	}
	if len(p.acks.List) > 0 {
		p.out = protocol.AppendFrame(p.out, &p.acks)
	}
	if len(p.out) == 0 {
		return nil
	}
	if err := l.s.send(l.s.ctx, l.ch, p.out); err != nil {
		return err
	}
	if f := l.s.r.hooks.AfterAck; f != nil && len(p.acks.List) > 0 {
		f(l.s.caller.Node, p.acks.List)
	}
	return nil
}

// pass tells whether an ack leaves with the others.
func (l *lane) pass(it *item) bool {
	l.s.event(Event{Kind: EventAccepted, Op: OpPublish, Topic: it.pub.Topic, Seq: it.ack.Seq})
	f := l.s.r.hooks.BeforeAck
	if f == nil {
		return true
	}
	delay, drop := f(l.s.caller.Node, it.ack)
	if delay > 0 && !drop {
		l.replyLate(it.ack, delay)
	}
	return delay <= 0 && !drop
}

// replyLate sends one ack after a delay.
func (l *lane) replyLate(a protocol.Ack, delay time.Duration) {
	l.s.work.Go(func() {
		select {
		case <-time.After(delay):
		case <-l.s.ctx.Done():
			return
		}
		acks := []protocol.Ack{a}
		if l.s.tell(l.s.ctx, l.ch, &protocol.Acks{List: acks}) != nil {
			return
		}
		if f := l.s.r.hooks.AfterAck; f != nil {
			f(l.s.caller.Node, acks)
		}
	})
}

// settle waits until what has come in is answered and on its way.
func (l *lane) settle(ctx context.Context) error {
	if err := l.rest(ctx); err != nil {
		return err
	}
	defer l.resume()
	return l.ch.Flush(ctx)
}

// rest waits until nothing is without an answer, and lets nothing be handed over
// until resume.
func (l *lane) rest(ctx context.Context) error {
	if err := fillUp(ctx, l.resting); err != nil {
		return err
	}
	if err := fillUp(ctx, l.slots); err != nil {
		<-l.resting
		return err
	}
	return nil
}

func (l *lane) resume() {
	empty(l.slots, cap(l.slots))
	<-l.resting
}

// fillUp puts as many tokens into a channel as it holds, or none.
func fillUp(ctx context.Context, c chan struct{}) error {
	for n := range cap(c) {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			empty(c, n)
			return ctx.Err()
		}
	}
	return nil
}

func empty(c chan struct{}, n int) {
	for range n {
		<-c
	}
}
