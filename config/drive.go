package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// DriveOptions vary the driving of a rollout.
type DriveOptions struct {
	// Members are who belongs to the swarm; nil are all who report.
	Members []protocol.NodeID

	// Leadership lets only the leader drive: each of its writes passes the fence of
	// the leadership too, and driving ends with it.
	Leadership Leadership

	Who string // by default that of the Swarm

	// Notify is told whenever the progress has changed, from one goroutine, which
	// waits for it.
	Notify func(RolloutStatus)
}

func (o *DriveOptions) validate() {
	if o.Notify == nil {
		o.Notify = func(RolloutStatus) {}
	}
}

// writing are the options of what a driver writes.
func (o *DriveOptions) writing() RolloutOptions {
	return RolloutOptions{Who: o.Who, Leadership: o.Leadership}
}

// DriveRollout takes the rollout that is going on from step to step, until it is
// complete, rolled back or superseded, which it then tells. Any node may drive,
// and take over where another ended: all there is to know stands in the log. Two
// at once do no harm, since each step is written behind the one that was read.
//
// A rollout is rolled back by itself when more of the reached agents fail than its
// plan allows, or when too few run it in time.
//
// Errors: ErrNotFound when no rollout is going on; [*LostRolloutError] when the
// registry's log is another one by now and does not have it (one that was restored
// may: then driving goes on); ErrInvalid when its plan cannot be
// read; ErrConflict when the fence of its progress is above its version, which
// somebody must have raised; ErrStaleTerm when the Leadership is over; that of ctx;
// and those of publishing.
func (s *Swarm) DriveRollout(ctx context.Context, o DriveOptions) (RolloutStatus, error) {
	o.validate()
	r, err := s.rolling(ctx)
	if err != nil {
		return RolloutStatus{}, err
	}
	ctx, cancel := while(ctx, o.Leadership)
	defer cancel()
	d := &driver{s: s, o: o, version: r.Progress.Version, epoch: r.Epoch.ID, write: o.writing()}
	st, err := d.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return st, s.errorf("rollout", err)
	}
	return st, nil
}

