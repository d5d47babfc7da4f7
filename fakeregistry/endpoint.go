package fakeregistry

import (
	"crypto/ed25519"
	"crypto/sha256"
	"net"

	"github.com/pilotgo/pilotgo/protocol"
)

// Host is the name of the registry's own node, for faults between two nodes.
const Host = "registry"

// Key is the identity of a node in tests, made from its name alone: its node id
// is the same in every run. Everybody can make it, so it protects nothing.
func Key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("pilotgo fakeregistry node\x00" + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// NodeID is the node id of Key(name).
func NodeID(name string) protocol.NodeID {
	return protocol.NodeIDOf(Key(name).Public().(ed25519.PublicKey))
}

// Endpoint is what a client at a node needs.
type Endpoint struct {
	// Key is Key of the node's name.
	Key ed25519.PrivateKey

	// PacketConn is a socket of the node in the simulated network, closed with the
	// registry. After Listen or Start it is nil: the client uses one of its own.
	PacketConn net.PacketConn

	// Addr is where to dial. After Listen or Start it is a port for this node
	// alone, by which its packets are known from the first one on; at the common
	// address, [Registry.Addr], a node is known only once it has said its name.
	Addr string

	// RegistryKey is the fingerprint of the registry's key.
	RegistryKey string
}

// Endpoint gives a client its place at the named node. Each call opens another
// socket, as another process on the same machine would.
//
//	e := reg.Endpoint("a")
//	c, err := client.Dial(ctx, e.Addr, client.Options{
//		Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true,
//	})
func (r *Registry) Endpoint(name string) Endpoint {
	r.people.call(name)
	e := Endpoint{Key: Key(name), Addr: r.Addr(), RegistryKey: r.Fingerprint()}
	if r.front == nil {
		e.PacketConn = r.wires.listen(place{node: name})
		return e
	}
	addr, err := r.front.port(name)
	if r.failed(err) == nil {
		e.Addr = addr
	}
	return e
}
