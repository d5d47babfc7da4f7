package fakeregistry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

const latency = 10 * time.Millisecond

// bubble runs a test in virtual time against a registry with the usual latency.
func bubble(t *testing.T, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	bubbleWith(t, fakeregistry.Options{Latency: latency}, test)
}

func bubbleWith(t *testing.T, o fakeregistry.Options, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, fakeregistry.New(t, o))
	})
}

func options(reg *fakeregistry.Registry, node string) (string, client.Options) {
	e := reg.Endpoint(node)
	return e.Addr, client.Options{Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true}
}

// join connects a client at a node until the test ends.
func join(t *testing.T, reg *fakeregistry.Registry, node string) *client.Client {
	t.Helper()
	addr, o := options(reg, node)
	c, err := client.Dial(t.Context(), addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func publish(t *testing.T, c *client.Client, topic, payload string) client.Ack {
	t.Helper()
	ack, err := c.PublishTo(t.Context(), topic, []byte(payload))
	require.NoError(t, err)
	return ack
}

// within publishes with a bound on the wait for the answer.
func within(t *testing.T, c *client.Client, d time.Duration, topic, payload string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := c.PublishTo(ctx, topic, []byte(payload))
	return err
}

func subscribe(t *testing.T, c *client.Client, pattern string, opts ...client.SubscribeOption) *client.Subscription {
	t.Helper()
	s, err := c.OpenSubscription(t.Context(), pattern, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// take reads the next item that is at hand or comes soon.
func take(t *testing.T, s *client.Subscription) client.Item {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	item, err := s.Next(ctx)
	require.NoError(t, err)
	return item
}

// message reads on to the next message.
func message(t *testing.T, s *client.Subscription) *protocol.Message {
	t.Helper()
	for {
		if item := take(t, s); item.Kind == client.ItemMessage {
			return item.Message
		}
	}
}

// until reads on to an item of a kind, with no message before it.
func until(t *testing.T, s *client.Subscription, kind client.ItemKind) client.Item {
	t.Helper()
	for {
		item := take(t, s)
		if item.Kind == kind {
			return item
		}
		require.NotEqual(t, client.ItemMessage, item.Kind)
	}
}

// event reads on to an event of a type.
func event[E client.Event](t *testing.T, events *client.Events) E {
	t.Helper()
	for {
		e, err := events.Next(t.Context())
		require.NoError(t, err)
		if e, ok := e.(E); ok {
			return e
		}
	}
}

// nothing checks that nothing comes for a while.
func nothing(t *testing.T, s *client.Subscription, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	item, err := s.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "came: %+v", item)
}

func payloads(list []fakeregistry.Message) []string {
	var all []string
	for _, m := range list {
		all = append(all, string(m.Payload))
	}
	return all
}
