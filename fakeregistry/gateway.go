package fakeregistry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// front lets other processes in: loopback sockets whose packets travel on
// through the simulated network, so that its faults are theirs.
type front struct {
	wires *wires
	to    net.Addr // the registry, inside
	main  *gateway

	mu     sync.Mutex
	ports  map[string]*gateway
	closed bool
}

func newFront(w *wires, addr string, to net.Addr) (*front, error) {
	f := &front{wires: w, to: to, ports: make(map[string]*gateway)}
	main, err := f.open(addr, "")
	if err != nil {
		return nil, err
	}
	f.main = main
	return f, nil
}

// port is the address for one node.
func (f *front) port(node string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return "", errClosed
	}
	if g, ok := f.ports[node]; ok {
		return g.addr(), nil
	}
	host, _, err := net.SplitHostPort(f.main.addr())
	if err != nil {
		return "", err
	}
	g, err := f.open(net.JoinHostPort(host, "0"), node)
	if err != nil {
		return "", err
	}
	f.ports[node] = g
	return g.addr(), nil
}

func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.main.close()
	for _, g := range f.ports {
		g.close()
	}
}

// gateway is one loopback socket. Each peer of it has a socket inside.
type gateway struct {
	front *front
	node  string // empty: each peer is a node of its own
	out   *net.UDPConn
	work  sync.WaitGroup

	mu     sync.Mutex
	peers  map[netip.AddrPort]*peer
	closed bool
}

type peer struct {
	at     netip.AddrPort
	inside net.PacketConn
	heard  atomic.Bool // since the last look
}

// peerIdle is for how long a peer may be silent. Sessions are lost before.
const peerIdle = time.Minute

func (f *front) open(addr, node string) (*gateway, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is no loopback address: keys of a fake registry are no secret", addr)
	}
	out, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, err
	}
	_ = out.SetReadBuffer(4 << 20) // what the system grants is enough
	g := &gateway{front: f, node: node, out: out, peers: make(map[netip.AddrPort]*peer)}
	g.work.Go(g.inward)
	return g, nil
}

func (g *gateway) addr() string { return g.out.LocalAddr().String() }

// inward carries packets from outside in.
func (g *gateway) inward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := g.out.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a port that is gone, told by ICMP
		}
		if p := g.peer(from); p != nil {
			p.heard.Store(true)
			_, _ = p.inside.WriteTo(buf[:n], g.front.to)
		}
	}
}

func (g *gateway) peer(from netip.AddrPort) *peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.peers[from]; ok || g.closed {
		return p
	}
	at := place{node: g.node}
	if g.node == "" {
		at = place{from.String(), true}
	}
	p := &peer{at: from, inside: g.front.wires.listen(at)}
	g.peers[from] = p
	g.work.Go(func() { g.outward(p) })
	return p
}

// outward carries a peer's packets out, until it has been silent for long.
func (g *gateway) outward(p *peer) {
	defer g.forget(p)
	buf := make([]byte, 64<<10)
	_ = p.inside.SetReadDeadline(time.Now().Add(peerIdle))
	for {
		n, _, err := p.inside.ReadFrom(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && p.heard.Swap(false):
			_ = p.inside.SetReadDeadline(time.Now().Add(peerIdle))
		case err != nil:
			return
		default:
			_, _ = g.out.WriteToUDPAddrPort(buf[:n], p.at)
		}
	}
}

func (g *gateway) forget(p *peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.peers, p.at)
	_ = p.inside.Close()
	if g.node == "" {
		g.front.wires.forget(p.at.String())
	}
}

func (g *gateway) close() {
	g.mu.Lock()
	g.closed = true
	for _, p := range g.peers {
		_ = p.inside.Close()
	}
	g.mu.Unlock()
	_ = g.out.Close()
	g.work.Wait()
}
