package client_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sites is one log at several addresses.
type sites struct {
	t     *testing.T
	net   *simnet.Network
	log   registry.Log
	nodes []string
	conns map[string]*freezer

	mu     sync.Mutex
	open   map[uint64]protocol.NodeID // sessions
	opened int
}

// atSites runs a test of a log with addresses at nodes, in virtual time.
func atSites(t *testing.T, nodes []string, test func(t *testing.T, s *sites)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sites{
			t: t, nodes: nodes, log: memlog.New(memlog.Options{}), conns: map[string]*freezer{},
			net:  simnet.New(simnet.Options{Latency: latency, Seed: 1}),
			open: map[uint64]protocol.NodeID{},
		}
		t.Cleanup(s.net.Close)
		r, err := registry.New(registry.Options{
			Log: s.log, Key: fakeregistry.Key("registry"), Hooks: &registry.Hooks{Event: s.event},
			Access: func(context.Context, registry.Request) error { return nil },
		})
		require.NoError(t, err)
		var served sync.WaitGroup
		for _, node := range nodes {
			pc := &freezer{PacketConn: s.net.Listen(node)}
			s.conns[node] = pc
			served.Go(func() { r.Serve(pc) })
		}
		t.Cleanup(func() {
			for _, f := range s.conns {
				f.thaw()
			}
			r.Close()
			served.Wait()
		})
		test(t, s)
	})
}

// event sees to it that no client has two sessions at a time, and that a dial that
// was not needed is no fault to its registry.
func (s *sites) event(e registry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.NotEqual(s.t, registry.EventSessionRefused, e.Kind, "%v", e.Err)
	if e.Kind == registry.EventSessionClosed {
		delete(s.open, e.Session)
	}
	if e.Kind == registry.EventSessionOpened {
		for _, node := range s.open {
			assert.NotEqual(s.t, e.Node, node, "two sessions")
		}
		s.open[e.Session] = e.Node
		s.opened++
	}
}

func (s *sites) addrs() string {
	var list []string
	for _, node := range s.nodes {
		list = append(list, s.net.Addr(node))
	}
	return strings.Join(list, ",")
}

func (s *sites) dial(name string) *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), s.addrs(), client.Options{Key: fakeregistry.Key(name), NoState: true, PacketConn: s.net.Listen(name)})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// at tells at which node a client is.
func (s *sites) at(c *client.Client) string {
	s.t.Helper()
	info, err := c.Info(s.t.Context())
	require.NoError(s.t, err)
	for _, node := range s.nodes {
		if s.net.Addr(node) == info.Address {
			return node
		}
	}
	return ""
}

// stored lists the payloads on the topic t.
func (s *sites) stored() []string {
	s.t.Helper()
	c := s.dial(fmt.Sprint("reader ", time.Now()))
	sub, err := c.Subscribe(s.t.Context(), "t", client.FromAll())
	require.NoError(s.t, err)
	list := []string{}
	for {
		i, err := sub.Next(s.t.Context())
		require.NoError(s.t, err)
		if i.Kind == client.ItemCaughtUp {
			return list
		}
		list = append(list, show(i))
	}
}

// freezer is the socket of a process that can be stopped: what comes meanwhile is
// read afterwards, and what the process has to say goes out then.
type freezer struct {
	net.PacketConn

	mu     sync.Mutex
	frozen chan struct{} // closed by thaw; nil while it runs
	unsent []func()
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = make(chan struct{})
}

func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		return
	}
	close(f.frozen)
	for _, send := range f.unsent {
		send()
	}
	f.frozen, f.unsent = nil, nil
}

func (f *freezer) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := f.PacketConn.ReadFrom(b)
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return n, from, err
}

func (f *freezer) WriteTo(b []byte, to net.Addr) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		return f.PacketConn.WriteTo(b, to)
	}
	b = append([]byte(nil), b...)
	f.unsent = append(f.unsent, func() { f.PacketConn.WriteTo(b, to) })
	return len(b), nil
}

