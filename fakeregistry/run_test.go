package fakeregistry_test

import (
	"context"
	"crypto/ed25519"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/require"
)

func TestRestartKeepsTheLog(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, b, "x")
		publish(t, a, "x", "before")
		epoch := reg.Epoch()

		require.NoError(t, reg.Restart())
		require.Equal(t, epoch, reg.Epoch())
		publish(t, a, "x", "after")
		require.Equal(t, "before", string(message(t, sub).Payload))
		require.Equal(t, "after", string(message(t, sub).Payload))
		require.EqualValues(t, 2, reg.Head())
	})
}

func TestRestartEmptyIsANewEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, b, "x")
		publish(t, a, "x", "lost")
		message(t, sub)
		old, key := reg.Epoch(), reg.Fingerprint()

		require.NoError(t, reg.RestartEmpty())
		require.NotEqual(t, old.ID, reg.Epoch().ID)
		require.Equal(t, key, reg.Fingerprint())
		require.Empty(t, reg.Messages("*"))
		// Of what was under way nobody can tell any more.
		require.ErrorIs(t, within(t, a, time.Minute, "x", "old"), protocol.ErrUnknownOutcome)
		publish(t, a, "x", "new")
		until(t, sub, client.ItemEpoch)
		require.Equal(t, "new", string(message(t, sub).Payload))
	})
}

func TestStopTellsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		events := a.Events()
		defer events.Close()
		start := time.Now()
		reg.Stop()
		reg.Stop() // nothing more to stop
		event[client.Disconnected](t, events)
		require.Greater(t, time.Since(start), 5*time.Second, "found out by silence alone")
		require.Empty(t, reg.Sessions())
		require.NoError(t, reg.Start())
		require.NoError(t, reg.Start()) // it runs already
		publish(t, a, "x", "")
	})
}

func TestShutdownTells(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		events := a.Events()
		defer events.Close()
		start := time.Now()
		require.NoError(t, reg.Shutdown(t.Context()))
		event[client.Draining](t, events)
		require.Less(t, time.Since(start), time.Second)
		require.False(t, reg.Running())
		require.NoError(t, reg.Start())
		publish(t, a, "x", "")
	})
}

func TestNewKey(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		events := a.Events()
		defer events.Close()
		first := reg.Fingerprint()

		reg.NewKey(true)
		require.NotEqual(t, first, reg.Fingerprint())
		require.True(t, event[client.KeyChanged](t, events).Announced)
		require.NoError(t, reg.Restart())
		publish(t, a, "x", "the successor is followed")

		reg.NewKey(false)
		publish(t, a, "x", "nothing has changed yet")
		require.NoError(t, reg.Restart())
		require.ErrorIs(t, within(t, a, time.Minute, "x", ""), protocol.ErrWrongKey)
	})
}

func TestTheFirstEpochIsAsAsked(t *testing.T) {
	born := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	var ids []protocol.EpochID
	for range 2 {
		bubbleWith(t, fakeregistry.Options{Born: born, Seed: 7}, func(t *testing.T, reg *fakeregistry.Registry) {
			require.EqualValues(t, born.Unix(), reg.Epoch().Born)
			ids = append(ids, reg.Epoch().ID)
			require.NoError(t, reg.RestartEmpty())
			require.EqualValues(t, time.Now().Unix(), reg.Epoch().Born)
			ids = append(ids, reg.Epoch().ID)
		})
	}
	require.Equal(t, ids[:2], ids[2:], "the same in every run")
	require.NotEqual(t, ids[0], ids[1])
}

func TestClock(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Clock: -time.Hour}, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		start := time.Now()
		require.Equal(t, start.Add(-time.Hour).UTC(), publish(t, a, "x", "").Time.UTC())
		reg.SetClock(time.Hour)
		require.Equal(t, start.Add(time.Hour).UTC(), publish(t, a, "x", "").Time.UTC())
		reg.SetClock(0)
		require.Equal(t, start.Add(time.Hour).UTC(), publish(t, a, "x", "").Time.UTC(), "never back within a log")
		require.NoError(t, reg.RestartEmpty())
		require.EqualValues(t, time.Now().Unix(), reg.Epoch().Born)
	})
}

func TestLimitsAndAccess(t *testing.T) {
	access := func(_ context.Context, q registry.Request) error {
		if q.Right == registry.RightPublish && q.Topic == "closed" {
			return protocol.ErrDenied
		}
		return nil
	}
	o := fakeregistry.Options{Access: access, Limits: registry.Limits{Node: registry.Rate{Publishes: 2}}}
	bubbleWith(t, o, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		require.ErrorIs(t, within(t, a, time.Second, "closed", ""), protocol.ErrDenied)
		publish(t, a, "x", "")
		publish(t, a, "x", "")
		require.ErrorIs(t, within(t, a, time.Millisecond, "x", ""), protocol.ErrRateLimited)

		reg.SetLimits(registry.Limits{Payload: 10})
		require.NoError(t, reg.Restart())
		for range 5 {
			publish(t, a, "x", "")
		}
		require.ErrorIs(t, within(t, a, time.Second, "x", "more than ten"), protocol.ErrTooLarge)
	})
}

