package link_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// The system tells that nobody listens any more, and nothing as long as somebody
// does.
func TestKnock(t *testing.T) {
	testenv.Need(t, "refusals", runtime.GOOS != "windows", "Windows does not tell")
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	l, err := link.Listen(pc, link.Config{Identity: link.NewIdentity()})
	require.NoError(t, err)
	serve(l, echo)
	s, err := link.Dial(t.Context(), pc.LocalAddr().String(), link.Config{Identity: link.NewIdentity()})
	require.NoError(t, err)
	defer s.Close(0, "")

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, s.Knock(ctx))
	require.Error(t, ctx.Err(), "it waited")
	require.NoError(t, s.Err(), "the registry took it for nothing")

	require.NoError(t, pc.Close()) // without a word
	requireCode(t, protocol.ErrNotConnected, s.Knock(t.Context()))
	require.NoError(t, s.Err(), "it is for the caller to end the session")
	require.NoError(t, l.Close())
}

func TestKnockOnAGivenSocketTellsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, _ := pair(t, n, link.Config{}, link.Config{})
		n.Isolate("registry")
		require.NoError(t, c.Knock(t.Context()))
	})
}

// What the peer's carrier says counts as a sign of life, whether or not the peer
// itself says anything.
func TestTraffic(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		c, r := pair(t, n, link.Config{}, link.Config{})
		ch, _ := channels(t, c, r)
		time.Sleep(time.Second)
		received, sent := c.Traffic()
		require.NoError(t, ch.Send(frame("no answer")))
		time.Sleep(c.Patience())
		acked, more := c.Traffic()
		require.Greater(t, acked, received)
		require.Greater(t, more, sent)

		n.Isolate("registry")
		time.Sleep(time.Second) // what was under way
		received, sent = c.Traffic()
		require.NoError(t, ch.Send(frame("no answer")))
		time.Sleep(3 * c.Patience())
		silent, more := c.Traffic()
		require.Equal(t, received, silent)
		require.GreaterOrEqual(t, more, sent+2, "it asks again")
		require.Less(t, c.Patience(), 200*time.Millisecond)
	})
}
