package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// ComplianceOptions say what to measure.
type ComplianceOptions struct {
	Version uint64 // 0 = the latest

	// Members are who should run it; nil are all whose reports are retained.
	Members []protocol.NodeID

	// StaleAfter is how old a report may be. 0: three times as old as the agent says
	// it reports; of scripts, which report once for each version and then no more,
	// any age.
	StaleAfter time.Duration

	// Relays are nodes whose word counts for where a message came from: what they
	// pass on is the report of its origin.
	Relays []protocol.NodeID
}

func (o *ComplianceOptions) validate() error {
	switch {
	case o.StaleAfter < 0:
		return protocol.Errorf(protocol.ErrInvalid, "stale after %v", o.StaleAfter)
	case o.Version > protocol.MaxTerm:
		return protocol.Errorf(protocol.ErrInvalid, "version %d is above 2^53-1", o.Version)
	}
	return nil
}

// Compliance tells of each agent how far it is with a version. An agent is who the
// registry proved to have sent the report, whatever name it gives itself; of
// several reports the newest counts, which is not always the last to arrive.
// Reports of the recipe's scripts count too. Where the registry has no version, or
// not that one any more, it tells what the agents say all the same.
func (s *Swarm) Compliance(ctx context.Context, o ComplianceOptions) (Compliance, error) {
	if err := o.validate(); err != nil {
		return Compliance{}, s.errorf("compliance", err)
	}
	now, err := s.now(ctx)
	if err != nil {
		return Compliance{}, s.errorf("compliance", err)
	}
	want, err := s.wanted(ctx, o.Version)
	if err != nil {
		return Compliance{}, err
	}
	var t *tally
	err = s.steady(ctx, func() error {
		t = newTally(o.Relays)
		return s.read(ctx, s.status, func(m *protocol.Message, _ protocol.EpochID) bool {
			t.add(m)
			return true
		}, client.FromAll())
	})
	if err != nil {
		return Compliance{}, s.errorf("compliance", err)
	}
	return t.measure(want, o.Members, now, o.StaleAfter), nil
}

func (s *Swarm) errorf(what string, err error) error {
	return fmt.Errorf("config %q: %s: %w", s.name, what, err)
}

// wanted is the version to measure by. One that is not retained any more has no
// digest.
func (s *Swarm) wanted(ctx context.Context, version uint64) (target, error) {
	var d *Document
	var err error
	if version == 0 {
		d, err = s.Latest(ctx)
	} else {
		d, err = s.Get(ctx, version)
	}
	if errors.Is(err, protocol.ErrNotFound) {
		return target{Version: version}, nil
	}
	if err != nil {
		return target{}, err
	}
	return target{d.Version, d.Digest}, nil
}

// WaitFor waits until a share of the agents, above 0 and up to 1, runs a version;
// 0 is the latest. It returns what was then.
//
// When ctx ends first the error is that of ctx, and the Compliance what it has
// come to. When a higher version is published, waiting is over with a
// [*SupersededError]; where there is none at all, with ErrNotFound. The version in
// o is left out, or the same one.
func (s *Swarm) WaitFor(ctx context.Context, version uint64, share float64, o ComplianceOptions) (Compliance, error) {
	err := o.validate()
	switch {
	case err != nil:
	case !(share > 0 && share <= 1):
		err = protocol.Errorf(protocol.ErrInvalid, "a share of %v is not above 0 and up to 1", share)
	case o.Version != 0 && o.Version != version:
		err = protocol.Errorf(protocol.ErrInvalid, "two versions, %d and %d", version, o.Version)
	}
	if err != nil {
		return Compliance{}, s.errorf("wait", err)
	}
	want, err := s.wanted(ctx, version)
	if err != nil {
		return Compliance{}, err
	}
	if want.Version == 0 {
		return Compliance{}, s.noVersion(0)
	}
	now, err := s.now(ctx)
	if err != nil {
		return Compliance{}, s.errorf("wait", err)
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := waiter{want: want, o: o, share: share, now: now, began: time.Now()}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := s.superseded(within, want.Version); err != nil {
			cancel(err)
		}
	}()
	defer func() {
		cancel(nil)
		<-watched
	}()
	c, err := w.run(within, s)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		return c, s.errorf(fmt.Sprintf("wait for version %d", want.Version), err)
	}
	return c, nil
}

// superseded returns once there is a higher version.
func (s *Swarm) superseded(ctx context.Context, version uint64) error {
	for e, err := range s.Watch(ctx) {
		if err != nil {
			return err
		}
		if d := e.Document; d != nil && !d.Staged && d.Version > version {
			return &SupersededError{Swarm: s.name, Version: version, Latest: d.Version}
		}
	}
	return nil
}

type waiter struct {
	want  target
	o     ComplianceOptions
	share float64
	now   time.Time // registry time, at began
	began time.Time

	*tally
	caughtUp bool
	members  map[protocol.NodeID]bool // nil: all that were heard
	running  map[protocol.NodeID]bool // those of them that have the version, by their last report
}

func (w *waiter) begin() {
	w.tally, w.running, w.caughtUp = newTally(w.o.Relays), make(map[protocol.NodeID]bool), false
	if w.o.Members == nil {
		return
	}
	w.members = make(map[protocol.NodeID]bool, len(w.o.Members))
	for _, node := range w.o.Members {
		w.members[node] = true
	}
}

// enough reports whether it is worth the while to measure.
func (w *waiter) enough() bool {
	all := len(w.members)
	if w.members == nil {
		all = len(w.agents)
	}
	return w.caughtUp && all > 0 && float64(len(w.running))/float64(all) >= w.share
}

// recount leaves out those that have the version and do not count, so that not
// each report of a large swarm is measured because of them.
func (w *waiter) recount(c *Compliance) {
	clear(w.running)
	for i := range c.Agents {
		if c.Agents[i].State == StateApplied {
			w.running[c.Agents[i].Node] = true
		}
	}
}

func (w *waiter) run(ctx context.Context, s *Swarm) (Compliance, error) {
	stream, err := s.conn.Subscribe(ctx, s.status, client.FromAll())
	if err != nil {
		return Compliance{}, err
	}
	defer stream.Close()
	w.begin()
	for {
		item, err := next(ctx, stream)
		if err != nil {
			return w.measured(), err
		}
		if w.take(item); w.enough() {
			c := w.measured()
			if c.Share >= w.share {
				return c, nil
			}
			w.recount(&c)
		}
	}
}

func (w *waiter) take(item client.Item) {
	switch item.Kind {
	case client.ItemMessage:
		node, ok := w.add(item.Message)
		switch {
		case !ok, w.members != nil && !w.members[node]:
		case w.agents[node].AppliedVersion == w.want.Version:
			w.running[node] = true
		default:
			delete(w.running, node)
		}
	case client.ItemCaughtUp:
		w.caughtUp = true
	case client.ItemEpoch:
		w.begin()
	case client.ItemGap, client.ItemDisconnected:
	}
}

func (w *waiter) measured() Compliance {
	return w.measure(w.want, w.o.Members, w.now.Add(time.Since(w.began)), w.o.StaleAfter)
}
