package simnet_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/stretchr/testify/require"
)

const latency = 20 * time.Millisecond

// bubble runs a test of one network under virtual time.
func bubble(t *testing.T, o simnet.Options, test func(t *testing.T, n *simnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(o)
		defer n.Close()
		test(t, n)
	})
}

// write sends one packet to the first socket of a node.
func write(t *testing.T, n *simnet.Network, from net.PacketConn, to, text string) {
	t.Helper()
	_, err := from.WriteTo([]byte(text), addr(t, n, to))
	require.NoError(t, err)
}

func addr(t *testing.T, n *simnet.Network, node string) *net.UDPAddr {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", n.Addr(node))
	require.NoError(t, err)
	return a
}

// drain reads what arrives until nothing has for a minute.
func drain(t *testing.T, c net.PacketConn) []string {
	t.Helper()
	var got []string
	for b := make([]byte, 2048); ; {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		k, _, err := c.ReadFrom(b)
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return got
		}
		got = append(got, string(b[:k]))
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

func TestPacketArrivesAfterLatency(t *testing.T) {
	bubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		a, b := n.Listen("a"), n.Listen("b")
		start := time.Now()
		sent := []byte("hello")
		_, err := a.WriteTo(sent, b.LocalAddr())
		require.NoError(t, err)
		copy(sent, "spoil")

		buf := make([]byte, 100)
		k, from, err := b.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, "hello", string(buf[:k]))
		require.Equal(t, a.LocalAddr(), from)
		require.IsType(t, &net.UDPAddr{}, from)
		require.Equal(t, latency, time.Since(start))
		require.Equal(t, simnet.Stats{Sent: 1, Delivered: 1}, n.Stats("a", "b"))
		require.Zero(t, n.Stats("b", "a"))
	})
}

func TestMostSpecificLinkCounts(t *testing.T) {
	bubble(t, simnet.Options{Latency: 1 * time.Second}, func(t *testing.T, n *simnet.Network) {
		n.SetLink("", "b", simnet.Link{Latency: 2 * time.Second})
		n.SetLink("a", "", simnet.Link{Latency: 3 * time.Second})
		n.SetLink("a", "b", simnet.Link{Latency: 4 * time.Second})
		conns := map[string]net.PacketConn{"a": n.Listen("a"), "b": n.Listen("b"), "c": n.Listen("c")}
		for way, want := range map[string]time.Duration{"ab": 4, "ac": 3, "cb": 2, "ba": 1, "ca": 1} {
			start := time.Now()
			write(t, n, conns[way[:1]], way[1:], "x")
			_, _, err := conns[way[1:]].ReadFrom(make([]byte, 10))
			require.NoError(t, err)
			require.Equal(t, want*time.Second, time.Since(start), way)
		}
	})
}

func TestJitterKeepsOrder(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.SetLink("", "", simnet.Link{Latency: latency, Jitter: 10 * latency})
		a, b := n.Listen("a"), n.Listen("b")
		for _, text := range numbers(200) {
			write(t, n, a, "b", text)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, numbers(200), drain(t, b))
		require.Zero(t, n.Stats("", "").Reordered)
	})
}

func TestReorder(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.SetLink("a", "b", simnet.Link{Latency: latency, Reorder: 0.2})
		a, b := n.Listen("a"), n.Listen("b")
		for _, text := range numbers(200) {
			write(t, n, a, "b", text)
			time.Sleep(time.Millisecond)
		}
		got := drain(t, b)
		require.ElementsMatch(t, numbers(200), got)
		require.NotEqual(t, numbers(200), got)
		require.InDelta(t, 40, n.Stats("a", "b").Reordered, 20)
	})
}

func TestNewLinkOvertakesOld(t *testing.T) {
	bubble(t, simnet.Options{Latency: time.Hour}, func(t *testing.T, n *simnet.Network) {
		a, b := n.Listen("a"), n.Listen("b")
		write(t, n, a, "b", "late")
		n.SetLink("a", "b", simnet.Link{Latency: latency})
		write(t, n, a, "b", "early")
		require.Equal(t, []string{"early"}, drain(t, b))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"late"}, drain(t, b))
	})
}

func TestDuplicate(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.SetLink("a", "b", simnet.Link{Latency: latency, Duplicate: 1})
		a, b := n.Listen("a"), n.Listen("b")
		write(t, n, a, "b", "x")
		write(t, n, a, "b", "y")
		require.Equal(t, []string{"x", "x", "y", "y"}, drain(t, b))
		require.Equal(t, simnet.Stats{Sent: 2, Doubled: 2, Delivered: 4}, n.Stats("", ""))
	})
}

