package registry

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	// firstReply is how long a client has for its hello, and for the first frame
	// of each channel.
	firstReply = 5 * time.Second

	// farewell is how long a refused client has to read why.
	farewell = time.Second
)

// session is one client's connection. Its goroutines are one for the control
// channel, one for each lane, and two for each subscription: all end with it.
type session struct {
	r       *Registry
	id      uint64
	link    *link.Session
	control *link.Channel
	ctx     context.Context // ends with the session; its cause tells why
	end     context.CancelCauseFunc
	work    sync.WaitGroup
	ended   chan struct{} // closed when nothing is left of it

	since   time.Time
	account *account

	// Complete from hello on:
	caller   Caller
	hash     protocol.KeyHash
	source   netip.Prefix // zero for this machine
	operator bool
	claim    claim

	labels atomic.Pointer[[]string]
	rules  atomic.Uint64 // rises when rights may have changed

	admitted      atomic.Bool
	over          atomic.Bool // see job.over
	subscriptions atomic.Int64

	mu    sync.Mutex
	lanes [2]*lane
}

func newSession(r *Registry, l *link.Session) *session {
	s := &session{
		r:      r,
		id:     r.numbered.Add(1),
		link:   l,
		ended:  make(chan struct{}),
		caller: Caller{Key: l.PeerKey(), Node: protocol.NodeIDOf(l.PeerKey()), Addr: l.RemoteAddr()},
		claim:  claim{key: string(l.PeerKey())},
		since:  time.Now(),
	}
	s.hash = protocol.KeyHashOf(l.PeerKey())
	s.caller.Hash = s.hash
	s.source = link.Source(l.RemoteAddr())
	_, s.operator = r.admission.operators[s.hash]
	s.ctx, s.end = context.WithCancelCause(r.ctx)
	return s
}

// run is the whole life of a session.
func (s *session) run() {
	defer close(s.ended)
	defer s.r.shut(s)
	err := s.hello()
	if err == nil {
		err = s.serve()
	}
	s.end(err)
	s.bye(err)
	s.work.Wait()
	s.left(err)
}

// bye tells the client why its session ends. That it ended the control channel is
// no fault, though not what was asked of it.
func (s *session) bye(err error) {
	if errors.Is(err, io.EOF) {
		s.link.Close(0, "")
		return
	}
	told := refusal(err, protocol.ErrInternal)
	s.link.Close(told.Code, told.Detail)
}

// left takes back what hello did.
func (s *session) left(err error) {
	if !s.admitted.Swap(false) {
		if errors.Is(err, link.ErrPeerClosed) {
			return // it wanted no session in the end: another address answered first
		}
		s.r.lines.warn("session refused", "node", s.caller.Node, "from", s.caller.Addr, "error", err)
		s.event(Event{Kind: EventSessionRefused, Op: OpConnect, Err: err})
		return
	}
	_ = s.r.seq.note(func(b *broker, now protocol.Time) *protocol.Error {
		b.leave(now, s.caller.Node)
		b.disclaim(s.claim.shared(), &s.over)
		return nil
	})
	s.r.exit(s)
	if protocol.CodeOf(err) == protocol.ErrMalformed {
		s.r.lines.warn("session ended", "node", s.caller.Node, "from", s.caller.Addr, "error", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, link.ErrPeerClosed) {
		err = nil
	}
	s.event(Event{Kind: EventSessionClosed, Err: err})
}

// serve accepts channels until the session ends, and tells why it did.
func (s *session) serve() error {
	s.work.Go(func() { s.end(s.serveControl()) })
	for {
		ch, err := s.link.Accept(s.ctx)
		switch {
		case err == nil:
			s.work.Go(func() { s.serveChannel(ch) })
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		default:
			return err
		}
	}
}

// serveChannel finds out what a channel is for, and serves it.
func (s *session) serveChannel(ch *link.Channel) {
	err := s.channel(ch)
	switch {
	case errors.Is(err, io.EOF):
		ch.CloseSend()
	case err != nil:
		ch.Reset(refusal(err, protocol.ErrInternal).Code)
	}
}

func (s *session) channel(ch *link.Channel) error {
	f, err := s.first(ch, time.Now().Add(firstReply))
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *protocol.OpenLane:
		return s.serveLane(ch, f)
	case *protocol.Subscribe:
		return s.serveSubscription(ch, f)
	}
	return protocol.Errorf(protocol.ErrMalformed, "a channel begins with a frame of type %d", f.Type())
}

