package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// fill puts versions into the log, each tenth seq, among other traffic.
func fill(t testing.TB, reg *fakeregistry.Registry, n, between int) {
	t.Helper()
	var list []fakeregistry.Raw
	for v := 1; v <= n; v++ {
		for range between {
			list = append(list, fakeregistry.Raw{From: "x", Topic: "jobs", Slot: "s"})
		}
		list = append(list, fakeregistry.Raw{
			From: "ci", Topic: topic,
			Payload:    fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":{"v":%d,"max_workers":10}}`, 10*v, v),
			Conditions: []protocol.Condition{{Topic: topic, Term: uint64(10 * v), Raise: uint64(10 * v)}},
		})
	}
	_, err := reg.Inject(t.Context(), list...)
	require.NoError(t, err)
}

func TestALongHistory(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{Versions: 5000}}, func(t *testing.T, reg *fakeregistry.Registry) {
		n := testenv.Raced[uint64](3000, 900)
		fill(t, reg, int(n), 2)
		s := join(t, reg, "a")
		for _, v := range []uint64{1, 2, n / 3, n / 2, n - 1, n} {
			d, err := s.Get(t.Context(), 10*v)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"v":%d,"max_workers":10}`, v), string(d.Config))
		}
		for _, v := range []uint64{1, 9, 5*n + 1, 10*n - 1, 10*n + 1, 1 << 50} {
			_, err := s.Get(t.Context(), v)
			require.ErrorIs(t, err, protocol.ErrNotFound, v)
		}
		all := versions(t, s, config.HistoryOptions{})
		require.Len(t, all, int(n))
		for i, v := range all {
			require.Equal(t, 10*(n-uint64(i)), v)
		}
		page := versions(t, s, config.HistoryOptions{Limit: 3})
		require.Equal(t, []uint64{10 * n, 10*n - 10, 10*n - 20}, page)
		require.Equal(t, []uint64{10*n - 30, 10*n - 40}, versions(t, s, config.HistoryOptions{Before: page[2], Limit: 2}))
	})
}

// Long documents are looked for and not read through.
func TestALongHistoryOfLongDocuments(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{TopicBytes: -1}}, func(t *testing.T, reg *fakeregistry.Registry) {
		const n, size = 40, 300_000
		long := strings.Repeat("x", size)
		for v := uint64(1); v <= n; v++ {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{
				From: "ci", Topic: topic, Payload: fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":{"v":%d,"x":"%s"}}`, v*v, v, long),
				Conditions: []protocol.Condition{{Topic: topic, Term: v * v, Raise: v * v}},
			})
			require.NoError(t, err)
		}
		c := dial(t, reg, "a")
		s := openSwarm(t, c)
		for _, v := range []uint64{1, 2, 17, 39, 40} {
			before := c.Stats().Received
			d, err := s.Get(t.Context(), v*v)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"v":%d,`, v), string(d.Config[:len(fmt.Sprint(v))+6]))
			require.Less(t, c.Stats().Received-before, uint64(n*size/2), "version %d", v)
		}
		_, err := s.Get(t.Context(), 5)
		require.ErrorIs(t, err, protocol.ErrNotFound)
		require.Len(t, versions(t, s, config.HistoryOptions{Limit: 2}), 2)
	})
}

func TestHistoryAfterRetention(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{Versions: 5}}, func(t *testing.T, reg *fakeregistry.Registry) {
		fill(t, reg, 20, 0)
		s := join(t, reg, "a")
		require.Equal(t, []uint64{200, 190, 180, 170, 160}, versions(t, s, config.HistoryOptions{}))
		_, err := s.Get(t.Context(), 150)
		require.ErrorIs(t, err, protocol.ErrNotFound)
		reg.Purge(topic)
		_, err = s.Latest(t.Context())
		require.ErrorIs(t, err, protocol.ErrNotFound)
		require.Greater(t, publish(t, s, 0, `{}`).Version, uint64(200), "the fence remembers")
	})
}

// An operator may put the fence back; versions from before are still found.
func TestHistoryOverAResetFence(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		s := openSwarm(t, c)
		publish(t, s, 500, `{"v":500}`)
		_, err := c.SetFence(t.Context(), topic, reg.Epoch().ID, 3)
		require.NoError(t, err)
		require.NoError(t, script(t, c, 4, `{"v":4}`))
		require.NoError(t, script(t, c, 5, `{"v":5}`))
		for _, v := range []uint64{500, 4, 5} {
			d, err := s.Get(t.Context(), v)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"v":%d}`, v), string(d.Config))
		}
	})
}

// H11: a rollback is a new version, and who expects the one given up is refused.
func TestRollback(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		_, err := s.Rollback(t.Context(), config.Previous, config.RollbackOptions{})
		require.ErrorIs(t, err, protocol.ErrNotFound)
		publish(t, s, 1, `{"a":1}`)
		_, err = s.Rollback(t.Context(), config.Previous, config.RollbackOptions{})
		require.ErrorIs(t, err, protocol.ErrNotFound)
		publish(t, s, 2, `{"a":2}`)
		publish(t, s, 3, `{"a":3}`)

		dry, err := s.Rollback(t.Context(), 1, config.RollbackOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, config.RolledBack{
			From: 3, To: 1, Changes: []config.Difference{{Kind: config.Changed, Path: "/a", Old: []byte("3"), New: []byte("1")}},
		}, dry)
		require.Len(t, reg.Messages(topic), 3)

		r, err := s.Rollback(t.Context(), 1, config.RollbackOptions{Reason: "errors"})
		require.NoError(t, err)
		d, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, r.Published.Version, d.Version)
		require.Greater(t, d.Version, uint64(3))
		require.Equal(t, `{"a":1}`, string(d.Config))
		require.Equal(t, []uint64{3, 1}, []uint64{d.RolledBackFrom, d.RolledBackTo})
		require.Equal(t, "errors", d.Reason)

		_, err = s.Publish(t.Context(), []byte(`{"stale":1}`), config.PublishOptions{Expect: 3})
		require.ErrorIs(t, err, protocol.ErrConflict)

		for _, to := range []uint64{d.Version, 1} {
			r, err = s.Rollback(t.Context(), to, config.RollbackOptions{})
			require.NoError(t, err)
			require.True(t, r.NoOp, "to %d", to)
		}
		_, err = s.Rollback(t.Context(), 77, config.RollbackOptions{})
		require.ErrorIs(t, err, protocol.ErrNotFound)
		require.Len(t, reg.Messages(topic), 4)

		r, err = s.Rollback(t.Context(), config.Previous, config.RollbackOptions{})
		require.NoError(t, err)
		require.Equal(t, uint64(3), r.To)
	})
}
