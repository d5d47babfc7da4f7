package link_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestKeyIsRememberedOnFirstUse(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		registry, pins := link.NewIdentity(), link.MemoryPins()
		serve(listen(t, n, "registry", link.Config{Identity: registry}), nil)
		serve(listen(t, n, "impostor", link.Config{}), nil)

		_, err := dial(t, n, "a", "registry", link.Config{Pins: pins, Host: "Example:9002"})
		require.NoError(t, err)
		list, err := pins.List()
		require.NoError(t, err)
		require.Equal(t, []link.Pin{{"example:9002", link.Fingerprint(registry.Public())}}, list)
		_, err = dial(t, n, "b", "registry", link.Config{Pins: pins, Host: "example:9002"})
		require.NoError(t, err)

		_, err = dial(t, n, "c", "impostor", link.Config{Pins: pins, Host: "example:9002"})
		requireCode(t, protocol.ErrWrongKey, err)
		require.ErrorContains(t, err, link.Fingerprint(registry.Public()))
		_, err = dial(t, n, "d", "impostor", link.Config{Pins: pins})
		require.NoError(t, err, "under its own name it is somebody")
	})
}

func TestImpostorIsNeverAccepted(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "impostor", link.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := dial(t, n, "a", "impostor", link.Config{Pinned: link.Fingerprint(link.NewIdentity().Public())})
		requireCode(t, protocol.ErrWrongKey, err)
		_, err = l.Accept(ctx)
		require.Equal(t, context.DeadlineExceeded, err, "the client proved nothing to it")
	})
}

func TestGivenKeyBeatsTheRememberedOne(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		registry, other := link.NewIdentity(), link.NewIdentity()
		serve(listen(t, n, "registry", link.Config{Identity: registry}), nil)
		given := link.Fingerprint(registry.Public())

		pins := link.MemoryPins()
		require.NoError(t, pins.Remember(t.Context(), "h", other.Public()))
		_, err := dial(t, n, "a", "registry", link.Config{Pins: pins, Host: "h", Pinned: given})
		require.NoError(t, err)
		fp, _, _ := pins.Lookup("h")
		require.Equal(t, link.Fingerprint(other.Public()), fp, "to forget it is the user's choice")

		_, err = dial(t, n, "b", "registry", link.Config{Pins: pins, Host: "new", Pinned: given})
		require.NoError(t, err)
		fp, ok, _ := pins.Lookup("new")
		require.True(t, ok)
		require.Equal(t, given, fp)
	})
}

func TestSuccession(t *testing.T) {
	first, second, third, stranger := link.NewIdentity(), link.NewIdentity(), link.NewIdentity(), link.NewIdentity()
	chain := []protocol.Succession{
		protocol.SignSuccession(first.Key, second.Public()),
		protocol.SignSuccession(second.Key, third.Public()),
	}
	for name, pinned := range map[string]ed25519.PublicKey{
		"from the first": first.Public(), "from the second": second.Public(), "same": third.Public(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				serve(listen(t, n, "registry", link.Config{Identity: third, Successions: chain}), nil)
				pins := link.MemoryPins()
				require.NoError(t, pins.Remember(t.Context(), "h", pinned))
				s, err := dial(t, n, "a", "registry", link.Config{Pins: pins, Host: "h"})
				require.NoError(t, err)
				require.Equal(t, third.Public(), s.PeerKey())
				fp, _, _ := pins.Lookup("h")
				require.Equal(t, link.Fingerprint(third.Public()), fp)
				_, err = dial(t, n, "b", "registry", link.Config{Pinned: link.Fingerprint(pinned)})
				require.NoError(t, err)
			})
		})
	}
	t.Run("from a stranger", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *simnet.Network) {
			serve(listen(t, n, "registry", link.Config{Identity: third, Successions: chain}), nil)
			_, err := dial(t, n, "a", "registry", link.Config{Pinned: link.Fingerprint(stranger.Public())})
			requireCode(t, protocol.ErrWrongKey, err)
		})
	})
}

func TestSuccessionsMustLeadToTheKey(t *testing.T) {
	a, b, c := link.NewIdentity(), link.NewIdentity(), link.NewIdentity()
	forged := protocol.SignSuccession(a.Key, b.Public())
	forged.Signature[0] ^= 1
	long := make([]protocol.Succession, 33)
	for i := range long {
		long[i] = protocol.SignSuccession(a.Key, b.Public())
	}
	for name, chain := range map[string][]protocol.Succession{
		"elsewhere": {protocol.SignSuccession(a.Key, c.Public())},
		"forged":    {forged},
		"gap":       {protocol.SignSuccession(a.Key, c.Public()), protocol.SignSuccession(c.Key, a.Public())},
		"long":      long,
		"cut":       {{Old: a.Public(), New: b.Public()}},
	} {
		_, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: b, Successions: chain})
		require.ErrorIs(t, err, protocol.ErrInvalid, name)
	}
}

