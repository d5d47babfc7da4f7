package config

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Options of a Swarm. The zero value works.
type Options struct {
	// Who names the publisher in what it publishes; by default the name of the
	// connection. It is a label: the sender is what the registry proved.
	Who string

	// WallClock is for display, and tells versions where the connection cannot ask
	// the registry for the time; time.Now by default.
	WallClock func() time.Time

	Logger *slog.Logger // nil is silent
}

func (o *Options) validate(conn client.Conn) {
	if o.Who == "" {
		o.Who = conn.Self().Name
	}
	if o.WallClock == nil {
		o.WallClock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Swarm is the configuration of one swarm. It holds no state of its own: each call
// reads the registry's log, so there is nothing to close, and its methods may be
// called from any goroutine.
type Swarm struct {
	name string
	conn client.Conn
	o    Options

	topic, status, rollout string
	fenced                 bool
}

// Open makes the Swarm of a name, which is not empty and holds no ':'. The
// connection stays the caller's. Where it has fences Open asks for the swarm's, so
// that a missing right or registry is found at once.
//
// Errors: ErrInvalid for a name, those of [client.Conn.Fence], and that of ctx.
func Open(ctx context.Context, conn client.Conn, swarm string, o Options) (*Swarm, error) {
	if err := ValidName(swarm); err != nil {
		return nil, err
	}
	o.validate(conn)
	s := &Swarm{
		name: swarm, conn: conn, o: o, fenced: conn.Capabilities().Fences,
		topic: Topic(swarm), status: StatusTopic(swarm), rollout: RolloutTopic(swarm),
	}
	if s.fenced {
		if _, err := s.fence(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Name is the swarm's.
func (s *Swarm) Name() string { return s.name }

// BestEffort reports whether the connection has no fences. Then two writers can
// publish the same version; each reader takes the first that it reads, and another
// may have read the other.
func (s *Swarm) BestEffort() bool { return !s.fenced }

// ValidName checks the name of a swarm. The error is ErrInvalid.
func ValidName(swarm string) error {
	if swarm == "" || strings.Contains(swarm, ":") {
		return protocol.Errorf(protocol.ErrInvalid, "swarm %q: a name is not empty and holds no ':'", swarm)
	}
	if err := protocol.ValidTopic(RolloutTopic(swarm)); err != nil {
		return protocol.Errorf(protocol.ErrInvalid, "swarm %q: %v", swarm, err)
	}
	return nil
}

// Topic is where a swarm's versions are published.
func Topic(swarm string) string { return "config:" + swarm }

// StatusTopic is where its agents report.
func StatusTopic(swarm string) string { return "config:status:" + swarm }

// RolloutTopic is where the progress of its rollouts is kept.
func RolloutTopic(swarm string) string { return "config:rollout:" + swarm }

// clock is what a connection may have besides a Conn's methods: registry time.
type clock interface {
	Info(ctx context.Context) (client.Info, error)
}

// now is registry time, as near as it can be told.
func (s *Swarm) now(ctx context.Context) (time.Time, error) {
	c, ok := s.conn.(clock)
	if !ok {
		return s.o.WallClock(), nil
	}
	info, err := c.Info(ctx)
	if errors.Is(err, protocol.ErrUnsupported) || errors.Is(err, protocol.ErrDenied) {
		return s.o.WallClock(), nil
	}
	return info.Now, err
}
