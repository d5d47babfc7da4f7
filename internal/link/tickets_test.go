package link_test

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// resumed dials and tells whether the session resumed, and whom each side saw.
func resumed(t *testing.T, n *simnet.Network, accepted <-chan *link.Session, c link.Config) (bool, [2]ed25519.PublicKey) {
	t.Helper()
	s, err := dial(t, n, "client", "registry", c)
	require.NoError(t, err)
	far := <-accepted
	require.Equal(t, s.Resumed(), far.Resumed())
	time.Sleep(10 * oneWay) // the ticket comes after the handshake
	s.Close(protocol.ErrClosed, "")
	return s.Resumed(), [2]ed25519.PublicKey{s.PeerKey(), far.PeerKey()}
}

// accepting serves a registry whose sessions come out of a channel.
func accepting(t *testing.T, n *simnet.Network, c link.Config) <-chan *link.Session {
	t.Helper()
	accepted := make(chan *link.Session, 16)
	serve(listen(t, n, "registry", c), func(s *link.Session) { accepted <- s })
	return accepted
}

func stores(t *testing.T) map[string]func() link.Tickets {
	dir := filepath.Join(t.TempDir(), "tickets")
	memory := link.MemoryTickets()
	return map[string]func() link.Tickets{
		"memory": func() link.Tickets { return memory },
		"files":  func() link.Tickets { return link.FileTickets(dir) }, // a new process each time
	}
}

func TestResumedSessionKnowsBothKeys(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				registry, node := link.NewIdentity(), link.NewIdentity()
				accepted := accepting(t, n, link.Config{Identity: registry})
				pins := link.MemoryPins()
				for i := range 4 {
					did, keys := resumed(t, n, accepted, link.Config{
						Identity: node, Pins: pins, Tickets: store(),
					})
					require.Equal(t, i > 0, did, "dial %d", i)
					require.Equal(t, [2]ed25519.PublicKey{registry.Public(), node.Public()}, keys)
				}
			})
		})
	}
}

func TestResumptionWithoutPins(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		accepted := accepting(t, n, link.Config{})
		c := link.Config{Identity: link.NewIdentity(), Tickets: link.MemoryTickets()}
		first, _ := resumed(t, n, accepted, c)
		second, _ := resumed(t, n, accepted, c)
		require.Equal(t, []bool{false, true}, []bool{first, second})
	})
}

func TestAnotherIdentityDoesNotResume(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				accepted := accepting(t, n, link.Config{})
				a, b := link.NewIdentity(), link.NewIdentity()
				for i, node := range []link.Identity{a, a, b, b, a} {
					did, keys := resumed(t, n, accepted, link.Config{Identity: node, Tickets: store()})
					require.Equal(t, i != 0 && i != 2, did, "dial %d", i)
					require.Equal(t, node.Public(), keys[1])
				}
			})
		})
	}
}

// The check of the pin must run on resumed handshakes: with VerifyPeerCertificate
// this dial succeeds.
func TestChangedPinRefusesAResumedSessionToo(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		registry := link.NewIdentity()
		accepted := accepting(t, n, link.Config{Identity: registry})
		tickets := anyTicket{link.MemoryTickets()}
		c := link.Config{Identity: link.NewIdentity(), Tickets: tickets}
		resumed(t, n, accepted, c)
		did, _ := resumed(t, n, accepted, c)
		require.True(t, did)

		c.Pinned = link.Fingerprint(link.NewIdentity().Public())
		_, err := dial(t, n, "client", "registry", c)
		requireCode(t, protocol.ErrWrongKey, err)
	})
}

// anyTicket gives the same ticket for every key: a store that is wrong.
type anyTicket struct{ link.Tickets }

func (a anyTicket) Get(string) []byte           { return a.Tickets.Get("x") }
func (a anyTicket) Put(_ string, ticket []byte) { a.Tickets.Put("x", ticket) }
func (a anyTicket) Drop(string)                 { a.Tickets.Drop("x") }

// askedTickets has none and notes for which keys it was asked.
type askedTickets struct{ keys map[string]bool }

func (a askedTickets) Get(key string) []byte {
	a.keys[key] = true
	return nil
}
func (askedTickets) Put(string, []byte) {}
func (askedTickets) Drop(string)        {}

func TestTicketsAreKeptApart(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		one, two := link.NewIdentity(), link.NewIdentity()
		asked := askedTickets{make(map[string]bool)}
		for _, node := range []string{"registry", "another"} {
			serve(listen(t, n, node, link.Config{}), nil)
			for _, own := range []link.Identity{one, two} {
				for _, pin := range []string{"", link.Fingerprint(one.Public()), link.Fingerprint(two.Public())} {
					dial(t, n, "client", node, link.Config{Identity: own, Pinned: pin, Tickets: asked})
				}
			}
		}
		require.Len(t, asked.keys, 2*2*3)
	})
}

