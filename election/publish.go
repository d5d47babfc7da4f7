package election

import (
	"context"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// sending is a publish of the machine.
type sending struct {
	attempt uint64
	kind    Kind
	p       client.Publication
	ctx     context.Context // ends when it is given up
	cancel  context.CancelFunc
	resigns *Leadership // which is over with it

	pending client.Pending // guarded by Member.mu; nil until it is published
}

// maxSends is how many publishes wait while the connection takes none: more than
// a machine makes before it gives the first one up.
const maxSends = 64

// send publishes and does not wait, not even for a place: a full window of the
// connection must not keep the loop from seeing that its lease ends.
func (m *Member) send(a sendAction) {
	s := &sending{
		attempt: a.Attempt, kind: a.Message.Kind,
		p: client.Publication{
			Topic:   m.topic,
			Payload: a.Message.Append(nil, m.o.WallClock()),
			Slot:    a.Slot,
			Key:     key{m.instance, a.Attempt}.Append(nil),
			Urgent:  true,
		},
	}
	if a.Condition.Term != 0 {
		s.p.Conditions = []protocol.Condition{a.Condition}
	}
	if a.Message.Kind == KindResign {
		s.resigns, m.lost = m.lost, nil
	}
	s.ctx, s.cancel = context.WithTimeout(context.Background(), a.Until.Sub(m.now))
	select {
	case m.sends <- s:
		m.out = append(m.out, s)
	default:
		s.cancel()
		s.finish(protocol.ErrLimit)
		m.step(unanswered{s.attempt})
	}
}

// publish publishes in the order of the sends.
func (m *Member) publish() {
	for s := range m.sends {
		p := m.conn.Publish(s.ctx, s.p)
		m.mu.Lock()
		s.pending = p
		m.mu.Unlock()
		m.tasks.Go(func() {
			<-p.Done()
			m.post(func() {}) // loop looks for answers
		})
	}
}

// answers hands over each result that is there.
func (m *Member) answers() {
	for i := 0; i < len(m.out); {
		s := m.out[i]
		p := m.pendingOf(s)
		if p == nil {
			i++
			continue
		}
		ack, ok, err := p.Result()
		if !ok {
			i++
			continue
		}
		m.out = append(m.out[:i], m.out[i+1:]...)
		m.answered(s, ack, err)
	}
}

func (m *Member) pendingOf(s *sending) client.Pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.pending
}

func (m *Member) answered(s *sending, ack client.Ack, err error) {
	s.cancel()
	s.finish(err)
	if m.bestEffort {
		ack.Epoch = 0
	}
	e := answerOf(s.attempt, ack.Epoch, err)
	m.refusal(e, err)
	m.step(e)
	if r, ok := e.(refused); ok && hopeless(r.Code) && m.stands != nil {
		m.giveUp(err)
	}
}

// finish ends the leadership that s resigns.
func (s *sending) finish(err error) {
	if s.resigns != nil {
		s.resigns.finish(err)
	}
}

// resigns reports whether a resign waits for its answer.
func (m *Member) resigns() bool {
	for _, s := range m.out {
		if s.kind == KindResign {
			return true
		}
	}
	return false
}

// hopeless tells refusals that will be the same next time.
func hopeless(c protocol.Code) bool {
	switch c {
	case protocol.ErrDenied, protocol.ErrInvalid, protocol.ErrInvalidTopic, protocol.ErrTooLarge, protocol.ErrUnsupported:
		return true
	default:
		return false
	}
}