func TestRetention(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Retention: fakeregistry.Retention{Messages: 3}}, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		for _, p := range []string{"1", "2", "3", "4", "5"} {
			publish(t, a, "x", p)
		}
		require.Equal(t, []string{"3", "4", "5"}, payloads(reg.Messages("x")))
		reg.SetRetention(fakeregistry.Retention{Messages: 1, Age: time.Hour})
		require.Equal(t, []string{"5"}, payloads(reg.Messages("x")))
		reg.SetClock(2 * time.Hour)
		reg.Expire()
		require.Empty(t, reg.Messages("x"))

		publish(t, a, "x", "6")
		publish(t, a, "y", "7")
		reg.Purge("x")
		require.Equal(t, []string{"7"}, payloads(reg.Messages("*")))
		require.NoError(t, reg.RestartEmpty())
		b := join(t, reg, "b")
		publish(t, b, "x", "8")
		publish(t, b, "x", "9")
		require.Equal(t, []string{"9"}, payloads(reg.Messages("x")), "a new log keeps as much")
	})
}

// TestGapOfAResume goes away, lets retention take messages, and comes back.
func TestGapOfAResume(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, b, "x")
		publish(t, a, "x", "seen")
		message(t, sub)
		reg.Partition("b", fakeregistry.Host)
		time.Sleep(time.Minute)
		for range 10 {
			publish(t, a, "x", "")
		}
		reg.SetRetention(fakeregistry.Retention{Messages: 4})
		reg.HealAll()
		gap := until(t, sub, client.ItemGap)
		require.EqualValues(t, 2, gap.From)
		require.EqualValues(t, 7, gap.To)
		require.EqualValues(t, 8, message(t, sub).Seq)
	})
}

func TestInspection(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		fence := protocol.Condition{Topic: "election:g", Epoch: reg.Epoch().ID, Term: 5, HasExpect: true, Raise: 5}
		_, err := a.Publish(t.Context(), client.Publication{
			Topic: "election:g", Payload: []byte("claim"), Slot: "s", Conditions: []protocol.Condition{fence},
		}).Wait(t.Context())
		require.NoError(t, err)
		_, err = a.Send(t.Context(), fakeregistry.NodeID("b"), []byte("hello"))
		require.NoError(t, err)
		_, err = b.SubscribeInbox(t.Context())
		require.NoError(t, err)
		synctest.Wait()

		claim := reg.Messages("election:*")[0]
		require.Equal(t, "s", claim.Slot)
		require.EqualValues(t, 5, claim.Term())
		require.Equal(t, protocol.Fence{K: 5, S: 1}, reg.Fence("election:g"))
		require.Zero(t, reg.Fence("other"))
		direct := reg.Direct(fakeregistry.NodeID("b"))
		require.Len(t, direct, 1)
		require.Equal(t, fakeregistry.NodeID("a"), direct[0].Sender)
		require.EqualValues(t, 2, reg.Head())
		require.EqualValues(t, 2, reg.Info().Online)

		sessions := reg.Sessions()
		require.Len(t, sessions, 2)
		require.Equal(t, "a", sessions[0].Node)
		require.Equal(t, a.Self().Instance, sessions[0].Instance)
		subs := reg.Subscriptions()
		require.Len(t, subs, 1)
		require.Equal(t, "b", subs[0].Node)
		require.Empty(t, subs[0].Pattern)
	})
}

func TestEventsTellWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		sub := subscribe(t, a, "x")
		publish(t, a, "x", "")
		message(t, sub)
		reg.Partition("a", fakeregistry.Host)
		require.NoError(t, a.Close())
		synctest.Wait()

		var lines []string
		for _, e := range reg.Events() {
			lines = append(lines, e.String())
		}
		require.Equal(t, []string{
			"    0.000s run        start",
			"    0.030s connect    a #1",
			`    0.050s subscribe  a #1 "x"`,
			`    0.070s accept     a "x" seq 1`,
			`    0.070s deliver    a #1 "x" seq 1`,
			"    0.080s fault      partition a <-> registry",
		}, lines)
		require.Len(t, reg.Events(fakeregistry.EventAccept, fakeregistry.EventDeliver), 2)
	})
}

// Admission is that of a real registry: a test can let its nodes join with tokens.
func TestAdmission(t *testing.T) {
	root := fakeregistry.Key("root").Public().(ed25519.PublicKey)
	o := fakeregistry.Options{Latency: latency, Admission: registry.Admission{
		Mode: registry.AdmitToken, Operators: []protocol.KeyHash{protocol.KeyHashOf(root)},
	}}
	bubbleWith(t, o, func(t *testing.T, reg *fakeregistry.Registry) {
		operator := join(t, reg, "root")
		addr, a := options(reg, "a")
		_, err := client.Dial(t.Context(), addr, a)
		require.ErrorIs(t, err, protocol.ErrNotAdmitted)
		a.Token, _, err = operator.CreateToken(t.Context(), client.TokenOptions{Uses: 1})
		require.NoError(t, err)
		c, err := client.Dial(t.Context(), addr, a)
		require.NoError(t, err)
		defer c.Close()
		publish(t, c, "t", "x")
		for _, err := range c.Tokens(t.Context()) {
			require.ErrorIs(t, err, protocol.ErrDenied)
		}
		_, err = reg.Inject(t.Context(), fakeregistry.Raw{Sender: 7, Topic: "t", Payload: []byte("y")})
		require.NoError(t, err)
		require.Len(t, reg.Messages("t"), 2)

		// A log that is kept knows who was let in.
		require.NoError(t, reg.Restart())
		publish(t, c, "t", "z")
	})
}
