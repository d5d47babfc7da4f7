package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// memory is an applier that remembers, and fails when told to.
type memory struct {
	mu      sync.Mutex
	now     config.Applied
	applied []uint64
	fail    func(d *config.Document) error
	delay   time.Duration
}

func (m *memory) Current(context.Context) (config.Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, nil
}

func (m *memory) Pin(_ context.Context, pinned bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Pinned = pinned
	return nil
}

func (m *memory) Apply(_ context.Context, d *config.Document) error {
	time.Sleep(m.delay)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(d); err != nil {
			return err
		}
	}
	m.now = config.Applied{Version: d.Version, Digest: d.Digest, Config: d.Config, Highest: max(m.now.Highest, d.Version)}
	m.applied = append(m.applied, d.Version)
	return nil
}

func (m *memory) version() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Version
}

func (m *memory) content() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.now.Config)
}

func (m *memory) list() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.applied)
}

func (m *memory) pinned() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Pinned
}

// agent is a node that follows.
type agent struct {
	*memory
	name string
	c    *client.Client
	s    *config.Swarm
	o    config.FollowOptions
	stop func() // waits

	mu      sync.Mutex
	changes []string
}

// follow runs an agent until it is stopped or the test ends.
func follow(t *testing.T, reg *fakeregistry.Registry, name string, with ...func(*agent)) *agent {
	t.Helper()
	a := &agent{memory: &memory{}, name: name}
	a.o.Notify = func(c config.Change) {
		a.mu.Lock()
		defer a.mu.Unlock()
		text := fmt.Sprint(c.Kind, " ", c.Version)
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		a.changes = append(a.changes, text)
	}
	for _, f := range with {
		f(a)
	}
	a.c = dial(t, reg, name)
	a.s = openSwarm(t, a.c)
	a.run(t)
	return a
}

func (a *agent) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.s.Follow(ctx, a.memory, a.o) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	t.Cleanup(a.stop)
}

// took are the changes since it was asked last.
func (a *agent) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.changes
	a.changes = nil
	return list
}

func applying(version uint64, doc string) func(*agent) {
	return func(a *agent) {
		a.now = config.Applied{Version: version, Digest: config.DigestOf([]byte(doc)), Config: []byte(doc), Highest: version}
	}
}

// settle lets what has begun come to its end.
func settle() { pass(time.Second) }

// pass lets time go by, and what happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// reports lists each node's newest report.
func reports(t *testing.T, reg *fakeregistry.Registry) map[string]config.Report {
	t.Helper()
	all := map[string]config.Report{}
	for _, m := range reg.Messages(status) {
		r, err := config.ParseReport(m.Payload)
		require.NoError(t, err)
		all[m.Sender.String()] = *r
	}
	return all
}

