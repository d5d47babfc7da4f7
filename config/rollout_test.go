package config_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

const rolloutTopic = "config:rollout:workers"

// fleet is ten agents that run a first version, and a script that only reads.
func fleet(t *testing.T, reg *fakeregistry.Registry, with ...func(*agent)) (*config.Swarm, []*agent) {
	t.Helper()
	s := join(t, reg, "ci")
	publish(t, s, 1, `{"v":1}`)
	var all []*agent
	for i := range 10 {
		all = append(all, follow(t, reg, fmt.Sprintf("n%d", i), with...))
	}
	settle()
	return s, all
}

func running(all []*agent, version uint64) (n int) {
	for _, a := range all {
		if a.version() == version {
			n++
		}
	}
	return n
}

// driving drives a rollout until it is over or the test ends.
type driving struct {
	mu    sync.Mutex
	steps []string
	done  chan error
	end   config.RolloutStatus
	stop  func()
}

func drive(t *testing.T, s *config.Swarm, o config.DriveOptions) *driving {
	t.Helper()
	d := &driving{done: make(chan error, 1)}
	o.Notify = func(st config.RolloutStatus) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.steps = append(d.steps, fmt.Sprintf("%s %d: %d/%d", st.State, st.Step, st.Reached.Running, st.Reached.All))
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end, err := s.DriveRollout(ctx, o)
		d.end = end
		d.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return d
}

func rollout(t *testing.T, s *config.Swarm) config.RolloutStatus {
	t.Helper()
	st, err := s.Rollout(t.Context())
	require.NoError(t, err)
	return st
}

var plan = config.Plan{Canary: 0.2, Steps: []float64{0.5, 1}, Bake: 10 * time.Minute}

// updates lists the versions that the recipe's scripts see.
func updates(reg *fakeregistry.Registry) (list []uint64) {
	for _, m := range reg.Messages(topic) {
		if d, err := config.ParseDocument(m.Payload); err == nil && !d.Staged {
			list = append(list, d.Version)
		}
	}
	return list
}

func TestARolloutGoesStepByStep(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		p, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		require.Equal(t, uint64(2), p.Version)
		pass(15 * time.Minute)
		require.Equal(t, 10, running(all, 1), "nobody drives it")

		d := drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		canaries := running(all, 2)
		require.Positive(t, canaries)
		require.Less(t, canaries, 6)
		require.Equal(t, []uint64{1}, updates(reg), "scripts see nothing of it")
		latest, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(1), latest.Version)
		require.Equal(t, canaries, rollout(t, s).Reached.Running)
		for _, a := range all {
			if a.version() == 1 {
				require.Equal(t, "1: applied 1 held", a.report(t, reg))
			}
		}

		pass(11 * time.Minute)
		require.GreaterOrEqual(t, running(all, 2), canaries)
		require.Less(t, running(all, 2), 10)
		require.Equal(t, 1, rollout(t, s).Step)
		pass(11 * time.Minute)
		require.Equal(t, 10, running(all, 2))
		require.Equal(t, []uint64{1}, updates(reg))
		pass(11 * time.Minute)
		require.NoError(t, <-d.done)
		require.Equal(t, config.RolloutComplete, d.end.State)
		require.Equal(t, []uint64{1, 2}, updates(reg), "and now they do")
		require.Equal(t, config.RolloutComplete, rollout(t, s).State)
		got, err := s.Get(t.Context(), 2)
		require.NoError(t, err)
		require.False(t, got.Staged)
		for _, a := range all {
			require.Equal(t, []uint64{1, 2}, a.list(), "once")
			require.Equal(t, "2: applied 2", a.report(t, reg))
		}
		publish(t, s, 3, `{"v":3}`)
		settle()
		require.Equal(t, 10, running(all, 3))
	})
}

func TestAFailingRolloutIsRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg, func(a *agent) {
			a.fail = func(d *config.Document) error {
				if d.Version == 2 && a.name > "n4" {
					return errors.New("port in use")
				}
				return nil
			}
		})
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		d := drive(t, s, config.DriveOptions{})
		require.NoError(t, <-d.done)
		settle()
		require.Equal(t, config.RolloutRolledBack, d.end.State)
		require.Contains(t, d.end.Reason, "agents failed: port in use")
		latest, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{"v":1}`, string(latest.Config))
		require.Equal(t, []uint64{2, 1}, []uint64{latest.RolledBackFrom, latest.RolledBackTo})
		require.Equal(t, 10, running(all, latest.Version), "the canaries too")
		require.Equal(t, []uint64{1, latest.Version}, updates(reg))
		require.Equal(t, config.RolloutRolledBack, rollout(t, s).State)

		_, err = s.StartRollout(t.Context(), []byte(`{"v":4}`), plan, config.PublishOptions{})
		require.NoError(t, err, "the way is free for the next")
	})
}

func TestAgentsThatFallSilentFailARollout(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{Canary: 1e-9, Bake: time.Hour}, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		d := drive(t, s, config.DriveOptions{})
		pass(time.Minute)
		require.Equal(t, 1, running(all, 2), "at least one")
		for _, a := range all {
			if a.version() == 2 {
				a.stop() // as if it had crashed
			}
		}
		require.NoError(t, <-d.done)
		require.Equal(t, "1 of 1 agents failed: it fell silent", d.end.Reason)
	})
}

func TestARolloutTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, _ := fleet(t, reg, func(a *agent) {
			a.o.Validators = []config.Validator{config.ValidatorFunc(func(ctx context.Context, d *config.Document) error {
				if d.Version == 2 {
					<-ctx.Done()
				}
				return nil
			})}
		})
		hasty := plan
		hasty.Timeout = 12 * time.Minute
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), hasty, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		d := drive(t, s, config.DriveOptions{})
		require.NoError(t, <-d.done)
		require.Regexp(t, `0 of \d agents run it after 12m0s`, d.end.Reason)
	})
}

func TestLabelsSelectTheCanaries(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg, func(a *agent) {
			a.o.Labels = map[string]string{"zone": "a", "n": a.name}
		})
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{
			Labels: map[string]string{"zone": "a", "n": "n3"}, Steps: []float64{1}, Bake: time.Hour,
		}, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		drive(t, s, config.DriveOptions{})
		pass(time.Minute)
		require.Equal(t, 1, running(all, 2))
		require.Equal(t, uint64(2), all[3].version())
	})
}

// The plan and the progress are in the log: another goes on, and a restart of
// everybody in between changes nothing.
func TestAnotherTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		first := drive(t, join(t, reg, "first"), config.DriveOptions{})
		pass(12 * time.Minute)
		require.Equal(t, 1, rollout(t, s).Step)
		first.stop()
		require.ErrorIs(t, <-first.done, context.Canceled)
		pass(3 * time.Minute)
		for _, a := range all {
			a.stop()
			a.run(t)
		}
		settle()
		one := drive(t, join(t, reg, "second"), config.DriveOptions{})
		two := drive(t, join(t, reg, "third"), config.DriveOptions{})
		pass(8 * time.Minute)
		require.Equal(t, 2, rollout(t, s).Step, "the bake goes on where it was")
		require.NoError(t, <-one.done)
		require.NoError(t, <-two.done)
		settle()
		require.Equal(t, []uint64{1, 2}, updates(reg))
		require.Equal(t, config.RolloutComplete, one.end.State)
		require.Equal(t, config.RolloutComplete, two.end.State)
		require.Equal(t, 10, running(all, 2))
	})
}

func TestPauseResumeAbort(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		none := config.RolloutOptions{}
		for _, err := range []error{s.PauseRollout(t.Context(), none), s.ResumeRollout(t.Context(), none)} {
			require.ErrorIs(t, err, protocol.ErrNotFound)
		}
		_, err := s.DriveRollout(t.Context(), config.DriveOptions{})
		require.ErrorIs(t, err, protocol.ErrNotFound)
		_, err = s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		_, err = s.StartRollout(t.Context(), []byte(`{"v":3}`), plan, config.PublishOptions{Version: 3})
		require.ErrorIs(t, err, protocol.ErrConflict)
		_, err = s.Publish(t.Context(), []byte(`{"v":3}`), config.PublishOptions{Expect: 1})
		require.ErrorIs(t, err, protocol.ErrConflict, "what is staged must not be overlooked")

		d := drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		canaries := running(all, 2)
		require.NoError(t, s.PauseRollout(t.Context(), config.RolloutOptions{Reason: "lunch"}))
		require.NoError(t, s.PauseRollout(t.Context(), none))
		pass(15 * time.Minute)
		require.Equal(t, canaries, running(all, 2))
		require.Equal(t, "lunch", rollout(t, s).Reason)
		require.NoError(t, s.ResumeRollout(t.Context(), none))
		pass(11 * time.Minute)
		require.Equal(t, 1, rollout(t, s).Step)

		p, err := s.AbortRollout(t.Context(), none)
		require.NoError(t, err)
		require.NoError(t, <-d.done)
		settle()
		require.Equal(t, 10, running(all, p.Version))
		require.Equal(t, config.RolloutRolledBack, d.end.State)
		require.Equal(t, "aborted", d.end.Reason)
		_, err = s.AbortRollout(t.Context(), none)
		require.ErrorIs(t, err, protocol.ErrNotFound)
	})
}

// A pause before anything has begun does not begin it.
func TestARolloutMayBePausedBeforeItBegins(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		require.NoError(t, s.PauseRollout(t.Context(), config.RolloutOptions{}))
		drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(11 * time.Minute)
		require.Equal(t, 10, running(all, 1))
		require.Equal(t, config.RolloutPaused, rollout(t, s).State)
		require.NoError(t, s.ResumeRollout(t.Context(), config.RolloutOptions{}))
		pass(time.Minute)
		require.Zero(t, rollout(t, s).Step)
		require.Equal(t, rollout(t, s).Reached.All, running(all, 2))
		require.NotZero(t, running(all, 2))
	})
}

// Progress that does not change is written again, before it is too old to be kept.
func TestProgressIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, _ := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		require.NoError(t, s.PauseRollout(t.Context(), config.RolloutOptions{Reason: "holidays"}))
		before := reg.Messages(rolloutTopic)[0]
		reg.SetClock(25 * time.Hour)
		drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		list := reg.Messages(rolloutTopic)
		require.Len(t, list, 2, "of two nodes, once")
		require.Equal(t, fakeregistry.NodeID("driver"), list[1].Sender)
		require.Greater(t, list[1].Time, before.Time)
		st := rollout(t, s)
		require.Equal(t, config.RolloutPaused, st.State)
		require.Equal(t, "holidays", st.Reason)
	})
}

func TestARolloutGivesWayToTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, _ := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		d := drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		_, err = s.AbortRollout(t.Context(), config.RolloutOptions{})
		require.NoError(t, err)
		bold := plan
		bold.MaxUnhealthy = 1
		_, err = s.StartRollout(t.Context(), []byte(`{"v":4}`), bold, config.PublishOptions{})
		require.NoError(t, err)
		require.NoError(t, <-d.done)
		require.True(t, d.end.State.Over())
		require.Equal(t, uint64(2), d.end.Version)
	})
}

func TestAPublishSupersedesARollout(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		d := drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		publish(t, s, 3, `{"fix":1}`)
		require.NoError(t, <-d.done)
		require.Equal(t, config.RolloutSuperseded, d.end.State)
		settle()
		require.Equal(t, 10, running(all, 3))
		require.Equal(t, config.RolloutSuperseded, rollout(t, s).State)
	})
}

func TestARollbackEndsARollout(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		drive(t, join(t, reg, "driver"), config.DriveOptions{})
		pass(time.Minute)
		r, err := s.Rollback(t.Context(), config.Previous, config.RollbackOptions{})
		require.NoError(t, err)
		require.Equal(t, []uint64{2, 1}, []uint64{r.From, r.To})
		pass(time.Minute)
		require.Equal(t, 10, running(all, r.Published.Version))
		require.Equal(t, config.RolloutRolledBack, rollout(t, s).State)
	})
}

func TestAnUnhealthySwarmIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		start := func(p config.Plan) error {
			_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), p, config.PublishOptions{})
			return err
		}
		require.ErrorIs(t, start(plan), protocol.ErrNotFound, "nothing to go back to")
		publish(t, s, 1, `{"v":1}`)
		var unhealthy *config.UnhealthyError
		require.ErrorAs(t, start(plan), &unhealthy)
		require.EqualError(t, unhealthy, `config "workers": no agent reports that a rollout could reach`)

		sick := follow(t, reg, "sick", func(a *agent) {
			a.fail = func(*config.Document) error { return errors.New("disk full") }
		})
		follow(t, reg, "well")
		settle()
		require.ErrorAs(t, start(plan), &unhealthy)
		require.Equal(t, config.UnhealthyError{Swarm: swarm, Version: 1, Agents: 2, Healthy: 1}, *unhealthy)
		bold := plan
		bold.MaxUnhealthy = 0.5
		require.NoError(t, start(bold))
		_ = sick
	})
}

func TestPlansAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		for _, p := range []config.Plan{
			{Canary: -1}, {Canary: 2}, {Canary: 0.5, Steps: []float64{0.4}}, {Steps: []float64{0.5, 0.5}}, {Steps: []float64{2}},
			{Bake: -1}, {Bake: time.Hour, Timeout: time.Minute}, {Success: 2}, {MaxFailed: -0.1}, {MaxUnhealthy: 1.5},
		} {
			_, err := s.StartRollout(t.Context(), []byte(`{}`), p, config.PublishOptions{})
			require.ErrorIs(t, err, protocol.ErrInvalid, "%+v", p)
		}
		bare := openSwarm(t, restricted{dial(t, reg, "b"), client.Capabilities{}})
		_, err := bare.StartRollout(t.Context(), []byte(`{}`), plan, config.PublishOptions{})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		_, err = bare.Rollout(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

// stageAs publishes a staged version of a stranger's making.
func stageAs(t *testing.T, c *client.Client, version uint64, rest string) {
	t.Helper()
	f, err := c.Fence(t.Context(), topic)
	require.NoError(t, err)
	_, err = c.Publish(t.Context(), client.Publication{
		Topic:      topic,
		Payload:    fmt.Appendf(nil, `{"type":"config_stage","version":%d,"config":{}%s}`, version, rest),
		Conditions: []protocol.Condition{{Topic: topic, Epoch: f.Epoch.ID, Term: version, Raise: version}},
	}).Wait(t.Context())
	require.NoError(t, err)
}

// A staged version without a plan reaches nobody, and can be aborted.
func TestAStrangersStageCanBeAborted(t *testing.T) {
	for _, rest := range []string{
		``, `,"rollout":7`, `,"rollout":{"steps":{}}`, `,"rollout":{"bake":"soon","timeout":"1s"}`,
	} {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			s, all := fleet(t, reg)
			stageAs(t, dial(t, reg, "stranger"), 2, rest)
			settle()
			require.Equal(t, 10, running(all, 1))
			st := rollout(t, s)
			require.Equal(t, config.RolloutRunning, st.State)
			require.Equal(t, "invalid argument: version 2 has no rollout plan that can be read", st.Reason)
			_, err := s.DriveRollout(t.Context(), config.DriveOptions{})
			require.ErrorIs(t, err, protocol.ErrInvalid)
			p, err := s.AbortRollout(t.Context(), config.RolloutOptions{})
			require.NoError(t, err)
			settle()
			require.Equal(t, 10, running(all, p.Version))
			require.Equal(t, config.RolloutRolledBack, rollout(t, s).State)
			_, err = s.StartRollout(t.Context(), []byte(`{"v":4}`), plan, config.PublishOptions{})
			require.NoError(t, err)
		})
	}
}

// Progress whose version no rollout has raises its fence above all of them: who
// drives is told, and does not look for ever.
func TestAForgedProgressIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, all := fleet(t, reg)
		c := dial(t, reg, "stranger")
		_, err := c.Publish(t.Context(), client.Publication{
			Topic: rolloutTopic, Payload: []byte(`{"type":"rollout","version":9007199254740991,"state":"running","share":1}`),
			Conditions: []protocol.Condition{{Topic: rolloutTopic, Epoch: reg.Epoch().ID, Term: protocol.MaxTerm, Raise: protocol.MaxTerm}},
		}).Wait(t.Context())
		require.NoError(t, err)
		_, err = s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		_, err = s.DriveRollout(t.Context(), config.DriveOptions{})
		require.ErrorIs(t, err, protocol.ErrConflict)
		require.ErrorContains(t, err, "the fence of config:rollout:workers stands at 9007199254740991, above version 2")
		require.Equal(t, 10, running(all, 1))
		require.Error(t, s.PauseRollout(t.Context(), config.RolloutOptions{}))

		_, err = c.SetFence(t.Context(), rolloutTopic, reg.Epoch().ID, 1)
		require.NoError(t, err)
		drive(t, s, config.DriveOptions{})
		pass(time.Minute)
		require.NotZero(t, running(all, 2))
	})
}

// before is a connection on which something happens before each publish.
type before struct {
	client.Conn
	do func()
}

func (b before) Publish(ctx context.Context, p client.Publication) client.Pending {
	b.do()
	return b.Conn.Publish(ctx, p)
}

// Whenever somebody pauses, before or between the writes of a driver, with a
// leadership or without: either the pause holds, or who pauses is told that it comes
// too late.
func TestAPauseIsNeverLost(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, leads := range []bool{false, true} {
			t.Run(fmt.Sprintf("fails %v, leads %v", fails, leads), func(t *testing.T) {
				t.Parallel()
				held, late := 0, 0
				for n := 1; ; n++ {
					switch pausedBefore(t, n, fails, leads) {
					case "held":
						held++
					case "late":
						late++
					case "never":
						require.Greater(t, held, 1)
						require.Equal(t, 2, late, "after the decision, and after the end")
						return
					}
				}
			})
		}
	}
}

// pausedBefore pauses before the nth write of a driver, and tells what came of it.
func pausedBefore(t *testing.T, n int, fails, leads bool) (outcome string) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"v":1}`)
		a := follow(t, reg, "agent", func(a *agent) {
			a.fail = func(d *config.Document) error {
				if fails && d.Version == 2 {
					return errors.New("no")
				}
				return nil
			}
		})
		settle()
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{Canary: 1e-9, Steps: []float64{1}, Bake: 4 * time.Second}, config.PublishOptions{Version: 2})
		require.NoError(t, err)

		var paused error
		outcome = "never"
		driver := before{dial(t, reg, "driver"), func() {
			if n--; n == 0 {
				outcome = "late"
				if paused = s.PauseRollout(t.Context(), config.RolloutOptions{}); paused == nil {
					outcome = "held"
				}
			}
		}}
		var o config.DriveOptions
		if leads {
			c := dial(t, reg, "operator")
			_, err := c.SetFence(t.Context(), "election:g", reg.Epoch().ID, 3)
			require.NoError(t, err)
			o.Leadership = lead{driver, reg.Epoch().ID, 3}
		}
		d := drive(t, openSwarm(t, driver), o)
		pass(30 * time.Second)
		if outcome == "held" {
			require.Equal(t, []uint64{1}, updates(reg))
			require.Equal(t, config.RolloutPaused, rollout(t, s).State)
			require.NoError(t, s.ResumeRollout(t.Context(), config.RolloutOptions{}))
		}
		require.NoError(t, <-d.done)
		settle()
		require.Equal(t, fails, d.end.State == config.RolloutRolledBack)
		require.Equal(t, !fails, a.version() == 2)
		require.Empty(t, rollout(t, s).Ending)
		if outcome == "late" && !errors.Is(paused, protocol.ErrNotFound) {
			require.ErrorIs(t, paused, protocol.ErrConflict)
			require.ErrorContains(t, paused, "is ending as")
		}
	})
	return outcome
}

