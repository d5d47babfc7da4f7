package link_test

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// failing is a socket that writes so many packets and then no more.
type failing struct {
	net.PacketConn
	left atomic.Int64
}

func (f *failing) WriteTo(b []byte, to net.Addr) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, &net.OpError{Op: "write", Net: "udp", Addr: to, Err: os.NewSyscallError("sendto", syscall.ENETUNREACH)}
	}
	return f.PacketConn.WriteTo(b, to)
}

// A socket that cannot send is no bug of anybody's.
func TestSocketThatCannotWrite(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		serve(listen(t, n, "registry", link.Config{}), echo)
		pc := n.Listen("client")
		defer pc.Close()
		for after := range int64(40) {
			f := &failing{PacketConn: pc}
			f.left.Store(after)
			s, err := link.Dial(t.Context(), n.Addr("registry"), link.Config{Identity: link.NewIdentity(), PacketConn: f})
			if err == nil {
				var ch *link.Channel
				ch, err = s.Open(t.Context())
				for err == nil {
					if err = ch.Send(frame("ping")); err == nil {
						_, err = ch.Next()
					}
				}
				s.Close(0, "")
			}
			requireCode(t, protocol.ErrNotConnected, err)
			require.ErrorIs(t, err, syscall.ENETUNREACH)
		}
	})
}

func TestSocketThatIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		pc := n.Listen("client")
		pc.Close()
		_, err := link.Dial(t.Context(), n.Addr("registry"), link.Config{Identity: link.NewIdentity(), PacketConn: pc})
		requireCode(t, protocol.ErrNotConnected, err)
	})
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	pc.Close()
	_, err = link.Dial(t.Context(), "127.0.0.1:9", link.Config{Identity: link.NewIdentity(), PacketConn: pc})
	requireCode(t, protocol.ErrNotConnected, err)
}

// Sessions that share a socket hear nothing of each other, and the socket is read
// by nobody once the last one has ended.
func TestSessionsShareASocket(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		pc := n.Listen("client")
		defer pc.Close()
		shared := link.NewSocket(pc)
		dial := func(to string) (*link.Session, error) {
			return link.Dial(t.Context(), n.Addr(to), link.Config{Identity: link.NewIdentity(), PacketConn: shared})
		}
		ask := func(s *link.Session) {
			ch, err := s.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, ch.Send(frame("ping")))
			body, err := ch.Next()
			require.NoError(t, err)
			require.Equal(t, "ping", string(body))
		}
		for _, node := range []string{"one", "two"} {
			serve(listen(t, n, node, link.Config{}), echo)
		}
		for range 3 {
			one, err := dial("one")
			require.NoError(t, err)
			two, err := dial("two")
			require.NoError(t, err)
			_, err = dial("nobody")
			requireCode(t, protocol.ErrTimeout, err)
			ask(one)
			ask(two)
			require.NoError(t, one.Close(0, ""))
			ask(two)
			again, err := dial("one")
			require.NoError(t, err)
			ask(again)
			require.NoError(t, again.Close(0, ""))
			require.NoError(t, two.Close(0, ""))
			require.NoError(t, two.Close(0, ""))
		}

		registry := n.Listen("sender")
		defer registry.Close()
		_, err := registry.WriteTo([]byte("for whoever reads"), pc.LocalAddr())
		require.NoError(t, err)
		b := make([]byte, 100)
		k, _, err := pc.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, "for whoever reads", string(b[:k]))
	})
}
