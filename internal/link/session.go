package link

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
)

// Config is what a side of a session needs. Only Identity is required.
type Config struct {
	// Identity is the key this side proves.
	Identity Identity

	// TicketKey encrypts what clients keep to resume sessions. Listeners with one
	// identity that have it in common resume each other's sessions; zero is a key of
	// the listener's own, changed now and then. Listener only.
	TicketKey [32]byte

	// PacketConn is the socket to use. A *net.UDPConn is used as it is. Nil is
	// a socket of the session's own (client only). One socket serves one
	// listener or one session at a time, a *Socket several sessions; it is never
	// closed by this package.
	PacketConn net.PacketConn

	// Host is the name under which the registry's key is pinned; the address
	// dialled where empty. Client only.
	Host string

	// Pins remembers the keys of registries. Where it is nil and Pinned is
	// empty, any key is accepted and the caller must look at PeerKey. Client only.
	Pins Pins

	// Pinned is the fingerprint the registry's key must have, or have had
	// before its successions. It beats Pins, which then only remember a key for
	// a host they do not know. Client only.
	Pinned string

	// Tickets keeps what is needed to resume sessions; nil is none. Client only.
	Tickets Tickets

	// Resolve finds the addresses of a host name; nil is the system's resolver.
	// Client only.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Successions is the history of this registry's key, shown to clients that
	// pinned an older one. Server only.
	Successions []protocol.Succession

	Limits Limits
	Logger *slog.Logger // nil is silent
}

// Limits bound a session. Zero fields stand for the defaults.
type Limits struct {
	// Channels is how many channels the peer may have open at once, 256 by
	// default; below 0 it may open none. Its further Opens wait.
	Channels int

	// Window is how many bytes a channel may receive ahead of its reader, 1 MiB
	// by default; a new channel begins with half of it.
	Window int

	// Total is how many bytes all channels together may receive ahead of their
	// readers, Channels × Window by default, or 256 × Window where the peer opens
	// none. At worst a peer makes this side hold so many, also before it has
	// accepted a channel, but never more than Window for each open one. Where it is
	// less than that, readers that stall can use it up and stall the others.
	Total int

	// Frame is the largest frame a channel receives unless SetMaxFrame says
	// otherwise: 1 MiB and 64 KiB by default.
	Frame int

	// Queue is how many bytes a channel holds for sending before Send waits,
	// 256 KiB by default.
	Queue int

	// Handshake is how long a dialled peer may be mute, 5 s by default.
	Handshake time.Duration

	// KeepAlive is after how long without a packet the client asks whether the
	// peer is there, 5 s by default; Idle is after how long without any the
	// session is lost, 15 s by default. The lower Idle of the two sides counts.
	KeepAlive, Idle time.Duration

	// Unproven is how many handshakes a second a listener takes from addresses
	// that have not shown that they receive, 256 by default. Above it, clients
	// pay a round trip more, and floods from forged addresses pay in vain.
	Unproven int

	// Source is how many handshakes a second a listener takes from one address (of
	// IPv6, one /64), and five times as many at once, 200 by default. Above it,
	// clients pay a round trip more, to show that the address is theirs, and above
	// twice it they are refused with ErrNotConnected. Loopback is not limited.
	Source int
}

func (l Limits) withDefaults() Limits {
	fill := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	fillTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.Channels == 0 {
		l.Channels = 256
	}
	fill(&l.Window, 1<<20)
	channels := l.Channels
	fill(&channels, 256)
	fill(&l.Total, channels*l.Window)
	fill(&l.Frame, 1<<20+64<<10)
	fill(&l.Queue, 256<<10)
	fill(&l.Unproven, 256)
	fill(&l.Source, 200)
	fillTime(&l.Handshake, 5*time.Second)
	fillTime(&l.KeepAlive, 5*time.Second)
	fillTime(&l.Idle, 15*time.Second)
	return l
}