func TestLoss(t *testing.T) {
	for _, tc := range []struct {
		loss     float64
		min, max int
	}{{-1, 0, 0}, {0, 0, 0}, {0.2, 150, 250}, {1, 1000, 1000}, {2, 1000, 1000}} {
		t.Run(fmt.Sprint(tc.loss), func(t *testing.T) {
			bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
				n.SetLink("a", "b", simnet.Link{Loss: tc.loss})
				a, b := n.Listen("a"), n.Listen("b")
				for _, text := range numbers(1000) {
					write(t, n, a, "b", text)
				}
				stats := n.Stats("a", "b")
				require.GreaterOrEqual(t, stats.Lost, tc.min)
				require.LessOrEqual(t, stats.Lost, tc.max)
				require.Equal(t, 1000, stats.Lost+stats.Delivered)
				require.Len(t, drain(t, b), stats.Delivered)
			})
		})
	}
}

func TestBandwidth(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.SetLink("a", "b", simnet.Link{Latency: latency, Bandwidth: 10_000})
		a, b := n.Listen("a"), n.Listen("b")
		kilobyte := strings.Repeat("x", 1000) // 100 ms on the line
		start := time.Now()
		for range 5 {
			write(t, n, a, "b", kilobyte)
		}
		for i := range 3 {
			_, _, err := b.ReadFrom(make([]byte, 2000))
			require.NoError(t, err)
			require.Equal(t, time.Duration(i+1)*100*time.Millisecond+latency, time.Since(start))
		}
		require.Equal(t, simnet.Stats{Sent: 5, Delivered: 3, Lost: 2, Overflow: 2}, n.Stats("a", "b"))
	})
}

func TestPartition(t *testing.T) {
	type rule = func(*simnet.Network)
	for _, tc := range []struct {
		name string
		do   rule
		want string // the ways still open
	}{
		{"none", func(n *simnet.Network) {}, "ab ac ba bc ca cb"},
		{"pair", func(n *simnet.Network) { n.Partition("a", "b") }, "ac bc ca cb"},
		{"one way", func(n *simnet.Network) { n.PartitionOneWay("a", "b") }, "ac ba bc ca cb"},
		{"all to one", func(n *simnet.Network) { n.PartitionOneWay("", "b") }, "ac ba bc ca"},
		{"isolated", func(n *simnet.Network) { n.Isolate("a") }, "bc cb"},
		{"everything", func(n *simnet.Network) { n.Partition("", "") }, ""},
		{"healed", func(n *simnet.Network) { n.Partition("a", "b"); n.Heal("b", "a") }, "ab ac ba bc ca cb"},
		{"not healed", func(n *simnet.Network) { n.Isolate("a"); n.Heal("a", "b") }, "bc cb"},
		{"isolation healed", func(n *simnet.Network) { n.Isolate("a"); n.Heal("a", "") }, "ab ac ba bc ca cb"},
		{"all healed", func(n *simnet.Network) { n.Isolate("a"); n.Partition("b", "c"); n.HealAll() }, "ab ac ba bc ca cb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
				tc.do(n)
				require.Equal(t, tc.want, open(t, n, "a", "b", "c"))
				require.Equal(t, 1, n.Stats("a", "a").Delivered)
			})
		})
	}
}

// open tries every way between the nodes.
func open(t *testing.T, n *simnet.Network, nodes ...string) string {
	t.Helper()
	conns := make(map[string]net.PacketConn)
	for _, node := range nodes {
		conns[node] = n.Listen(node)
	}
	for _, from := range nodes {
		for _, to := range nodes {
			write(t, n, conns[from], to, from)
		}
	}
	var ways []string
	for _, from := range nodes {
		for _, to := range nodes {
			if from != to && n.Stats(from, to).Lost == 0 {
				ways = append(ways, from+to)
			}
		}
	}
	return strings.Join(ways, " ")
}

func TestPartitionCatchesWhatIsUnderWay(t *testing.T) {
	bubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		a, b := n.Listen("a"), n.Listen("b")
		write(t, n, a, "b", "x")
		time.Sleep(latency / 2)
		n.Partition("a", "b")
		require.Empty(t, drain(t, b))
		n.Heal("a", "b")
		write(t, n, a, "b", "y")
		require.Equal(t, []string{"y"}, drain(t, b))
		require.Equal(t, simnet.Stats{Sent: 2, Delivered: 1, Lost: 1}, n.Stats("a", "b"))
	})
}

