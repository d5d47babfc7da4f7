package fakeregistry_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// Example starts a registry for a program that is no test.
func Example() {
	reg, err := fakeregistry.Start(fakeregistry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close()

	ctx := context.Background()
	e := reg.Endpoint("worker")
	c, err := client.Dial(ctx, e.Addr, client.Options{Key: e.Key, RegistryKey: e.RegistryKey, NoState: true})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reg.FailNext(fakeregistry.OpPublish, 1, protocol.ErrStorageFull)
	_, err = c.PublishTo(ctx, "jobs.created", []byte("one"))
	fmt.Println(err)
	_, err = c.PublishTo(ctx, "jobs.created", []byte("two"))
	fmt.Println(err)
	for _, m := range reg.Messages("jobs.*") {
		fmt.Printf("%s: %s, from worker: %t\n", m.Topic, m.Payload, m.Sender == fakeregistry.NodeID("worker"))
	}
	// Output:
	// publish "jobs.created": storage full: injected
	// <nil>
	// jobs.created: two, from worker: true
}

// ExampleParseFaults shows what the author of a script is told.
func ExampleParseFaults() {
	_, err := fakeregistry.ParseFaults([]byte(`[
		{"at": "2s", "do": "partition", "node": "worker"},
		{"at": "9s", "do": "heal", "nod": "worker"}
	]`))
	fmt.Println(err)
	// Output:
	// faults: line 3: "nod": heal has no such field; it has at, do, node, other
}

// A test with a fault in it: the worker is cut off for a minute, which takes no
// time, and has every job in the end.
func TestWorkerCatchesUpAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := fakeregistry.New(t, fakeregistry.Options{Latency: 20 * time.Millisecond})
		dial := func(node string) *client.Client {
			e := reg.Endpoint(node)
			c, err := client.Dial(t.Context(), e.Addr, client.Options{
				Key: e.Key, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey, NoState: true,
			})
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		}
		boss, worker := dial("boss"), dial("worker")
		jobs, err := worker.Subscribe(t.Context(), "jobs.*")
		require.NoError(t, err)

		reg.Partition("worker", fakeregistry.Host)
		_, err = boss.PublishTo(t.Context(), "jobs.created", []byte("sweep the floor"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		reg.HealAll()

		for m := range client.Messages(t.Context(), jobs) {
			require.Equal(t, "sweep the floor", string(m.Payload))
			break
		}
	})
}