// gone are ways of a registry to be silent.
var gone = map[string]func(s *sites, node string) (back func()){
	"its host is off": func(s *sites, node string) func() {
		s.net.Isolate(node)
		return func() { s.net.Heal(node, "") }
	},
	"its process stands still": func(s *sites, node string) func() {
		s.conns[node].freeze()
		return s.conns[node].thaw
	},
	"nothing comes back": func(s *sites, node string) func() {
		s.net.PartitionOneWay(node, "")
		return func() { s.net.Heal(node, "") }
	},
}

// Where a log has several addresses a silent registry is left for another one:
// soon by who waits for it, with the next ping by who does not. What was on the way
// is in the log once, in order.
func TestSilentRegistryIsLeftForAnother(t *testing.T) {
	for name, silence := range gone {
		t.Run(name, func(t *testing.T) {
			atSites(t, []string{"one", "two", "three"}, func(t *testing.T, s *sites) {
				writer, reader := s.dial("writer"), s.dial("reader")
				sub, err := reader.Subscribe(t.Context(), "t")
				require.NoError(t, err)
				put(t, writer, "t", "1", "2", "3")
				require.Equal(t, "one", s.at(writer))
				time.Sleep(time.Minute)
				require.Equal(t, []string{"caught up 0", "1", "2", "3"}, next(t, sub, 4))

				back := silence(s, "one")
				start := time.Now()
				for i, p := range publish(t, writer, "4", "5", "6") {
					require.EqualValues(t, 4+i, acked(t, p).Seq)
				}
				require.Less(t, time.Since(start), 2*time.Second)
				require.Greater(t, time.Since(start), time.Second)
				require.Equal(t, "two", s.at(writer))

				require.Equal(t, []string{"disconnected", "4", "5", "6"}, dropCaughtUp(next(t, sub, 5)))
				require.Less(t, time.Since(start), 5*time.Second)
				require.Equal(t, "two", s.at(reader))

				back()
				time.Sleep(time.Minute)
				put(t, writer, "t", "7")
				require.Equal(t, []string{"7"}, next(t, sub, 1))
				require.EqualValues(t, 1, writer.Stats().Disconnects)
				require.EqualValues(t, 1, reader.Stats().Disconnects)
				require.Equal(t, numbers(7), s.stored())
			})
		})
	}
}

// With a stream of publishes under way, nothing is lost, doubled or out of order,
// whenever the silence begins and ends.
func TestNothingIsLostToSilence(t *testing.T) {
	for name, silence := range gone {
		t.Run(name, func(t *testing.T) {
			for _, lasts := range []time.Duration{500 * time.Millisecond, 1100 * time.Millisecond, 1300 * time.Millisecond, 1600 * time.Millisecond, 4 * time.Second} {
				atSites(t, []string{"one", "two"}, func(t *testing.T, s *sites) {
					c := s.dial("writer")
					var list []client.Pending
					for i := range 1000 {
						list = append(list, publish(t, c, fmt.Sprint(i+1))...)
						if i == 300 {
							back := silence(s, "one")
							time.AfterFunc(lasts, back)
						}
						time.Sleep(5 * time.Millisecond)
					}
					for i, p := range list {
						require.EqualValues(t, i+1, acked(t, p).Seq, lasts)
					}
					require.Equal(t, numbers(1000), s.stored())
					require.LessOrEqual(t, c.Stats().Disconnects, uint64(1), lasts)
				})
			}
		})
	}
}

// A connection that is heard again before another address has answered is kept,
// and the other registry never had the client.
func TestShortSilenceEndsNothing(t *testing.T) {
	atSites(t, []string{"one", "two"}, func(t *testing.T, s *sites) {
		c := s.dial("writer")
		far := simnet.Link{Latency: time.Second}
		s.net.SetLink("writer", "two", far)
		s.net.SetLink("two", "writer", far)
		for _, lasts := range []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 1700 * time.Millisecond, 2500 * time.Millisecond} {
			s.conns["one"].freeze()
			p := publish(t, c, "x")[0]
			time.Sleep(lasts)
			s.conns["one"].thaw()
			start := time.Now()
			acked(t, p)
			require.Less(t, time.Since(start), 300*time.Millisecond)
			time.Sleep(20 * time.Second)
		}
		require.Zero(t, c.Stats().Disconnects)
		require.Equal(t, 1, s.opened)
	})
}

