package registry

import (
	"context"
	"sync"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	pageRecords = 256
	pageBytes   = 64 << 10
)

// subscription is one reader of the log: a position and a selection. It reads at
// the pace at which its client takes.
type subscription struct {
	s       *session
	ch      *link.Channel
	source  protocol.Source
	pattern string
	news    chan struct{} // a token when there may be something to read
	inbox   inboxTopics   // guarded by the index

	// Owned by write:
	sel      Selection
	position protocol.Seq // scanned up to here
	floor    protocol.Seq // what was evicted up to here is no gap, or told already
}

// wake never blocks.
func (sub *subscription) wake() {
	select {
	case sub.news <- struct{}{}:
	default:
	}
}

// serveSubscription runs a channel whose first frame is f, until either side
// ends it.
func (s *session) serveSubscription(ch *link.Channel, f *protocol.Subscribe) error {
	sub := &subscription{
		s: s, ch: ch, source: f.Source, pattern: f.Pattern,
		news: make(chan struct{}, 1),
	}
	narrowed, refused := sub.admit(f)
	if refused != nil {
		s.refused(OpSubscribe, f.Pattern, refused)
		return s.endWith(ch, refused)
	}
	defer s.subscriptions.Add(-1)

	history, refused := sub.begin(f)
	if refused != nil {
		s.refused(OpSubscribe, f.Pattern, refused)
		return s.endWith(ch, refused)
	}
	defer s.r.index.drop(sub)
	s.event(Event{Kind: EventSubscribed, Op: OpSubscribe, Topic: f.Pattern, Seq: sub.position})
	defer s.event(Event{Kind: EventUnsubscribed, Op: OpSubscribe, Topic: f.Pattern})

	ctx, cancel := context.WithCancel(s.ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := sub.write(ctx, history, narrowed); err != nil {
			ch.Reset(protocol.CodeOf(err)) // which ends Next below
		}
	})
	// The client has nothing more to say, but ends the subscription by ending the
	// channel. Reading also keeps what it sends all the same from piling up.
	_, err := ch.Next()
	cancel()
	writer.Wait()
	if err == nil {
		return protocol.Errorf(protocol.ErrMalformed, "a frame behind Subscribe")
	}
	return err
}

// admit checks a request to subscribe and takes a place for it.
func (sub *subscription) admit(f *protocol.Subscribe) (narrowed bool, refused *protocol.Error) {
	s := sub.s
	if refused := s.before(OpSubscribe, f.Pattern); refused != nil {
		return false, refused
	}
	if err := f.Check(); err != nil {
		return false, refusal(err, protocol.ErrInvalid)
	}
	if f.Source == protocol.SourcePattern {
		if refused := s.allow(Request{Right: RightSubscribe, Topic: f.Pattern}); refused != nil {
			if protocol.IsExact(f.Pattern) || refused.Code != protocol.ErrDenied {
				return false, refused
			}
			narrowed = true
		}
	}
	if most := s.r.limits.Subscriptions; s.subscriptions.Add(1) > int64(most) {
		s.subscriptions.Add(-1)
		return false, protocol.Errorf(protocol.ErrLimit, "%d subscriptions are open, the maximum", most)
	}
	return narrowed, nil
}

// begin finds the position and makes the subscription be woken. The caller
// drops it from the index unless it was refused. history selects what comes
// before the first caught up.
func (sub *subscription) begin(f *protocol.Subscribe) (history Selection, refused *protocol.Error) {
	s := sub.s
	epoch := s.r.epoch.ID
	resumed := f.Epoch == epoch

	var head protocol.Seq
	s.r.seq.view(func(b *broker) {
		head = s.r.seq.headSeq()
		if f.After > head && (resumed || f.Epoch == 0 && f.Start == protocol.StartAfter) {
			refused = protocol.Errorf(protocol.ErrInvalid, "seq %d is ahead of the log's %d", f.After, head)
			return
		}
		s.r.index.add(sub, b.joinedSet(s.caller.Node))
	})
	if refused != nil {
		return history, refused
	}

	sub.sel = Selection{Pattern: f.Pattern}
	if sub.source == protocol.SourceInbox {
		sub.sel.Direct = s.caller.Node
	}
	if s.r.o.Access != nil && (sub.source == protocol.SourceInbox || !protocol.IsExact(f.Pattern)) {
		sub.sel.Readable = s.readable()
	}
	history = sub.sel
	switch f.Start {
	case protocol.StartLast:
		history.LastPerTopic = true
	case protocol.StartSince:
		history.Since = f.Since
	default:
	}

	// What retention took before a new subscription began is not missing from
	// it. To one that goes on, it is.
	switch {
	case resumed, f.Epoch == 0 && f.Start == protocol.StartAfter:
		sub.position = f.After
	case f.Epoch != 0: // of another log: all of this one is new
	case f.Start == protocol.StartNew:
		sub.position, sub.floor = head, head
	default:
		sub.floor = head
	}
	return history, nil
}

