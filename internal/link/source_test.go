package link

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSource(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7:1":              "192.0.2.7/32",
		"[::ffff:192.0.2.7]:1":     "192.0.2.7/32",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::]:2":  "2001:db8:1:2::/64",
		"127.0.0.1:1":              "",
		"[::1]:1":                  "",
		"[fe80::1%eth0]:1":         "fe80::/64",
	} {
		addr, err := net.ResolveUDPAddr("udp", text)
		require.NoError(t, err)
		got := Source(addr)
		if want == "" {
			require.Equal(t, netip.Prefix{}, got, text)
			continue
		}
		require.Equal(t, want, got.String(), text)
	}
	require.Equal(t, netip.Prefix{}, Source(&net.UnixAddr{Name: "x"}))
	require.Equal(t, netip.Prefix{}, Source(&net.UDPAddr{}))
}

func prefix(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

func TestEachSourceHasItsRate(t *testing.T) {
	s := newSources(2)
	now := time.Unix(1000, 0)
	taken := func(from netip.Prefix, n int) (ok int) {
		for range n {
			if s.take(from, now) {
				ok++
			}
		}
		return ok
	}
	require.Equal(t, 10, taken(prefix(1), 100), "five seconds' at once")
	require.Equal(t, 10, taken(prefix(2), 100), "another is not held up")
	now = now.Add(1500 * time.Millisecond)
	require.Equal(t, 3, taken(prefix(1), 100))
	now = now.Add(-time.Hour) // clocks go back
	require.Equal(t, 0, taken(prefix(1), 1))
	require.Equal(t, 100, taken(netip.Prefix{}, 100), "this machine")
	require.True(t, newSources(0).take(prefix(1), now))
}

// However many sources there are, memory is bounded.
func TestSourcesAreBounded(t *testing.T) {
	s := newSources(2)
	now := time.Unix(1000, 0)
	for n := range manySources {
		require.True(t, s.take(prefix(n), now))
	}
	ok := 0
	for n := range 100 {
		if s.take(prefix(manySources+n), now) {
			ok++
		}
	}
	require.Equal(t, 10, ok, "those beyond share one budget")
	require.LessOrEqual(t, len(s.one), manySources+1)
	now = now.Add(time.Minute)
	require.True(t, s.take(prefix(1<<20), now))
	require.Len(t, s.one, 1, "who has nothing to remember makes room")
}
