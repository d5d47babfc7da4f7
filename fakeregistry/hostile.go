package fakeregistry

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// Heard is a frame that a client sent to a hostile registry.
type Heard struct {
	Node    string // as faults name it
	Session int    // counted from 1 on
	Channel int    // of the session, counted from 1 on; hello comes on the first
	Nth     int    // frame of the channel, counted from 1 on
	Frame   protocol.Frame
}

// Answer is what a hostile registry does about a frame.
type Answer struct {
	Bytes []byte        // to send on the channel as they are; see Framed
	End   bool          // then end the channel, cleanly
	Reset protocol.Code // or break it off, when not 0
	Close protocol.Code // or end the session, when not 0
}

// Framed puts the length before each body, as the protocol wants it.
//
//	fakeregistry.Framed([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
func Framed(bodies ...[]byte) []byte {
	var b []byte
	for _, body := range bodies {
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
	}
	return b
}

// Frames is Framed for frames.
func Frames(frames ...protocol.Frame) []byte {
	var b []byte
	for _, f := range frames {
		b = protocol.AppendFrame(b, f)
	}
	return b
}

// Impostor says how a hostile registry behaves.
type Impostor struct {
	// Answer is called for each frame, from several goroutines. Where it has
	// nothing to say about a hello, the client is welcomed, so that later channels
	// can be played with. Nil is one that welcomes and says no more.
	Answer func(Heard) Answer

	// Channels is how many a client may have open at once, the first one
	// included; 0 is the usual limit. Its further ones wait.
	Channels int
}

// Hostile stops the registry as Stop does and puts another in its place that has
// its key and speaks as it is told. Start brings the real one back.
func (r *Registry) Hostile(i Impostor) error {
	r.stop("stop")
	if i.Answer == nil {
		i.Answer = func(Heard) Answer { return Answer{} }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.up != nil {
		return r.failed(errors.New("hostile: closed, or started meanwhile"))
	}
	h := &hostile{registry: r, log: r.log, Impostor: i, ended: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.socket = r.wires.listen(place{node: Host})
	var err error
	h.listener, err = link.Listen(h.socket, link.Config{Identity: r.key(), Successions: r.chain, Limits: link.Limits{Channels: i.Channels}})
	if err != nil {
		_ = h.socket.Close()
		return r.failed(err)
	}
	r.events.add(Event{Kind: EventRun, Text: "hostile"})
	h.work.Go(h.accept)
	r.up, r.ending = h, nil
	return nil
}

type hostile struct {
	Impostor
	registry *Registry
	log      *faultyLog
	socket   net.PacketConn
	listener *link.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	ended    chan struct{}
}

func (h *hostile) crash() {
	go h.close()
}

func (h *hostile) close() {
	h.cancel()
	_ = h.listener.Close()
	h.work.Wait()
	_ = h.socket.Close()
	close(h.ended)
}

func (h *hostile) done() <-chan struct{} { return h.ended }

func (h *hostile) accept() {
	for n := 1; ; n++ {
		s, err := h.listener.Accept(h.ctx)
		if err != nil {
			return
		}
		h.work.Go(func() { h.session(s, n) })
	}
}

func (h *hostile) session(s *link.Session, n int) {
	defer s.Close(protocol.ErrInternal, "")
	id := protocol.NodeIDOf(s.PeerKey())
	h.registry.people.meet(id, s.RemoteAddr(), "")
	who := h.registry.people.find(id).first()
	h.registry.events.add(Event{Kind: EventConnect, Node: who, Text: "hostile"})
	for c := 1; ; c++ {
		ch, err := s.Accept(h.ctx)
		if err != nil {
			return
		}
		h.work.Go(func() { h.channel(s, ch, Heard{Node: who, Session: n, Channel: c}) })
	}
}

func (h *hostile) channel(s *link.Session, ch *link.Channel, heard Heard) {
	for {
		f, err := next(ch)
		if err != nil {
			return
		}
		heard.Nth++
		heard.Frame = f
		a := h.Answer(heard)
		if _, first := f.(*protocol.Hello); first && a.empty() {
			a.Bytes = Frames(h.welcome(s))
		}
		if len(a.Bytes) > 0 {
			_ = ch.SendContext(h.ctx, a.Bytes)
		}
		switch {
		case a.Close != 0:
			_ = ch.Flush(h.ctx)
			_ = s.Close(a.Close, "")
			return
		case a.Reset != 0:
			ch.Reset(a.Reset)
			return
		case a.End:
			_ = ch.CloseSend()
		}
	}
}

func (a *Answer) empty() bool {
	return len(a.Bytes) == 0 && !a.End && a.Reset == 0 && a.Close == 0
}

func (h *hostile) welcome(s *link.Session) *protocol.Welcome {
	head, _ := h.log.Head()
	return &protocol.Welcome{
		Version: protocol.Version,
		Epoch:   h.log.Epoch(),
		Node:    protocol.NodeIDOf(s.PeerKey()),
		Head:    head,
		Now:     protocol.TimeOf(time.Now()),
		Limits:  protocol.Limits{Payload: 1 << 20, InFlight: 1024, Subscriptions: 1000, Page: 256 << 10},
	}
}
