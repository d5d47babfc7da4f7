package simnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// readBuffer is how many packets a socket keeps for its reader. In full-sized
// packets it is a little less than the 7 MB that quic-go asks a real socket for.
const readBuffer = 4096

// conn is a socket. All its state is guarded by the lock of the network.
type conn struct {
	net  *Network
	node string
	at   netip.AddrPort
	addr *net.UDPAddr

	closed        bool
	unread        []datagram
	readable      sync.Cond
	readDeadline  time.Time
	writeDeadline time.Time
	expiry        *alarm // of readDeadline
}

type datagram struct {
	from *net.UDPAddr
	data []byte
}

func newConn(n *Network, node string, at netip.AddrPort) *conn {
	c := &conn{net: n, node: node, at: at, addr: net.UDPAddrFromAddrPort(at)}
	c.readable.L = &n.mu
	c.expiry = &alarm{ring: c.wakeReaders, pending: &n.pending}
	return c
}

func (c *conn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, nil, c.fail("read", net.ErrClosed)
		case expired(c.readDeadline):
			return 0, nil, c.fail("read", os.ErrDeadlineExceeded)
		case len(c.unread) > 0:
			d := c.unread[0]
			c.unread[0] = datagram{}
			c.unread = c.unread[1:]
			return copy(b, d.data), d.from, nil
		}
		c.readable.Wait()
	}
}

func (c *conn) WriteTo(b []byte, to net.Addr) (int, error) {
	addr, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, c.fail("write", fmt.Errorf("%v is no UDP address", to))
	}
	if err := c.net.send(c, addr.AddrPort(), slices.Clone(b)); err != nil {
		return 0, c.fail("write", err)
	}
	return len(b), nil
}

// Close makes current and later calls fail with net.ErrClosed. Packets not read
// are gone.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.shut()
	return nil
}

func (c *conn) LocalAddr() net.Addr { return c.addr }

func (c *conn) SetDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.expireReads(t)
	c.writeDeadline = t
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.expireReads(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.writeDeadline = t
	return nil
}

// SetReadBuffer does nothing; without it quic-go prints a warning to stderr.
func (c *conn) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing; see SetReadBuffer.
func (c *conn) SetWriteBuffer(int) error { return nil }

// writable is why a write fails, or nil.
func (c *conn) writable() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case expired(c.writeDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// receive reports whether there was room.
func (c *conn) receive(d datagram) bool {
	if len(c.unread) >= readBuffer {
		return false
	}
	c.unread = append(c.unread, d)
	c.readable.Signal()
	return true
}

func (c *conn) expireReads(t time.Time) {
	c.readDeadline = t
	c.expiry.stop()
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		c.expiry.set(wait)
	}
	c.readable.Broadcast()
}

// wakeReaders takes the lock so as not to call between a reader's look at the
// clock and its wait.
func (c *conn) wakeReaders() {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.readable.Broadcast()
}

func (c *conn) shut() {
	if c.closed {
		return
	}
	c.closed = true
	c.unread = nil
	c.expiry.stop()
	c.readable.Broadcast()
	delete(c.net.conns, c.at)
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.addr, Err: err}
}

func expired(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}
