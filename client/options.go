package client

import (
	"crypto/ed25519"
	"log/slog"
	"net"
	"time"
)

// Options of a Client. The zero value is a client with this user's identity that
// remembers the keys of registries on disk.
type Options struct {
	// Key is the identity to prove. Nil is the identity file under Home: Pilot's
	// where there is one, else pilotgo's own, made when missing.
	Key ed25519.PrivateKey

	// Home is the folder that has .pilot in it: identity, known registries,
	// session tickets. Empty is $PILOT_HOME, else the user's home.
	Home string

	// NoState keeps nothing on disk. It needs a Key; keys of registries are
	// remembered as long as the client lives.
	NoState bool

	Name  string   // a name to show to others
	Tags  []string // labels to show to others
	Token string   // join token, where the registry demands one

	// RegistryKey is the fingerprint ("sha256:…") that the registry must have.
	// Empty: the one in Token, else the one known from before, else the one met
	// first.
	RegistryKey string

	// Window is how many publishes of one lane may be without an answer before
	// Publish waits; 1024 by default, and never more than the registry allows.
	Window int

	// Buffer is how many messages a subscription holds for its reader, 256 by
	// default, and BufferBytes how many bytes of payload, 1 MiB by default. Beyond
	// it the registry waits for the reader; one message always fits.
	Buffer, BufferBytes int

	// KeepAlive is after how long without a packet the client asks whether the
	// registry is there, 5 s by default; Idle is after how long without any the
	// connection is given up, 15 s by default.
	KeepAlive, Idle time.Duration

	// OneShot is for commands that end soon: session tickets are kept on disk, so
	// that the next one connects in one round trip.
	OneShot bool

	// PacketConn is the socket to use; nil is one of the client's own. It must
	// serve nothing else and is not closed.
	PacketConn net.PacketConn

	Logger *slog.Logger // nil is silent
}
