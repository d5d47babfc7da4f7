package config_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

var systemSeed = flag.Int("system.seed", -1, "run only this schedule of TestSystemStorms, and print its tape")

// Whatever goes wrong around real agents, publishers, clients and a real registry,
// nothing that the judge knows is broken, no reader ever meets a torn file, and when
// it is over all agents come to the same bytes, by a publish and by a rollout.
//
// The budget is in virtual time: 1 s of it is 6 minutes, so that the 5m of a
// nightly run are 30 hours.
func TestSystemStorms(t *testing.T) {
	budget := 360 * testenv.Budget(t, testenv.Raced(3*time.Second, 2*time.Second))
	var ran, reads atomic.Int64
	var mu sync.Mutex
	sums := map[string]int{}
	t.Run("schedules", func(t *testing.T) {
		for seed, planned := 0, time.Duration(0); planned < budget; seed++ {
			planned += stormLength + stormCalm
			if *systemSeed >= 0 && seed != *systemSeed {
				continue
			}
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				files := newTornReader(t.TempDir(), t.TempDir())
				took, count := storm(t, uint64(seed), files)
				n, torn := files.stop()
				require.NoError(t, torn, "seed %d", seed)
				require.NotZero(t, n)
				ran.Add(int64(took))
				reads.Add(int64(n))
				mu.Lock()
				defer mu.Unlock()
				for what, n := range count {
					sums[what] += n
				}
			})
		}
	})
	var list []string
	for _, what := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, fmt.Sprintf("%d %s", sums[what], what))
	}
	t.Logf("%.2f virtual hours, %d files read meanwhile: %s", time.Duration(ran.Load()).Hours(), reads.Load(), strings.Join(list, ", "))
}

var stormLength = testenv.Raced(12*time.Minute, 6*time.Minute)

const stormCalm = 10 * time.Minute // about

// storm is one schedule, and returns its virtual time and what there was to judge.
func storm(t *testing.T, seed uint64, files *tornReader) (took time.Duration, count map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := newStormWorld(t, seed, files)
		t.Cleanup(func() {
			if t.Failed() || *systemSeed >= 0 {
				t.Logf("seed %d, again with -system.seed=%d\n%s", seed, seed, w.judge.lines())
			}
		})
		for time.Since(start) < stormLength {
			w.disturb()
			time.Sleep(w.upTo(10 * time.Second))
		}
		w.calm()
		w.end()
		require.NoError(t, w.judge.verdict(), "seed %d", seed)
		require.Greater(t, w.judge.count["applied"], testenv.Raced(20, 10), "seed %d: too little happens", seed)
		took, count = time.Since(start), w.judge.count
	})
	return took, count
}

func (w *stormWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d) + 1)).Round(time.Millisecond)
}

// document is the next content, between some bytes and some thousand.
func (w *stormWorld) document(bad bool) []byte {
	w.docs++
	return newSelfTelling(w.docs, w.rand.IntN(8<<10), bad)
}

// later undoes a fault.
func (w *stormWorld) later(d time.Duration, do func()) {
	w.tasks.Go(func() {
		select {
		case <-time.After(d):
			do()
		case <-w.over.Done():
		}
	})
}

// disturb lets one thing happen, or go wrong.
func (w *stormWorld) disturb() {
	names := []string{"n0", "n1", "n2", "n3", "n4", "writer0", "writer1", "writer2", ""}
	node := names[w.rand.IntN(len(names)-1)]
	a := w.agents[w.rand.IntN(len(w.agents))]
	switch w.rand.IntN(34) {
	case 0, 1, 2:
		w.publish(1)
	case 3, 4:
		w.publish(len(w.publishers))
	case 5:
		w.goBack()
	case 6, 7, 8:
		w.rollOut()
	case 9, 10, 11, 12:
		w.drive()
	case 13:
		w.meddle()
	case 14:
		w.scripts()
	case 15, 16, 17:
		w.judge.note("%s dies", a.name)
		a.kill()
	case 18, 19, 20:
		for _, a := range w.agents {
			a.start(false)
		}
	case 21:
		w.pin(a)
	case 22:
		a.kill()
		w.judge.note("%s is unpinned", a.name)
		a.start(true)
	default:
		w.fault(node, w.upTo(20*time.Second))
	}
}