// A registry that lies about its past is caught by its clients.
func TestForgedSuccessionIsTheWrongKey(t *testing.T) {
	pinned, registry, thief := link.NewIdentity(), link.NewIdentity(), link.NewIdentity()
	real := protocol.SignSuccession(pinned.Key, registry.Public())
	forged := protocol.SignSuccession(thief.Key, registry.Public())
	for name, chain := range map[string][]protocol.Succession{
		"signed by another": {{Old: pinned.Public(), New: registry.Public(), Signature: forged.Signature}},
		"to another":        {real},
		"loop":              {real, protocol.SignSuccession(registry.Key, pinned.Public())},
		"cut":               {{Old: pinned.Public(), New: thief.Public(), Signature: real.Signature[:63]}},
		"empty":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				pc := n.Listen("thief")
				l, err := link.ListenUnchecked(pc, link.Config{Identity: thief, Successions: chain})
				require.NoError(t, err)
				t.Cleanup(func() { l.Close(); pc.Close() })
				serve(l, nil)
				pins := link.MemoryPins()
				require.NoError(t, pins.Remember(t.Context(), "h", pinned.Public()))
				_, err = dial(t, n, "a", "thief", link.Config{Pins: pins, Host: "h"})
				requireCode(t, protocol.ErrWrongKey, err)
				fp, _, _ := pins.Lookup("h")
				require.Equal(t, link.Fingerprint(pinned.Public()), fp)
			})
		})
	}
}

// brokenPins can be read but not written, like a file on a full disk.
type brokenPins struct{ link.Pins }

func (brokenPins) Remember(context.Context, string, ed25519.PublicKey) error { return syscall.ENOSPC }
func (brokenPins) Follow(context.Context, string, string, ed25519.PublicKey) error {
	return syscall.ENOSPC
}

func TestFullDiskStopsOnlyAFirstUse(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		old, registry, pins := link.NewIdentity(), link.NewIdentity(), link.MemoryPins()
		serve(listen(t, n, "registry", link.Config{
			Identity:    registry,
			Successions: []protocol.Succession{protocol.SignSuccession(old.Key, registry.Public())},
		}), nil)
		require.NoError(t, pins.Remember(t.Context(), "known", registry.Public()))
		require.NoError(t, pins.Remember(t.Context(), "succeeded", old.Public()))
		var log bytes.Buffer
		for host, want := range map[string]error{"known": nil, "succeeded": nil, "new": syscall.ENOSPC} {
			_, err := dial(t, n, host, "registry", link.Config{
				Pins: brokenPins{pins}, Host: host, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.ErrorIs(t, err, want, host)
		}
		require.Contains(t, log.String(), "not remembered")
	})
}

func TestDamagedPinsStopADial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_registries.json")
	write(t, path, "{")
	_, err := link.Dial(t.Context(), "127.0.0.1:1", link.Config{Identity: link.NewIdentity(), Pins: link.FilePins(path)})
	requireCode(t, protocol.ErrInvalid, err)
}

func TestMuteServer(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		n.Listen("registry")
		took := elapsed(func() {
			_, err := dial(t, n, "client", "registry", link.Config{})
			requireCode(t, protocol.ErrTimeout, err)
		})
		require.Equal(t, 5*time.Second, took)
	})
}

func TestDialEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		l := listen(t, n, "registry", link.Config{})
		serve(l, nil)
		pc := n.Listen("client")
		defer pc.Close()
		c := link.Config{Identity: link.NewIdentity(), PacketConn: pc}
		for _, after := range []time.Duration{0, oneWay / 2, oneWay * 3 / 2} { // each stage of the handshake
			ctx, cancel := context.WithTimeout(t.Context(), after)
			took := elapsed(func() {
				_, err := link.Dial(ctx, n.Addr("registry"), c)
				require.Equal(t, context.DeadlineExceeded, err)
			})
			require.Equal(t, after, took)
			cancel()
		}
		n.Isolate("registry")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := link.Dial(ctx, n.Addr("registry"), c)
		require.Equal(t, context.Canceled, err)

		n.HealAll()
		s, err := link.Dial(t.Context(), n.Addr("registry"), c)
		require.NoError(t, err, "and afterwards all is well")
		s.Close(protocol.ErrClosed, "")
	})
}

func TestResolvingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := link.Dial(ctx, "registry.invalid:9002", link.Config{Identity: link.NewIdentity()})
	require.Equal(t, context.Canceled, err)
}

func TestUnknownHost(t *testing.T) {
	c := link.Config{Identity: link.NewIdentity(), Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}}
	_, err := link.Dial(t.Context(), "nowhere.example:9002", c)
	requireCode(t, protocol.ErrNotConnected, err)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)

	c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
	_, err = link.Dial(t.Context(), "empty.example:9002", c)
	requireCode(t, protocol.ErrNotConnected, err)
}

