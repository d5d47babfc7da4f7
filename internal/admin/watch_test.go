package admin_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/admin"
)

func dial(t *testing.T, reg *fakeregistry.Registry, name string) *client.Client {
	t.Helper()
	e := reg.Endpoint(name)
	c, err := client.Dial(t.Context(), e.Addr, client.Options{
		Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true, Name: name,
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func watch(t *testing.T, reg *fakeregistry.Registry) *admin.Watcher {
	t.Helper()
	w := admin.Watch(admin.WatchOptions{
		Conn: dial(t, reg, "admin"), Store: "memory",
		Rates: func() map[string]float64 { return map[string]float64{"jobs": 2.5} },
	})
	t.Cleanup(func() { w.Close() })
	return w
}

func TestAGroupIsSeenFromItsFirstMessageOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		time.Sleep(time.Second)
		assert.Empty(t, w.Snapshot().Groups)

		worker := dial(t, reg, "worker")
		m, err := election.Join(t.Context(), worker, election.Options{Group: "workers"})
		require.NoError(t, err)
		defer m.Close()
		first, err := m.Campaign(t.Context())
		require.NoError(t, err)
		time.Sleep(6 * time.Second)
		groups := w.Snapshot().Groups
		require.Len(t, groups, 1)
		g := groups[0]
		assert.Equal(t, "workers", g.Name)
		assert.Equal(t, worker.Self().Node.String(), g.Leader)
		assert.Equal(t, "worker", g.LeaderName)
		assert.Equal(t, first.Term(), g.Term)
		assert.Less(t, g.Heard, time.Second)

		require.NoError(t, first.Resign(t.Context()))
		time.Sleep(time.Second)
		g = w.Snapshot().Groups[0]
		assert.Empty(t, g.Leader)
		assert.Equal(t, election.ReasonResigned.String(), g.Reason)
		require.NotEmpty(t, g.History)
		assert.Equal(t, "lost", g.History[0].What, "the newest is first")
	})
}

func TestTopicsAndNodesAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		agent := dial(t, reg, "agent-7")
		for _, topic := range []string{"idle", "jobs", "jobs"} {
			_, err := agent.PublishTo(t.Context(), topic, []byte("12345"))
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		s := w.Snapshot()
		require.Empty(t, s.Trouble)
		require.Len(t, s.Topics, 2)
		assert.Equal(t, admin.Topic{Name: "jobs", Messages: 2, Bytes: 10, Rate: 2.5}, s.Topics[0], "the busiest is first")
		require.Len(t, s.Nodes, 2)
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
			assert.Equal(t, uint64(1), n.Online)
		}
		assert.ElementsMatch(t, []string{"admin", "agent-7"}, names)
		assert.Equal(t, uint64(3), s.Registry.Messages)
		assert.Equal(t, "memory", s.Registry.Store)
		assert.NotEmpty(t, s.Registry.Fingerprint)
	})
}

// Asking is not free for the registry, so many who look at once ask once.
func TestASnapshotIsKeptForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		time.Sleep(time.Second)
		first := w.Snapshot()
		assert.Same(t, first, w.Snapshot())
		time.Sleep(time.Second)
		assert.NotSame(t, first, w.Snapshot())
	})
}

func TestTroubleIsToldAndDoesNotHoldUpThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		reg.Partition("admin", fakeregistry.Host)
		time.Sleep(time.Second)
		began := time.Now()
		s := w.Snapshot()
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		assert.NotEmpty(t, s.Trouble)
		page := get(serve(t, admin.Options{Snapshot: func() *admin.Snapshot { return s }}), "/").Body.String()
		assert.Contains(t, page, context.DeadlineExceeded.Error())
		reg.HealAll()
	})
}

func TestASwarmIsSeenWithItsAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		boss, err := config.Open(t.Context(), dial(t, reg, "boss"), "pool", config.Options{})
		require.NoError(t, err)
		published, err := boss.Publish(t.Context(), []byte(`{"workers":4}`), config.PublishOptions{Reason: "more workers"})
		require.NoError(t, err)
		report := func(name string, r config.Report) {
			_, err := dial(t, reg, name).PublishTo(t.Context(), config.StatusTopic("pool"), r.Append(nil))
			require.NoError(t, err)
		}
		report("good", config.Report{AppliedVersion: published.Version, Version: published.Version, State: config.StateApplied})
		report("bad", config.Report{Version: published.Version, State: config.StateFailed, Error: "no port"})
		report("slow", config.Report{})
		time.Sleep(6 * time.Second)

		s := w.Snapshot()
		require.Empty(t, s.Trouble)
		require.Len(t, s.Swarms, 1)
		pool := s.Swarms[0]
		assert.Equal(t, "pool", pool.Name)
		assert.Equal(t, published.Version, pool.Version)
		assert.Equal(t, "more workers", pool.Why)
		assert.Equal(t, []int{1, 1, 1}, []int{pool.Applied, pool.Failed, pool.Pending})
		require.Len(t, pool.Agents, 3)
		assert.Equal(t, "bad", pool.Agents[0].Name, "those with trouble come first")
		assert.Equal(t, "no port", pool.Agents[0].Error)
	})
}

// Groups come and go; those that are gone do not stay on the page, nor use up the
// subscriptions of its connection.
func TestGroupsThatAreGoneAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{})
		w := watch(t, reg)
		agent := dial(t, reg, "agent")
		for _, topic := range []string{"election:old", "config:old"} {
			_, err := agent.PublishTo(t.Context(), topic, []byte("{}"))
			require.NoError(t, err)
		}
		time.Sleep(6 * time.Second)
		s := w.Snapshot()
		require.Len(t, s.Groups, 1)
		require.Len(t, s.Swarms, 1)
		with := s.Registry.Readers

		require.NoError(t, agent.PurgeTopic(t.Context(), "election:old", 0))
		require.NoError(t, agent.PurgeTopic(t.Context(), "config:old", 0))
		time.Sleep(6 * time.Second)
		s = w.Snapshot()
		assert.Empty(t, s.Groups)
		assert.Empty(t, s.Swarms)
		assert.Less(t, s.Registry.Readers, with)
	})
}
