package simnet

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// firstPort is the port of the first socket of a node.
const firstPort = 4433

// Options of a Network. The zero value is a network without delay or fault.
type Options struct {
	// Latency is the time a packet takes from any node to any other, unless
	// SetLink says otherwise.
	Latency time.Duration

	// Seed decides everything that is left to chance.
	Seed uint64
}

// Network connects the sockets that its Listen made. Its methods may be called
// from any goroutine.
type Network struct {
	seed    uint64
	pending sync.WaitGroup // alarms set and not yet done

	mu         sync.Mutex
	closed     bool
	ips        map[string]netip.Addr
	names      map[netip.Addr]string
	conns      map[netip.AddrPort]*conn
	links      map[pair]Link
	cuts       map[pair]bool
	drops      []*dropRule // replaced, never changed in place
	directions map[pair]*direction
	air        flights
	sent       uint64
	arrival    *alarm // for the first of air
}

// pair is a direction between nodes; in rules, "" stands for any node.
type pair struct{ from, to string }

// New makes a network without nodes. The caller closes it.
func New(o Options) *Network {
	n := &Network{
		seed:       o.Seed,
		ips:        make(map[string]netip.Addr),
		names:      make(map[netip.Addr]string),
		conns:      make(map[netip.AddrPort]*conn),
		links:      map[pair]Link{{}: {Latency: o.Latency}},
		cuts:       make(map[pair]bool),
		directions: make(map[pair]*direction),
	}
	n.arrival = &alarm{ring: n.arrive, pending: &n.pending}
	return n
}

// Listen opens a socket on the named node, at its lowest free port: a node that
// closes its socket and listens again, as after a restart, has its address
// back, and a second socket gets the next port. The addresses of the socket and
// of those it reads from are of type *net.UDPAddr.
//
// A datagram that is larger than the buffer of the reader is cut, as by recvfrom.
// Writes do not block and, as with UDP, succeed whether or not the packet
// arrives. After Network.Close the socket is closed from the start.
func (n *Network) Listen(node string) net.PacketConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := netip.AddrPortFrom(n.ip(node), firstPort)
	for n.conns[at] != nil {
		at = netip.AddrPortFrom(at.Addr(), at.Port()+1)
	}
	c := newConn(n, node, at)
	if n.closed {
		c.closed = true
	} else {
		n.conns[at] = c
	}
	return c
}

// Addr is the address, as host:port, of the first socket of the named node. The
// node need not listen yet.
func (n *Network) Addr(node string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return netip.AddrPortFrom(n.ip(node), firstPort).String()
}

// Close closes all sockets, drops what is under way, and waits until nothing
// that the network started is running. It may be called again.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.air = nil
	n.arrival.stop()
	for _, c := range n.conns {
		c.shut()
	}
	n.mu.Unlock()
	n.pending.Wait()
}

// ip makes the address from the name and not from the order of calls, so that
// logs of two runs can be compared.
func (n *Network) ip(node string) netip.Addr {
	if node == "" {
		panic("simnet: a node has no name")
	}
	if ip, ok := n.ips[node]; ok {
		return ip
	}
	h := fnv.New32a()
	io.WriteString(h, node)
	i := h.Sum32()
	for n.names[ipv4(i)] != "" {
		i++
	}
	ip := ipv4(i)
	n.ips[node], n.names[ip] = ip, node
	return ip
}

// ipv4 is from 240.0.0.0/8, which is reserved: no real host is there, so that
// package client can tell who dials such an address without a socket of the network.
func ipv4(i uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{240, byte(i >> 16), byte(i >> 8), byte(i)})
}

// nodeAt names the node with this address; where there is none, the address
// itself serves as the name.
func (n *Network) nodeAt(ip netip.Addr) string {
	if node, ok := n.names[ip]; ok {
		return node
	}
	return ip.String()
}

func (n *Network) direction(way pair) *direction {
	d, ok := n.directions[way]
	if !ok {
		h := fnv.New64a()
		io.WriteString(h, way.from+"\x00"+way.to)
		d = &direction{chance: rand.New(rand.NewPCG(n.seed, h.Sum64()))}
		n.directions[way] = d
	}
	return d
}
