package link

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
)

// Listener accepts sessions on one socket.
type Listener struct {
	c    Config
	tr   transport
	quic *quic.Listener

	mu       sync.Mutex
	closing  bool
	sessions map[*Session]struct{}

	closed chan struct{}
}

// Listen takes sessions from pc, which stays the caller's.
func Listen(pc net.PacketConn, c Config) (*Listener, error) { return listen(pc, false, c) }

// ListenUDP takes sessions at a host:port; port 0 is any free one.
func ListenUDP(addr string, c Config) (*Listener, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, caused(protocol.ErrInvalid, err, "listen: %v", err)
	}
	pc, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, caused(protocol.ErrNotConnected, err, "%v", err)
	}
	l, err := listen(pc, true, c)
	if err != nil {
		pc.Close()
	}
	return l, err
}

func listen(pc net.PacketConn, own bool, c Config) (*Listener, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkSuccessions(c.Identity.Public(), c.Successions); err != nil {
		return nil, err
	}
	return newListener(pc, own, c)
}

func newListener(pc net.PacketConn, own bool, c Config) (*Listener, error) {
	conf, err := serverTLS(c)
	if err != nil {
		return nil, err
	}
	tr := newTransport(pc, own)
	tr.serve(c)
	ln, err := tr.Listen(conf, listenConfig(c.Limits))
	if err != nil {
		return nil, caused(protocol.ErrNotConnected, err, "listen: %v", err)
	}
	warnBuffer(pc, c.Logger)
	return &Listener{
		c:        c,
		tr:       tr,
		quic:     ln,
		sessions: make(map[*Session]struct{}),
		closed:   make(chan struct{}),
	}, nil
}

// Addr is the address of the socket.
func (l *Listener) Addr() net.Addr { return l.quic.Addr() }

// Accept waits for the next session whose client has proved its key. Few wait
// in line for it: accept in a loop that does nothing else. After Close the
// error is ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Session, error) {
	conn, err := l.quic.Accept(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case errors.Is(err, quic.ErrServerClosed):
		return nil, errClosed("listener closed")
	case err != nil:
		return nil, sessionError(err)
	}
	s := newSession(conn, l.c.Limits, func() {})
	if !l.track(s) {
		s.Close(protocol.ErrDraining, "")
		return nil, errClosed("listener closed")
	}
	return s, nil
}

// track remembers a session for Close, as long as it lives.
func (l *Listener) track(s *Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	l.sessions[s] = struct{}{}
	context.AfterFunc(s.conn.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sessions, s)
	})
	return true
}

// Close ends all sessions with ErrDraining and gives the socket back, closing
// it if ListenUDP made it. It returns when nothing is left; it may be called
// again. To drain, close the sessions first. The error is always nil.
func (l *Listener) Close() error {
	open, first := l.end()
	if !first {
		<-l.closed
		return nil
	}
	defer close(l.closed)
	l.quic.Close()
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(func() { s.Close(protocol.ErrDraining, "") })
	}
	for {
		conn, err := l.quic.Accept(context.Background()) // those still in line
		if err != nil {
			break
		}
		wg.Go(func() { conn.CloseWithError(quic.ApplicationErrorCode(protocol.ErrDraining), "") })
	}
	wg.Wait()
	l.tr.close()
	return nil
}

// end marks the listener closed and gives its sessions, once.
func (l *Listener) end() (open []*Session, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, false
	}
	l.closing = true
	for s := range l.sessions {
		open = append(open, s)
	}
	return open, true
}