// fault is one of the registry or the network, for as long.
func (w *stormWorld) fault(node string, long time.Duration) {
	reg := w.reg
	kind := w.rand.IntN(15)
	w.judge.note("fault %d of %s for %v", kind, node, long)
	switch kind {
	case 0, 1:
		reg.Partition(node, fakeregistry.Host)
		w.later(long, func() { reg.Heal(node, fakeregistry.Host) })
	case 2:
		reg.PartitionOneWay(node, fakeregistry.Host)
		w.later(long, func() { reg.Heal(node, fakeregistry.Host) })
	case 3:
		reg.PartitionOneWay(fakeregistry.Host, node)
		w.later(long, func() { reg.Heal(node, fakeregistry.Host) })
	case 4:
		reg.SetLink(node, fakeregistry.Host, fakeregistry.Link{Latency: 20 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.2, Reorder: 0.2, Duplicate: 0.1})
		w.later(long, func() {
			reg.SetLink(node, fakeregistry.Host, fakeregistry.Link{Latency: 5 * time.Millisecond})
		})
	case 5:
		reg.Stall(node)
		w.later(long, func() { reg.Unstall(node) })
	case 6:
		reg.Mute(node)
		w.later(long, func() { reg.Unmute(node) })
	case 7:
		reg.Disconnect(node)
	case 8:
		reg.DropAcks(node, 1+w.rand.IntN(3))
	case 9:
		require.NoError(w.t, reg.Restart())
	case 10:
		if w.rand.IntN(3) == 0 {
			w.judge.note("the log is lost")
			require.NoError(w.t, reg.RestartEmpty())
		}
	case 11:
		reg.Stop()
		time.Sleep(long / 2)
		require.NoError(w.t, reg.Start())
	case 12:
		reg.SetRetention(fakeregistry.Retention{Versions: 1 + w.rand.IntN(20)})
	case 13:
		reg.StorageFull(true)
		w.later(long, func() { reg.StorageFull(false) })
	case 14:
		points := fakeregistry.Points()
		reg.At(fakeregistry.Failpoint{
			Point: points[w.rand.IntN(len(points))], Topic: "config:*", Skip: w.rand.IntN(4),
			Do: func(fakeregistry.Hit) error { reg.CrashFor(long / 4); return nil },
		})
	}
}

// publisher is one that is connected, nil if it is not yet.
func (w *stormWorld) publisher(i int) (string, *config.Swarm) {
	p := w.publishers[i%len(w.publishers)]
	return p.name, p.swarm()
}

// publish lets n programs publish at once.
func (w *stormWorld) publish(n int) {
	for i := range n {
		who, s := w.publisher(i)
		content, bad, edits := w.document(false), w.rand.IntN(12) == 0, w.rand.IntN(2) == 0
		if bad {
			content = w.document(true)
		}
		if s == nil {
			continue
		}
		w.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(w.over, 15*time.Second)
			defer cancel()
			o := config.PublishOptions{}
			if edits {
				d, err := s.Latest(ctx)
				if err != nil {
					return
				}
				o.Expect = d.Version
			}
			p, err := s.Publish(ctx, content, o)
			w.judge.published(who, content, p, err)
		})
	}
}

func (w *stormWorld) goBack() {
	who, s := w.publisher(w.rand.IntN(3))
	if s == nil {
		return
	}
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.over, 15*time.Second)
		defer cancel()
		r, err := s.Rollback(ctx, config.Previous, config.RollbackOptions{})
		w.judge.note("%s rolls back from %d to %d: %v", who, r.From, r.To, err)
	})
}

