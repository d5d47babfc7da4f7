package registry

import (
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
)

// lane is one channel of publishes. It hands over what has come in, waits for the
// answers and sends them: what comes in meanwhile is the next portion, and a
// client that does not read its answers is read no further.
type lane struct {
	s      *session
	ch     *link.Channel
	urgent bool

	turn chan struct{} // holds a token while publishes are being answered
	done chan struct{} // of the job at hand

	// Owned by run:
	topic string // of the last publish, to allocate it once
}

// serveLane runs a channel whose first frame is f, until either side ends it.
func (s *session) serveLane(ch *link.Channel, f *protocol.OpenLane) error {
	l := &lane{
		s: s, ch: ch, urgent: f.Lane == protocol.LaneUrgent,
		turn: make(chan struct{}, 1), done: make(chan struct{}, 1),
	}
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

func (l *lane) run() error {
	for {
		body, err := l.ch.Next()
		if err != nil {
			return err
		}
		l.turn <- struct{}{}
		err = l.answer(body)
		<-l.turn
		if err != nil {
			return err
		}
	}
}

// answer takes the publishes that are at hand, of which body is the first.
func (l *lane) answer(body []byte) error {
	began := time.Now()
	p := pieces.Get().(*piece)
	defer p.free()
	fault := l.collect(p, body)
	if len(p.items) > 0 {
		p.sender, p.urgent, p.done = l.s.caller.Node, l.urgent, l.done
		p.over, p.lost = &l.s.over, false
		if err := l.decide(p); err != nil {
			return err
		}
		if p.lost {
			l.s.end(errLost)
			return errLost
		}
		if err := l.reply(p); err != nil {
			return err
		}
		l.s.r.observer.published(len(p.acks.List), began)
	}
	return fault
}

// decide has the sequencer decide a piece, once it is this node's turn.
func (l *lane) decide(p *piece) error {
	t := l.s.account.turns
	if l.urgent {
		t = l.s.account.urgent
	}
	units := t.units(len(p.items), p.bytes)
	if err := t.take(l.s.ctx, units); err != nil {
		return err
	}
	defer t.give(units)
	l.s.r.seq.do(&p.job)
	return nil
}

// errLost ends a session whose client must ask again.
var errLost = &protocol.Error{
	Code: protocol.ErrDraining, RetryAfter: comeBack, Detail: "what was sent last has no answer; send it again",
}

// piece is a job made from frames, with their bytes and the answers.
type piece struct {
	job
	chunk []byte
	acks  protocol.Acks
	out   []byte
}

var pieces = sync.Pool{New: func() any {
	return &piece{chunk: make([]byte, 0, chunkSize)}
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
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.ch.Flush(ctx)
}
