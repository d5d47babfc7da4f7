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

func TestRefusedConnects(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.RefuseConnects(2, protocol.ErrDraining)
		addr, o := options(reg, "a")
		for range 2 {
			_, err := client.Dial(t.Context(), addr, o)
			require.ErrorIs(t, err, protocol.ErrDraining)
		}
		c, err := client.Dial(t.Context(), addr, o)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		events := reg.Events(fakeregistry.EventConnect)
		require.Len(t, events, 3)
		require.ErrorIs(t, events[0].Err, protocol.ErrDraining)
		require.NoError(t, events[2].Err)
	})
}

// TestSubscriptionsSurviveRefusedRedials is what a supervisor that gives up
// after its first redial would fail.
func TestSubscriptionsSurviveRefusedRedials(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		subs := []*client.Subscription{subscribe(t, a, "x"), subscribe(t, a, "y"), subscribe(t, a, "*")}
		reg.Stop()
		time.Sleep(5 * time.Second)
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpConnect, Node: "a", Times: 3})
		require.NoError(t, reg.Start())

		publish(t, b, "x", "1")
		publish(t, b, "y", "2")
		for _, s := range subs {
			message(t, s)
		}
		require.Len(t, reg.Subscriptions(), 3)
	})
}

func TestFailures(t *testing.T) {
	calls := map[fakeregistry.Op]func(context.Context, *client.Client) error{
		fakeregistry.OpPublish: func(ctx context.Context, c *client.Client) error {
			_, err := c.PublishTo(ctx, "x", nil)
			return err
		},
		fakeregistry.OpSubscribe: func(ctx context.Context, c *client.Client) error {
			s, err := c.OpenSubscription(ctx, "x")
			if err == nil {
				_ = s.Close()
			}
			return err
		},
		fakeregistry.OpFence: func(ctx context.Context, c *client.Client) error {
			_, err := c.Fence(ctx, "x")
			return err
		},
		fakeregistry.OpSetFence: func(ctx context.Context, c *client.Client) error {
			info, err := c.Info(ctx)
			if err == nil {
				_, err = c.SetFence(ctx, "x", info.Epoch.ID, 1)
			}
			return err
		},
		fakeregistry.OpJoin: func(ctx context.Context, c *client.Client) error { return c.Join(ctx, "x") },
		fakeregistry.OpJoined: func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Joined(ctx) {
				return err
			}
			return nil
		},
		fakeregistry.OpInbox: func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Inbox(ctx, client.InboxOptions{}) {
				return err
			}
			return nil
		},
		fakeregistry.OpClear: func(ctx context.Context, c *client.Client) error { return c.ClearInbox(ctx, 0) },
		fakeregistry.OpInfo: func(ctx context.Context, c *client.Client) error {
			_, err := c.Info(ctx)
			return err
		},
		fakeregistry.OpNodes: func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Nodes(ctx, client.NodesOptions{}) {
				return err
			}
			return nil
		},
		fakeregistry.OpTopics: func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Topics(ctx, "*") {
				return err
			}
			return nil
		},
	}
	calls[fakeregistry.OpOperate] = func(ctx context.Context, c *client.Client) error {
		for _, err := range c.Keys(ctx) {
			return err
		}
		return nil
	}
	for _, op := range fakeregistry.Ops() {
		call, ok := calls[op]
		if op == fakeregistry.OpConnect {
			continue // see above
		}
		require.True(t, ok, "no case for %s", op)
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				a := join(t, reg, "a")
				require.NoError(t, call(t.Context(), a))
				reg.FailNext(op, 1, protocol.ErrDenied)
				require.ErrorIs(t, call(t.Context(), a), protocol.ErrDenied)
				require.NoError(t, call(t.Context(), a))
			})
		})
	}
}

