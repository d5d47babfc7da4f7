package link

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/quic-go/quic-go"
)

// stagger is how long an address has for itself before the next one is tried
// besides it (RFC 8305), so that one that is mute costs little.
const stagger = 300 * time.Millisecond

// Dial makes a session with the registry at addr, a host:port. The name is
// resolved at each call; of several addresses each is tried, in order, and the
// first to answer wins. ctx bounds the handshake only.
//
// Errors: ErrNotConnected for a name or an address that leads nowhere, ErrTimeout
// if nobody answers, ErrWrongKey if the key is not the pinned one, ErrVersion if
// the other side speaks something else, ErrInvalid, and that of ctx.
func Dial(ctx context.Context, addr string, c Config) (*Session, error) {
	d, err := newDialer(addr, c)
	if err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	conn, err := d.race(ctx, addrs)
	if err != nil {
		d.tr.close()
		return nil, err
	}
	warnBuffer(d.tr.Conn, d.c.Logger)
	s := newSession(conn, d.c.Limits, d.tr.close)
	s.own = d.c.PacketConn == nil
	if err := d.pin(ctx, s.PeerKey()); err != nil {
		s.Close(protocol.ErrWrongKey, "")
		return nil, err
	}
	return s, nil
}

// dialer is one Dial.
type dialer struct {
	c      Config
	host   string
	pinned string // fingerprint; empty accepts any
	fixed  bool   // pinned was given, not remembered
	tls    *tls.Config
	quic   *quic.Config
	tr     transport
}

func newDialer(addr string, c Config) (*dialer, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &dialer{c: c, host: strings.ToLower(c.Host), quic: quicConfig(c.Limits)}
	if d.host == "" {
		d.host = strings.ToLower(addr)
	}
	if err := d.lookup(); err != nil {
		return nil, err
	}
	if d.tls, err = clientTLS(c, d.check); err != nil {
		return nil, err
	}
	// The client asks whether the other side is there, not the registry: only
	// from inside does it keep a NAT open, and a registry has more peers.
	d.quic.KeepAlivePeriod = c.Limits.KeepAlive
	return d, nil
}

// lookup finds the pin before the dial, so that a handshake waits for no disk.
func (d *dialer) lookup() (err error) {
	if d.c.Pinned != "" {
		d.fixed = true
		d.pinned, err = ParseFingerprint(d.c.Pinned)
		return err
	}
	if d.c.Pins == nil {
		return nil
	}
	d.pinned, _, err = d.c.Pins.Lookup(d.host)
	return err
}

// check decides about the key that a registry proves.
func (d *dialer) check(key ed25519.PublicKey, chain []protocol.Succession) error {
	if d.pinned == "" || d.pinned == Fingerprint(key) {
		return nil
	}
	for _, s := range chain {
		if Fingerprint(s.Old) == d.pinned && protocol.Follows(s.Old, key, chain) {
			return nil
		}
	}
	return wrongKey(d.host, key, d.pinned)
}

// pin remembers the key of a registry that passed check.
func (d *dialer) pin(ctx context.Context, key ed25519.PublicKey) error {
	switch {
	case d.c.Pins == nil, d.pinned == Fingerprint(key) && !d.fixed:
		return nil
	case d.pinned == "":
		return d.c.Pins.Remember(ctx, d.host, key)
	case d.fixed:
		d.pinFixed(ctx, key)
		return nil
	}
	// Not worth failing for: the chain will lead from the old pin next time too.
	if err := d.c.Pins.Follow(ctx, d.host, d.pinned, key); err != nil {
		d.c.Logger.Warn("new key of registry not remembered", "host", d.host, "error", err)
		return nil
	}
	d.c.Logger.Info("registry has a new key, signed by the old one", "host", d.host, "key", Fingerprint(key))
	return nil
}

// pinFixed remembers a key that was given, unless the host has another one:
// that is for the user to forget.
func (d *dialer) pinFixed(ctx context.Context, key ed25519.PublicKey) {
	have, ok, err := d.c.Pins.Lookup(d.host)
	if err == nil && ok && have == Fingerprint(key) {
		return
	}
	if err == nil && !ok {
		err = d.c.Pins.Remember(ctx, d.host, key)
	}
	if err != nil {
		d.c.Logger.Warn("key of registry not remembered", "host", d.host, "error", err)
	}
}

func (d *dialer) resolve(ctx context.Context, addr string) ([]*net.UDPAddr, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, caused(protocol.ErrInvalid, err, "address %q: %v", addr, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, caused(protocol.ErrInvalid, err, "address %q: %v", addr, err)
	}
	ips, err := d.lookupHost(ctx, host)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, caused(protocol.ErrNotConnected, err, "%v", err)
	}
	addrs := make([]*net.UDPAddr, 0, len(ips))
	for _, ip := range ips {
		ip16 := ip.As16() // the form that net.ResolveUDPAddr gives
		addrs = append(addrs, &net.UDPAddr{IP: ip16[:], Port: port, Zone: ip.Zone()})
	}
	return addrs, nil
}

