package fakeregistry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

// TestFiveHundred runs as many registries side by side in one process, each in
// its own bubble, with clients that are cut off, come back, and lose nothing.
func TestFiveHundred(t *testing.T) {
	for i := range 500 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, fakeregistry.Options{Latency: latency, Seed: uint64(i)}, story)
		})
	}
}

func story(t *testing.T, reg *fakeregistry.Registry) {
	a, b := join(t, reg, "a"), join(t, reg, "b")
	check := fakeregistry.NewChecker(t, reg)
	sub := subscribe(t, b, "jobs.*")
	go follow(t, check.Reader("b", "jobs.*"), sub)

	publish(t, a, "jobs.1", "one")
	reg.Partition("b", fakeregistry.Host)
	time.Sleep(time.Minute)
	publish(t, a, "jobs.2", "two")
	reg.HealAll()
	time.Sleep(time.Minute)
	reg.Restart()
	p := a.Publish(t.Context(), client.Publication{Topic: "jobs.3", Payload: []byte("three")})
	ack, err := p.Wait(t.Context())
	require.NoError(t, err)
	check.Acked(ack.Epoch, ack.Seq, "jobs.3", []byte("three"))
	time.Sleep(time.Minute)
	synctest.Wait()
	check.Settled()
	require.NoError(t, sub.Close())
}
