package client

import (
	"context"
	"testing"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// idle is a client that is not connected to anything.
func idle(t testing.TB) *Client {
	t.Helper()
	c, err := newClient("127.0.0.1", Options{Key: make([]byte, 64), NoState: true})
	require.NoError(t, err)
	t.Cleanup(c.cancel)
	return c
}

func TestAllocsOfADeliveredMessage(t *testing.T) {
	testenv.Allocs(t)
	c := idle(t)
	s := newSubscription(c, position{pattern: "jobs.*"}, 10)
	n := &connection{c: c, ctx: c.ctx}
	f := protocol.Deliver{Message: protocol.Message{Topic: "jobs.created", Sender: 5, Payload: make([]byte, 128)}}
	var b []byte
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		f.Seq++
		b = f.Append(b[:0])
		require.NoError(t, s.frame(n, b))
		item, ok, err := s.take()
		if !ok || err != nil || item.Message.Seq != f.Seq {
			t.Fatal(item, ok, err)
		}
	}), 2.0)
}

func TestPendingLetsThePayloadGo(t *testing.T) {
	c := idle(t)
	l := &c.lanes[protocol.LaneNormal]
	l.attach(1, 10)
	p := c.Publish(t.Context(), Publication{Topic: "t", Payload: []byte("1")})
	l.fill(nil)
	require.NoError(t, l.acked([]protocol.Ack{{N: 1, Seq: 1}}))
	require.Nil(t, p.(*pending).pub.Payload)
}

func TestAllocsOfAPublish(t *testing.T) {
	testenv.Allocs(t)
	c := idle(t)
	l := &c.lanes[protocol.LaneNormal]
	l.attach(1, 10)
	ctx := context.Background()
	pub := Publication{Topic: "jobs.created", Payload: make([]byte, 128)}
	acks := []protocol.Ack{{}}
	var b []byte
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		p := c.Publish(ctx, pub)
		b = l.fill(b[:0])
		acks[0].N++
		acks[0].Seq++
		if err := l.acked(acks); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}), 1.0)
}
