package config

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Health is a check of what runs with a document after it was applied: a function
// or a command. It is tried until it succeeds once, or Tries times.
type Health struct {
	Check func(ctx context.Context, d *Document) error
	Exec  *Exec

	Tries    int           // 5 by default
	Interval time.Duration // between a failure and the next try, 1 s by default
	Timeout  time.Duration // of each try, 5 s by default
}

func (h Health) validate() (Health, error) {
	switch {
	case (h.Check == nil) == (h.Exec == nil):
		return h, protocol.Errorf(protocol.ErrInvalid, "health: Check or Exec, one of the two")
	case h.Tries < 0, h.Interval < 0, h.Timeout < 0:
		return h, protocol.Errorf(protocol.ErrInvalid, "health: Tries, Interval and Timeout are not negative")
	}
	if h.Exec != nil {
		if err := h.Exec.validate(); err != nil {
			return h, err
		}
	}
	if h.Tries == 0 {
		h.Tries = 5
	}
	if h.Interval == 0 {
		h.Interval = time.Second
	}
	if h.Timeout == 0 {
		h.Timeout = 5 * time.Second
	}
	return h, nil
}

// await returns nil once the check has succeeded, and the last error when it has
// failed too often.
func (h Health) await(ctx context.Context, d *Document, swarm, file string) error {
	for try := 1; ; try++ {
		err := h.once(ctx, d, swarm, file)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case try == h.Tries:
			return fmt.Errorf("not healthy after %d tries: %w", try, err)
		}
		select {
		case <-time.After(h.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// once gives up after Timeout also on a function that does not look at its
// context; it then goes on alone.
func (h Health) once(ctx context.Context, d *Document, swarm, file string) error {
	if h.Exec != nil {
		e := h.Exec.in(swarm)
		if e.Timeout == 0 || e.Timeout > h.Timeout {
			e.Timeout = h.Timeout
		}
		return e.run(ctx, d, file)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, protocol.Errorf(protocol.ErrTimeout, "no answer within %v", h.Timeout))
	defer cancel()
	return bounded(ctx, func() error { return h.Check(ctx, d) })
}

// in fills in the swarm.
func (e Exec) in(swarm string) Exec {
	if e.Swarm == "" {
		e.Swarm = swarm
	}
	return e
}
