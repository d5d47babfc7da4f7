package client

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	randv2 "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// Client is a connection to a registry host that comes back by itself. Its
// methods may be called from any goroutine.
type Client struct {
	o     Options
	self  Self
	addrs []string
	link  link.Config

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	done     chan struct{}  // closed when run has ended
	watchers sync.WaitGroup // of contexts of publishes

	lanes  [2]lane
	keys   atomic.Uint64 // idempotency keys made
	events hub
	stats  counters

	met        atomic.Pointer[protocol.KeyHash] // the registry's key
	head       atomic.Uint64                    // highest seq seen
	maxPayload atomic.Uint64

	mu    sync.Mutex
	conn  *connection // nil while there is none
	lost  error       // why there is none
	hard  error       // fails calls at once; set while lost is a hard error
	over  bool        // closed
	subs  map[*Subscription]struct{}
	calls []*call       // not yet sent
	ask   chan struct{} // a token when there are calls

	// Owned by run, and by Dial before it.
	at      int // index of the address in use
	epoch   protocol.Epoch
	key     ed25519.PublicKey // the registry's
	backoff *backoff.ExponentialBackOff
	warned  time.Time
}

var _ Conn = (*Client)(nil)

// Dial connects to a registry host: "host", "host:port", "[v6]:port", with
// "quic://" before it or not. Several addresses of one log stand with commas
// between them and are tried in turn, each once the one before has failed or said
// nothing for half a second. ctx bounds the first connection, not the
// life of the client.
//
// Errors: ErrNotConnected and ErrTimeout where nobody answers, ErrWrongKey,
// ErrNotAdmitted, ErrNodeIDTaken, ErrVersion, ErrInvalid for an option or an
// address, also one of a fakeregistry without its PacketConn, ErrUnsupported for
// another scheme, and that of ctx.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	c, err := newClient(addr, o)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	go c.run(conn)
	return c, nil
}

func newClient(addr string, o Options) (*Client, error) {
	addrs, err := parseAddresses(addr)
	if err != nil {
		return nil, err
	}
	o, err = o.validate()
	if err != nil {
		return nil, err
	}
	if o.PacketConn == nil {
		if err := checkReal(addrs); err != nil {
			return nil, err
		}
	}
	conf, err := o.link()
	if err != nil {
		return nil, err
	}
	c := &Client{
		o:       o,
		addrs:   addrs,
		link:    conf,
		self:    Self{Node: conf.Identity.NodeID(), Name: o.Name},
		done:    make(chan struct{}),
		subs:    make(map[*Subscription]struct{}),
		ask:     make(chan struct{}, 1),
		backoff: newBackoff(),
	}
	rand.Read(c.self.Instance[:])
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.events.init(&c.stats)
	c.lanes[protocol.LaneNormal].init(c, protocol.LaneNormal)
	c.lanes[protocol.LaneUrgent].init(c, protocol.LaneUrgent)
	return c, nil
}

// Delays between tries to connect: 50 ms that double up to 2.5 s, each drawn
// between nothing and twice that, the first one too, or all clients of a
// registry would come back in the same moment.
const (
	firstDelay = 50 * time.Millisecond
	maxDelay   = 2500 * time.Millisecond
)

func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMaxInterval(maxDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0),
	)
}

// Self tells who publishes here.
func (c *Client) Self() Self { return c.self }

// Capabilities tells what the transport can do: everything.
func (c *Client) Capabilities() Capabilities {
	return Capabilities{Fences: true, Acks: true, Ordered: true, History: true}
}

// Close ends the client and waits until nothing of it runs. Publishes without an
// answer fail with net.ErrClosed; of those that were sent the outcome is
// unknown: call Flush before, to wait for it. Close is idempotent.
func (c *Client) Close() error {
	if c.closing() {
		c.fail(errClosed)
		c.cancel()
		c.events.close()
	}
	<-c.done
	c.watchers.Wait()
	return nil
}

// closing marks the client closed and reports whether it was not before.
func (c *Client) closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.over
	c.over, c.hard = true, errClosed
	return first
}

// fail fails all that waits, and what comes until there is a connection.
func (c *Client) fail(err error) {
	for i := range c.lanes {
		c.lanes[i].failAll(err)
	}
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	var subs []*Subscription
	for s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	for _, call := range calls {
		call.reply(nil, err)
	}
	for _, s := range subs {
		s.unavailable(err)
	}
}

