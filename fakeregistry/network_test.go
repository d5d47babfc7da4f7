package fakeregistry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

func TestPartitionIsABlackHole(t *testing.T) {
	cut := map[string]func(*fakeregistry.Registry){
		"both ways":    func(r *fakeregistry.Registry) { r.Partition("a", fakeregistry.Host) },
		"isolated":     func(r *fakeregistry.Registry) { r.Isolate("a") },
		"by node id":   func(r *fakeregistry.Registry) { r.Partition(fakeregistry.NodeID("a").String(), fakeregistry.Host) },
		"by told name": func(r *fakeregistry.Registry) { r.Partition("agent-a", fakeregistry.Host) },
	}
	for name, cut := range cut {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				addr, o := options(reg, "a")
				o.Name = "agent-a"
				a, err := client.Dial(t.Context(), addr, o)
				require.NoError(t, err)
				t.Cleanup(func() { _ = a.Close() })
				b := join(t, reg, "b")
				publish(t, a, "x", "before")

				cut(reg)
				require.ErrorIs(t, within(t, a, time.Second, "x", "lost"), context.DeadlineExceeded)
				publish(t, b, "x", "others go on")
				require.Equal(t, []string{"before", "others go on"}, payloads(reg.Messages("x")))

				reg.HealAll()
				publish(t, a, "x", "after")
			})
		})
	}
}

func TestPartitionOneWay(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		publish(t, a, "x", "before")

		reg.PartitionOneWay(fakeregistry.Host, "a")
		require.ErrorIs(t, within(t, a, time.Second, "x", "heard"), context.DeadlineExceeded)
		require.Equal(t, []string{"before", "heard"}, payloads(reg.Messages("x")), "the way in is open")

		reg.Heal("a", fakeregistry.Host)
		publish(t, a, "x", "after")
	})
}

func TestHealTakesBackWhatItNames(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.Isolate("a")
		reg.Heal("a", fakeregistry.Host)
		require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
		reg.Heal("a", "")
		publish(t, a, "x", "")
	})
}

func TestLinkHasALatency(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		publish(t, a, "x", "") // opens the lane
		publish(t, b, "x", "")
		reg.SetLink("a", fakeregistry.Host, fakeregistry.Link{Latency: 300 * time.Millisecond})

		start := time.Now()
		publish(t, b, "x", "")
		require.Equal(t, 2*latency, time.Since(start))
		start = time.Now()
		publish(t, a, "x", "")
		require.Equal(t, 300*time.Millisecond+latency, time.Since(start))

		reg.ClearFaults()
		start = time.Now()
		publish(t, a, "x", "")
		require.Equal(t, 2*latency, time.Since(start))
	})
}

func TestABadLinkOnlySlowsDown(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{Latency: latency, Seed: 1}, func(t *testing.T, reg *fakeregistry.Registry) {
		bad := fakeregistry.Link{Latency: latency, Jitter: 5 * time.Millisecond, Loss: 0.2, Duplicate: 0.2, Reorder: 0.2}
		reg.SetLink("a", fakeregistry.Host, bad)
		reg.SetLink(fakeregistry.Host, "a", bad)
		a := join(t, reg, "a")
		check := fakeregistry.NewChecker(t, reg)
		seen := check.Reader("a", "x")
		sub := subscribe(t, a, "x")
		for range 50 {
			ack := publish(t, a, "x", "payload")
			check.Acked(ack.Epoch, ack.Seq, "x", []byte("payload"))
			seen.Message(message(t, sub))
		}
		synctest.Wait()
		check.Settled()
	})
}
