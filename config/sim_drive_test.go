package config

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// simRolling is a rollout as it stands in the log.
type simRolling struct {
	simHead
	Progress
	fence protocol.Fence // of the progress
	plan  Plan
}

// rolling is Swarm.rolling; ok is false when no rollout is going on.
func (p *simFlow) rolling() (r simRolling, ok bool) {
	r.simHead = p.look()
	p.arrive()
	if r.fence = p.simSwarm.rollout; len(p.progress) > 0 {
		r.Progress = p.progress[len(p.progress)-1]
	}
	epoch := p.epoch
	p.sleep(p.upTo(50 * time.Millisecond))
	if r.staged == nil || epoch != r.epoch {
		return r, false
	}
	var err error
	if r.plan, err = planOf(r.staged); err != nil {
		panic(err)
	}
	if r.Version != r.staged.Version {
		r.Progress = Progress{Version: r.staged.Version, State: RolloutRunning, Share: r.plan.share(0), Labels: r.plan.Labels}
	}
	return r, !r.State.Over()
}

func (p *simFlow) measured(version uint64) Compliance {
	p.arrive()
	c := p.compliance(version)
	p.judge.measured[p.name] = p.now
	p.sleep(p.upTo(50 * time.Millisecond))
	return c
}

// rollOut is Swarm.StartRollout.
func (f *simSwarm) rollOut(plan Plan) { f.rollOutDocument(f.anyDocument(), plan) }

func (f *simSwarm) rollOutDocument(d *Document, plan Plan) {
	f.flow(fmt.Sprint("rollout ", f.docs), func(p *simFlow) {
		if err := plan.validate(); err != nil {
			panic(err)
		}
		h := p.look()
		if h.latest == nil || h.staged != nil {
			return
		}
		text, err := plan.text()
		if err != nil {
			panic(err)
		}
		d = d.with(planField, text)
		d.Staged = true
		_ = p.publish(d, h, 0)
	})
}

// progressWrite is Swarm.write.
func (p *simFlow) progressWrite(next Progress, r simRolling) error {
	c := &protocol.Condition{Epoch: r.epoch, Term: next.Version, Raise: next.Version, HasExpect: true, Expect: r.fence.S}
	return p.send(func() error {
		if p.flaw.unexpecting {
			c.Expect = p.simSwarm.rollout.S
		}
		return p.write(p.name, &next, c)
	})
}

// drive is Swarm.DriveRollout.
func (p *simFlow) drive() {
	for {
		r, ok := p.rolling()
		if !ok {
			return
		}
		p.driveLook(r)
		p.sleep(min(max(r.plan.Bake/20, lookOften), lookSeldom))
	}
}

func (p *simFlow) driveLook(r simRolling) {
	c := p.measured(r.staged.Version)
	reached := r.reach(&c, r.staged.Time)
	if p.flaw.deaf {
		reached.Failed = 0
	}
	if p.flaw.reported {
		reached.All = reached.Running
	}
	switch {
	case r.State != RolloutRunning:
		return
	case r.Ending != "":
		p.bring(r)
		return
	case r.Since.IsZero():
		p.driveStep(r, &c, 0)
		return
	}
	now := p.time()
	if p.flaw.noBake {
		now = now.Add(r.plan.Bake)
	}
	switch v, _ := r.plan.judge(&r.Progress, reached, now); v {
	case advance:
		p.driveStep(r, &c, r.Step+1)
	case finish:
		p.decide(r, RolloutComplete)
	case giveUp:
		p.decide(r, RolloutRolledBack)
	case goOn:
	}
}

func (p *simFlow) driveStep(r simRolling, c *Compliance, step int) {
	next := Progress{
		Version: r.staged.Version, State: RolloutRunning, Step: step, Since: p.time(),
		Share: max(r.plan.share(step), r.Share), Labels: r.plan.Labels,
	}
	if p.flaw.all {
		next.Share = 1
	}
	next.atLeastOne(c)
	_ = p.progressWrite(next, r)
}

// decide is driver.decide.
func (p *simFlow) decide(r simRolling, ending RolloutState) {
	p.perhapsPause()
	r.Ending = ending
	if !p.flaw.blind {
		if err := p.progressWrite(r.Progress, r); err != nil {
			return
		}
		r.fence = protocol.Fence{K: r.Version, S: r.fence.S + 1}
	}
	p.bring(r)
}

// perhapsPause lets somebody pause at the worst of all moments.
func (p *simFlow) perhapsPause() {
	if p.trouble && p.rand.IntN(3) == 0 {
		p.setRollout(RolloutPaused)
	}
}

// bring is driver.end.
func (p *simFlow) bring(r simRolling) {
	p.perhapsPause()
	told := func() { p.judge.ends(p.name, r.Version) }
	if r.Ending == RolloutComplete {
		p.promote(r, told)
	} else {
		p.giveUp(r, told)
	}
}

// promote is Swarm.promote; told is called at the registry.
func (p *simFlow) promote(r simRolling, told func()) {
	d := *r.staged
	d.Staged = false
	c := &protocol.Condition{Epoch: r.epoch, Term: d.Version, HasExpect: true, Expect: r.simHead.fence.S}
	err := p.send(func() error {
		told()
		_, err := p.store(p.name, &d, c)
		return err
	})
	if err == nil {
		next := r.Progress
		next.State, next.Ending, next.Share = RolloutComplete, "", 1
		_ = p.progressWrite(next, r)
	}
}

// giveUp is Swarm.rollBack.
func (p *simFlow) giveUp(r simRolling, told func()) {
	old := r.latest
	if old == nil {
		return
	}
	d := &Document{Config: old.Config, Digest: old.Digest, RolledBackFrom: r.staged.Version, RolledBackTo: old.Version}
	err := p.publishTold(d, r.simHead, 0, told)
	if err == nil {
		next := r.Progress
		next.State, next.Ending = RolloutRolledBack, ""
		_ = p.progressWrite(next, r)
	}
}

// driver is somebody who drives until it dies.
func (f *simSwarm) driver(name string) {
	f.drivers = append(f.drivers, f.flow(name, func(p *simFlow) { p.drive() }))
}

// setRollout pauses, resumes or aborts.
func (f *simSwarm) setRollout(state RolloutState) {
	f.flow("person", func(p *simFlow) {
		r, ok := p.rolling()
		switch {
		case !ok || r.State == state:
		case state == RolloutRolledBack:
			p.giveUp(r, func() {})
		case r.Ending != "" && !p.flaw.deafened:
			p.judge.reached["too late to pause"]++
		default:
			next := r.Progress
			if next.Since.IsZero() {
				next.Share, next.Labels = 0, nil
			} else {
				next.Since = p.time()
			}
			next.State = state
			_ = p.progressWrite(next, r)
		}
	})
}