// run keeps a connection until Close.
func (c *Client) run(conn *connection) {
	defer close(c.done)
	for conn != nil {
		began := time.Now()
		after, err := conn.serve()
		if c.ctx.Err() != nil {
			conn.heir.drop()
			return
		}
		c.disconnected(err)
		if time.Since(began) > 2*maxDelay {
			c.backoff.Reset() // it was a good one
		}
		conn = c.succeed(conn.heir, after)
	}
}

// succeed makes the next connection: of the heir, where there is one that takes
// the client, else as redial does.
func (c *Client) succeed(heir dialled, after time.Duration) *connection {
	if heir.s == nil {
		return c.redial(after)
	}
	c.at = heir.at
	conn, err := c.open(c.ctx, heir)
	if err == nil {
		return conn
	}
	if c.ctx.Err() != nil {
		return nil
	}
	c.failedDial(foreign(err), false, 0)
	return c.redial(retryAfter(err))
}

func (c *Client) disconnected(err error) {
	c.stats.disconnects.Add(1)
	c.events.emit(Disconnected{Err: err})
	c.warn("disconnected", err)
}

// warnEvery bounds the log lines of a client that is not connected, or not for
// long.
const warnEvery = 30 * time.Second

func (c *Client) warn(what string, err error) {
	if time.Since(c.warned) < warnEvery {
		return
	}
	c.warned = time.Now()
	c.o.Logger.Warn(what, "registry", c.addrs[c.at], "error", err)
}

// redial connects again, after at least some time; nil once the client is closed.
func (c *Client) redial(after time.Duration) *connection {
	if len(c.addrs) > 1 {
		after = 0 // the others have the log too
		c.at = (c.at + 1) % len(c.addrs)
	} else if after > 0 {
		after += randv2.N(after)
	}
	for delay := c.backoff.NextBackOff(); sleep(c.ctx, after+delay); after = 0 {
		conn, err := c.connect(c.ctx)
		if err == nil {
			return conn
		}
		if c.ctx.Err() != nil {
			return nil
		}
		delay = c.backoff.NextBackOff()
		hard := isHard(err)
		if hard {
			delay = maxDelay + randv2.N(maxDelay)
		}
		delay += retryAfter(err)
		c.failedDial(err, hard, delay)
	}
	return nil
}

func (c *Client) failedDial(err error, hard bool, retry time.Duration) {
	c.stats.dialsFailed.Add(1)
	// Last: who reads the event finds what it says.
	defer c.events.emit(DialFailed{Err: err, Hard: hard, Retry: retry})
	c.warn("not connected", err)
	c.mu.Lock()
	c.lost = err
	mended := c.hard != nil && !hard
	if !c.over {
		c.hard = nil
		if hard {
			c.hard = err
		}
	}
	c.mu.Unlock()
	switch {
	case hard:
		c.fail(err)
	case mended: // what comes may wait again
		for i := range c.lanes {
			c.lanes[i].accept()
		}
	}
}

// connect tries each address once.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	d := c.dial(ctx, append([]int{c.at}, c.others()...))
	defer d.stop()
	var failed []error
	for a, ok := d.first(); ok; a, ok = d.first() {
		if a.err == nil {
			conn, err := c.open(ctx, a)
			if err == nil {
				c.at = a.at
				return conn, nil
			}
			a.err = err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", protocol.ErrNotConnected, ctx.Err())
		}
		failed = append(failed, foreign(a.err))
	}
	return nil, worst(failed)
}

// seen notes that the log reaches up to seq.
func (c *Client) seen(seq protocol.Seq) {
	for {
		have := c.head.Load()
		if uint64(seq) <= have || c.head.CompareAndSwap(have, uint64(seq)) {
			return
		}
	}
}

// offline is the error of a call that waited for a connection in vain.
func (c *Client) offline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		return protocol.ErrNotConnected
	}
	if protocol.CodeOf(c.lost) == protocol.ErrNotConnected {
		return c.lost
	}
	return fmt.Errorf("%w: %w", protocol.ErrNotConnected, c.lost)
}

// sleep reports whether ctx was still going on after d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