// A registry that is slow to store, or has nothing to say, is not silent.
func TestSlowAckIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.DelayAcks("a", 30*time.Second)
		addr, o := options(reg, "a")
		c, err := client.Dial(t.Context(), addr+","+addr, o)
		require.NoError(t, err)
		defer c.Close()
		list := publish(t, c, "1", "2")
		time.Sleep(10 * time.Second)
		list = append(list, publish(t, c, "3")...)
		start := time.Now()
		for _, p := range list {
			acked(t, p)
		}
		require.Equal(t, 30*time.Second, time.Since(start).Round(time.Second))
		require.Zero(t, c.Stats().Disconnects)
		require.Len(t, reg.Events(fakeregistry.EventConnect), 1)
	})
}

// With one address only, there is nowhere to go: a pause is waited for.
func TestSilenceOfTheOnlyRegistryIsWaitedFor(t *testing.T) {
	for name, silence := range gone {
		t.Run(name, func(t *testing.T) {
			atSites(t, []string{"one"}, func(t *testing.T, s *sites) {
				c := s.dial("writer")
				back := silence(s, "one")
				p := publish(t, c, "1")[0]
				time.Sleep(4 * time.Second)
				back()
				start := time.Now()
				acked(t, p)
				require.Less(t, time.Since(start), 4*time.Second)
				require.Zero(t, c.Stats().Disconnects)
				require.Equal(t, 1, s.opened)
				require.Equal(t, numbers(1), s.stored())
			})
		})
	}
}

// Of several addresses those of hosts that are off cost half a second each.
func TestHostsThatAreOffHoldUpLittle(t *testing.T) {
	atSites(t, []string{"one", "two", "three", "four"}, func(t *testing.T, s *sites) {
		for _, node := range s.nodes[:3] {
			s.net.Isolate(node)
		}
		start := time.Now()
		c := s.dial("writer")
		require.Less(t, time.Since(start), 2*time.Second)
		require.Equal(t, "four", s.at(c))

		s.net.HealAll()
		for _, node := range []string{"four", "one", "two"} {
			s.net.Isolate(node)
		}
		start = time.Now()
		acked(t, publish(t, c, "1")[0])
		require.Less(t, time.Since(start), 3*time.Second)
		require.Equal(t, "three", s.at(c))
		require.EqualValues(t, 1, c.Stats().Disconnects)
	})
}

// A registry that answers a dial and does not take the client is no way out: the
// next one is.
func TestRegistryBesideThatTakesNobody(t *testing.T) {
	atSites(t, []string{"one", "three"}, func(t *testing.T, s *sites) {
		pc := s.net.Listen("two")
		defer pc.Close()
		l, err := link.Listen(pc, link.Config{Identity: link.Identity{Key: fakeregistry.Key("registry")}})
		require.NoError(t, err)
		defer l.Close()
		go func() {
			for {
				two, err := l.Accept(context.Background())
				if err != nil {
					return
				}
				go two.Close(protocol.ErrLimit, "no room")
			}
		}()
		s.nodes = []string{"one", "two", "three"}
		c := s.dial("writer")
		e := c.Events()
		s.net.Isolate("one")
		start := time.Now()
		acked(t, publish(t, c, "1")[0])
		require.Less(t, time.Since(start), 3*time.Second)
		require.Equal(t, "three", s.at(c))
		require.ErrorIs(t, until[client.DialFailed](t, e).Err, protocol.ErrLimit)
	})
}