func TestNameIsResolvedAnewAtEachDial(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		one, two := link.NewIdentity(), link.NewIdentity()
		serve(listen(t, n, "one", link.Config{Identity: one}), nil)
		serve(listen(t, n, "two", link.Config{Identity: two}), nil)
		at := "one"
		for _, want := range []link.Identity{one, two} {
			pc := n.Listen("client")
			s, err := link.Dial(t.Context(), "registry:4433", link.Config{
				Identity: link.NewIdentity(), PacketConn: pc,
				Resolve: func(context.Context, string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddrPort(n.Addr(at)).Addr()}, nil
				},
			})
			require.NoError(t, err)
			require.Equal(t, want.Public(), s.PeerKey())
			s.Close(protocol.ErrClosed, "")
			pc.Close()
			at = "two"
		}
	})
}

// addresses resolves any name to nodes of a network.
func addresses(n *simnet.Network, nodes ...string) func(context.Context, string) ([]netip.Addr, error) {
	var ips []netip.Addr
	for _, node := range nodes {
		ips = append(ips, netip.MustParseAddrPort(n.Addr(node)).Addr())
	}
	return func(context.Context, string) ([]netip.Addr, error) { return ips, nil }
}

func TestAddressesAreTriedInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		took  time.Duration
		want  protocol.Code
	}{
		"first answers":     {[]string{"registry", "mute"}, 2 * oneWay, 0},
		"first is mute":     {[]string{"mute", "registry"}, 300*time.Millisecond + 2*oneWay, 0},
		"two are mute":      {[]string{"mute", "mute2", "registry"}, 600*time.Millisecond + 2*oneWay, 0},
		"first is too slow": {[]string{"slow", "registry"}, 300*time.Millisecond + 2*oneWay, 0},
		"first is wrong":    {[]string{"impostor", "registry"}, 4 * oneWay, 0},
		"none answers":      {[]string{"mute", "mute2"}, 5*time.Second + 300*time.Millisecond, protocol.ErrTimeout},
		"wrong and mute":    {[]string{"mute", "impostor"}, 5 * time.Second, protocol.ErrWrongKey},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				registry := link.NewIdentity()
				serve(listen(t, n, "registry", link.Config{Identity: registry}), nil)
				serve(listen(t, n, "slow", link.Config{Identity: registry}), nil)
				serve(listen(t, n, "impostor", link.Config{}), nil)
				n.SetLink("slow", "client", simnet.Link{Latency: time.Second})
				pc := n.Listen("client")
				defer pc.Close()
				took := elapsed(func() {
					s, err := link.Dial(t.Context(), "registry:4433", link.Config{
						Identity: link.NewIdentity(), PacketConn: pc,
						Pinned:  link.Fingerprint(registry.Public()),
						Resolve: addresses(n, c.nodes...),
					})
					if c.want != 0 {
						requireCode(t, c.want, err)
						return
					}
					require.NoError(t, err)
					require.Equal(t, n.Addr("registry"), s.RemoteAddr().String())
					s.Close(protocol.ErrClosed, "")
				})
				require.Equal(t, c.took, took)
			})
		})
	}
}

func TestRealSockets(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(addr, func(t *testing.T) {
			l, err := link.ListenUDP(addr, link.Config{Identity: link.NewIdentity()})
			testenv.Need(t, "ipv6", err == nil || addr != "[::1]:0", fmt.Sprint(err))
			require.NoError(t, err)
			defer l.Close()
			serve(l, echo)
			at := l.Addr().String()
			if addr == ":0" {
				at = fmt.Sprintf("localhost:%d", l.Addr().(*net.UDPAddr).Port)
			}
			s, err := link.Dial(t.Context(), at, link.Config{Identity: link.NewIdentity()})
			require.NoError(t, err)
			c, err := s.Open(t.Context())
			require.NoError(t, err)
			for range 100 {
				require.NoError(t, c.Send(frame("ping")))
				body, err := c.Next()
				require.NoError(t, err)
				require.Equal(t, "ping", string(body))
			}
			require.NoError(t, s.Close(protocol.ErrClosed, ""))
		})
	}
}

func TestNobodyListens(t *testing.T) {
	_, err := link.Dial(t.Context(), testenv.Addr(t), link.Config{Identity: link.NewIdentity()})
	requireCode(t, protocol.ErrNotConnected, err)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestRefusalLeadsToTheNextAddress(t *testing.T) {
	l, err := link.ListenUDP("127.0.0.1:0", link.Config{Identity: link.NewIdentity()})
	require.NoError(t, err)
	defer l.Close()
	serve(l, nil)
	port := l.Addr().(*net.UDPAddr).Port
	s, err := link.Dial(t.Context(), fmt.Sprintf("registry:%d", port), link.Config{
		Identity: link.NewIdentity(),
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, nil
		},
	})
	require.NoError(t, err)
	s.Close(protocol.ErrClosed, "")
}

func TestNoRoute(t *testing.T) {
	// A link-local address without the link leads nowhere on any machine.
	_, err := link.Dial(t.Context(), "[fe80::1]:9002", link.Config{Identity: link.NewIdentity()})
	requireCode(t, protocol.ErrNotConnected, err)
	var errno syscall.Errno
	require.True(t, errors.As(err, &errno), "%v", err)
}

// The carrier prints a warning about small buffers unless it is told not to.
func TestNothingIsPrinted(t *testing.T) {
	loopback(t, nil)
	require.Equal(t, "true", os.Getenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"))
}
