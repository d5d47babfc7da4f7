package integration

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between a registry and the cluster, and can be cut.
type proxy struct {
	l    net.Listener
	to   []string
	lag  time.Duration
	work sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
	next  int
}

// newProxy makes what the cluster says arrive late by lag.
func newProxy(t testing.TB, c *cluster, lag time.Duration) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, lag: lag, conns: make(map[net.Conn]struct{})}
	for _, o := range c.options {
		p.to = append(p.to, net.JoinHostPort("127.0.0.1", itoa(o.Port)))
	}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.set(true)
		p.work.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.to[p.next%len(p.to)]
		p.next++
		p.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		if !p.add(in, out) {
			continue
		}
		p.work.Go(func() { p.pipe(in, out) })
		p.work.Go(func() { p.pipe(delayed{out, p.lag}, in) })
	}
}

func (p *proxy) add(list ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range list {
		if p.cut {
			c.Close()
		} else {
			p.conns[c] = struct{}{}
		}
	}
	return !p.cut
}

// delayed is read from late.
type delayed struct {
	net.Conn
	lag time.Duration
}

func (d delayed) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	time.Sleep(d.lag)
	return n, err
}

func (p *proxy) pipe(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	from.Close()
	to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, to)
}

// set cuts all connections, and lets no other begin, or lets them.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			c.Close()
		}
	}
}
