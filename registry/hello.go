package registry

import (
	"context"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// hello is the beginning of a session, up to Welcome. On an error before
// admission it has taken nothing that its end must give back.
func (s *session) hello() error {
	f, err := s.firstFrame()
	if err != nil {
		return err
	}
	hello, ok := f.(*protocol.Hello)
	if !ok {
		return protocol.Errorf(protocol.ErrMalformed, "the session begins with a frame of type %d", f.Type())
	}
	version, refused := s.screen(hello)
	if refused == nil {
		refused = s.admit(hello)
	}
	if refused != nil {
		ctx, cancel := context.WithTimeout(s.ctx, farewell)
		defer cancel()
		s.farewell(ctx, refused)
		return refused
	}
	s.admitted.Store(true)
	s.event(Event{Kind: EventSessionOpened})
	s.control.SetMaxFrame(s.r.maxFrame())
	return s.tell(s.ctx, s.control, s.r.welcome(s, version))
}

func (s *session) firstFrame() (protocol.Frame, error) {
	deadline := time.Now().Add(firstReply)
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	ch, err := s.link.Accept(ctx)
	switch {
	case err != nil && s.ctx.Err() != nil:
		return nil, context.Cause(s.ctx)
	case err != nil && ctx.Err() != nil:
		return nil, protocol.Errorf(protocol.ErrTimeout, "no hello within %v", firstReply)
	case err != nil:
		return nil, err
	}
	s.control = ch
	return s.first(ch, deadline)
}

// screen decides about a hello as far as it can without taking anything.
func (s *session) screen(f *protocol.Hello) (version uint64, refused *protocol.Error) {
	s.caller.Name, s.caller.Tags = f.Name, f.Tags
	if err := f.Check(); err != nil {
		return 0, refusal(err, protocol.ErrInvalid)
	}
	version, err := f.Choose()
	switch {
	case err != nil:
		return 0, refusal(err, protocol.ErrVersion)
	case s.r.draining.Load():
		return 0, drainRefusal()
	}
	if refused := s.before(OpConnect, ""); refused != nil {
		return 0, refused
	}
	return version, s.allow(Request{Right: RightAdmit, Token: f.Token})
}

// admit begins the session with all that its end takes back, or with nothing of
// it.
func (s *session) admit(f *protocol.Hello) *protocol.Error {
	old, refused := s.r.enter(s, f.Instance)
	if refused != nil {
		return refused
	}
	if old != nil {
		// What the client sent on its last session and gave up meanwhile must not
		// enter the log behind what it sends on this one.
		old.end(protocol.Errorf(protocol.ErrNotConnected, "a newer session of the same client took its place"))
		<-old.ended
	}
	refused = s.enrollByAll(s.applicant(f), func(b *broker, now protocol.Time, a *applicant) *protocol.Error {
		labels, fault := b.letIn(now, a)
		s.setLabels(labels)
		if fault == nil && s.r.seq.shared != nil && f.Instance != (protocol.Instance{}) {
			b.claim(s.claim.shared(), &s.over)
		}
		return fault
	})
	if refused != nil {
		s.r.exit(s)
	}
	return refused
}

// enrollByAll is enroll that knows all that is in a shared log before it keeps out
// a key: a token, or what an operator said, may come from another registry, which
// this one has not followed yet. Strangers cannot have it look each time.
func (s *session) enrollByAll(a *applicant, letIn func(*broker, protocol.Time, *applicant) *protocol.Error) *protocol.Error {
	refused := s.enroll(a, letIn)
	if s.r.seq.shared == nil || refused == nil || refused.Code != protocol.ErrNotAdmitted {
		return refused
	}
	if wait := s.r.look(); wait > 0 {
		return rateLimited("too many unknown keys ask", wait)
	}
	if fault := s.r.seq.latest(func(*broker) {}); fault != nil {
		return fault
	}
	return s.enroll(a, letIn)
}

const looksPerSecond = 20

// look takes one look at all that is in a shared log, or tells how long it has to
// wait.
func (r *Registry) look() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := r.looks.lack(time.Now(), 1)
	if wait == 0 {
		r.looks.take(1)
	}
	return wait
}

// enroll makes the node one of the registry's. The use of a join token has to be
// in the log; that a node is here need not.
func (s *session) enroll(a *applicant, letIn func(*broker, protocol.Time, *applicant) *protocol.Error) *protocol.Error {
	uses := false
	if a.brought {
		s.r.seq.view(func(b *broker) { uses = b.wouldUse(s.r.seq.registryTime(), a) })
	}
	change := func(b *broker, now protocol.Time) *protocol.Error { return letIn(b, now, a) }
	if uses {
		return s.r.seq.change(change)
	}
	return s.r.seq.note(change)
}

// maxTurnedAway is how many clients are told at a time when to come back of those
// for whom there is no session. Others learn no more than the code.
const maxTurnedAway = 256

// turnAway ends a session for which there is no room. When to come back stands in
// a frame only, so the client is given one where its hello is waited for.
func (s *session) turnAway(e *protocol.Error) {
	defer s.end(e)
	defer s.link.Close(e.Code, e.Detail)
	defer s.r.turnedAway.Add(-1)
	if s.r.turnedAway.Add(1) > maxTurnedAway {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, farewell)
	defer cancel()
	if ch, err := s.link.Accept(ctx); err == nil {
		s.control = ch
		s.farewell(ctx, e)
	}
}

// farewell tells a client why it is refused, and when to come back, and leaves it
// until ctx ends to read that.
func (s *session) farewell(ctx context.Context, e *protocol.Error) {
	if s.tell(ctx, s.control, failure(0, e)) != nil {
		return
	}
	s.control.CloseSend()
	select {
	case <-s.link.Done(): // it has read it
	case <-ctx.Done():
	}
}

// maxFrame is the largest frame that a client may send.
func (r *Registry) maxFrame() int { return r.limits.Payload + protocol.FrameOverhead }

func (r *Registry) welcome(s *session, version uint64) *protocol.Welcome {
	return &protocol.Welcome{
		Version: version,
		Epoch:   r.epoch,
		Node:    s.caller.Node,
		Head:    r.seq.headSeq(),
		Now:     r.seq.registryTime(),
		Limits: protocol.Limits{
			Payload:       uint64(r.limits.Payload),
			InFlight:      uint64(r.limits.InFlight),
			Subscriptions: uint64(r.limits.Subscriptions),
			Page:          uint64(r.limits.Page),
		},
		Software: r.o.Software,
	}
}