// write sends all there is, now and later, until ctx ends or the channel fails.
func (sub *subscription) write(ctx context.Context, history Selection, narrowed bool) error {
	began := protocol.Subscribed{Epoch: sub.s.r.epoch, Position: sub.position}
	if narrowed {
		began.Narrowed = 1
	}
	if err := sub.s.send(ctx, sub.ch, protocol.AppendFrame(nil, &began)); err != nil {
		return err
	}
	if err := sub.catchUp(ctx, &history); err != nil {
		return err
	}
	for {
		select {
		case <-sub.news:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sub.forward(ctx, &sub.sel, sub.s.r.seq.headSeq()); err != nil {
			return err
		}
	}
}

// catchUp sends the history and where it ends.
func (sub *subscription) catchUp(ctx context.Context, history *Selection) error {
	q := sub.s.r.seq
	if err := sub.forward(ctx, history, q.headSeq()); err != nil {
		return err
	}
	// The log has moved on meanwhile, by little. Head and fence are taken
	// together: a fenced message up to that head is counted in the fence, and a
	// later one is not.
	var f protocol.CaughtUp
	q.view(func(b *broker) {
		f.Seq = q.headSeq()
		if sub.source == protocol.SourcePattern && protocol.IsExact(sub.pattern) {
			f.Fence = b.fence(sub.pattern)
		}
	})
	if err := sub.forward(ctx, history, f.Seq); err != nil {
		return err
	}
	return sub.s.send(ctx, sub.ch, protocol.AppendFrame(nil, &f))
}

// portion is what a reader needs while it reads, and gives back when it has
// nothing to read.
type portion struct {
	page Page
	out  []byte
	own  []byte
}

var portions = sync.Pool{New: func() any {
	return &portion{page: Page{MaxRecords: pageRecords, MaxBytes: pageBytes}}
}}

func (p *portion) free() {
	clear(p.page.Records)
	p.page.Records = p.page.Records[:0]
	if cap(p.out) > 4*pageBytes {
		p.out = nil
	}
	if cap(p.own) > pageBytes {
		p.own = nil
	}
	portions.Put(p)
}

// forward sends what the selection has up to a seq.
func (sub *subscription) forward(ctx context.Context, sel *Selection, upTo protocol.Seq) error {
	if sub.position >= upTo {
		return nil
	}
	p := portions.Get().(*portion)
	defer p.free()
	for sub.position < upTo {
		if err := sub.read(sel, upTo, p); err != nil {
			return err
		}
		if len(p.out) > 0 {
			if err := sub.s.send(ctx, sub.ch, p.out); err != nil {
				return err
			}
		}
		sub.delivered(p.page.Records)
	}
	return nil
}

// read puts the next portion into p.out and moves the position.
func (sub *subscription) read(sel *Selection, upTo protocol.Seq, p *portion) error {
	if sub.source == protocol.SourceInbox {
		sel.Topics, upTo = sub.s.r.index.topics(sub, sub.position, upTo)
	}
	if err := sub.s.r.log.Read(sel, sub.position, upTo, &p.page); err != nil {
		return err
	}
	p.out = p.out[:0]
	if seen := max(sub.position, sub.floor); p.page.Evicted > seen && !sel.LastPerTopic {
		p.out = protocol.AppendFrame(p.out, &protocol.Gap{From: seen + 1, To: p.page.Evicted})
		sub.floor = p.page.Evicted
	}
	node := sub.s.caller.Node
	for _, r := range p.page.Records {
		if r.Sender == node {
			p.own = deliverFrame(r, true, p.own)
			p.out = append(p.out, p.own...)
			continue
		}
		p.out = append(p.out, r.Frame()...)
	}
	sub.position = max(p.page.Scanned, sub.position)
	return nil
}

func (sub *subscription) delivered(records []*Record) {
	if sub.s.r.hooks.Event == nil {
		return
	}
	for _, r := range records {
		sub.s.event(Event{Kind: EventDelivered, Topic: r.Topic, Seq: r.Seq})
	}
}