func (w *stormWorld) rollOut() {
	who, s := w.publisher(w.rand.IntN(3))
	if s == nil {
		return
	}
	plan := config.Plan{
		Canary: w.rand.Float64() / 2, Steps: []float64{0.6, 1}, Bake: time.Second + w.upTo(15*time.Second),
		Success: 0.5, MaxFailed: w.rand.Float64() / 3, MaxUnhealthy: 1,
	}
	plan.Timeout = plan.Bake + 40*time.Second
	if w.rand.IntN(2) == 0 {
		plan.Labels = map[string]string{"canary": "yes"}
	}
	content := w.document(w.rand.IntN(6) == 0)
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.over, 15*time.Second)
		defer cancel()
		p, err := s.StartRollout(ctx, content, plan, config.PublishOptions{})
		w.judge.published(who, content, p, err)
	})
}

// drive lets somebody drive, until the next one does, or both for a while.
func (w *stormWorld) drive() {
	who, s := w.publisher(w.rand.IntN(3))
	if s == nil {
		return
	}
	if w.rand.IntN(2) == 0 {
		w.driving()
	}
	ctx, cancel := context.WithCancel(w.over)
	w.driving = cancel
	w.tasks.Go(func() {
		defer cancel()
		st, err := s.DriveRollout(ctx, config.DriveOptions{})
		w.judge.note("%s has driven the rollout of %d: %s, %v", who, st.Version, st.State, err)
	})
}

// meddle is a person who pauses, resumes or aborts.
func (w *stormWorld) meddle() {
	who, s := w.publisher(w.rand.IntN(3))
	if s == nil {
		return
	}
	kind := w.rand.IntN(4)
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.over, 15*time.Second)
		defer cancel()
		var err error
		switch kind {
		case 0:
			err = s.PauseRollout(ctx, config.RolloutOptions{})
		case 1, 2:
			err = s.ResumeRollout(ctx, config.RolloutOptions{})
		case 3:
			_, err = s.AbortRollout(ctx, config.RolloutOptions{Reason: "meddled"})
		}
		w.judge.note("%s meddles %d: %v", who, kind, err)
	})
}

// scripts publish as the command line does for them, report, and say what nobody
// should.
func (w *stormWorld) scripts() {
	version, conditions := uint64(time.Now().Unix()), []protocol.Condition(nil)
	if w.rand.IntN(3) > 0 {
		conditions = []protocol.Condition{{Topic: topic, Term: version, Raise: version}}
	} else {
		version += 1000
	}
	message := fmt.Appendf(nil, `{"type": "config_update", "version": %d, "config": %s}`, version, w.document(false))
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.over, 5*time.Second)
		defer cancel()
		_, err := w.reg.Inject(ctx, fakeregistry.Raw{From: "script", Topic: topic, Payload: message, Conditions: conditions})
		w.judge.note("the script publishes %d: %v", version, err)
		_, _ = w.reg.Inject(ctx, fakeregistry.Raw{From: "script", Topic: status, Payload: fmt.Appendf(nil, `{"agent":"","applied_version":%d}`, version)})
	})
}

// pin puts an older version back on an agent's machine.
func (w *stormWorld) pin(a *stormAgent) {
	w.judge.mu.Lock()
	has := w.judge.runs[a.name]
	w.judge.mu.Unlock()
	for _, m := range w.reg.Messages(topic) {
		d, err := config.ParseDocument(m.Payload)
		if err == nil && !d.Staged && m.Term() == d.Version && d.Version < has {
			a.rollBackHere(d.Version, string(d.Config))
			return
		}
	}
}

// calm ends all that is wrong, and expects everything to come to rest.
func (w *stormWorld) calm() {
	w.judge.note("calm")
	if !w.reg.Running() {
		require.NoError(w.t, w.reg.Start())
	}
	w.reg.StorageFull(false)
	w.reg.ClearFaults()
	w.reg.HealAll()
	w.judge.attach()
	for _, a := range w.agents {
		a.calm.Store(true)
		a.start(false)
	}
	time.Sleep(30 * time.Second) // what waits for a moment has had it, and all connect again
	if !w.reg.Running() {
		require.NoError(w.t, w.reg.Start())
	}
	w.lastRolloutEnds()
	w.last()
	for _, a := range w.agents {
		a.kill()
		a.start(true)
	}
	last := w.last()
	for _, a := range w.agents {
		require.Equal(w.t, string(last.Config), a.inUse(), "%s is unpinned and healthy", a.name)
	}
	w.rollOutToAll()
}

