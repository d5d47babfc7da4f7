package link

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/pilotgo/pilotgo/protocol"
)

// ErrNobodyListens is behind the error of a Knock.
var ErrNobodyListens = errors.New("nobody listens there")

// Knock asks the system whether anybody listens at the peer's address. It waits
// until the system has learned that nobody does, which is ErrNotConnected, or until
// ctx ends, which is nil. To who is there it is a byte that means nothing.
//
// The answer is a hint: it comes from the peer's system, where that is up and
// nothing on the way keeps it back, and others could forge it. Where the socket was
// given, and on Windows, there is none.
func (s *Session) Knock(ctx context.Context) error {
	addr, ok := s.RemoteAddr().(*net.UDPAddr)
	if !s.own || !ok {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := watchRefusal(addr, cancel)
	if err != nil {
		return nil // no socket for it
	}
	defer stop()
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), syscall.ECONNREFUSED) {
		return caused(protocol.ErrNotConnected, ErrNobodyListens, "nobody listens at %v any more", addr)
	}
	return nil
}

// watchRefusal calls cancel when the system learns that nobody listens at addr,
// which it tells connected sockets only. The byte it sends is no QUIC packet; a
// registry drops it. stop waits for the end of it.
func watchRefusal(addr *net.UDPAddr, cancel context.CancelCauseFunc) (stop func(), err error) {
	pc, err := net.DialUDP("udp", nil, addr)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := pc.Write([]byte{0})
		if err == nil {
			_, err = pc.Read(make([]byte, 1))
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			cancel(caused(protocol.ErrNotConnected, err, "%v", err))
		}
	}()
	return func() {
		pc.Close()
		<-done
	}, nil
}
