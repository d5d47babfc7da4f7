package link

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// FakeStream is a carrier's stream whose writes wait while it is held.
type FakeStream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	free   chan struct{}

	mu     sync.Mutex
	Writes [][]byte
	Ended  bool
}

// NewFakeChannel is a channel on a FakeStream, without a session.
func NewFakeChannel(l Limits) (*Channel, *FakeStream) {
	s := &FakeStream{free: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	start := func(write func()) bool {
		wg.Add(1)
		go write()
		return true
	}
	return makeChannel(s, l.withDefaults(), start, wg.Done), s
}

// Free lets one write pass; Open lets all pass.
func (s *FakeStream) Free() { s.free <- struct{}{} }
func (s *FakeStream) Open() { close(s.free) }

func (s *FakeStream) Write(b []byte) (int, error) {
	select {
	case <-s.free:
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Writes = append(s.Writes, append([]byte(nil), b...))
	return len(b), nil
}

func (s *FakeStream) Read([]byte) (int, error) { return 0, io.EOF }

func (s *FakeStream) Close() error {
	s.Ended = true
	s.cancel(quic.ErrStreamClosed)
	return nil
}

func (s *FakeStream) CancelWrite(code quic.StreamErrorCode) {
	s.cancel(&quic.StreamError{ErrorCode: code})
}

// Stop is the peer's wish that no more be sent.
func (s *FakeStream) Stop(code uint64) {
	s.cancel(&quic.StreamError{ErrorCode: quic.StreamErrorCode(code), Remote: true})
}

func (s *FakeStream) CancelRead(quic.StreamErrorCode) {}
func (s *FakeStream) SetReadDeadline(time.Time) error { return nil }
func (s *FakeStream) SetPriority(int8, bool)          {}
func (s *FakeStream) Context() context.Context        { return s.ctx }

// DiscardStream takes everything and gives what Data has, over and over.
type DiscardStream struct {
	FakeStream
	Data []byte
	at   int
}

// NewDiscardChannel is a channel on a DiscardStream.
func NewDiscardChannel(data []byte) *Channel {
	s := &DiscardStream{Data: data}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	start := func(write func()) bool {
		go write()
		return true
	}
	return makeChannel(s, Limits{}.withDefaults(), start, func() {})
}

func (s *DiscardStream) Write(b []byte) (int, error) { return len(b), nil }

func (s *DiscardStream) Read(b []byte) (int, error) {
	n := copy(b, s.Data[s.at:])
	s.at = (s.at + n) % len(s.Data)
	return n, nil
}

// FillLimits is for the test that no limit lacks a default.
func FillLimits(l Limits) Limits { return l.withDefaults() }

// ParseKey, ParseTicket are the parsers of files.
var ParseKey = parseKey

func ParseTicket(b []byte) bool {
	_, err := parseTicket(b)
	return err == nil
}

// ListenUnchecked is Listen for a registry that lies about its past.
func ListenUnchecked(pc net.PacketConn, c Config) (*Listener, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return newListener(pc, false, c)
}

// SessionError, ChannelError map the carrier's errors.
var (
	SessionError = sessionError
	ChannelError = channelError
)

// WarnBuffer warns for the first time again.
func WarnBuffer(pc net.PacketConn, log *slog.Logger) {
	bufferWarned.Store(false)
	warnBuffer(pc, log)
	warnBuffer(pc, log)
}

// Lock is the lock of a file.
var Lock = lock

// ResetKey is the key of the resets that a registry sends from a socket.
func ResetKey(pc net.PacketConn, id Identity) [32]byte {
	tr := newTransport(pc, false)
	tr.serve(Config{Identity: id})
	return *tr.StatelessResetKey
}
