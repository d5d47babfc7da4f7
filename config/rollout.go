package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// A rollout is a version that is staged first: published under a type of message
// that scripts do not know and that programs apply only where its progress reaches
// them. In the end the same version is published once more, with the same bytes,
// as a config_update for all. Nobody applies a canary by accident, the number
// belongs to the version from the beginning, and agents that have it have nothing
// to do at the end.
//
// Progress stands on a topic of its own, so that it pushes no version out of the
// history. Each step expects the one before it, so that of two drivers one writes.

// RolloutStatus is how a rollout is going.
type RolloutStatus struct {
	Progress
	Plan    Plan
	Reached Reached
	Base    uint64 // the version that agents have which it has not reached
}

// RolloutOptions vary what is done to a rollout.
type RolloutOptions struct {
	Reason     string
	Who        string // by default that of the Swarm
	Leadership Leadership
}

func (o *RolloutOptions) publish() PublishOptions {
	return PublishOptions{Reason: o.Reason, Who: o.Who, Leadership: o.Leadership}
}

// UnhealthyError says that a swarm is in no state for a rollout.
type UnhealthyError struct {
	Swarm   string
	Version uint64 // that agents should run
	Agents  int
	Healthy int // run it, and have reported lately
}

func (e *UnhealthyError) Error() string {
	if e.Agents == 0 {
		return fmt.Sprintf("config %q: no agent reports that a rollout could reach", e.Swarm)
	}
	return fmt.Sprintf("config %q: only %d of %d agents run version %d", e.Swarm, e.Healthy, e.Agents, e.Version)
}

// Hint tells a person what to do.
func (e *UnhealthyError) Hint() string {
	return "see which agents do not follow, or allow more in the plan"
}

// StartRollout stages a new version of config with a plan. Nobody applies it
// until somebody drives the rollout; see [Swarm.DriveRollout].
//
// Errors, besides those of [Swarm.Publish]: [*UnhealthyError] when too many agents
// do not run the current version; ErrConflict while another rollout is going on;
// ErrNotFound where no version was published before, so that there is nothing to
// go back to; errors.ErrUnsupported over a link without fences.
func (s *Swarm) StartRollout(ctx context.Context, config []byte, plan Plan, o PublishOptions) (Published, error) {
	if !s.fenced {
		return Published{}, fmt.Errorf("config %q: rollout: %w", s.name, errors.ErrUnsupported)
	}
	if err := plan.validate(); err != nil {
		return Published{}, err
	}
	text, err := plan.text()
	if err != nil {
		return Published{}, err
	}
	d, err := s.draft(ctx, config, &o)
	if err != nil {
		return Published{}, err
	}
	d = d.with(planField, text)
	d.Staged = true
	h, err := s.head(ctx)
	if err != nil {
		return Published{}, err
	}
	if err := s.mayStart(ctx, h, &plan); err != nil {
		return Published{}, err
	}
	return s.publish(ctx, d, h, &o)
}

func (s *Swarm) mayStart(ctx context.Context, h head, plan *Plan) error {
	if h.latest == nil {
		return s.noVersion(0)
	}
	p, _, err := s.progress(ctx)
	if err != nil {
		return err
	}
	if h.staged != nil && (p.Version != h.staged.Version || !p.State.Over()) {
		return protocol.Errorf(protocol.ErrConflict, "config %q: a rollout of version %d is going on", s.name, h.staged.Version)
	}
	c, err := s.Compliance(ctx, ComplianceOptions{})
	if err != nil {
		return err
	}
	e := &UnhealthyError{Swarm: s.name, Version: c.Version}
	for i := range c.Agents {
		switch a := &c.Agents[i]; {
		case a.Script:
		case a.State == StateApplied:
			e.Agents, e.Healthy = e.Agents+1, e.Healthy+1
		default:
			e.Agents++
		}
	}
	if e.Agents == 0 || float64(e.Agents-e.Healthy) > plan.MaxUnhealthy*float64(e.Agents) {
		return e
	}
	return nil
}

// written is progress as it stands in the log.
type written struct {
	Progress
	at time.Time
}

// progress is the newest of all rollouts, zero if there is none, and the fence to
// write the next one under.
func (s *Swarm) progress(ctx context.Context) (p written, f client.FenceState, err error) {
	err = s.steady(ctx, func() error {
		p = written{}
		if f, err = s.conn.Fence(ctx, s.rollout); err != nil {
			return err
		}
		return s.read(ctx, s.rollout, func(m *protocol.Message, _ protocol.EpochID) bool {
			if next := progressOf(m); next != nil && m.Seq <= f.S {
				p = written{*next, m.Time.Time()}
			}
			return m.Seq < f.S
		}, client.FromAll())
	})
	if err != nil {
		return p, f, s.errorf("rollout", err)
	}
	return p, f, nil
}