// What one driver has decided on another brings to its end.
func TestADecisionOutlivesItsDriver(t *testing.T) {
	for ending, state := range map[config.RolloutState]string{config.RolloutComplete: `{"v":2}`, config.RolloutRolledBack: `{"v":1}`} {
		t.Run(string(ending), func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				s := join(t, reg, "ci")
				publish(t, s, 1, `{"v":1}`)
				a := follow(t, reg, "agent")
				settle()
				_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{Canary: 1e-9, Bake: time.Hour}, config.PublishOptions{Version: 2})
				require.NoError(t, err)
				p := config.Progress{Version: 2, State: config.RolloutRunning, Since: time.Now(), Share: 1, Ending: ending, Reason: "because"}
				_, err = reg.Inject(t.Context(), fakeregistry.Raw{
					From: "dead", Topic: rolloutTopic, Payload: p.Append(nil),
					Conditions: []protocol.Condition{{Topic: rolloutTopic, Term: 2, Raise: 2}},
				})
				require.NoError(t, err)
				require.ErrorIs(t, s.PauseRollout(t.Context(), config.RolloutOptions{}), protocol.ErrConflict)
				st, err := s.DriveRollout(t.Context(), config.DriveOptions{})
				require.NoError(t, err)
				require.Equal(t, ending, st.State)
				settle()
				require.Equal(t, state, a.content())
				require.Equal(t, ending, rollout(t, s).State)
			})
		})
	}
}

