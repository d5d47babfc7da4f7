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

func TestDelayedAcks(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		publish(t, a, "x", "")
		publish(t, b, "x", "")
		reg.DelayAcks("a", time.Second)

		start := time.Now()
		publish(t, a, "x", "")
		require.Equal(t, time.Second+2*latency, time.Since(start))
		start = time.Now()
		publish(t, b, "x", "")
		require.Equal(t, 2*latency, time.Since(start))

		reg.DelayAcks("a", 0)
		start = time.Now()
		publish(t, a, "x", "")
		require.Equal(t, 2*latency, time.Since(start))
	})
}

func TestDroppedAcks(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.DropAcks("a", 2)
		for _, payload := range []string{"1", "2"} {
			require.ErrorIs(t, within(t, a, time.Second, "x", payload), context.DeadlineExceeded)
		}
		publish(t, a, "x", "3")
		require.Equal(t, []string{"1", "2", "3"}, payloads(reg.Messages("x")))
	})
}

// TestALostAckIsNoSecondMessage has the answer lost and then the connection: the
// client sends again, and the registry knows the key.
func TestALostAckIsNoSecondMessage(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		reg.DropAcks("", -1)
		p := a.Publish(t.Context(), client.Publication{Topic: "x", Payload: []byte("once")})
		time.Sleep(time.Second)
		reg.DropAcks("", 0)
		reg.Disconnect("a")

		ack, err := p.Wait(t.Context())
		require.NoError(t, err)
		require.True(t, ack.Duplicate)
		require.Len(t, reg.Messages("x"), 1)
	})
}

func TestOnAck(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		var asked []protocol.Seq
		stop := reg.OnAck(func(node string, seq protocol.Seq) (time.Duration, bool) {
			asked = append(asked, seq)
			return 0, node == "a" && seq%2 == 0
		})
		publish(t, a, "x", "")
		require.Error(t, within(t, a, time.Second, "x", ""))
		publish(t, a, "x", "")
		stop()
		publish(t, a, "x", "")
		synctest.Wait()
		require.Equal(t, []protocol.Seq{1, 2, 3}, asked)
	})
}
