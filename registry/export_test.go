package registry

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Frames is a session without a connection: it takes the bodies of frames as
// they would come in and does with them what a session does.
type Frames struct {
	s *session
	l *lane
	p *piece
}

// NewFrames makes a session of the node with this key.
func NewFrames(r *Registry, key ed25519.PublicKey) *Frames {
	s := &session{
		r: r, id: 1, account: newAccount(Limits{}),
		caller: Caller{Key: key, Node: protocol.NodeIDOf(key)},
	}
	s.ctx, s.end = context.WithCancelCause(r.ctx)
	return &Frames{s: s, l: &lane{s: s, done: make(chan *job, 1)}, p: &piece{}}
}

// Control is a frame on the control channel. What it gives is the answer.
func (f *Frames) Control(body []byte) (protocol.Frame, error) {
	frame, err := protocol.Parse(body)
	if err != nil {
		return nil, err
	}
	if hello, ok := frame.(*protocol.Hello); ok {
		_, refused := f.s.screen(hello)
		return failure(0, orNone(refused)), nil
	}
	op, id, topic := operation(frame)
	if op == 0 {
		return nil, protocol.ErrMalformed
	}
	answer, refused := f.s.answer(op, topic, frame)
	if refused != nil {
		return failure(id, refused), nil
	}
	return answer, nil
}

func orNone(e *protocol.Error) *protocol.Error {
	if e == nil {
		return &protocol.Error{}
	}
	return e
}

// Take is a frame on a lane, without the answer to it.
func (f *Frames) Take(body []byte) error {
	p := f.p
	p.items, p.chunk = p.items[:0], p.chunk[:0]
	if err := f.l.take(p, body, time.Now()); err != nil {
		return err
	}
	p.sender, p.done = f.s.caller.Node, f.l.done
	f.s.r.seq.start(&p.job)
	<-p.done
	return nil
}

// Publish is a frame on a lane.
func (f *Frames) Publish(body []byte) (protocol.Frame, error) {
	if err := f.Take(body); err != nil {
		return nil, err
	}
	if it := &f.p.items[0]; it.refuse != nil {
		return it.refuse, nil
	}
	return &protocol.Acks{List: []protocol.Ack{f.p.items[0].ack}}, nil
}

// Subscribe is the first frame of a subscription. What it gives are the frames
// of the first portion.
func (f *Frames) Subscribe(body []byte) ([]byte, error) {
	frame, err := protocol.Parse(body)
	if err != nil {
		return nil, err
	}
	request, ok := frame.(*protocol.Subscribe)
	if !ok {
		return nil, protocol.ErrMalformed
	}
	sub := &subscription{s: f.s, source: request.Source, pattern: request.Pattern, news: make(chan struct{}, 1)}
	var open opening
	if refused := sub.admit(request, &open); refused != nil {
		return protocol.AppendFrame(nil, failure(0, refused)), nil
	}
	defer f.s.leaveSubscription()
	if refused := sub.begin(request, &open); refused != nil {
		return protocol.AppendFrame(nil, failure(0, refused)), nil
	}
	defer f.s.r.index.drop(sub)
	p := portion{page: Page{MaxRecords: 16, MaxBytes: 1 << 16}}
	at := sub.position
	if err := sub.read(&open.history, open.caught.Seq, &p); err != nil {
		return nil, err
	}
	if sub.position < at {
		return nil, fmt.Errorf("position went back from %d to %d", at, sub.position)
	}
	var out []byte
	for _, part := range p.out.list {
		out = append(out, part.Bytes...)
	}
	return out, nil
}
