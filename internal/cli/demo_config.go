package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	demoSwarm = "demo"

	// demoRoom is for how many workers an agent of the demonstration has memory.
	demoRoom = 100

	operator = "operator"
)

// demoSchema is what the swarm's documents must match.
const demoSchema = `{"type":"object","required":["max_workers"],"properties":{"max_workers":{"type":"integer","minimum":1}}}`

// follower is an agent of the demonstration's swarm. It keeps its configuration in
// memory.
type follower struct {
	name string

	mu  sync.Mutex // guards now
	now config.Applied
}

// Current tells what is applied.
func (f *follower) Current(context.Context) (config.Applied, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

// Apply fails where there is no room for the workers.
func (f *follower) Apply(_ context.Context, d *config.Document) error {
	c, err := config.Decode[struct {
		MaxWorkers int `json:"max_workers"`
	}](d)
	if err != nil {
		return err
	}
	if c.MaxWorkers > demoRoom {
		return fmt.Errorf("no memory for %d workers", c.MaxWorkers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = config.Applied{Version: d.Version, Digest: d.Digest, Config: d.Config, At: time.Now(), Epoch: d.Epoch}
	return nil
}

// news is a change at an agent.
type news struct {
	who *follower
	config.Change
}

// swarmScene is a swarm at work.
type swarmScene struct {
	*demo
	swarm  *config.Swarm // the operator's
	agents []*follower
	news   chan news
	rules  []config.Validator

	// Owned by who reads news:
	at     map[*follower]uint64 // the version each agent runs
	failed map[news]bool        // what was told
}

// configAct has a swarm's configuration changed: by all at once, not at all, step by
// step, and back again.
func (d *demo) configAct(ctx context.Context) error {
	d.say("\nCONFIGURATION. %d agents follow the swarm %q; each may run up to %d workers.\n\n  time     who\n", demoAgents, demoSwarm, demoRoom)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &swarmScene{
		demo: d, news: make(chan news, 64), rules: []config.Validator{&config.Schema{JSON: []byte(demoSchema)}},
		at: make(map[*follower]uint64), failed: make(map[news]bool),
	}
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	if err := s.gather(ctx, &following); err != nil {
		return err
	}
	result := map[string]any{"agents": demoAgents}
	for _, part := range []func(context.Context, map[string]any) error{s.publish, s.refuse, s.rollOut, s.rollBack} {
		if err := part(ctx, result); err != nil {
			return err
		}
		if err := sleep(ctx, demoPause/3); err != nil {
			return err
		}
	}
	d.result.set("config", result)
	return nil
}

// gather brings the operator and the agents on the stage.
func (s *swarmScene) gather(ctx context.Context, following *sync.WaitGroup) error {
	open := func(who string, id link.Identity) (*config.Swarm, error) {
		c, err := s.enterAs(ctx, id, nil)
		if err != nil {
			return nil, err
		}
		return config.Open(ctx, c, demoSwarm, config.Options{Who: who})
	}
	var err error
	if s.swarm, err = open(operator, link.NewIdentity()); err != nil {
		return err
	}
	for i := range demoAgents {
		f := &follower{name: fmt.Sprintf("agent-%d", i+1)}
		swarm, err := open(f.name, identityBetween(demoShares[i], demoShares[i+1]))
		if err != nil {
			return err
		}
		s.agents = append(s.agents, f)
		following.Go(func() {
			_ = swarm.Follow(ctx, f, config.FollowOptions{Agent: f.name, Validators: s.rules, Notify: func(c config.Change) {
				select {
				case s.news <- news{f, c}:
				case <-ctx.Done():
				}
			}})
		})
	}
	return nil
}

// demoShares are the places of the agents, by which rollouts reach them.
var demoShares = [demoAgents + 1]float64{0, 0.2, 0.4, 0.6, 0.8, 1}

// identityBetween is one that a rollout reaches with the share to, and not with the
// share from. As chance has it, a few agents are far from evenly spread.
func identityBetween(from, to float64) link.Identity {
	reached := func(id link.Identity, share float64) bool {
		p := config.Progress{State: config.RolloutRunning, Share: share}
		return p.Reaches(id.NodeID(), nil)
	}
	for {
		if id := link.NewIdentity(); reached(id, to) && !reached(id, from) {
			return id
		}
	}
}

// publish has all agents apply a version.
func (s *swarmScene) publish(ctx context.Context, result map[string]any) error {
	p, err := s.swarm.Publish(ctx, []byte(`{"max_workers":10}`), config.PublishOptions{Validators: s.rules})
	if err != nil {
		return err
	}
	began := time.Now()
	s.line(operator, `publishes {"max_workers":10}, version %d`, p.Version)
	if err := s.allAt(ctx, p.Version); err != nil {
		return err
	}
	took := time.Since(began)
	s.line("-", "all %d agents run it, after %s", demoAgents, milliseconds(took))
	result["version"], result["digest"], result["applied_ms"] = p.Version, p.Digest.String(), inMS(took)
	return nil
}

// refuse shows that a document which breaks the rules is not published.
func (s *swarmScene) refuse(ctx context.Context, result map[string]any) error {
	_, err := s.swarm.Publish(ctx, []byte(`{"max_workers":"lots"}`), config.PublishOptions{Validators: s.rules})
	var invalid *config.InvalidError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("a bad configuration was not refused: %w", err)
	}
	s.line(operator, `tries {"max_workers":"lots"}: refused, %v; nothing was published`, invalid)
	result["refused"] = invalid.Error()
	return nil
}

// demoPlan goes on as soon as agents run a version.
var demoPlan = config.Plan{Canary: 0.2, Steps: []float64{0.6, 1}, Bake: time.Millisecond, Timeout: time.Minute}

// rollOut brings a version to the swarm in steps.
func (s *swarmScene) rollOut(ctx context.Context, result map[string]any) error {
	st, took, err := s.stage(ctx, `{"max_workers":20}`)
	if err != nil {
		return err
	}
	if err := s.allAt(ctx, st.Version); err != nil {
		return err
	}
	s.line("-", "all %d agents run version %d, after %s", demoAgents, st.Version, milliseconds(took))
	result["rollout"] = map[string]any{"version": st.Version, "state": st.State, "ms": inMS(took)}
	return nil
}

// rollBack stages a version that no agent can apply.
func (s *swarmScene) rollBack(ctx context.Context, result map[string]any) error {
	st, took, err := s.stage(ctx, `{"max_workers":900}`)
	if err != nil {
		return err
	}
	now, err := s.swarm.Latest(ctx)
	if err != nil {
		return err
	}
	if err := s.allAt(ctx, now.Version); err != nil {
		return err
	}
	s.line("-", "all %d agents run version %d, which is %s again", demoAgents, now.Version, now.Config)
	s.say("\n  the bad version reached %d of %d agents\n", s.told(st.Version), demoAgents)
	result["rollback"] = map[string]any{
		"version": st.Version, "state": st.State, "reason": st.Reason, "reached": s.told(st.Version), "ms": inMS(took), "back_as": now.Version,
	}
	return nil
}

// stage starts a rollout and drives it to its end.
func (s *swarmScene) stage(ctx context.Context, text string) (st config.RolloutStatus, took time.Duration, err error) {
	p, err := s.swarm.StartRollout(ctx, []byte(text), demoPlan, config.PublishOptions{Validators: s.rules})
	if err != nil {
		return st, 0, err
	}
	began := time.Now()
	s.line(operator, "stages %s, version %d: to 20%%, 60%%, then all", text, p.Version)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		step := -1
		end, err := s.swarm.DriveRollout(ctx, config.DriveOptions{Notify: func(now config.RolloutStatus) {
			if now.Step != step && !now.State.Over() {
				step = now.Step
				s.line("-", "%s: %d of %d agents may have it", stepText(now), now.Reached.All, demoAgents)
			}
		}})
		st = end
		done <- err
	}()
	for {
		select {
		case n := <-s.news:
			s.hear(n)
		case err := <-done:
			if st.State == config.RolloutRolledBack {
				s.line("-", "rolled back by itself: %s", st.Reason)
			}
			return st, time.Since(began), err
		}
	}
}

// hear shows what happened to an agent; who tries again and fails again, once.
func (s *swarmScene) hear(n news) {
	switch n.Kind {
	case config.ChangeApplied:
		s.at[n.who] = n.Version
		s.line(n.who.name, "runs version %d", n.Version)
	case config.ChangeRolledBack:
		s.at[n.who] = n.Version
		s.line(n.who.name, "runs version %d, with what was before", n.Version)
	case config.ChangeFailed, config.ChangeRejected:
		if !s.failed[n] {
			s.failed[n] = true
			s.line(n.who.name, "cannot: %s", n.Reason)
		}
	default:
	}
}

// told counts the agents that failed to apply a version.
func (s *swarmScene) told(version uint64) (n int) {
	for was := range s.failed {
		if was.Version == version {
			n++
		}
	}
	return n
}

// allAt waits until all agents run a version.
func (s *swarmScene) allAt(ctx context.Context, version uint64) error {
	late := time.NewTimer(demoPatience)
	defer late.Stop()
	for {
		n := 0
		for _, f := range s.agents {
			if s.at[f] == version {
				n++
			}
		}
		if n == len(s.agents) {
			return nil
		}
		select {
		case m := <-s.news:
			s.hear(m)
		case <-late.C:
			return protocol.Errorf(protocol.ErrTimeout, "%d of %d agents run version %d after %v", n, len(s.agents), version, demoPatience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
