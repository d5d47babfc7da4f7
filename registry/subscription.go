package registry

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	pageRecords = 256
	pageBytes   = 32 << 10
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
	rights   *rights      // nil when all of it may be read
	asked    uint64       // of the session's rules
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
	open := opening{}
	refused := sub.admit(f, &open)
	if refused != nil {
		s.refused(OpSubscribe, f.Pattern, refused)
		return s.endWith(ch, refused)
	}
	defer s.leaveSubscription()

	if refused := sub.begin(f, &open); refused != nil {
		s.refused(OpSubscribe, f.Pattern, refused)
		return s.endWith(ch, refused)
	}
	defer s.r.index.drop(sub)
	s.event(Event{Kind: EventSubscribed, Op: OpSubscribe, Topic: f.Pattern, Seq: sub.position})
	defer s.event(Event{Kind: EventUnsubscribed, Op: OpSubscribe, Topic: f.Pattern})

	ctx, cancel := context.WithCancel(s.ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := sub.write(ctx, &open); ctx.Err() == nil {
			sub.stop(err) // which ends Next below
		}
	})
	// The client has nothing more to say, but ends the subscription by ending the
	// channel. Reading also keeps what it sends all the same from piling up.
	_, err := ch.Next()
	cancel()
	writer.Wait()
	switch {
	case err == nil:
		return protocol.Errorf(protocol.ErrMalformed, "a frame behind Subscribe")
	case errors.Is(err, io.EOF):
		ch.Reset(0) // drops what is queued, which nobody waits for
		return nil
	}
	return err
}

// opening is what a subscription begins with.
type opening struct {
	began   protocol.Subscribed
	history Selection // of what comes before caught up
	caught  protocol.CaughtUp
	isNew   bool // caught is set: there is no history
}

// admit checks a request to subscribe and takes a place for it.
func (sub *subscription) admit(f *protocol.Subscribe, open *opening) *protocol.Error {
	s := sub.s
	if refused := s.before(OpSubscribe, f.Pattern); refused != nil {
		return refused
	}
	if err := f.Check(); err != nil {
		return refusal(err, protocol.ErrInvalid)
	}
	sub.asked = s.rules.Load()
	if f.Source == protocol.SourcePattern {
		if refused := s.allow(Request{Right: RightSubscribe, Topic: f.Pattern}); refused != nil {
			if protocol.IsExact(f.Pattern) || refused.Code != protocol.ErrDenied {
				return refused
			}
			open.began.Narrowed = true
		}
	}
	return s.takeSubscription()
}

// begin finds the position and makes the subscription be woken. The caller
// drops it from the index unless it was refused.
func (sub *subscription) begin(f *protocol.Subscribe, open *opening) (refused *protocol.Error) {
	s := sub.s
	resumed := f.Epoch == s.r.epoch.ID
	after := resumed || f.Epoch == 0 && f.Start == protocol.StartAfter
	if after {
		ctx, cancel := context.WithTimeout(s.ctx, firstReply/2)
		defer cancel()
		s.r.seq.await(ctx, f.After)
	}
	s.r.seq.view(func(b *broker) {
		open.caught = sub.caughtUp(b)
		if head := open.caught.Seq; after && f.After > head {
			code := protocol.ErrInvalid
			if s.r.seq.shared != nil {
				code = protocol.ErrTimeout // another registry may know better
			}
			refused = protocol.Errorf(code, "seq %d is ahead of the log's %d", f.After, head)
			return
		}
		s.r.index.add(sub, b.joinedSet(s.caller.Node))
	})
	if refused != nil {
		return refused
	}

	// What retention took before a new subscription began is not missing from
	// it. To one that goes on, it is.
	head := open.caught.Seq
	switch {
	case after:
		sub.position = f.After
	case f.Epoch != 0: // of another log: all of this one is new
	case f.Start == protocol.StartNew:
		sub.position, sub.floor = head, head
		open.isNew = true
	default:
		sub.floor = head
	}
	open.began.Epoch, open.began.Position = s.r.epoch, sub.position

	sub.sel = Selection{Pattern: f.Pattern}
	if sub.source == protocol.SourceInbox {
		sub.sel.Direct = s.caller.Node
	}
	if open.began.Narrowed || sub.source == protocol.SourceInbox && s.r.o.Access != nil {
		sub.narrow()
	}
	open.history = sub.sel
	open.history.LastPerTopic = f.Start == protocol.StartLast
	if f.Start == protocol.StartSince {
		open.history.Since = f.Since
	}
	return nil
}

