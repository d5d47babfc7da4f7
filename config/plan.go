package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Plan says how a version is to reach a swarm. It stands in the log with the
// version, so that any node can go on with the rollout. The zero value works.
type Plan struct {
	// Labels and Canary tell who is reached first: agents that report all Labels,
	// and a share of all others, chosen by a hash of their node ids, the same ones
	// each time. By default 5 %, or with Labels nobody else. At least one agent is
	// reached, if any reports.
	Labels map[string]string
	Canary float64

	// Steps are the shares after that, rising; by default 25 %, 50 %, 100 %. Behind
	// the last, if it is less, 100 % is added.
	Steps []float64

	// Bake is how long each step goes on at least; 10 minutes by default.
	Bake time.Duration

	// Success is the share of the reached agents that must run the version before
	// the next step; 95 % by default. Timeout is when a step without it has failed,
	// an hour by default.
	Success float64
	Timeout time.Duration

	// MaxFailed is the share of the reached agents that may refuse the version, fail
	// to apply it, or fall silent. Above it the rollout is rolled back. 0, the
	// default, is none.
	MaxFailed float64

	// MaxUnhealthy is the share of agents that may not run the version before, at
	// the start; 10 % by default.
	MaxUnhealthy float64
}

// planField is the field of a staged document's message that holds the plan.
const planField = "rollout"

func (p *Plan) validate() error {
	if p.Canary == 0 && len(p.Labels) == 0 {
		p.Canary = 0.05
	}
	if len(p.Steps) == 0 {
		p.Steps = []float64{0.25, 0.5, 1}
	}
	if p.Steps[len(p.Steps)-1] < 1 {
		p.Steps = append(p.Steps[:len(p.Steps):len(p.Steps)], 1)
	}
	fill := func(value *float64, standard float64) {
		if *value == 0 {
			*value = standard
		}
	}
	fill(&p.Success, 0.95)
	fill(&p.MaxUnhealthy, 0.1)
	if p.Bake == 0 {
		p.Bake = 10 * time.Minute
	}
	if p.Timeout == 0 {
		p.Timeout = max(time.Hour, 2*p.Bake)
	}
	return p.fault()
}

func (p *Plan) fault() error {
	for name, share := range map[string]float64{
		"canary": p.Canary, "success": p.Success, "max failed": p.MaxFailed, "max unhealthy": p.MaxUnhealthy,
	} {
		if !(share >= 0 && share <= 1) {
			return protocol.Errorf(protocol.ErrInvalid, "rollout plan: %s %v is no share from 0 to 1", name, share)
		}
	}
	last := p.Canary
	for _, share := range p.Steps {
		if !(share > last && share <= 1) {
			return protocol.Errorf(protocol.ErrInvalid, "rollout plan: the step to %v does not rise above %v, up to 1", share, last)
		}
		last = share
	}
	if p.Bake < 0 || p.Timeout < p.Bake {
		return protocol.Errorf(protocol.ErrInvalid, "rollout plan: bake %v, time-out %v", p.Bake, p.Timeout)
	}
	return nil
}

// share is that of a step.
func (p *Plan) share(step int) float64 {
	if step == 0 {
		return p.Canary
	}
	return p.Steps[min(step, len(p.Steps))-1]
}

func (p *Plan) last(step int) bool { return step >= len(p.Steps) }

// planText is a Plan as it stands in the log.
type planText struct {
	Canary       float64           `json:"canary"`
	Labels       map[string]string `json:"labels,omitempty"`
	Steps        []float64         `json:"steps"`
	Bake         string            `json:"bake"`
	Timeout      string            `json:"timeout"`
	Success      float64           `json:"success"`
	MaxFailed    float64           `json:"max_failed"`
	MaxUnhealthy float64           `json:"max_unhealthy"`
}

func (p *Plan) text() ([]byte, error) {
	return json.Marshal(planText{
		p.Canary, p.Labels, p.Steps, p.Bake.String(), p.Timeout.String(), p.Success, p.MaxFailed, p.MaxUnhealthy,
	})
}

// planOf reads the plan of a staged document.
func planOf(d *Document) (p Plan, err error) {
	var t planText
	if err = json.Unmarshal(d.extra(planField), &t); err == nil {
		p = Plan{
			Canary: t.Canary, Labels: maps.Clone(t.Labels), Steps: t.Steps, Success: t.Success,
			MaxFailed: t.MaxFailed, MaxUnhealthy: t.MaxUnhealthy,
		}
		if p.Bake, err = time.ParseDuration(t.Bake); err == nil {
			p.Timeout, err = time.ParseDuration(t.Timeout)
		}
	}
	if err != nil {
		return p, protocol.Errorf(protocol.ErrInvalid, "version %d has no rollout plan that can be read", d.Version)
	}
	return p, p.validate()
}

// Reached counts the agents that a rollout has reached.
type Reached struct {
	All     int
	Running int // the version
	Failed  int // refused it, could not apply it, or fell silent
	Waiting int
	Error   string // of one that failed
}

// reach counts who of the agents is reached. Agents that were silent before the
// rollout began say nothing about it; those that fell silent since, do.
func (p *Progress) reach(c *Compliance, began time.Time) (r Reached) {
	for i := range c.Agents {
		a := &c.Agents[i]
		if a.Script || a.ReportedAt.IsZero() || !p.Reaches(a.Node, a.Labels) || a.State == StateStale && a.ReportedAt.Before(began) {
			continue
		}
		r.All++
		switch a.State {
		case StateApplied:
			r.Running++
		case StateRejected, StateFailed:
			r.Failed, r.Error = r.Failed+1, a.Error
		case StateStale:
			r.Failed++
			if r.Error == "" {
				r.Error = "it fell silent"
			}
		case StatePending:
			r.Waiting++
		}
	}
	return r
}

// atLeastOne raises the share until somebody is reached.
func (p *Progress) atLeastOne(c *Compliance) {
	lowest := 1.0
	for i := range c.Agents {
		a := &c.Agents[i]
		if a.Script || a.State == StateStale || a.ReportedAt.IsZero() {
			continue
		}
		if p.Reaches(a.Node, a.Labels) {
			return
		}
		lowest = min(lowest, rank(a.Node))
	}
	if lowest < 1 {
		p.Share = math.Nextafter(lowest, 2)
	}
}

// verdict is what is to become of a rollout now.
type verdict uint8

const (
	goOn    verdict = iota // wait
	advance                // to the next step
	finish                 // the last step was good
	giveUp                 // roll back
)

// judge decides about a running rollout.
func (p *Plan) judge(at *Progress, r Reached, now time.Time) (verdict, string) {
	since := now.Sub(at.Since)
	good := float64(r.Running) >= p.Success*float64(r.All)
	switch {
	case float64(r.Failed) > p.MaxFailed*float64(r.All):
		return giveUp, fmt.Sprintf("%d of %d agents failed: %s", r.Failed, r.All, r.Error)
	case good && since >= p.Bake && p.last(at.Step):
		return finish, ""
	case good && since >= p.Bake:
		return advance, ""
	case !good && since >= p.Timeout:
		return giveUp, fmt.Sprintf("%d of %d agents run it after %v", r.Running, r.All, p.Timeout)
	}
	return goOn, ""
}