// while is a context that ends with a leadership, which may be nil. cancel waits.
func while(ctx context.Context, l Leadership) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	if l == nil {
		return ctx, func() { end(nil) }
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.Done():
			end(protocol.Errorf(protocol.ErrStaleTerm, "the leadership is over"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		end(nil)
		<-ended
	}
}

type driver struct {
	s       *Swarm
	o       DriveOptions
	write   RolloutOptions
	version uint64
	epoch   protocol.EpochID // of the log that has it
	shown   RolloutStatus
	clock   registryClock
	above   bool // the fence of the progress was above the version at the last look
}

// How often a driver looks.
const (
	lookOften  = time.Second
	lookSeldom = 15 * time.Second
)

// keepAlive is when progress is written again that has not changed, so that
// retention does not take it.
const keepAlive = 24 * time.Hour

// run looks, decides and writes until the rollout is over.
func (d *driver) run(ctx context.Context) (st RolloutStatus, err error) {
	if d.clock, err = d.s.registryClock(ctx); err != nil {
		return st, err
	}
	for {
		r, err := d.s.rolling(ctx)
		if err == nil || errors.Is(err, protocol.ErrNotFound) {
			err = cmp.Or(d.lost(&r), err)
		}
		if err != nil {
			return st, err
		}
		if r.Progress.Version != d.version {
			st.Version, st.State, st.Reason = d.version, RolloutSuperseded, fmt.Sprintf("version %d is rolled out", r.Progress.Version)
			d.show(st)
			return st, nil
		}
		if st, err = d.look(ctx, r); err != nil || st.State.Over() {
			return st, err
		}
		select {
		case <-time.After(d.pause(&st)):
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}

// lost is an error when another log has taken the place of the one with the rollout.
// What is lost is not put back: the version to go back to is gone with it.
func (d *driver) lost(r *rolling) error {
	if r.Epoch.ID == d.epoch {
		return nil
	}
	if r.Progress.Version != d.version {
		return &LostRolloutError{Swarm: d.s.name, Version: d.version, Epoch: r.Epoch.ID}
	}
	d.epoch = r.Epoch.ID
	return nil
}

// pause is how long nothing can be missed that matters.
func (d *driver) pause(st *RolloutStatus) time.Duration {
	return min(max(st.Plan.Bake/20, lookOften), lookSeldom)
}

// look takes one look at the rollout and does what is to be done.
func (d *driver) look(ctx context.Context, r rolling) (RolloutStatus, error) {
	st := RolloutStatus{Progress: r.Progress, Plan: r.plan, Base: r.version()}
	if r.staged == nil || r.Progress.State.Over() {
		d.show(st)
		return st, nil
	}
	if err := d.drivable(&r); err != nil {
		return st, err
	}
	c, err := d.s.Compliance(ctx, ComplianceOptions{Version: r.staged.Version, Members: d.o.Members})
	if err != nil {
		return st, err
	}
	st.Reached = r.Progress.reach(&c, r.staged.Time)
	d.show(st)
	switch {
	case !r.at.IsZero() && d.clock.now().Sub(r.at) > keepAlive:
		_, err := d.s.write(ctx, &r.Progress, r.fence, &d.write)
		return st, d.overtaken(err)
	case r.Progress.State != RolloutRunning:
		return st, nil
	case r.Progress.Ending != "":
		return st, d.overtaken(d.end(ctx, r))
	case r.Progress.Since.IsZero():
		return d.step(ctx, r, &c, 0)
	}
	switch v, why := r.plan.judge(&r.Progress, st.Reached, d.clock.now()); v {
	case advance:
		return d.step(ctx, r, &c, r.Progress.Step+1)
	case finish:
		return st, d.overtaken(d.decide(ctx, r, RolloutComplete, ""))
	case giveUp:
		return st, d.overtaken(d.decide(ctx, r, RolloutRolledBack, why))
	case goOn:
	}
	return st, nil
}

// drivable finds what no later look would mend. The fence of the progress may be
// above the version for a moment, when the next rollout has begun meanwhile.
func (d *driver) drivable(r *rolling) error {
	above := r.fence.K > r.staged.Version
	if above && d.above {
		return protocol.Errorf(protocol.ErrConflict, "the fence of %s stands at %d, above version %d: it has to be reset",
			d.s.rollout, r.fence.K, r.staged.Version)
	}
	d.above = above
	return r.unplanned
}

// step writes the beginning of a step. Who is reached by it is seen at the next
// look.
func (d *driver) step(ctx context.Context, r rolling, c *Compliance, step int) (RolloutStatus, error) {
	p := Progress{
		Version: r.staged.Version, State: RolloutRunning, Step: step, Since: d.clock.now(),
		Share: max(r.plan.share(step), r.Progress.Share), Labels: r.plan.Labels,
	}
	p.atLeastOne(c)
	_, err := d.s.write(ctx, &p, r.fence, &d.write)
	st := RolloutStatus{Progress: p, Plan: r.plan, Base: r.version(), Reached: p.reach(c, r.staged.Time)}
	if err == nil {
		d.show(st)
	}
	return st, d.overtaken(err)
}

// decide writes how the rollout is to end, and brings that end. It takes two writes:
// the one that ends it is of another topic, and under a leadership has no room for a
// condition on the progress. A pause is in the log before the decision, which then
// is refused, or finds it and is refused itself.
func (d *driver) decide(ctx context.Context, r rolling, ending RolloutState, why string) error {
	r.Progress.Ending, r.Progress.Reason = ending, why
	seq, err := d.s.write(ctx, &r.Progress, r.fence, &d.write)
	if err != nil {
		return err
	}
	r.fence.K, r.fence.S = r.Progress.Version, seq
	return d.end(ctx, r)
}

// end brings the end that was decided on.
func (d *driver) end(ctx context.Context, r rolling) error {
	if r.Progress.Ending == RolloutComplete {
		return d.s.promote(ctx, r, &d.write)
	}
	how := d.write
	how.Reason = r.Progress.Reason
	_, err := d.s.rollBack(ctx, r, &how)
	return err
}

// overtaken passes over a refusal of our own fences: somebody else wrote, which
// the next look shows.
func (d *driver) overtaken(err error) error {
	var e *protocol.Error
	var conflict *ConflictError
	if errors.As(err, &e) && (e.Topic == d.s.rollout || e.Topic == d.s.topic) || errors.As(err, &conflict) {
		return nil
	}
	return err
}

// show tells of what has changed.
func (d *driver) show(st RolloutStatus) {
	p, was := st.Progress, d.shown.Progress
	if p.Version == was.Version && p.State == was.State && p.Step == was.Step && st.Reached == d.shown.Reached {
		return
	}
	d.shown = st
	d.s.o.Logger.Info("config rollout", "swarm", d.s.name, "version", p.Version, "state", p.State, "step", p.Step,
		"share", p.Share, "reached", st.Reached.All, "running", st.Reached.Running, "failed", st.Reached.Failed, "reason", p.Reason)
	d.o.Notify(st)
}
