package config

import (
	"context"
	"iter"

	"github.com/pilotgo/pilotgo/protocol"
)

// Latest is the newest version that is meant for all agents; one that is staged is
// not. The error is ErrNotFound when there is none, which is not the same as an
// empty one: a registry that lost its log has none.
func (s *Swarm) Latest(ctx context.Context) (*Document, error) {
	h, err := s.head(ctx)
	if err != nil {
		return nil, err
	}
	if h.latest == nil {
		return nil, s.noVersion(0)
	}
	return h.latest, nil
}

// Get is a version, staged or not. The error is ErrNotFound where there is none or
// retention has taken it.
func (s *Swarm) Get(ctx context.Context, version uint64) (*Document, error) {
	if version == 0 || version > protocol.MaxTerm {
		return nil, protocol.Errorf(protocol.ErrInvalid, "config %q: version %d is not from 1 to 2^53-1", s.name, version)
	}
	var found *Document
	err := s.steady(ctx, func() error {
		h, err := s.fenceIfAny(ctx)
		if err != nil {
			return err
		}
		found, err = s.find(ctx, h, version)
		return err
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, s.noVersion(version)
	}
	return found, nil
}

// HistoryOptions say what to list.
type HistoryOptions struct {
	Before uint64 // only versions below; 0 = all
	Limit  int    // at most so many; 0 = all
}

func (o *HistoryOptions) validate() error {
	if o.Limit < 0 {
		return protocol.Errorf(protocol.ErrInvalid, "history: a limit of %d", o.Limit)
	}
	return nil
}

// History yields the retained versions, newest first, staged ones included. It
// reads the log as it is consumed, in parts, so a short list of a long history is
// cheap. Where versions were published after it began, it does not have them. An
// error ends the list; it is ErrInvalid for a negative Limit.
//
// For the next page ask for those Before the last version of this one.
func (s *Swarm) History(ctx context.Context, o HistoryOptions) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		if err := o.validate(); err != nil {
			yield(nil, s.errorf("history", err))
			return
		}
		f, err := s.fenceIfAny(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		n := 0
		for d, err := range s.versions(ctx, f) {
			if err == nil && o.Before != 0 && d.Version >= o.Before {
				continue
			}
			if n++; !yield(d, err) || n == o.Limit {
				return
			}
		}
	}
}
