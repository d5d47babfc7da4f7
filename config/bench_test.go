package config_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

const many = 10_000

// loopback is a swarm at a registry on this machine, over the real network.
func loopback(b *testing.B) (*config.Swarm, *fakeregistry.Registry) {
	b.Helper()
	reg := fakeregistry.Listen(b, fakeregistry.Options{Retention: fakeregistry.Retention{Versions: 2 * many, TopicBytes: -1}})
	e := reg.Endpoint("bench")
	c, err := client.Dial(b.Context(), e.Addr, client.Options{Key: e.Key, RegistryKey: e.RegistryKey, NoState: true})
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return openSwarm(b, c), reg
}

// A history of 10,000 versions, among as many other messages.
func BenchmarkHistory(b *testing.B) {
	s, reg := loopback(b)
	fill(b, reg, many, 1)
	b.Run("latest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := s.Latest(b.Context())
			require.NoError(b, err)
		}
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		n := uint64(0)
		for b.Loop() {
			n = (n+7919)%(many-1) + 1
			_, err := s.Get(b.Context(), 10*n)
			require.NoError(b, err)
		}
	})
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Len(b, versions(b, s, config.HistoryOptions{Limit: 50}), 50)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.GreaterOrEqual(b, len(versions(b, s, config.HistoryOptions{})), many)
		}
	})
	b.Run("diff", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			one, err := s.Get(b.Context(), 10)
			require.NoError(b, err)
			other, err := s.Get(b.Context(), 10*many/2)
			require.NoError(b, err)
			_, err = config.Diff(one.Config, other.Config)
			require.NoError(b, err)
		}
	})
	b.Run("rollback", func(b *testing.B) {
		b.ReportAllocs()
		for n := uint64(1); b.Loop(); n++ {
			_, err := s.Rollback(b.Context(), 10*(n%(many-1)+1), config.RollbackOptions{})
			require.NoError(b, err)
		}
	})
	b.Run("publish", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			_, err := s.Publish(b.Context(), fmt.Appendf(nil, `{"n":%d}`, n), config.PublishOptions{})
			require.NoError(b, err)
		}
	})
}

// From the call of Publish until an agent on this machine has the file in place,
// on disk.
func BenchmarkPublishToApplied(b *testing.B) {
	s, _ := loopback(b)
	dir := b.TempDir()
	file, err := config.OpenFile(config.FileOptions{
		Swarm: swarm, Target: filepath.Join(dir, "swarm-config.json"), State: filepath.Join(dir, "state"),
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	applied, done := make(chan uint64), make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, file, config.FollowOptions{Notify: func(c config.Change) {
			if c.Kind == config.ChangeApplied {
				applied <- c.Version
			}
		}})
	}()
	var took []time.Duration
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		begun := time.Now()
		p := publish(b, s, 0, fmt.Sprintf(`{"n":%d}`, n))
		require.Equal(b, p.Version, <-applied)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-p50")
	cancel()
	require.ErrorIs(b, <-done, context.Canceled)
	require.NoError(b, file.Close())
}

// The status of 10,000 agents, read over the network and summarised.
func BenchmarkCompliance(b *testing.B) {
	s, reg := loopback(b)
	publish(b, s, 7, `{}`)
	var list []fakeregistry.Raw
	for i := range many {
		r := config.Report{
			Agent: fmt.Sprint(i), AppliedVersion: uint64(6 + i%2), Version: 7, State: config.StateApplied,
			Digest: config.DigestOf([]byte(`{}`)), Every: 60e9, Instance: "i", Number: 1,
		}
		list = append(list, fakeregistry.Raw{From: fmt.Sprint("agent ", i), Topic: status, Slot: "status", Payload: r.Append(nil)})
	}
	_, err := reg.Inject(b.Context(), list...)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Compliance(b.Context(), config.ComplianceOptions{})
		require.NoError(b, err)
		require.Len(b, c.Agents, many)
		require.InDelta(b, 0.5, c.Share, 0)
	}
}