// The end that was decided on shows until there is one, whichever that is.
func TestADecisionThatIsOvertakenShowsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"v":1}`)
		follow(t, reg, "agent")
		settle()
		_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{Canary: 1e-9, Bake: time.Hour}, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		p := config.Progress{Version: 2, State: config.RolloutRunning, Since: time.Now(), Share: 1, Ending: config.RolloutComplete}
		_, err = reg.Inject(t.Context(), fakeregistry.Raw{
			From: "dead", Topic: rolloutTopic, Payload: p.Append(nil),
			Conditions: []protocol.Condition{{Topic: rolloutTopic, Term: 2, Raise: 2}},
		})
		require.NoError(t, err)
		require.Equal(t, config.RolloutComplete, rollout(t, s).Ending)
		publish(t, s, 3, `{"v":3}`)
		require.Equal(t, config.RolloutSuperseded, rollout(t, s).State)
		require.Empty(t, rollout(t, s).Ending)
	})
}

// Who drives is told that the log was lost, and goes on where it was restored.
func TestDrivingOverALostLog(t *testing.T) {
	for name, restored := range map[string]bool{"lost": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				s := join(t, reg, "ci")
				publish(t, s, 1, `{"v":1}`)
				a := follow(t, reg, "agent")
				settle()
				_, err := s.StartRollout(t.Context(), []byte(`{"v":2}`), config.Plan{Canary: 1e-9, Steps: []float64{1}, Bake: time.Minute}, config.PublishOptions{Version: 2})
				require.NoError(t, err)
				d := drive(t, join(t, reg, "driver"), config.DriveOptions{})
				pass(10 * time.Second)
				require.Equal(t, uint64(2), a.version())

				reg.Stop()
				kept := append(reg.Messages(topic), reg.Messages(rolloutTopic)...)
				require.NoError(t, reg.RestartEmpty())
				for _, m := range kept {
					if !restored {
						break
					}
					_, err := reg.Inject(t.Context(), fakeregistry.Raw{
						From: "backup", Topic: m.Topic, Payload: m.Payload,
						Conditions: []protocol.Condition{{Topic: m.Topic, Term: m.Term(), Raise: m.Term()}},
					})
					require.NoError(t, err)
				}
				err = <-d.done
				settle()
				require.Equal(t, uint64(2), a.version(), "absent is not empty")
				if restored {
					require.NoError(t, err)
					require.Equal(t, config.RolloutComplete, d.end.State)
					return
				}
				var lost *config.LostRolloutError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, config.LostRolloutError{Swarm: swarm, Version: 2, Epoch: reg.Epoch().ID}, *lost)
				require.ErrorIs(t, err, protocol.ErrWrongEpoch)
				_, err = s.DriveRollout(t.Context(), config.DriveOptions{})
				require.ErrorIs(t, err, protocol.ErrNotFound, "nobody knows of it any more")
			})
		})
	}
}

// ending is a leadership that ends.
type ending struct {
	lead
	done chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.done }

func TestTheLeaderDrives(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s, _ := fleet(t, reg)
		c := dial(t, reg, "leader")
		_, err := c.SetFence(t.Context(), "election:g", reg.Epoch().ID, 3)
		require.NoError(t, err)
		_, err = s.StartRollout(t.Context(), []byte(`{"v":2}`), plan, config.PublishOptions{Version: 2})
		require.NoError(t, err)
		l := ending{lead{c, reg.Epoch().ID, 3}, make(chan struct{})}
		d := drive(t, openSwarm(t, c), config.DriveOptions{Leadership: l})
		pass(12 * time.Minute)
		require.Equal(t, 1, rollout(t, s).Step)
		for _, m := range reg.Messages(rolloutTopic) {
			require.Len(t, m.Fences, 2)
		}
		close(l.done)
		require.ErrorIs(t, <-d.done, protocol.ErrStaleTerm)

		_, err = c.SetFence(t.Context(), "election:g", reg.Epoch().ID, 4)
		require.NoError(t, err)
		late := ending{lead{c, reg.Epoch().ID, 3}, make(chan struct{})}
		d = drive(t, openSwarm(t, c), config.DriveOptions{Leadership: late})
		require.ErrorIs(t, <-d.done, protocol.ErrStaleTerm, "the fence has the last word")
	})
}
