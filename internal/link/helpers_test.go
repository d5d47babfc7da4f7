package link_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// frame puts the length before a body.
func frame(body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	return append(b, body...)
}

// listen serves a registry on a node of a simulated network.
func listen(t testing.TB, n *simnet.Network, node string, c link.Config) *link.Listener {
	t.Helper()
	if c.Identity.Key == nil {
		c.Identity = link.NewIdentity()
	}
	pc := n.Listen(node)
	l, err := link.Listen(pc, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, pc.Close())
	})
	return l
}

// serve accepts sessions and hands each to handle, if there is one, in a
// goroutine that ends with the listener.
func serve(l *link.Listener, handle func(*link.Session)) {
	go func() {
		for {
			s, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			if handle != nil {
				go handle(s)
			}
		}
	}()
}

// dial dials from a node of a simulated network; the session ends with the test.
func dial(t testing.TB, n *simnet.Network, from, to string, c link.Config) (*link.Session, error) {
	t.Helper()
	if c.Identity.Key == nil {
		c.Identity = link.NewIdentity()
	}
	pc := n.Listen(from)
	c.PacketConn = pc
	s, err := link.Dial(t.Context(), n.Addr(to), c)
	if err != nil {
		pc.Close()
		return nil, err
	}
	t.Cleanup(func() {
		s.Close(protocol.ErrClosed, "")
		pc.Close()
	})
	return s, nil
}

// pair is two ends of one session over a simulated network.
func pair(t testing.TB, n *simnet.Network, client, server link.Config) (*link.Session, *link.Session) {
	t.Helper()
	l := listen(t, n, "registry", server)
	accepted := make(chan *link.Session, 1)
	go func() {
		s, err := l.Accept(context.Background())
		if err == nil {
			accepted <- s
		}
	}()
	c, err := dial(t, n, "client", "registry", client)
	require.NoError(t, err)
	return c, <-accepted
}

// channels is two ends of one channel, each having seen the other's first frame.
func channels(t testing.TB, a, b *link.Session) (*link.Channel, *link.Channel) {
	t.Helper()
	ca, err := a.Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, ca.Send(frame("hello")))
	cb, err := b.Accept(t.Context())
	require.NoError(t, err)
	body, err := cb.Next()
	require.NoError(t, err)
	require.Equal(t, "hello", string(body))
	return ca, cb
}

// echo sends back what comes in on every channel of a session.
func echo(s *link.Session) {
	for {
		c, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			var out []byte
			for {
				body, err := c.Next()
				if err != nil {
					c.CloseSend()
					return
				}
				out = binary.BigEndian.AppendUint32(out[:0], uint32(len(body)))
				out = append(out, body...)
				if c.Send(out) != nil {
					return
				}
			}
		}()
	}
}

// bubble runs a test under virtual time on a network with 10 ms each way. It
// fails if anything that the test started outlives it.
func bubble(t *testing.T, f func(t *testing.T, n *simnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Options{Latency: oneWay, Seed: 1})
		t.Cleanup(n.Close)
		f(t, n)
	})
}

const oneWay = 10 * time.Millisecond

// elapsed is the (virtual) time that f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// requireCode checks that an error is typed, and of this code only.
func requireCode(t testing.TB, want protocol.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.ErrorIs(t, err, want)
	var typed *protocol.Error
	require.ErrorAs(t, err, &typed, "%v", err)
	require.Equal(t, want == protocol.ErrClosed, errors.Is(err, net.ErrClosed),
		"only a local close is net.ErrClosed: %v", err)
}