// Close waits for nobody, whatever the silence has led to by then.
func TestCloseDuringSilence(t *testing.T) {
	for name, silence := range gone {
		t.Run(name, func(t *testing.T) {
			for after := time.Duration(0); after < 2500*time.Millisecond; after += 47 * time.Millisecond {
				atSites(t, []string{"one", "two"}, func(t *testing.T, s *sites) {
					c := s.dial("writer")
					subscribe(t, c, "t")
					far := simnet.Link{Latency: 300 * time.Millisecond} // so that a dial takes its time
					s.net.SetLink("writer", "two", far)
					s.net.SetLink("two", "writer", far)
					back := silence(s, "one")
					p := publish(t, c, "1")[0]
					time.Sleep(after)
					start := time.Now()
					require.NoError(t, c.Close())
					require.Less(t, time.Since(start), 100*time.Millisecond, after)
					if _, err := p.Wait(t.Context()); err != nil {
						require.ErrorIs(t, err, net.ErrClosed)
					}
					back()
				})
			}
		})
	}
}

// However many ask, and give up, the silence is noticed.
func TestSilenceIsNoticedWhileManyAsk(t *testing.T) {
	atSites(t, []string{"one", "two"}, func(t *testing.T, s *sites) {
		c := s.dial("writer")
		s.net.Isolate("one")
		asking, stop := context.WithCancel(t.Context())
		var stopped sync.WaitGroup
		defer stopped.Wait()
		defer stop()
		stopped.Go(func() {
			for asking.Err() == nil {
				ctx, cancel := context.WithTimeout(asking, 300*time.Microsecond)
				c.Fence(ctx, "t")
				cancel()
			}
		})
		start := time.Now()
		acked(t, publish(t, c, "1")[0])
		require.Less(t, time.Since(start), 2*time.Second)
		require.Equal(t, "two", s.at(c))
	})
}

// Those who only read cost their registry a ping now and then, no more than before.
func TestWatchingCostsNoPackets(t *testing.T) {
	atSites(t, []string{"one", "two"}, func(t *testing.T, s *sites) {
		c := s.dial("reader")
		subscribe(t, c, "t")
		time.Sleep(time.Minute)
		packets := map[string]int{}
		stop := s.net.Drop(func(p simnet.Packet) bool {
			packets[p.From]++
			return false
		})
		time.Sleep(5 * time.Minute)
		stop()
		require.Empty(t, packets["two"])
		require.LessOrEqual(t, packets["reader"], 210, "a ping each 3 s, and the acknowledgement of its answer")
		require.EqualValues(t, 1, c.Stats().Connects)
	})
}

// A registry that is gone without a word, while its host is up, is missed by who
// waits for an answer from it: the system knows. Its clients go on at another
// address.
func TestKilledRegistryIsMissedAtOnce(t *testing.T) {
	testenv.Need(t, "refusals", runtime.GOOS != "windows", "Windows does not tell")
	log := memlog.New(memlog.Options{})
	r, err := registry.New(registry.Options{
		Log: log, Key: fakeregistry.Key("registry"), Access: func(context.Context, registry.Request) error { return nil },
	})
	require.NoError(t, err)
	var addrs []string
	var sockets []net.PacketConn
	var served sync.WaitGroup
	for range 2 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer pc.Close()
		sockets, addrs = append(sockets, pc), append(addrs, pc.LocalAddr().String())
		served.Go(func() { r.Serve(pc) })
	}
	defer served.Wait()
	defer r.Close()
	c, err := client.Dial(t.Context(), strings.Join(addrs, ","), client.Options{Key: fakeregistry.Key("a"), NoState: true})
	require.NoError(t, err)
	defer c.Close()
	e := c.Events()

	require.NoError(t, sockets[0].Close())
	acked(t, publish(t, c, "1")[0])
	lost := until[client.Disconnected](t, e).Err
	require.ErrorIs(t, lost, protocol.ErrNotConnected)
	require.ErrorIs(t, lost, link.ErrNobodyListens)
	require.Equal(t, addrs[1], until[client.Connected](t, e).Address)
}