// rolloutSlot is where the progress stands that a node wrote last.
const rolloutSlot = "rollout"

// write publishes progress behind what was read, and tells where it stands.
func (s *Swarm) write(ctx context.Context, p *Progress, f client.FenceState, o *RolloutOptions) (protocol.Seq, error) {
	p.Who = o.Who
	if p.Who == "" {
		p.Who = s.o.Who
	}
	ack, err := s.send(ctx, client.Publication{
		Topic: s.rollout, Payload: p.Append(nil), Slot: rolloutSlot,
		Conditions: []protocol.Condition{{
			Topic: s.rollout, Epoch: f.Epoch.ID, Term: p.Version, Raise: p.Version, HasExpect: true, Expect: f.S,
		}},
	}, o.Leadership)
	return ack.Seq, err
}

// rolling is a rollout as it stands in the log.
type rolling struct {
	head
	written
	fence client.FenceState // of the progress
	plan  Plan

	// unplanned tells why there is no plan: anybody can stage a version without.
	unplanned error
}

// rolling reads the newest rollout. Where the log says that it is over, its
// progress says so too, written or not.
func (s *Swarm) rolling(ctx context.Context) (r rolling, err error) {
	if !s.fenced {
		return r, fmt.Errorf("config %q: rollout: %w", s.name, errors.ErrUnsupported)
	}
	if r.head, err = s.head(ctx); err != nil {
		return r, err
	}
	if r.written, r.fence, err = s.progress(ctx); err != nil {
		return r, err
	}
	if r.staged == nil {
		return r, s.over(ctx, &r)
	}
	r.plan, r.unplanned = planOf(r.staged)
	if r.Progress.Version == r.staged.Version {
		return r, nil
	}
	// It was not driven yet.
	r.Progress = Progress{Version: r.staged.Version, State: RolloutRunning}
	if r.unplanned != nil {
		r.Progress.Reason = r.unplanned.Error()
		return r, nil
	}
	r.Progress.Share, r.Progress.Labels = r.plan.share(0), r.plan.Labels
	return r, nil
}

// over reads a rollout behind which there is a version for all.
func (s *Swarm) over(ctx context.Context, r *rolling) error {
	if r.Progress.Version == 0 {
		return protocol.Errorf(protocol.ErrNotFound, "config %q: no rollout is going on", s.name)
	}
	if d, err := s.Get(ctx, r.Progress.Version); err == nil {
		r.plan, _ = planOf(d)
	}
	if r.Progress.State.Over() {
		return nil
	}
	r.Progress.Ending = "" // it has come
	switch d := r.latest; {
	case d == nil, d.Version < r.Progress.Version:
		r.Progress.State, r.Progress.Reason = RolloutSuperseded, "the log was lost"
	case d.Version == r.Progress.Version:
		r.Progress.State, r.Progress.Reason = RolloutComplete, ""
	case d.RolledBackFrom == r.Progress.Version:
		r.Progress.State, r.Progress.Reason = RolloutRolledBack, d.Reason
	default:
		r.Progress.State, r.Progress.Reason = RolloutSuperseded, fmt.Sprintf("version %d was published", d.Version)
	}
	return nil
}

// Rollout tells how the newest rollout is going, or how it ended. The error is
// ErrNotFound when there was none.
func (s *Swarm) Rollout(ctx context.Context, members ...protocol.NodeID) (RolloutStatus, error) {
	r, err := s.rolling(ctx)
	if err != nil {
		return RolloutStatus{}, err
	}
	c, err := s.Compliance(ctx, ComplianceOptions{Version: r.Progress.Version, Members: members})
	if err != nil {
		return RolloutStatus{}, err
	}
	st := RolloutStatus{Progress: r.Progress, Plan: r.plan, Base: r.version()}
	if r.staged != nil {
		st.Reached = r.Progress.reach(&c, r.staged.Time)
	}
	return st, nil
}

// PauseRollout stops a rollout where it is: those reached keep the version, and once
// it has returned nil nobody new is reached, and nothing rolls it back or completes
// it until it is resumed or aborted, or another version is published. A step that is
// begun at the same moment comes before it. ErrNotFound says that none is going on;
// ErrConflict that it cannot be paused any more, since a driver has decided to end
// it, or that others wrote again and again.
func (s *Swarm) PauseRollout(ctx context.Context, o RolloutOptions) error {
	return s.setRollout(ctx, RolloutPaused, &o)
}

