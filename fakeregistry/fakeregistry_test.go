package fakeregistry_test

import (
	"testing"
	"testing/synctest"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

func TestAMessageGoesThrough(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		sub := subscribe(t, b, "jobs.*")
		ack := publish(t, a, "jobs.created", "one")

		m := message(t, sub)
		require.Equal(t, "one", string(m.Payload))
		require.Equal(t, ack.Seq, m.Seq)
		require.Equal(t, fakeregistry.NodeID("a"), m.Sender)

		require.Equal(t, []string{"one"}, payloads(reg.Messages("jobs.*")))
		require.Empty(t, reg.Messages("other"))
		synctest.Wait()
		require.Len(t, reg.Sessions(), 2)
		require.Len(t, reg.Subscriptions(), 1)
		require.Equal(t, "b", reg.Subscriptions()[0].Node)
	})
}