// lastRolloutEnds drives what was left behind to its end.
func (w *stormWorld) lastRolloutEnds() {
	_, s := w.publisher(0)
	require.NotNil(w.t, s)
	ctx, cancel := context.WithTimeout(w.over, 5*time.Minute)
	defer cancel()
	err := s.ResumeRollout(ctx, config.RolloutOptions{})
	w.judge.note("resume: %v", err)
	st, err := s.DriveRollout(ctx, config.DriveOptions{})
	w.judge.note("the last rollout, of %d, is %s: %v", st.Version, st.State, err)
	if err != nil {
		require.ErrorIs(w.t, err, protocol.ErrNotFound)
		return
	}
	require.True(w.t, st.State.Over())
}

// last publishes a version above all that was ever known, and expects all agents
// that are not pinned to come to it.
func (w *stormWorld) last() *config.Document {
	_, s := w.publisher(0)
	w.judge.mu.Lock()
	version := w.judge.highest + 1
	w.judge.mu.Unlock()
	content := w.document(false)
	p, err := s.Publish(w.over, content, config.PublishOptions{Version: version})
	require.NoError(w.t, err)
	require.Equal(w.t, version, p.Version)
	time.Sleep(stormRetry + 3*stormReport)
	synctest.Wait()
	w.agree(s, version, content)
	d, err := s.Get(w.over, version)
	require.NoError(w.t, err)
	return d
}

// agree looks at what the registry says of all agents, and at what they have.
func (w *stormWorld) agree(s *config.Swarm, version uint64, content []byte) {
	var members []protocol.NodeID
	byNode := map[protocol.NodeID]*stormAgent{}
	for _, a := range w.agents {
		node := fakeregistry.NodeID(a.name)
		members, byNode[node] = append(members, node), a
	}
	c, err := s.Compliance(w.over, config.ComplianceOptions{Members: members})
	require.NoError(w.t, err)
	require.Equal(w.t, version, c.Version)
	for _, st := range c.Agents {
		a := byNode[st.Node]
		if st.Pinned {
			w.judge.note("%s stays pinned at %d", a.name, st.AppliedVersion)
			continue
		}
		require.Equal(w.t, config.StateApplied, st.State, "%s: %+v", a.name, st)
		require.Equal(w.t, string(content), a.inUse(), a.name)
	}
}

// rollOutToAll rolls out a good version, and expects it everywhere.
func (w *stormWorld) rollOutToAll() {
	_, s := w.publisher(0)
	content := w.document(false)
	p, err := s.StartRollout(w.over, content, config.Plan{Canary: 0.1, Bake: 5 * time.Second}, config.PublishOptions{})
	require.NoError(w.t, err)
	st, err := s.DriveRollout(w.over, config.DriveOptions{})
	require.NoError(w.t, err)
	require.Equal(w.t, config.RolloutComplete, st.State, st.Reason)
	require.Equal(w.t, 3, st.Step)
	time.Sleep(2 * stormReport)
	synctest.Wait()
	w.agree(s, p.Version, content)
}

// What the judge is there for.