func TestTicketsFollowASuccession(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		old, registry := link.NewIdentity(), link.NewIdentity()
		accepted := accepting(t, n, link.Config{
			Identity:    registry,
			Successions: []protocol.Succession{protocol.SignSuccession(old.Key, registry.Public())},
		})
		tickets, pins := link.MemoryTickets(), link.MemoryPins()
		require.NoError(t, pins.Remember(t.Context(), "h", old.Public()))
		c := link.Config{Identity: link.NewIdentity(), Tickets: tickets, Pins: pins, Host: "h"}
		for i := range 3 {
			did, _ := resumed(t, n, accepted, c)
			require.Equal(t, i > 0, did, "the ticket is kept for the new key")
		}
	})
}

func TestOldTicketAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		registry := link.NewIdentity()
		c := link.Config{Identity: link.NewIdentity(), Tickets: link.MemoryTickets()}
		for range 2 {
			pc := n.Listen("registry")
			l, err := link.Listen(pc, link.Config{Identity: registry})
			require.NoError(t, err)
			accepted := make(chan *link.Session, 1)
			serve(l, func(s *link.Session) { accepted <- s })
			did, _ := resumed(t, n, accepted, c)
			require.False(t, did, "the new process does not know the ticket and says so")
			l.Close()
			pc.Close()
		}
	})
}

func TestDamagedTicketIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, n *simnet.Network) {
		dir := filepath.Join(t.TempDir(), "tickets")
		accepted := accepting(t, n, link.Config{})
		c := link.Config{Identity: link.NewIdentity(), Tickets: link.FileTickets(dir)}
		resumed(t, n, accepted, c)
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		info, err := os.Stat(files[0])
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		good, err := os.ReadFile(files[0])
		require.NoError(t, err)

		for at := 0; at < len(good); at += len(good)/10 + 1 {
			bad := append([]byte(nil), good...)
			bad[at] ^= 0x40
			write(t, files[0], string(bad))
			did, _ := resumed(t, n, accepted, c)
			require.False(t, did, "byte %d", at)
			did, _ = resumed(t, n, accepted, c)
			require.True(t, did)
		}
		for cut := range len(good) {
			require.False(t, link.ParseTicket(good[:cut]))
		}
		require.True(t, link.ParseTicket(good))

		require.NoError(t, os.Chmod(files[0], 0o644))
		did, _ := resumed(t, n, accepted, c)
		require.False(t, did, "others may have changed it")
	})
}

func TestTicketsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for _, store := range []link.Tickets{link.MemoryTickets(), link.FileTickets(dir)} {
		start := time.Now().Add(-time.Hour)
		for i := range 100 {
			key := fmt.Sprintf("%064x", i)
			store.Put(key, []byte("ticket"))
			at := start.Add(time.Duration(i) * time.Second)
			os.Chtimes(filepath.Join(dir, key+".ticket"), at, at)
		}
		kept := 0
		for i := range 100 {
			if store.Get(fmt.Sprintf("%064x", i)) != nil {
				require.GreaterOrEqual(t, i, 36, "the oldest go first")
				kept++
			}
		}
		require.Equal(t, 64, kept)
		store.Drop(fmt.Sprintf("%064x", 99))
		require.Nil(t, store.Get(fmt.Sprintf("%064x", 99)))
	}
}

func TestTicketsNowhereToGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	store := link.FileTickets(filepath.Join(file, "tickets"))
	store.Put(strings.Repeat("0", 64), []byte("ticket"))
	require.Nil(t, store.Get(strings.Repeat("0", 64)))
}

func FuzzParseTicket(f *testing.F) {
	f.Add([]byte("pilotgo ticket 1\n"))
	f.Add([]byte("pilotgo ticket 1\n" + strings.Repeat("\x00", 40)))
	f.Fuzz(func(t *testing.T, b []byte) { link.ParseTicket(b) })
}

// A registry that comes back, or another of the same log, resumes sessions if it
// has the same ticket key.
func TestListenersWithOneTicketKeyResumeEachOthersSessions(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, second [32]byte
		want          bool
	}{
		{"the same", [32]byte{7}, [32]byte{7}, true},
		{"different", [32]byte{7}, [32]byte{8}, false},
		{"their own", [32]byte{}, [32]byte{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *simnet.Network) {
				registry, node := link.NewIdentity(), link.NewIdentity()
				pins, tickets := link.MemoryPins(), link.MemoryTickets()
				come := func(key [32]byte) bool {
					pc := n.Listen("registry")
					defer pc.Close()
					l, err := link.Listen(pc, link.Config{Identity: registry, TicketKey: key})
					require.NoError(t, err)
					defer l.Close()
					accepted := make(chan *link.Session, 1)
					serve(l, func(s *link.Session) { accepted <- s })
					did, _ := resumed(t, n, accepted, link.Config{Identity: node, Pins: pins, Tickets: tickets})
					return did
				}
				require.False(t, come(test.first))
				require.Equal(t, test.want, come(test.second))
			})
		})
	}
}