// caughtUp takes head and fence together: a fenced message up to that head is
// counted in the fence, and a later one is not.
func (sub *subscription) caughtUp(b *broker) protocol.CaughtUp {
	f := protocol.CaughtUp{Seq: sub.s.r.seq.headSeq()}
	if sub.source == protocol.SourcePattern && protocol.IsExact(sub.pattern) {
		f.Fence = b.fence(sub.pattern)
	}
	return f
}

// write sends all there is, now and later, until ctx ends or the channel fails.
func (sub *subscription) write(ctx context.Context, open *opening) error {
	if err := sub.s.tell(ctx, sub.ch, &open.began); err != nil {
		return err
	}
	if err := sub.catchUp(ctx, open); err != nil {
		return err
	}
	for {
		// Before the first news too: rules may have changed while it was not to be
		// found yet by who tells of that.
		if err := sub.forward(ctx, &sub.sel, sub.s.r.seq.headSeq()); err != nil {
			return err
		}
		select {
		case <-sub.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp sends the history and where it ends.
func (sub *subscription) catchUp(ctx context.Context, open *opening) error {
	if !open.isNew {
		// Up to the head, and then what came meanwhile, which is little.
		q := sub.s.r.seq
		if err := sub.forward(ctx, &open.history, q.headSeq()); err != nil {
			return err
		}
		q.view(func(b *broker) { open.caught = sub.caughtUp(b) })
		if err := sub.forward(ctx, &open.history, open.caught.Seq); err != nil {
			return err
		}
	}
	return sub.s.tell(ctx, sub.ch, &open.caught)
}

// portion is what a reader needs while it reads, and gives back when it has
// nothing to read.
type portion struct {
	page Page
	out  parts
}

var portions = sync.Pool{New: func() any {
	return &portion{page: Page{MaxRecords: pageRecords, MaxBytes: pageBytes}}
}}

func (p *portion) free() {
	clear(p.page.Records)
	p.page.Records = p.page.Records[:0]
	p.out.reset()
	if cap(p.out.copied) > 4*pageBytes {
		p.out.copied = nil
	}
	portions.Put(p)
}

// forward sends what the selection has up to a seq.
func (sub *subscription) forward(ctx context.Context, sel *Selection, upTo protocol.Seq) error {
	if err := sub.recheck(sel); err != nil {
		return err
	}
	if sub.position >= upTo {
		return nil
	}
	p := portions.Get().(*portion)
	defer p.free()
	for sub.position < upTo {
		if err := sub.s.hold(ctx, sub.s.r.hooks.Push); err != nil {
			return err
		}
		if err := sub.recheck(sel); err != nil {
			return err
		}
		if err := sub.read(sel, upTo, p); err != nil {
			return err
		}
		if len(p.out.list) > 0 {
			if err := sub.s.sendParts(ctx, sub.ch, p.out.list); err != nil {
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
	if err := sub.readLog(sel, upTo, &p.page); err != nil {
		sub.s.r.lines.warn("log not read", "pattern", sub.pattern, "behind", sub.position, "error", err)
		return err
	}
	p.out.reset()
	if seen := max(sub.position, sub.floor); p.page.Evicted > seen && !sel.LastPerTopic {
		p.out.copied = protocol.AppendFrame(p.out.copied, &protocol.Gap{From: seen + 1, To: p.page.Evicted})
		p.out.copy(0)
		sub.floor = p.page.Evicted
	}
	node := sub.s.caller.Node
	for _, r := range p.page.Records {
		p.out.add(r, r.Sender == node)
	}
	sub.position = max(p.page.Scanned, sub.position)
	return nil
}

// readLog reads what the node may read.
func (sub *subscription) readLog(sel *Selection, upTo protocol.Seq, page *Page) error {
	l := sub.s.r.log
	if sub.rights == nil {
		return l.Read(sel, sub.position, upTo, page)
	}
	sub.rights.begin()
	for {
		if err := l.Read(sel, sub.position, upTo, page); err != nil {
			return err
		}
		// What was evicted may be of topics that turn out to be none of this node's.
		if denied := sub.rights.learn(); !denied || page.Evicted == 0 {
			page.Records = sub.rights.keep(page.Records)
			return nil
		}
	}
}

func (sub *subscription) delivered(records []*Record) {
	head := sub.s.r.seq.headSeq()
	sub.s.r.observer.delivered(records, uint64(head-min(head, sub.position)))
	if sub.s.r.hooks.Event == nil {
		return
	}
	for _, r := range records {
		sub.s.event(Event{Kind: EventDelivered, Topic: r.Topic, Seq: r.Seq})
	}
}