func TestFailuresChooseTheirVictims(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		stop := reg.Fail(fakeregistry.Failure{
			Op: fakeregistry.OpPublish, Node: "a", Topic: "config:*", Skip: 1, Times: -1,
			Code: protocol.ErrRateLimited, RetryAfter: time.Second,
		})
		publish(t, a, "config:s", "skipped")
		publish(t, a, "jobs", "another topic")
		publish(t, b, "config:s", "another node")
		for range 3 {
			err := within(t, a, time.Second, "config:s", "refused")
			require.ErrorIs(t, err, protocol.ErrRateLimited)
			require.ErrorContains(t, err, "retry in 1s")
		}
		stop()
		publish(t, a, "config:s", "again")
		require.Len(t, reg.Messages("*"), 4)
		require.Len(t, reg.Events(fakeregistry.EventRefuse), 3)
	})
}

// TestCrashAtAnOperation has the registry die of a subscribe, which the client
// then repeats by itself.
func TestCrashAtAnOperation(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpSubscribe, Do: func() { reg.CrashFor(time.Second) }})
		sub := subscribe(t, a, "x")
		publish(t, b, "x", "here")
		require.Equal(t, "here", string(message(t, sub).Payload))
		require.EqualValues(t, 2, a.Stats().Connects)
	})
}

func TestFailuresLookAtPublishes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.Fail(fakeregistry.Failure{
			Op: fakeregistry.OpPublish, Code: protocol.ErrDenied, Times: -1,
			If: func(p *protocol.Publish) bool { return string(p.Payload) == "bad" },
		})
		publish(t, a, "x", "good")
		require.ErrorIs(t, within(t, a, time.Second, "x", "bad"), protocol.ErrDenied)
	})
}

func TestStorageFull(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		publish(t, a, "x", "before")
		reg.StorageFull(true)
		require.ErrorIs(t, within(t, a, time.Second, "x", "no room"), protocol.ErrStorageFull)
		require.Equal(t, "before", string(message(t, subscribe(t, a, "x", client.FromAll())).Payload), "reads go on")
		reg.StorageFull(false)
		publish(t, a, "x", "after")
		require.Equal(t, []string{"before", "after"}, payloads(reg.Messages("x")))
	})
}

func TestMuteHearsAndSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, a, "x")
		publish(t, a, "y", "")
		take(t, sub) // caught up

		reg.Mute("a")
		require.ErrorIs(t, within(t, a, time.Second, "y", "heard"), context.DeadlineExceeded)
		publish(t, b, "x", "pushed")
		nothing(t, sub, 3*time.Second) // before the client's pings give the registry up
		synctest.Wait()
		require.Len(t, reg.Messages("y"), 2)
		require.Len(t, reg.Sessions(), 2, "the connection stays")

		reg.Unmute("a")
		require.Equal(t, "pushed", string(message(t, sub).Payload))
		publish(t, a, "y", "answered")
	})
}

func TestMuteHoldsBackTheWelcome(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.Mute("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		addr, o := options(reg, "a")
		_, err := client.Dial(ctx, addr, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestStallHoldsBackMessagesAlone(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub, other := subscribe(t, a, "x"), subscribe(t, b, "x")
		until(t, sub, client.ItemCaughtUp)
		reg.Stall("a")
		for range 10 {
			publish(t, a, "x", "")
			message(t, other)
		}
		nothing(t, sub, time.Minute)
		reg.Unstall("a")
		for range 10 {
			message(t, sub)
		}
	})
}

func TestDisconnectOfAStalledNode(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		sub := subscribe(t, a, "x")
		reg.Stall("a")
		publish(t, a, "x", "held back")
		reg.Disconnect("a")
		publish(t, a, "y", "back")
		require.Len(t, reg.Sessions(), 1)
		reg.Unstall("a")
		require.Equal(t, "held back", string(message(t, sub).Payload))
	})
}

func TestDisconnect(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		publish(t, a, "x", "")
		events := a.Events()
		defer events.Close()

		reg.Disconnect("a")
		event[client.Disconnected](t, events)
		publish(t, a, "x", "back")
		require.EqualValues(t, 2, a.Stats().Connects)
		require.EqualValues(t, 1, b.Stats().Connects)
		require.Len(t, reg.Sessions(), 2)
	})
}
