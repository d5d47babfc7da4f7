package protocol

import "fmt"

// FrameType is the first element of a frame.
type FrameType uint64

// The frames. Numbers are never reused.
const (
	TypeHello     FrameType = 1
	TypeWelcome   FrameType = 2
	TypeDrain     FrameType = 3
	TypeFail      FrameType = 4
	TypeDone      FrameType = 5
	TypeSuccessor FrameType = 6

	TypeGetFence   FrameType = 8
	TypeFenceState FrameType = 9
	TypeSetFence   FrameType = 10

	TypeJoin       FrameType = 12
	TypeGetJoined  FrameType = 13
	TypeJoinedPage FrameType = 14

	TypeGetInbox   FrameType = 16
	TypeInboxPage  FrameType = 17
	TypeClearInbox FrameType = 18

	TypeGetInfo    FrameType = 20
	TypeInfoState  FrameType = 21
	TypeGetNodes   FrameType = 22
	TypeNodesPage  FrameType = 23
	TypeGetTopics  FrameType = 24
	TypeTopicsPage FrameType = 25

	TypeOpenLane FrameType = 32
	TypePublish  FrameType = 33
	TypeAcks     FrameType = 34
	TypeRefuse   FrameType = 35

	TypeSubscribe  FrameType = 48
	TypeSubscribed FrameType = 49
	TypeDeliver    FrameType = 50
	TypeCaughtUp   FrameType = 51
	TypeGap        FrameType = 52
)

// Frame is one message of the protocol between the two sides.
type Frame interface {
	// Type is the frame's number.
	Type() FrameType

	// Append appends the frame's one encoding, without the length before it.
	Append(b []byte) []byte
}

// parsers read the body of a frame that Validate has passed.
var parsers = map[FrameType]func(b []byte) (Frame, error){
	TypeHello:      parse(&helloSpec),
	TypeWelcome:    parse(&welcomeSpec),
	TypeDrain:      parse(&drainSpec),
	TypeFail:       parse(&failSpec),
	TypeDone:       parse(&doneSpec),
	TypeSuccessor:  parse(&successorSpec),
	TypeGetFence:   parse(&getFenceSpec),
	TypeFenceState: parse(&fenceStateSpec),
	TypeSetFence:   parse(&setFenceSpec),
	TypeJoin:       parse(&joinSpec),
	TypeGetJoined:  parse(&getJoinedSpec),
	TypeJoinedPage: parse(&joinedPageSpec),
	TypeGetInbox:   parse(&getInboxSpec),
	TypeInboxPage:  parse(&inboxPageSpec),
	TypeClearInbox: parse(&clearInboxSpec),
	TypeGetInfo:    parse(&getInfoSpec),
	TypeInfoState:  parse(&infoStateSpec),
	TypeGetNodes:   parse(&getNodesSpec),
	TypeNodesPage:  parse(&nodesPageSpec),
	TypeGetTopics:  parse(&getTopicsSpec),
	TypeTopicsPage: parse(&topicsPageSpec),
	TypeOpenLane:   parse(&openLaneSpec),
	TypeRefuse:     parse(&refuseSpec),
	TypeSubscribe:  parse(&subscribeSpec),
	TypeSubscribed: parse(&subscribedSpec),
	TypeCaughtUp:   parse(&caughtUpSpec),
	TypeGap:        parse(&gapSpec),

	TypePublish: func(b []byte) (Frame, error) { f := &Publish{}; return f, f.Parse(b) },
	TypeAcks:    func(b []byte) (Frame, error) { f := &Acks{}; return f, f.Parse(b) },
	TypeDeliver: func(b []byte) (Frame, error) { f := &Deliver{}; return f, f.Parse(b) },
}

// Parse reads the body of any frame. The error is ErrMalformed, also for a type
// it does not know. Publish and Deliver alias b; all others own what they hold.
func Parse(b []byte) (Frame, error) {
	t, err := PeekType(b)
	if err != nil {
		return nil, err
	}
	p, ok := parsers[t]
	if !ok {
		return nil, Errorf(ErrMalformed, "unknown frame type %d", t)
	}
	f, err := p(b)
	if err != nil {
		return nil, fmt.Errorf("parse frame of type %d: %w", t, err)
	}
	return f, nil
}

// PeekType reads the type of a frame without checking the rest of it.
func PeekType(b []byte) (FrameType, error) {
	if len(b) == 0 || !isArray(b[0]) {
		return 0, malformed("not an array", 0)
	}
	h, fault := readHead(b, 0)
	if fault != "" {
		return 0, malformed(fault, 0)
	}
	if h.value == 0 {
		return 0, malformed("empty array", 0)
	}
	t, fault := readHead(b, h.size)
	switch {
	case fault != "":
		return 0, malformed(fault, h.size)
	case t.kind != kindUint:
		return 0, malformed("type is not a number", h.size)
	}
	return FrameType(t.value), nil
}

// spec describes a frame of the cold path once for both directions: how many
// elements it has besides its type, how to write and how to read them.
type spec[T any] struct {
	typ   FrameType
	known int
	write func(e *encoder, f *T)
	read  func(d *decoder, f *T)
	extra func(f *T) *Extra
}

func (s *spec[T]) append(b []byte, f *T) []byte {
	e := newEncoder()
	x := *s.extra(f)
	e.array(1+s.known, x)
	e.uint(uint64(s.typ))
	s.write(e, f)
	e.extra(x)
	return append(b, e.buf.Bytes()...)
}

// framePointer ties a frame struct to its pointer's methods.
type framePointer[T any] interface {
	*T
	Frame
}

func parse[T any, P framePointer[T]](s *spec[T]) func(b []byte) (Frame, error) {
	return func(b []byte) (Frame, error) {
		if err := Validate(b); err != nil {
			return nil, err
		}
		f := new(T)
		d := newDecoder(b)
		n := d.array(1 + s.known)
		if t := d.uint(); d.err == nil && FrameType(t) != s.typ {
			d.fail("another frame type")
		}
		s.read(d, f)
		*s.extra(f) = d.extra(n)
		if d.err != nil {
			return nil, d.err
		}
		return P(f), nil
	}
}