// ResumeRollout lets a paused rollout go on. Its step begins anew.
func (s *Swarm) ResumeRollout(ctx context.Context, o RolloutOptions) error {
	return s.setRollout(ctx, RolloutRunning, &o)
}

// setTries is how often a driver may come first.
const setTries = 5

func (s *Swarm) setRollout(ctx context.Context, state RolloutState, o *RolloutOptions) error {
	var err error
	for range setTries {
		err = s.trySetRollout(ctx, state, o)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Topic != s.rollout || e.Code != protocol.ErrConflict {
			break // it is not that somebody else wrote
		}
	}
	return err
}

func (s *Swarm) trySetRollout(ctx context.Context, state RolloutState, o *RolloutOptions) error {
	r, err := s.going(ctx)
	if err != nil || r.Progress.State == state {
		return err
	}
	if r.Progress.Ending != "" {
		return protocol.Errorf(protocol.ErrConflict, "config %q: the rollout of version %d is ending as %s, and cannot be %s any more",
			s.name, r.Progress.Version, r.Progress.Ending, state)
	}
	if r.Progress.Since.IsZero() { // it has not begun, and does not by this
		r.Progress.Share, r.Progress.Labels = 0, nil
	} else if r.Progress.Since, err = s.now(ctx); err != nil {
		return s.errorf("rollout", err)
	}
	r.Progress.State, r.Progress.Reason = state, o.Reason
	if _, err := s.write(ctx, &r.Progress, r.fence, o); err != nil {
		return s.errorf("rollout", err)
	}
	return nil
}

// going is rolling, for one that is not over.
func (s *Swarm) going(ctx context.Context) (rolling, error) {
	r, err := s.rolling(ctx)
	if err == nil && (r.staged == nil || r.Progress.State.Over()) {
		err = protocol.Errorf(protocol.ErrNotFound, "config %q: no rollout is going on", s.name)
	}
	return r, err
}

// AbortRollout rolls a rollout back, whether or not it is driven, and also one whose
// plan cannot be read: the version before is published anew. Whoever drives it sees
// that and ends.
func (s *Swarm) AbortRollout(ctx context.Context, o RolloutOptions) (Published, error) {
	r, err := s.going(ctx)
	if err != nil {
		return Published{}, err
	}
	if o.Reason == "" {
		o.Reason = "aborted"
	}
	return s.rollBack(ctx, r, &o)
}

// rollBack publishes what was there before, and notes that. The first is what
// counts.
func (s *Swarm) rollBack(ctx context.Context, r rolling, o *RolloutOptions) (Published, error) {
	if r.latest == nil {
		return Published{}, s.noVersion(0)
	}
	published, err := s.restore(ctx, r.head, r.staged.Version, r.latest, o.publish(), false)
	if err != nil {
		return published, err
	}
	p := r.Progress
	p.State, p.Ending, p.Reason = RolloutRolledBack, "", o.Reason
	s.note(ctx, &p, r.fence, o)
	return published, nil
}

// noteWait is how long an end waits for its note.
const noteWait = 2 * time.Second

// note writes how a rollout ended, for those who look. The log says it anyway, so
// an answer that is lost must not hide that it did end.
func (s *Swarm) note(ctx context.Context, p *Progress, f client.FenceState, o *RolloutOptions) {
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	if _, err := s.write(ctx, p, f, o); err != nil {
		s.o.Logger.Warn("end of rollout was not noted", "swarm", s.name, "version", p.Version, "error", err)
	}
}

// promote publishes the staged version for all.
func (s *Swarm) promote(ctx context.Context, r rolling, o *RolloutOptions) error {
	d := *r.staged
	d.Staged = false
	if _, err := s.send(ctx, client.Publication{
		Topic: s.topic, Payload: d.Append(nil),
		Conditions: []protocol.Condition{{
			Topic: s.topic, Epoch: r.FenceState.Epoch.ID, Term: d.Version, HasExpect: true, Expect: r.S,
		}},
	}, o.Leadership); err != nil {
		return err
	}
	p := r.Progress
	p.State, p.Ending, p.Share, p.Reason = RolloutComplete, "", 1, ""
	s.note(ctx, &p, r.fence, o)
	return nil
}

// registryClock tells registry time without asking again.
type registryClock struct{ at, since time.Time }

func (s *Swarm) registryClock(ctx context.Context) (registryClock, error) {
	now, err := s.now(ctx)
	return registryClock{now, time.Now()}, err
}

func (c registryClock) now() time.Time { return c.at.Add(time.Since(c.since)) }
