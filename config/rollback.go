package config

import (
	"context"

	"github.com/pilotgo/pilotgo/protocol"
)

// Previous, as the version to roll back to, is the one before the current.
const Previous uint64 = 0

// RollbackOptions vary a rollback.
type RollbackOptions struct {
	Expect     uint64 // as in PublishOptions
	Reason     string
	Who        string
	Validators []Validator
	Leadership Leadership
	DryRun     bool // only tell what would be
}

func (o *RollbackOptions) publish() PublishOptions {
	return PublishOptions{
		Expect: o.Expect, Reason: o.Reason, Who: o.Who, Validators: o.Validators, Leadership: o.Leadership,
	}
}

// RolledBack tells what a rollback did, or would do.
type RolledBack struct {
	From, To uint64 // the version given up, and the one whose content it is again
	Changes  []Difference

	// NoOp: To is the current version, or has the same bytes; nothing was published.
	NoOp bool

	// Published is zero for a dry run and where there was nothing to do.
	Published Published
}

// Rollback publishes a new version with the content of an old one and where it
// comes from. So it stays rolled back everywhere: no agent has to forget a version
// it knows, and whoever still expects the one that was given up gets a conflict.
//
// To the current version, or one with the same bytes, there is nothing to do; an
// unknown one is ErrNotFound. While a rollout is going on the staged version is
// the current one, so a rollback ends it. Other errors are those of
// [Swarm.Publish].
func (s *Swarm) Rollback(ctx context.Context, to uint64, o RollbackOptions) (RolledBack, error) {
	h, err := s.head(ctx)
	if err != nil {
		return RolledBack{}, err
	}
	if h.latest == nil {
		return RolledBack{}, s.noVersion(to)
	}
	target, err := s.target(ctx, h, to)
	if err != nil {
		return RolledBack{}, err
	}
	current := h.latest
	if h.staged != nil {
		current = h.staged
	}
	r := RolledBack{From: current.Version, To: target.Version}
	if sameContent(current, target) && h.staged == nil {
		r.NoOp = true
		return r, nil
	}
	if r.Changes, err = Diff(current.Config, target.Config); err != nil {
		r.Changes = nil // one of them is no document; that is no reason to keep it
	}
	r.Published, err = s.restore(ctx, h, r.From, target, o.publish(), o.DryRun)
	return r, err
}

// restore publishes the content of target anew.
func (s *Swarm) restore(ctx context.Context, h head, from uint64, target *Document, o PublishOptions, dry bool) (Published, error) {
	d, err := s.draft(ctx, target.Config, &o)
	if err != nil || dry {
		return Published{}, err
	}
	d.RolledBackFrom, d.RolledBackTo = from, target.Version
	return s.publish(ctx, d, h, &o)
}

// target finds the document to go back to.
func (s *Swarm) target(ctx context.Context, h head, to uint64) (*Document, error) {
	switch {
	case to == h.latest.Version, to == Previous && h.staged != nil:
		return h.latest, nil
	case to != Previous:
		return s.Get(ctx, to)
	}
	for d, err := range s.History(ctx, HistoryOptions{Before: h.latest.Version}) {
		if err != nil {
			return nil, err
		}
		if !d.Staged { // never was in use everywhere
			return d, nil
		}
	}
	return nil, protocol.Errorf(protocol.ErrNotFound, "config %q: no version before %d is retained", s.name, h.latest.Version)
}