func TestDrop(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		var seen []simnet.Packet
		stopTap := n.Drop(func(p simnet.Packet) bool {
			seen = append(seen, p)
			n.Stats("", "") // the network may be asked
			return false
		})
		stop := n.Drop(func(p simnet.Packet) bool { return string(p.Data) == "bad" })
		a, b := n.Listen("a"), n.Listen("b")
		write(t, n, a, "b", "good")
		write(t, n, a, "b", "bad")
		stop()
		stop()
		write(t, n, a, "b", "bad")
		stopTap()
		write(t, n, a, "b", "unseen")
		require.Equal(t, []string{"good", "bad", "unseen"}, drain(t, b))
		require.Equal(t, []simnet.Packet{
			{From: "a", To: "b", Data: []byte("good")},
			{From: "a", To: "b", Data: []byte("bad")},
			{From: "a", To: "b", Data: []byte("bad")},
		}, seen)
	})
}

// The other directions run concurrently and with links of their own: neither
// may change the fate of the packets from a to b.
func TestSeedDecidesFates(t *testing.T) {
	run := func(seed uint64, others int) (got []string) {
		bubble(t, simnet.Options{Latency: latency, Seed: seed}, func(t *testing.T, n *simnet.Network) {
			n.SetLink("", "", simnet.Link{Latency: latency, Jitter: latency, Loss: 0.3, Duplicate: 0.2, Reorder: 0.2})
			a, b := n.Listen("a"), n.Listen("b")
			var wg sync.WaitGroup
			defer wg.Wait()
			for i := range others {
				c := n.Listen(fmt.Sprint("other", i))
				wg.Go(func() {
					for range 50 {
						_, _ = c.WriteTo([]byte("noise"), a.LocalAddr())
						time.Sleep(time.Millisecond)
					}
				})
			}
			for _, text := range numbers(100) {
				write(t, n, a, "b", text)
				time.Sleep(time.Millisecond)
			}
			got = drain(t, b)
		})
		return got
	}
	first := run(1, 0)
	require.Equal(t, first, run(1, 0))
	require.Equal(t, first, run(1, 8))
	require.NotEqual(t, first, run(2, 0))
}

func TestFatesDoNotDependOnEarlierFaults(t *testing.T) {
	run := func(before simnet.Link, cut bool) (got []string) {
		bubble(t, simnet.Options{Seed: 7}, func(t *testing.T, n *simnet.Network) {
			a, b := n.Listen("a"), n.Listen("b")
			n.SetLink("a", "b", before)
			if cut {
				n.Isolate("b")
			}
			for range 10 {
				write(t, n, a, "b", "before")
			}
			drain(t, b)
			n.HealAll()
			n.SetLink("a", "b", simnet.Link{Loss: 0.5})
			for _, text := range numbers(50) {
				write(t, n, a, "b", text)
			}
			got = drain(t, b)
		})
		return got
	}
	want := run(simnet.Link{}, false)
	require.Equal(t, want, run(simnet.Link{Loss: 0.9, Duplicate: 1, Bandwidth: 1}, false))
	require.Equal(t, want, run(simnet.Link{}, true))
}

func TestBuffersAreBounded(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		a, b := n.Listen("a"), n.Listen("b")
		for range 5000 {
			write(t, n, a, "b", "x")
		}
		require.Equal(t, simnet.Stats{Sent: 5000, Delivered: 4096, Lost: 904, Overflow: 904}, n.Stats("a", "b"))
		require.Len(t, drain(t, b), 4096)
	})
	bubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		a := n.Listen("a")
		for range 17000 {
			write(t, n, a, "b", "x")
		}
		require.Equal(t, simnet.Stats{Sent: 17000, Lost: 616, Overflow: 616}, n.Stats("a", "b"))
		time.Sleep(latency)
		synctest.Wait()
		require.Equal(t, 17000, n.Stats("a", "b").Lost) // nobody listens
	})
}

func TestAddresses(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		want := n.Addr("a")
		first := n.Listen("a")
		require.Equal(t, want, first.LocalAddr().String())
		second := n.Listen("a")
		require.NotEqual(t, first.LocalAddr().String(), second.LocalAddr().String())
		require.Equal(t, first.LocalAddr().(*net.UDPAddr).IP, second.LocalAddr().(*net.UDPAddr).IP)

		require.NoError(t, first.Close())
		require.Equal(t, want, n.Listen("a").LocalAddr().String(), "after a restart")

		// Names of one hash.
		require.NotEqual(t, n.Addr("node-1903"), n.Addr("node-45280"))

		m := simnet.New(simnet.Options{})
		defer m.Close()
		m.Addr("z")
		require.Equal(t, want, m.Addr("a"), "whatever was named before")
		require.Panics(t, func() { m.Listen("") })
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		c := n.Listen("a")
		read := func() error { _, _, err := c.ReadFrom(make([]byte, 10)); return err }
		start := time.Now()

		require.NoError(t, c.SetReadDeadline(start.Add(time.Second)))
		err := read()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, time.Second, time.Since(start))

		// A waiting reader follows the deadline, to and fro.
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Second, func() { _ = c.SetReadDeadline(start.Add(time.Hour)) })
		time.AfterFunc(2*time.Second, func() { _ = c.SetReadDeadline(start.Add(5 * time.Second)) })
		require.ErrorIs(t, read(), os.ErrDeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))

		// One in the past hides packets, one in the future shows them again.
		write(t, n, c, "a", "x")
		require.ErrorIs(t, read(), os.ErrDeadlineExceeded)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
		require.NoError(t, read())

		require.NoError(t, c.SetWriteDeadline(time.Now()))
		_, err = c.WriteTo([]byte("x"), c.LocalAddr())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