func (a *agent) report(t *testing.T, reg *fakeregistry.Registry) string {
	t.Helper()
	r, ok := reports(t, reg)[a.c.Self().Node.String()]
	if !ok {
		return "none"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d: %s %d", r.AppliedVersion, r.State, r.Version)
	for _, more := range []struct {
		is   bool
		text string
	}{{r.Pinned, " pinned"}, {r.Held, " held"}, {r.Behind, " behind"}, {r.Error != "", ": " + r.Error}} {
		if more.is {
			text.WriteString(more.text)
		}
	}
	return text.String()
}

func TestFollowersApplyEachVersion(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"a":1}`)
		publish(t, s, 2, `{"a":2}`)
		a := follow(t, reg, "a")
		settle()
		require.Equal(t, []uint64{2}, a.list(), "the latest, not all before it")
		require.Equal(t, []string{"announced 2", "applied 2"}, a.took())
		require.Equal(t, "2: applied 2", a.report(t, reg))

		publish(t, s, 3, `{"a":3}`)
		settle()
		require.Equal(t, []uint64{2, 3}, a.list())
		require.Equal(t, `{"a":3}`, a.content())
		require.Equal(t, "3: applied 3", a.report(t, reg))
		r := reports(t, reg)[a.c.Self().Node.String()]
		require.Equal(t, config.DigestOf([]byte(`{"a":3}`)), r.Digest)
		require.Equal(t, time.Minute, r.Every)
	})
}

// The recipe's message reaches programs, and what programs report is the recipe's.
func TestAScriptsUpdateIsApplied(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := follow(t, reg, "a")
		require.NoError(t, script(t, dial(t, reg, "script"), 1700000000, `{"max_workers":10}`))
		settle()
		require.Equal(t, `{"max_workers":10}`, a.content())
		var f map[string]any
		list := reg.Messages(status)
		require.NoError(t, json.Unmarshal(list[len(list)-1].Payload, &f))
		require.InEpsilon(t, 1700000000, f["applied_version"], 0)
		require.Equal(t, a.c.Self().Node.String(), f["agent"])
	})
}

func TestARejectedVersionChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a", func(a *agent) {
			a.o.Validators = []config.Validator{config.ValidatorFunc(func(_ context.Context, d *config.Document) error {
				if d.Version == 2 {
					return errors.New("/max_workers: above 100")
				}
				return nil
			})}
		})
		publish(t, s, 1, `{}`)
		settle()
		publish(t, s, 2, `{"max_workers":1000}`)
		settle()
		require.Equal(t, uint64(1), a.version())
		require.Equal(t, "1: rejected 2: /max_workers: above 100", a.report(t, reg))
		pass(time.Hour)
		require.Equal(t, []uint64{1}, a.list())
		publish(t, s, 3, `{}`)
		settle()
		require.Equal(t, "3: applied 3", a.report(t, reg))
		require.Equal(t, []string{"announced 1", "applied 1", "announced 2", "rejected 2: /max_workers: above 100", "announced 3", "applied 3"}, a.took())
	})
}

func TestADocumentWithAFaultIsRejected(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := follow(t, reg, "a", applying(3, `{"a":1}`))
		require.NoError(t, script(t, dial(t, reg, "script"), 4, `{"a":1,"a":2}`))
		require.NoError(t, script(t, dial(t, reg, "script"), 5, `[]`))
		settle()
		require.Equal(t, uint64(3), a.version())
		require.Equal(t, "3: rejected 5: invalid argument: not an object at byte 0", a.report(t, reg))
	})
}

// H13: what could not be applied keeps the old one, is reported and tried again.
func TestAFailureIsReportedAndTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		var tries atomic.Int32
		a := follow(t, reg, "a", applying(1, `{}`), func(a *agent) {
			a.fail = func(*config.Document) error {
				if tries.Add(1) <= 5 {
					return errors.New("no space left on device")
				}
				return nil
			}
		})
		publish(t, s, 2, `{"a":2}`)
		settle()
		require.Equal(t, "1: failed 2: no space left on device", a.report(t, reg))
		require.Equal(t, uint64(1), a.version())
		pass(1*time.Second + 2*time.Second + 4*time.Second + 8*time.Second)
		require.EqualValues(t, 5, tries.Load())
		pass(17 * time.Second)
		require.Equal(t, "2: applied 2", a.report(t, reg))
	})
}

// An applier that judges by itself is not asked again.
func TestAnApplierMayReject(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		var tries atomic.Int32
		a := follow(t, reg, "a", func(a *agent) {
			a.fail = func(*config.Document) error {
				tries.Add(1)
				return &config.InvalidError{Path: "/a", Rule: "required"}
			}
		})
		publish(t, s, 1, `{}`)
		pass(time.Hour)
		require.EqualValues(t, 1, tries.Load())
		require.Equal(t, "0: rejected 1: /a: required", a.report(t, reg))
	})
}

// A local rollback that the applier finds when it is to apply holds the agent.
func TestARollbackBesideTheFollowerPins(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 3, `{}`)
		a := follow(t, reg, "a", applying(3, `{}`), func(a *agent) {
			a.fail = func(*config.Document) error {
				a.now.Version, a.now.Pinned = 2, true
				return errors.New("pinned")
			}
		})
		publish(t, s, 4, `{}`)
		settle()
		require.Equal(t, "2: pending 4 pinned", a.report(t, reg))
		require.Equal(t, []string{"announced 4", "pinned 2"}, a.took())
	})
}

func TestANewerVersionSupersedes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a", func(a *agent) {
			a.o.Retry = time.Minute
			a.fail = func(d *config.Document) error {
				if d.Version == 1 {
					return errors.New("no")
				}
				return nil
			}
			a.o.Validators = []config.Validator{config.ValidatorFunc(func(ctx context.Context, d *config.Document) error {
				if d.Version == 2 {
					<-ctx.Done() // takes too long
				}
				return ctx.Err()
			})}
		})
		publish(t, s, 1, `{}`)
		settle()
		publish(t, s, 2, `{}`)
		settle()
		publish(t, s, 3, `{}`)
		settle()
		require.Equal(t, []uint64{3}, a.list())
		require.Equal(t, []string{
			"announced 1", "failed 1: no", "announced 2", "superseded 1", "announced 3", "superseded 2", "applied 3",
		}, a.took())
	})
}

func TestAnApplyIsNotInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a", func(a *agent) { a.delay = 10 * time.Second })
		publish(t, s, 1, `{}`)
		settle()
		for v := uint64(2); v < 9; v++ {
			publish(t, s, v, `{}`)
		}
		pass(30 * time.Second)
		require.Equal(t, []uint64{1, 8}, a.list())
		publish(t, s, 9, `{}`)
		settle()
		a.stop() // waits
		require.Equal(t, []uint64{1, 8, 9}, a.list())
	})
}

// H09: a registry that lost its log takes nothing away.
func TestALostLogTakesNothingAway(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a")
		publish(t, s, 7, `{"a":7}`)
		settle()
		a.took()

		reg.RestartEmpty()
		pass(time.Minute)
		require.Equal(t, uint64(7), a.version())
		require.Equal(t, []string{"new epoch 7", "registry behind 7"}, a.took())
		require.Equal(t, "7: applied 7 behind", a.report(t, reg), "and says so on the new log")

		publish(t, s, 6, `{"a":6}`)
		settle()
		require.Equal(t, `{"a":7}`, a.content())
		publish(t, s, 7, `{"other":7}`)
		settle()
		require.Equal(t, `{"a":7}`, a.content(), "a version has one content")
		require.Equal(t, "7: applied 7 behind", a.report(t, reg))

		p := publish(t, s, 0, `{"a":8}`) // as scripts do
		settle()
		require.Equal(t, p.Version, a.version())
		require.Equal(t, fmt.Sprintf("%d: applied %d", p.Version, p.Version), a.report(t, reg))
	})
}

// H09, over a restart of the agent: it knows what it has, and asks.
func TestAnAgentComesBackToALostLog(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := follow(t, reg, "a", applying(7, `{"a":7}`))
		settle()
		require.Equal(t, uint64(7), a.version())
		require.Empty(t, a.list())
		require.Equal(t, "7: applied 7 behind", a.report(t, reg))
	})
}

// H10: away for longer than the log remembers.
func TestAGapEndsAtTheNewestVersion(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{Versions: 50}}, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a, b := follow(t, reg, "a"), follow(t, reg, "b") // b has read nothing yet
		for v := uint64(1); v <= 10; v++ {
			publish(t, s, v, fmt.Sprintf(`{"v":%d}`, v))
		}
		settle()
		for _, away := range []*agent{a, b} {
			reg.Partition(away.name, fakeregistry.Host)
			away.took()
		}
		for v := uint64(11); v <= 510; v++ {
			publish(t, s, v, fmt.Sprintf(`{"v":%d}`, v))
		}
		pass(time.Minute)
		reg.HealAll()
		pass(time.Minute)
		for _, back := range []*agent{a, b} {
			require.Equal(t, `{"v":510}`, back.content())
			require.Contains(t, back.took(), "gap 10")
		}
		publish(t, s, 0, `{"live":1}`)
		settle()
		require.Equal(t, `{"live":1}`, a.content())
		require.Equal(t, `{"live":1}`, b.content())
	})
}

// H11: all end at the rollback and stay.
func TestARollbackStays(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		agents := []*agent{follow(t, reg, "a"), follow(t, reg, "b")}
		for v := uint64(1); v <= 3; v++ {
			publish(t, s, v, fmt.Sprintf(`{"v":%d}`, v))
			settle()
		}
		r, err := s.Rollback(t.Context(), 1, config.RollbackOptions{})
		require.NoError(t, err)
		pass(5 * time.Minute)
		late := follow(t, reg, "late")
		settle()
		for _, a := range append(agents, late) {
			require.Equal(t, r.Published.Version, a.version())
			require.Equal(t, `{"v":1}`, a.content())
			list := a.took()
			require.Equal(t, fmt.Sprint("rolled back ", r.Published.Version), list[len(list)-1])
		}
		_, err = s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Expect: 3})
		require.ErrorIs(t, err, protocol.ErrConflict)
	})
}

func TestALocalRollbackPins(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 3, `{"v":3}`)
		a := follow(t, reg, "a", applying(2, `{"v":2}`), func(a *agent) { a.now.Highest, a.now.Pinned = 3, true })
		settle()
		publish(t, s, 4, `{"v":4}`)
		settle()
		require.Equal(t, uint64(2), a.version())
		require.Equal(t, "2: pending 4 pinned", a.report(t, reg))
		a.stop()

		a.o.Unpin = true
		a.run(t)
		settle()
		require.Equal(t, "4: applied 4", a.report(t, reg))
		require.False(t, a.pinned())
	})
}

// Chatter on the topic, forged versions and unreadable ones are passed over.
func TestVoidMessagesAreNotApplied(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 3, `{"v":3}`)
		a := follow(t, reg, "a")
		settle()
		for _, payload := range []string{
			`{"type":"config_update","version":9,"config":{"forged":1}}`, `hello`, `{"type":"other"}`, ``,
		} {
			_, err := dial(t, reg, "x").PublishTo(t.Context(), topic, []byte(payload))
			require.NoError(t, err)
		}
		b := follow(t, reg, "b")
		settle()
		require.Equal(t, uint64(3), a.version())
		require.Equal(t, uint64(3), b.version())
		list := a.took()
		require.Len(t, list, 6)
		require.Equal(t, fmt.Sprintf("void message 0: seq 3 of %s: not stamped with its version", fakeregistry.NodeID("x")), list[2])
		pass(time.Minute)
		require.EqualValues(t, 4, reports(t, reg)[a.c.Self().Node.String()].Void, "and counted")
	})
}

func TestReportsWaitForTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a")
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpPublish, Topic: status, Times: 3, Code: protocol.ErrStorageFull})
		publish(t, s, 1, `{}`)
		pass(5 * time.Minute)
		require.Equal(t, uint64(1), a.version())
		require.Equal(t, "1: applied 1", a.report(t, reg))
		require.Len(t, reg.Messages(status), 1, "one slot")
	})
}

// An Apply that does not look at its context cannot be ended; who waits is told
// what for.
func TestAnApplyThatDoesNotEndIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 7, `{}`)
		stuck := &memory{delay: 150 * time.Second}
		var told []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- join(t, reg, "a").Follow(ctx, stuck, config.FollowOptions{Notify: func(c config.Change) {
				if c.Kind == config.ChangeStuck {
					told = append(told, fmt.Sprintf("%s %d: %s", c.Kind, c.Version, c.Reason))
				}
			}})
		}()
		settle()
		begun := time.Now()
		cancel()
		err := <-done
		require.Greater(t, time.Since(begun), 148*time.Second, "it waits all the same")
		require.ErrorIs(t, err, context.Canceled)
		var e *config.StuckError
		require.ErrorAs(t, err, &e)
		require.Equal(t, uint64(7), e.Version)
		require.Equal(t, 150*time.Second, e.Took)
		require.Equal(t, time.Since(begun), e.Late)
		require.Len(t, told, 3, "after 1 s, 61 s and 121 s")
		require.Regexp(t, `^stuck 7: Apply goes on for 1.*s, though its context ended 1s ago$`, told[0])
		require.Regexp(t, `ended 2m1s ago$`, told[2])
	})
}

func TestAStuckApplyIsToldByClose(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		live, err := config.Subscribe(t.Context(), s, config.LiveOptions[map[string]int]{
			FollowOptions: config.FollowOptions{}, Applier: &memory{delay: 10 * time.Second},
		})
		require.NoError(t, err)
		publish(t, s, 1, `{"a":1}`)
		pass(time.Second)
		var e *config.StuckError
		require.ErrorAs(t, live.Close(), &e)
		require.ErrorAs(t, live.Close(), &e, "each time")
		require.Equal(t, uint64(1), e.Version)
	})
}

func TestFollowEnds(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		s := openSwarm(t, c)
		done := make(chan error, 1)
		go func() { done <- s.Follow(t.Context(), &memory{}, config.FollowOptions{}) }()
		settle()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-done, net.ErrClosed)

		for _, o := range []config.FollowOptions{{ReportEvery: time.Millisecond}, {Retry: -1}, {Retry: time.Minute, MaxRetry: time.Second}} {
			require.ErrorIs(t, s.Follow(t.Context(), &memory{}, o), protocol.ErrInvalid)
		}
		reg.FailNext(fakeregistry.OpSubscribe, 1, protocol.ErrDenied)
		require.ErrorIs(t, join(t, reg, "b").Follow(t.Context(), &memory{}, config.FollowOptions{}), protocol.ErrDenied)
	})
}

func TestFollowWithoutFences(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		a := &agent{memory: &memory{}, name: "a", c: c}
		a.s = openSwarm(t, restricted{c, client.Capabilities{}})
		a.run(t)
		for _, payload := range []string{
			`{"type":"config_update","version":5,"config":{"first":1}}`,
			`{"type":"config_update","version":5,"config":{"second":1}}`,
			`{"type":"config_update","version":4,"config":{"late":1}}`,
		} {
			_, err := c.PublishTo(t.Context(), topic, []byte(payload))
			require.NoError(t, err)
		}
		settle()
		require.Equal(t, `{"first":1}`, a.content())
		require.Equal(t, "5: applied 5", a.report(t, reg))
	})
}

// A validator that panics refuses; one that hangs is called off by the next
// version, and holds up no end.
func TestValidatorsThatPanicOrHang(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		publish(t, s, 1, `{"v":1}`)
		release := make(chan struct{})
		defer close(release)
		a := follow(t, reg, "a", func(a *agent) {
			a.o.Validators = []config.Validator{config.ValidatorFunc(func(_ context.Context, d *config.Document) error {
				switch d.Version {
				case 2:
					panic("no 2")
				case 3, 5:
					<-release
				}
				return nil
			})}
		})
		settle()
		a.took()
		for v := uint64(2); v <= 5; v++ {
			publish(t, s, v, `{}`)
			settle()
		}
		require.Equal(t, []string{
			"announced 2", "rejected 2: document: panic: panic: no 2", "announced 3",
			"announced 4", "superseded 3", "applied 4", "announced 5",
		}, a.took())
		begun := time.Now()
		a.stop()
		require.Less(t, time.Since(begun), 100*time.Millisecond)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Publish(ctx, []byte(`{"v":5}`), config.PublishOptions{Version: 5, Validators: a.o.Validators})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun).Round(time.Second))
	})
}

// A panic of an applier is a failure as others are.
func TestAnApplierThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		a := follow(t, reg, "a", func(a *agent) {
			tries := 0
			a.fail = func(*config.Document) error {
				if tries++; tries == 1 {
					panic("not now")
				}
				return nil
			}
		})
		publish(t, s, 1, `{}`)
		settle()
		require.Equal(t, []string{"announced 1", "failed 1: panic: not now", "applied 1"}, a.took())
	})
}

// flood is a connection on which messages of each topic never end.
type flood struct{ client.Conn }

func (f flood) Subscribe(ctx context.Context, topic string, o ...client.SubscribeOption) (client.Stream, error) {
	s, err := f.Conn.Subscribe(ctx, topic, o...)
	return flooded{s}, err
}

type flooded struct{ client.Stream }

// Next gives what is at hand, whether or not ctx has ended.
func (flooded) Next(context.Context) (client.Item, error) {
	time.Sleep(time.Millisecond)
	return client.Item{Kind: client.ItemMessage, Message: &protocol.Message{}}, nil
}

// Each call ends with its context, also where messages come faster than they are
// read.
func TestCallsEndInAFlood(t *testing.T) {
	for name, call := range map[string]func(context.Context, *config.Swarm) error{
		"follow": func(ctx context.Context, s *config.Swarm) error {
			return s.Follow(ctx, &memory{}, config.FollowOptions{})
		},
		"compliance": func(ctx context.Context, s *config.Swarm) error {
			_, err := s.Compliance(ctx, config.ComplianceOptions{})
			return err
		},
		"wait": func(ctx context.Context, s *config.Swarm) error {
			_, err := s.WaitFor(ctx, 1, 1, config.ComplianceOptions{})
			return err
		},
		"watch": func(ctx context.Context, s *config.Swarm) error {
			for _, err := range s.Watch(ctx) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				s := openSwarm(t, flood{dial(t, reg, "a")})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				require.ErrorIs(t, call(ctx, s), context.DeadlineExceeded)
				require.Less(t, time.Since(begun), time.Minute+100*time.Millisecond)
			})
		})
	}
}