func (d *dialer) lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if d.c.Resolve != nil {
		return d.c.Resolve(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// open makes the transport, with a socket for both IP versions unless one was given.
func (d *dialer) open() error {
	switch pc := d.c.PacketConn.(type) {
	case nil:
	case *Socket:
		d.tr = pc.take()
		return nil
	default:
		d.tr = newTransport(pc, false)
		return nil
	}
	pc, err := net.ListenUDP("udp", nil)
	if err != nil {
		return caused(protocol.ErrNotConnected, err, "%v", err)
	}
	d.tr = newTransport(pc, true)
	return nil
}

// race tries each address after the one before has failed or had its time, and
// returns the first connection. It returns when all attempts have ended.
func (d *dialer) race(ctx context.Context, addrs []*net.UDPAddr) (*quic.Conn, error) {
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	r := race{d: d, waiting: addrs, results: make(chan attempt), next: time.NewTimer(stagger)}
	defer r.next.Stop()
	for {
		more := r.winner == nil && len(r.waiting) > 0 && ctx.Err() == nil
		if r.running == 0 && !more {
			break
		}
		if r.running == 0 {
			r.start(attempts)
			continue
		}
		select {
		case a := <-r.results:
			r.ended(a, cancel)
		case <-r.next.C:
			if more {
				r.start(attempts)
			}
		}
	}
	switch {
	case r.winner != nil:
		return r.winner, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(r.failed) == 0:
		return nil, protocol.Errorf(protocol.ErrNotConnected, "%s has no address", d.host)
	}
	return nil, worst(r.failed)
}

// race is a dial of several addresses.
type race struct {
	d       *dialer
	waiting []*net.UDPAddr
	running int
	results chan attempt
	next    *time.Timer // when the next address may start
	winner  *quic.Conn
	failed  []error
}

// attempt is how one address went.
type attempt struct {
	conn *quic.Conn
	err  error
}

func (r *race) start(ctx context.Context) {
	addr := r.waiting[0]
	r.waiting = r.waiting[1:]
	r.running++
	r.next.Reset(stagger)
	go func() { r.results <- r.d.attempt(ctx, addr) }()
}

func (r *race) ended(a attempt, stopOthers func()) {
	r.running--
	switch {
	case a.err != nil:
		r.failed = append(r.failed, a.err)
	case r.winner == nil:
		r.winner = a.conn
		stopOthers()
	default:
		a.conn.CloseWithError(0, "")
	}
}

// worst is the error to report of several: a key or a version that is wrong says more
// than silence, and the first address more than the others.
func worst(errs []error) error {
	for _, err := range errs {
		if errors.Is(err, protocol.ErrWrongKey) || errors.Is(err, protocol.ErrVersion) {
			return err
		}
	}
	return errs[0]
}

func (d *dialer) attempt(ctx context.Context, addr *net.UDPAddr) attempt {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.c.PacketConn == nil {
		stop, err := watchRefusal(addr, cancel)
		if err != nil {
			return attempt{err: caused(protocol.ErrNotConnected, err, "%v", err)}
		}
		defer stop()
	}
	conn, err := d.tr.Dial(ctx, addr, d.tlsFor(addr), d.quic)
	if err != nil {
		return attempt{err: d.dialError(addr, err)}
	}
	return attempt{conn: conn}
}

func (d *dialer) dialError(addr *net.UDPAddr, err error) error {
	var idle *quic.IdleTimeoutError
	var handshake *quic.HandshakeTimeoutError
	if errors.As(err, &idle) || errors.As(err, &handshake) {
		return protocol.Errorf(protocol.ErrTimeout, "no answer from %v within %v", addr, d.c.Limits.Handshake)
	}
	var own *quic.TransportError
	if errors.As(err, &own) && own.ErrorCode == quic.InternalError && !own.Remote {
		return d.writeError(addr, own)
	}
	return unlessClosed(sessionError(err))
}

// unlessClosed is err, where it does not come from a socket that was closed: to
// say so is for a session that this side closed.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return protocol.Errorf(protocol.ErrNotConnected, "the socket is closed")
	}
	return err
}

// writeError is the error of a dial whose first packet could not be written. The
// carrier calls that its own internal error and keeps only the text, so the socket
// is asked again, by a byte that a registry drops.
func (d *dialer) writeError(addr *net.UDPAddr, err *quic.TransportError) error {
	if _, cause := d.tr.Conn.WriteTo([]byte{0}, addr); cause != nil {
		return unlessClosed(caused(protocol.ErrNotConnected, cause, "%v", cause))
	}
	return protocol.Errorf(protocol.ErrNotConnected, "%s", cleanText(err.ErrorMessage))
}

// tlsFor adds the tickets for one address.
func (d *dialer) tlsFor(addr *net.UDPAddr) *tls.Config {
	if d.c.Tickets == nil {
		return d.tls
	}
	conf := d.tls.Clone()
	own := d.c.Identity.Public()
	var proved atomic.Value
	verify := conf.VerifyConnection
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return err
		}
		proved.Store(Fingerprint(provenKey(state)))
		return nil
	}
	conf.ClientSessionCache = ticketCache{
		tickets: d.c.Tickets,
		get:     ticketKey(own, d.pinned, addr.String()),
		put: func() string {
			if d.pinned == "" && d.c.Pins == nil {
				return ticketKey(own, "", addr.String()) // the next dial will not know the key either
			}
			return ticketKey(own, proved.Load().(string), addr.String())
		},
	}
	return conf
}
