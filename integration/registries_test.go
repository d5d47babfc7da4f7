package integration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/integration"
	"github.com/pilotgo/pilotgo/protocol"
)

// Two registries on one cluster are one to a client: the same identity and log at
// both addresses. When the one that it uses is killed it goes on at the other,
// and misses and repeats nothing.
func TestTwoRegistriesOnOneClusterAreOne(t *testing.T) {
	store := "--store=" + integration.NewCluster(t, 3)
	a, b := registryProcess(t, store), registryProcess(t, store)
	dial := func(addrs string) *client.Client {
		c, err := client.Dial(t.Context(), addrs, client.Options{Home: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	writer, reader := dial(a.addr+","+b.addr), dial(b.addr+","+a.addr)
	sub, err := reader.Subscribe(t.Context(), "jobs", client.FromAll())
	require.NoError(t, err)

	want := map[string]protocol.Seq{}
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			text := fmt.Sprint("job ", i)
			ack, err := writer.PublishTo(t.Context(), "jobs", []byte(text))
			require.NoError(t, err)
			want[text] = ack.Seq
		}
	}
	publish(0, 20)
	a.kill() // the writer's
	publish(20, 40)
	a.start()
	b.kill() // the reader's
	publish(40, 60)
	for m, err := range client.Messages(t.Context(), sub) {
		require.NoError(t, err)
		require.Equal(t, want[string(m.Payload)], m.Seq, "%s", m.Payload)
		delete(want, string(m.Payload))
		if len(want) == 0 {
			break
		}
	}
}