// first is the first frame of a channel. It is small and does not take long.
func (s *session) first(ch *link.Channel, deadline time.Time) (protocol.Frame, error) {
	ch.SetMaxFrame(protocol.MaxFirstFrame)
	if err := ch.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	body, err := ch.Next()
	if err != nil {
		return nil, err
	}
	if err := ch.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return protocol.Parse(body)
}

// send queues frames. It waits while the client does not read, and ends with ctx.
func (s *session) send(ctx context.Context, ch *link.Channel, frames []byte) error {
	if err := s.hold(ctx, s.r.hooks.Mute); err != nil {
		return err
	}
	return ch.SendContext(ctx, frames)
}

// sendParts is send for frames in parts.
func (s *session) sendParts(ctx context.Context, ch *link.Channel, frames []link.Part) error {
	if err := s.hold(ctx, s.r.hooks.Mute); err != nil {
		return err
	}
	return ch.SendParts(ctx, frames)
}

// hold waits while a hook holds back the node's frames.
func (s *session) hold(ctx context.Context, back func(protocol.NodeID) <-chan struct{}) error {
	if back == nil {
		return nil
	}
	for free := back(s.caller.Node); free != nil; free = back(s.caller.Node) {
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tell queues one frame.
func (s *session) tell(ctx context.Context, ch *link.Channel, f protocol.Frame) error {
	return s.send(ctx, ch, protocol.AppendFrame(nil, f))
}

// endWith refuses what a channel was for: Fail is the last frame on it. The
// client has a moment to end its side too.
func (s *session) endWith(ch *link.Channel, e *protocol.Error) error {
	if err := s.tell(s.ctx, ch, failure(0, e)); err != nil {
		return err
	}
	ch.CloseSend()
	if err := ch.SetReadDeadline(time.Now().Add(firstReply)); err != nil {
		return err
	}
	for {
		if _, err := ch.Next(); err != nil {
			return err
		}
	}
}

func failure(id uint64, e *protocol.Error) *protocol.Fail {
	return &protocol.Fail{ID: id, Code: e.Code, RetryAfter: e.RetryAfter, Detail: e.Detail}
}

// before asks the hook.
func (s *session) before(op Op, topic string) *protocol.Error {
	return s.r.hooks.before(Operation{Op: op, Session: s.id, Node: s.caller.Node, Addr: s.caller.Addr, Topic: topic})
}

func (s *session) event(e Event) {
	bulk := e.Kind == EventAccepted || e.Kind == EventDelivered
	if s.r.hooks.Event == nil && (bulk || s.r.observer.Event == nil) {
		return
	}
	e.Session, e.Node, e.Addr = s.id, s.caller.Node, s.caller.Addr
	if !bulk {
		s.r.observer.event(e)
	}
	if s.r.hooks.Event != nil {
		s.r.hooks.Event(e)
	}
}

func (s *session) refused(op Op, topic string, err *protocol.Error) {
	s.event(Event{Kind: EventRefused, Op: op, Topic: topic, Err: err})
}

// drain sends the client away and waits until all it sent so far is answered, and
// a moment more for the answers to arrive.
func (s *session) drain(ctx context.Context) {
	if s.tell(ctx, s.control, &protocol.Drain{RetryAfter: comeBack, Reason: "the registry stops"}) != nil {
		return
	}
	s.mu.Lock()
	lanes := s.lanes
	s.mu.Unlock()
	for _, l := range lanes {
		if l != nil && l.settle(ctx) != nil {
			return
		}
	}
	moment := time.NewTimer(leaving + 4*s.link.RTT())
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-s.link.Done():
	case <-ctx.Done():
	}
}