func TestTheStormJudgeFindsWhatIsWrong(t *testing.T) {
	wrong := map[string]func(w *stormWorld){
		"has two contents": func(w *stormWorld) {
			inject(w, 5, 5, `{"a":1}`)
			inject(w, 5, 0, `{"a":2}`)
		},
		"that nobody has published": func(w *stormWorld) {
			d, err := config.NewDocument(7, newSelfTelling(1, 1, false))
			require.NoError(w.t, err)
			w.judge.ran(w.agents[0], d)
		},
		"which it refuses": func(w *stormWorld) {
			bad := newSelfTelling(1, 1, true)
			inject(w, 7, 7, string(bad))
			d, err := config.NewDocument(7, bad)
			require.NoError(w.t, err)
			w.judge.ran(w.agents[0], d)
		},
		"goes from 8 to 7": func(w *stormWorld) {
			for _, version := range []uint64{8, 7} {
				d, err := config.NewDocument(version, newSelfTelling(1, 1, false))
				require.NoError(w.t, err)
				w.judge.ran(w.agents[0], d)
			}
		},
		"whose rollout has not reached it": func(w *stormWorld) {
			good := newSelfTelling(1, 1, false)
			stage(w, string(good))
			d, err := config.NewDocument(9, good)
			require.NoError(w.t, err)
			w.judge.ran(w.agents[0], d)
		},
		"goes on to step 1 after": func(w *stormWorld) {
			stage(w, `{}`)
			for step := range 2 {
				p := config.Progress{Version: 9, State: config.RolloutRunning, Step: step, Since: time.Now(), Share: 1}
				_, err := w.reg.Inject(w.t.Context(), fakeregistry.Raw{From: "x", Topic: rolloutTopic, Payload: p.Append(nil)})
				require.NoError(w.t, err)
			}
		},
		"which has not begun": func(w *stormWorld) {
			stage(w, `{}`)
			inject(w, 9, 0, `{}`)
		},
		"paused, after": func(w *stormWorld) {
			stage(w, `{}`)
			p := config.Progress{Version: 9, State: config.RolloutPaused, Since: time.Now().Add(-time.Hour), Share: 1}
			_, err := w.reg.Inject(w.t.Context(), fakeregistry.Raw{From: "x", Topic: rolloutTopic, Payload: p.Append(nil)})
			require.NoError(w.t, err)
			inject(w, 9, 0, `{}`)
		},
		"it believes": func(w *stormWorld) {
			w.judge.published("x", []byte(`{}`), config.Published{Version: 3}, nil)
		},
	}
	for what, happens := range wrong {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStormWorld(t, 1, nil)
				for _, a := range w.agents {
					a.kill()
				}
				require.NoError(t, w.judge.verdict())
				happens(w)
				require.ErrorContains(t, w.judge.verdict(), what)
				w.end()
			})
		})
	}
}

// inject stores a version past all that our programs do.
func inject(w *stormWorld, version, raise uint64, content string) {
	w.t.Helper()
	injectPayload(w, version, raise, fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":%s}`, version, content))
}

// stage stores a rollout of version 9.
func stage(w *stormWorld, content string) {
	w.t.Helper()
	injectPayload(w, 9, 9, fmt.Appendf(nil,
		`{"type":"config_stage","version":9,"config":%s,"rollout":{"bake":"1m","steps":[1]}}`, content))
}

func injectPayload(w *stormWorld, version, raise uint64, payload []byte) {
	w.t.Helper()
	require.True(w.t, json.Valid(payload))
	_, err := w.reg.Inject(w.t.Context(), fakeregistry.Raw{
		From: "x", Topic: topic, Payload: payload,
		Conditions: []protocol.Condition{{Topic: topic, Term: version, Raise: raise}},
	})
	require.NoError(w.t, err)
}

// A reader of files finds torn ones, so that to find none means something.
func TestTheTornReaderFindsTornFiles(t *testing.T) {
	good := newSelfTelling(3, 100, false)
	_, err := whole(good)
	require.NoError(t, err)
	for _, bad := range [][]byte{nil, good[:len(good)-1], []byte(strings.Replace(string(good), `"n":3`, `"n":4`, 1))} {
		_, err := whole(bad)
		require.Error(t, err)
		files := newTornReader(t.TempDir())
		files.during(func() {
			require.NoError(t, os.WriteFile(filepath.Join(files.dirs[0], "app.json"), bad, 0o600))
		})
		reads, torn := files.stop() // it looks once more than there are writers
		require.NotZero(t, reads)
		require.Error(t, torn)
	}
}
