package config_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	swarm   = "workers"
	topic   = "config:workers"
	status  = "config:status:workers"
	latency = 10 * time.Millisecond
)

// bubble runs a test in virtual time against a registry.
func bubble(t *testing.T, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	bubbleWith(t, fakeregistry.Options{}, test)
}

func bubbleWith(t *testing.T, o fakeregistry.Options, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	o.Latency = latency
	synctest.Test(t, func(t *testing.T) { test(t, fakeregistry.New(t, o)) })
}

// dial connects a client at a node until the test ends.
func dial(t testing.TB, reg *fakeregistry.Registry, node string) *client.Client {
	t.Helper()
	e := reg.Endpoint(node)
	c, err := client.Dial(t.Context(), e.Addr, client.Options{
		Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true, Name: node,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openSwarm(t testing.TB, c client.Conn) *config.Swarm {
	t.Helper()
	s, err := config.Open(t.Context(), c, swarm, config.Options{})
	require.NoError(t, err)
	return s
}

// join is a swarm as a node sees it.
func join(t testing.TB, reg *fakeregistry.Registry, node string) *config.Swarm {
	t.Helper()
	return openSwarm(t, dial(t, reg, node))
}

func publish(t testing.TB, s *config.Swarm, version uint64, doc string) config.Published {
	t.Helper()
	p, err := s.Publish(t.Context(), []byte(doc), config.PublishOptions{Version: version})
	require.NoError(t, err)
	return p
}

// script publishes a version as scripts do: under its version, whatever came before.
func script(t testing.TB, c *client.Client, version uint64, doc string) error {
	t.Helper()
	f, err := c.Fence(t.Context(), topic)
	require.NoError(t, err)
	_, err = c.Publish(t.Context(), client.Publication{
		Topic:   topic,
		Payload: fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":%s}`, version, doc),
		Conditions: []protocol.Condition{
			{Topic: topic, Epoch: f.Epoch.ID, Term: version, Raise: version},
		},
	}).Wait(t.Context())
	return err
}

func versions(t testing.TB, s *config.Swarm, o config.HistoryOptions) (list []uint64) {
	t.Helper()
	for d, err := range s.History(t.Context(), o) {
		require.NoError(t, err)
		list = append(list, d.Version)
	}
	return list
}

// restricted is a connection that can do less.
type restricted struct {
	client.Conn
	can client.Capabilities
}

func (r restricted) Capabilities() client.Capabilities { return r.can }

func (r restricted) Fence(context.Context, string) (client.FenceState, error) {
	return client.FenceState{}, protocol.Errorf(protocol.ErrUnsupported, "no fences")
}

func (r restricted) Publish(ctx context.Context, p client.Publication) client.Pending {
	if len(p.Conditions) > 0 {
		panic("a condition over a link without fences")
	}
	return r.Conn.Publish(ctx, p)
}

func TestNamesOfSwarms(t *testing.T) {
	for _, bad := range []string{"", "a:b", "a*", "a\n", strings.Repeat("x", 1020)} {
		require.ErrorIs(t, config.ValidName(bad), protocol.ErrInvalid, bad)
	}
	require.NoError(t, config.ValidName("worker-pool.eu"))
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		_, err := config.Open(t.Context(), dial(t, reg, "a"), "a:b", config.Options{})
		require.ErrorIs(t, err, protocol.ErrInvalid)
		reg.FailNext(fakeregistry.OpFence, 1, protocol.ErrDenied)
		_, err = config.Open(t.Context(), dial(t, reg, "b"), swarm, config.Options{})
		require.ErrorIs(t, err, protocol.ErrDenied)
	})
}
