package fakeregistry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

// TestFiveHundred runs as many registries side by side in one process, each in
// its own bubble, with clients that are cut off and lose nothing. Some of the
// registries crash besides.
func TestFiveHundred(t *testing.T) {
	for i := range 500 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, fakeregistry.Options{Latency: latency, Seed: uint64(i)}, func(t *testing.T, reg *fakeregistry.Registry) {
				story(t, reg, i%20 == 0)
			})
		})
	}
}

func story(t *testing.T, reg *fakeregistry.Registry, crash bool) {
	a, b := join(t, reg, "a"), join(t, reg, "b")
	check := fakeregistry.NewChecker(t, reg)
	sub := subscribe(t, b, "jobs.*")
	go follow(t, check.Reader("b", "jobs.*"), sub)

	publish(t, a, "jobs.1", "one")
	reg.Partition("b", fakeregistry.Host)
	time.Sleep(5 * time.Second)
	publish(t, a, "jobs.2", "two")
	reg.HealAll()
	if crash {
		require.NoError(t, reg.Restart())
	}
	ack := publish(t, a, "jobs.3", "three")
	check.Acked(ack.Epoch, ack.Seq, "jobs.3", []byte("three"))
	time.Sleep(time.Minute)
	synctest.Wait()
	check.Settled()
	require.Len(t, reg.Messages("jobs.*"), 3)
	require.NoError(t, sub.Close())
}
