package client

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
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

	// NoState keeps nothing on disk. It needs a Key, and excludes Home and
	// OneShot; keys of registries are remembered as long as the client lives.
	NoState bool

	Name string   // a name to show to others
	Tags []string // labels to show to others

	// Token is a join token, where the registry demands one. A token that
	// CreateToken made names the registry's key: the token is told to no registry
	// that has another.
	Token string

	// RegistryKey is the fingerprint ("sha256:…") that the registry must have.
	// Empty: the one in the token, the one known from before, else the one met
	// first.
	RegistryKey string

	// Window is how many publishes of one lane may be without an answer before
	// Publish waits; 1024 by default, and never more than the registry allows.
	Window int

	// Buffer is how many messages a subscription holds for its reader, 256 by
	// default, and BufferBytes how many bytes of payload, 1 MiB by default. Beyond
	// it the registry waits for the reader; one message always fits.
	//
	// One whose reader has stopped also has the next two messages and what the
	// connection has received for it: 128 KiB, 256 KiB where the reader was fast
	// before, for which packets take up to twice as much memory. So N stalled
	// subscriptions take at most N × (BufferBytes + 3 messages + 0.5 MiB); with
	// small messages, and Buffer at 1, it is about 0.2 MiB for each.
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

// validate checks the options and fills in defaults.
func (o Options) validate() (Options, error) {
	invalid := func(what string, args ...any) (Options, error) {
		return o, protocol.Errorf(protocol.ErrInvalid, "options: "+what, args...)
	}
	switch {
	case o.Key != nil && len(o.Key) != ed25519.PrivateKeySize:
		return invalid("Key is no Ed25519 private key")
	case o.NoState && o.Key == nil:
		return invalid("NoState needs a Key")
	case o.NoState && (o.Home != "" || o.OneShot):
		return invalid("NoState excludes Home and OneShot")
	case o.Window < 0, o.Buffer < 0, o.BufferBytes < 0, o.KeepAlive < 0, o.Idle < 0:
		return invalid("Window, Buffer, BufferBytes, KeepAlive and Idle are not negative")
	}
	if o.RegistryKey != "" {
		if _, err := link.ParseFingerprint(o.RegistryKey); err != nil {
			return o, fmt.Errorf("options: RegistryKey: %w", err)
		}
	}
	if err := o.pinByToken(); err != nil {
		return o, fmt.Errorf("options: Token: %w", err)
	}
	if err := o.hello(protocol.Instance{}).Check(); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	fill(&o.Window, 1024)
	fill(&o.Buffer, 256)
	fill(&o.BufferBytes, 1<<20)
	fill(&o.KeepAlive, 5*time.Second)
	fill(&o.Idle, 15*time.Second)
	if o.Idle <= o.KeepAlive {
		return invalid("Idle (%v) is not above KeepAlive (%v)", o.Idle, o.KeepAlive)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// pinByToken makes the registry's key that of the token, which may come from a
// file: with a line end behind it.
func (o *Options) pinByToken() error {
	text := strings.TrimSpace(o.Token)
	if !protocol.IsJoinToken(text) {
		return nil
	}
	o.Token = text
	token, err := protocol.ParseJoinToken(text)
	if err != nil {
		return err
	}
	fingerprint := token.Registry.String()
	if o.RegistryKey == "" {
		o.RegistryKey = fingerprint
	}
	if strings.TrimSpace(o.RegistryKey) != fingerprint {
		return protocol.Errorf(protocol.ErrInvalid, "it is of the registry with key %s, RegistryKey is %s", fingerprint, o.RegistryKey)
	}
	return nil
}

// hello is what the registry is told about the client.
func (o *Options) hello(instance protocol.Instance) *protocol.Hello {
	return &protocol.Hello{
		MinVersion: protocol.MinVersion, MaxVersion: protocol.Version,
		Instance: instance,
		Name:     o.Name, Tags: o.Tags, Token: []byte(o.Token),
	}
}

func fill[T int | time.Duration](v *T, standard T) {
	if *v == 0 {
		*v = standard
	}
}