func TestClosedSocket(t *testing.T) {
	for name, end := range map[string]func(*simnet.Network, net.PacketConn){
		"socket":  func(_ *simnet.Network, c net.PacketConn) { _ = c.Close() },
		"network": func(n *simnet.Network, _ net.PacketConn) { n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
				c := n.Listen("a")
				write(t, n, c, "a", "under way")
				require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
				time.AfterFunc(latency/2, func() { end(n, c) })
				_, _, err := c.ReadFrom(make([]byte, 10))
				require.ErrorIs(t, err, net.ErrClosed)
				_, err = c.WriteTo([]byte("x"), c.LocalAddr())
				require.ErrorIs(t, err, net.ErrClosed)
				require.ErrorIs(t, c.SetDeadline(time.Time{}), net.ErrClosed)
				require.ErrorIs(t, c.SetReadDeadline(time.Time{}), net.ErrClosed)
				require.ErrorIs(t, c.SetWriteDeadline(time.Time{}), net.ErrClosed)
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestListenAfterClose(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.Close()
		_, _, err := n.Listen("a").ReadFrom(nil)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestCloseDuringDropRule(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		n.Drop(func(simnet.Packet) bool { n.Close(); return false })
		write(t, n, n.Listen("a"), "b", "x")
		require.Zero(t, n.Stats("", ""))
	})
}

func TestOddAddress(t *testing.T) {
	bubble(t, simnet.Options{}, func(t *testing.T, n *simnet.Network) {
		c := n.Listen("a")
		_, err := c.WriteTo([]byte("x"), &net.UnixAddr{Name: "b"})
		require.Error(t, err)
		_, err = c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1})
		require.NoError(t, err)
		require.Equal(t, 1, n.Stats("a", "192.0.2.1").Lost)
	})
}

// Over real time, where a goroutine that is left over can be counted.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 200 {
		n := simnet.New(simnet.Options{Latency: 50 * time.Microsecond})
		a, b := n.Listen("a"), n.Listen("b")
		require.NoError(t, b.SetReadDeadline(time.Now().Add(100*time.Microsecond)))
		for range 10 {
			write(t, n, a, "b", "x")
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = b.ReadFrom(make([]byte, 10)) })
		wg.Go(func() { _, _ = a.WriteTo([]byte("x"), b.LocalAddr()) })
		wg.Go(n.Close)
		n.Close()
		wg.Wait()
	}
	// One leak in each round would be 200; a goroutine that has done its last
	// statement may still be counted.
	require.Less(t, runtime.NumGoroutine(), before+100)
}

// An idle network must not tick, and a busy one must not look at what is idle.
func TestHoursAreCheap(t *testing.T) {
	bubble(t, simnet.Options{Latency: latency}, func(t *testing.T, n *simnet.Network) {
		registry := n.Listen("registry")
		var clients sync.WaitGroup
		for _, name := range numbers(5) {
			c := n.Listen(name)
			clients.Go(func() {
				for range int(time.Hour / (100 * time.Millisecond)) {
					time.Sleep(100 * time.Millisecond)
					_, _ = c.WriteTo([]byte("heartbeat"), registry.LocalAddr())
				}
			})
		}
		require.Len(t, drain(t, registry), 5*36000)
		clients.Wait()
		time.Sleep(10000 * time.Hour)
	})
}

func BenchmarkPacket(b *testing.B) {
	n := simnet.New(simnet.Options{})
	defer n.Close()
	x, y := n.Listen("x"), n.Listen("y")
	buf := make([]byte, 1280)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.WriteTo(buf, y.LocalAddr()); err != nil {
			b.Fatal(err)
		}
		if _, _, err := y.ReadFrom(buf); err != nil {
			b.Fatal(err)
		}
	}
}
