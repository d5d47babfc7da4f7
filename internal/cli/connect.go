package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/pflag"
)

// connection is what the commands that ask a registry let one say about it.
type connection struct {
	host    string
	token   string
	key     string
	timeout time.Duration
}

// flags adds the flags of a connection; without patience the command has a
// --timeout of its own.
func (o *connection) flags(f *pflag.FlagSet, patience time.Duration) {
	f.StringVar(&o.token, "token", "", "join token of the registry (PILOTGO_TOKEN)")
	f.StringVar(&o.key, "registry-key", "", "fingerprint the registry must have (PILOTGO_REGISTRY_KEY)")
	if patience > 0 {
		durationFlag(f, &o.timeout, "timeout", patience, "how long to wait for the registry; 0 is for ever")
	}
}

func (o *connection) hostFlag(f *pflag.FlagSet) {
	f.StringVar(&o.host, "host", "", "registry host (default PILOTGO_REGISTRY)")
}

// connectPatience is how long a command that has no time-out of its own tries to
// reach a registry.
const connectPatience = 10 * time.Second

// bounded ends ctx after d; 0 is never.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// dial connects to a host; tune varies the options of the client.
func (a *app) dial(ctx context.Context, h host, o connection, tune ...func(*client.Options)) (*client.Client, error) {
	name, err := a.hostname()
	if err != nil {
		return nil, err
	}
	if o.token == "" || o.key == "" {
		if err := a.secrets(h, &o); err != nil {
			return nil, err
		}
	}
	options := client.Options{
		Home:        a.home,
		Name:        name,
		Token:       o.token,
		RegistryKey: o.key,
		OneShot:     true,
		Logger:      a.logger(),
	}
	for _, t := range tune {
		t(&options)
	}
	c, err := client.Dial(ctx, h.addr, options)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = protocol.Errorf(protocol.ErrTimeout, "no answer from %s", h.addr)
	case ctx.Err() != nil:
		return nil, ended(ctx)
	}
	if errors.Is(err, protocol.ErrNotAdmitted) && options.Token == "" && os.Getenv("PILOTGO_TOKEN") != "" {
		err = &withheldError{err}
	}
	if err != nil && h.word != "" && h.word != h.addr {
		return nil, fmt.Errorf("%s: %w", h.word, err)
	}
	return c, err
}

// withheldError is that of a host which was not told the token of another.
type withheldError struct{ error }

func (e *withheldError) Unwrap() error { return e.error }

func (e *withheldError) Hint() string {
	return "PILOTGO_TOKEN is for the default host alone (PILOTGO_REGISTRY, or 'pilotgo config'): unless this node's key was revoked, give this one its token with --token"
}

// secrets fills in the token and the fingerprint from the environment and the
// settings. They belong to the default host where there is one: another host
// must not be told the token.
func (a *app) secrets(h host, o *connection) error {
	n, err := a.hosts()
	if err != nil {
		return err
	}
	if n.preferred != "" {
		if d, err := n.fallback(); err != nil || d.addr != h.addr {
			return nil
		}
	}
	s, err := a.settings()
	if err != nil {
		return err
	}
	if d := (names{n.alias, s["registry"]}); d.preferred != "" && d.preferred != n.preferred {
		if d, err := d.fallback(); err != nil || d.addr != h.addr {
			s = nil // they are about another host
		}
	}
	o.token = cmp.Or(o.token, os.Getenv("PILOTGO_TOKEN"), s["token"])
	o.key = cmp.Or(o.key, os.Getenv("PILOTGO_REGISTRY_KEY"), s["registry_key"])
	return nil
}

func (h host) String() string {
	if h.word == h.addr || h.word == "" {
		return h.addr
	}
	return h.word + " (" + h.addr + ")"
}

// chosen is the host that a flag names, else the default.
func (a *app) chosen(word string) (host, error) {
	n, err := a.hosts()
	if err != nil {
		return host{}, err
	}
	if word != "" {
		return n.resolve(word)
	}
	return n.fallback()
}

// used notes that a host answered, with the topics it acknowledged this node for,
// and tells a log that is new what this node had joined before. All of it is
// for later: what the command was to do is done already.
func (a *app) used(ctx context.Context, c *client.Client, h host, epoch protocol.EpochID, topics ...string) {
	again, err := a.joined(h, epoch, topics...)
	a.unnoted(h, err)
	if len(again) > 0 {
		err := rejoin(ctx, c, again)
		if err == nil {
			err = a.rejoined(h, epoch)
		}
		a.unnoted(h, err)
	}
}

// unnoted mentions, where the user asked for it, that the book could not be
// brought up to date.
func (a *app) unnoted(h host, err error) {
	if log := a.logger(); err != nil && log != nil {
		log.Warn("not noted for the inbox", "host", h.addr, "error", err)
	}
}

// identity is this node's key, made when missing.
func (a *app) identity() (link.Identity, error) { return link.LoadOrMakeIdentity(a.home) }