// withDefaults checks what both sides need and fills the rest.
func (c Config) withDefaults() (Config, error) {
	if len(c.Identity.Key) != ed25519.PrivateKeySize {
		return c, protocol.Errorf(protocol.ErrInvalid, "no identity key")
	}
	c.Limits = c.Limits.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Session is a connection whose two ends have proved their keys. Its methods
// may be called from any goroutine.
type Session struct {
	conn    *quic.Conn
	peer    ed25519.PublicKey
	resumed bool
	own     bool // the socket is the session's own
	limits  Limits
	release func() // gives back the transport and the socket; after the last use

	accepting chan struct{} // one token: of several accepts that wait the carrier may miss to wake one

	gate    sync.RWMutex
	closing bool // under gate: no writer starts any more
	writers sync.WaitGroup

	closed   chan struct{} // closed when Close is done
	closeOne atomic.Bool
}

func newSession(conn *quic.Conn, limits Limits, release func()) *Session {
	state := conn.ConnectionState().TLS
	return &Session{
		conn:      conn,
		peer:      provenKey(state),
		resumed:   state.DidResume,
		limits:    limits,
		release:   release,
		accepting: make(chan struct{}, 1),
		closed:    make(chan struct{}),
	}
}

// Open makes a channel. The peer sees it with the first frame sent on it. Where
// the peer allows no more channels, Open waits for one to end.
func (s *Session) Open(ctx context.Context) (*Channel, error) {
	str, err := s.conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, s.callError(ctx, err)
	}
	return newChannel(s, str), nil
}

// Accept waits for the next channel that the peer opened.
func (s *Session) Accept(ctx context.Context) (*Channel, error) {
	select {
	case s.accepting <- struct{}{}:
		defer func() { <-s.accepting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.Done():
		return nil, s.Err()
	}
	str, err := s.conn.AcceptStream(ctx)
	if err != nil {
		return nil, s.callError(ctx, err)
	}
	return newChannel(s, str), nil
}

// PeerKey is the key that the peer proved.
func (s *Session) PeerKey() ed25519.PublicKey { return s.peer }

// RemoteAddr is where the peer is now; it may move.
func (s *Session) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// LocalAddr is the address of the socket.
func (s *Session) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// Resumed reports whether the handshake used a ticket of an earlier session.
// The peer then proved that it is the one of that session, by the secret the two
// share since, rather than its key once more.
func (s *Session) Resumed() bool { return s.resumed }

// RTT is the smoothed round-trip time.
func (s *Session) RTT() time.Duration { return s.conn.ConnectionStats().SmoothedRTT }

// Traffic tells how many packets have come from the peer and gone to it. Each that
// asks for it is acknowledged by the peer's carrier, whatever the peer itself does.
func (s *Session) Traffic() (received, sent uint64) {
	stats := s.conn.ConnectionStats()
	return stats.PacketsReceived, stats.PacketsSent
}

// Patience is how long an acknowledgement of the peer's carrier is waited for
// before it is asked for again (RFC 9002, section 6.2.1).
func (s *Session) Patience() time.Duration {
	const delay = 25 * time.Millisecond // that the peer may take
	stats := s.conn.ConnectionStats()
	return stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + delay
}

// Done is closed when the session has ended, whoever ended it. Close must still
// be called.
func (s *Session) Done() <-chan struct{} { return s.conn.Context().Done() }

// Err is nil before Done and then tells why the session ended: the peer's code
// and text where it said one.
func (s *Session) Err() error {
	if s.conn.Context().Err() == nil {
		return nil
	}
	return sessionError(context.Cause(s.conn.Context()))
}

// Close ends the session and all its channels, telling the peer code and
// detail, and returns when nothing of it is left. Frames that were sent just
// before may be lost: wait for the peer's answer to them first. Later calls
// wait for the first and change nothing. The error is always nil.
func (s *Session) Close(code protocol.Code, detail string) error {
	if !s.closeOne.CompareAndSwap(false, true) {
		<-s.closed
		return nil
	}
	defer close(s.closed)
	s.gate.Lock()
	s.closing = true
	s.gate.Unlock()
	s.conn.CloseWithError(quic.ApplicationErrorCode(code), cleanText(detail))
	s.writers.Wait()
	s.release()
	return nil
}

// startWriter runs write in a goroutine that Close waits for. It reports false
// when the session is closing.
func (s *Session) startWriter(write func()) bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closing {
		return false
	}
	s.writers.Add(1)
	go write()
	return true
}

// callError is the error of a call that ended with err: the context's where
// that ended it, else the session's.
func (s *Session) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil && s.conn.Context().Err() == nil {
		return ctx.Err()
	}
	return sessionError(err)
}
