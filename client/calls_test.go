package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/require"
)

// Each call ends with its context, whatever the other side does, and a later one
// works.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	for name, fault := range map[string]func(reg *fakeregistry.Registry){
		"mute":        func(reg *fakeregistry.Registry) { reg.Mute("a") },
		"cut off":     func(reg *fakeregistry.Registry) { reg.Partition("a", fakeregistry.Host) },
		"gone":        func(reg *fakeregistry.Registry) { reg.Stop() },
		"refused":     func(reg *fakeregistry.Registry) { reg.RefuseConnects(-1, protocol.ErrInternal); reg.Disconnect("a") },
		"half closed": func(reg *fakeregistry.Registry) { reg.PartitionOneWay(fakeregistry.Host, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				c := join(t, reg, "a")
				fault(reg)
				time.Sleep(time.Second)
				var all sync.WaitGroup
				for what, call := range single(c) {
					for _, d := range []time.Duration{0, time.Second, 30 * time.Second} {
						all.Go(func() {
							start := time.Now()
							err := call(within(t, d))
							require.ErrorIs(t, err, context.DeadlineExceeded, what)
							require.LessOrEqual(t, time.Since(start), d+100*time.Millisecond, what)
						})
					}
				}
				all.Wait()
				reg.ClearFaults()
				require.NoError(t, reg.Start())
				for what, call := range single(c) {
					require.NoError(t, call(within(t, 30*time.Second)), what)
				}
			})
		})
	}
}

// single lists the calls that every node may make.
func single(c *client.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"publish": func(ctx context.Context) error { _, err := c.PublishTo(ctx, "t", nil); return err },
		"urgent": func(ctx context.Context) error {
			_, err := c.Publish(ctx, client.Publication{Topic: "t", Urgent: true}).Wait(ctx)
			return err
		},
		"send": func(ctx context.Context) error { _, err := c.Send(ctx, 1, nil); return err },
		"subscribe": func(ctx context.Context) error {
			s, err := c.Subscribe(ctx, "t")
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"fence": func(ctx context.Context) error { _, err := c.Fence(ctx, "t"); return err },
		"info":  func(ctx context.Context) error { _, err := c.Info(ctx); return err },
		"join":  func(ctx context.Context) error { return c.Join(ctx, "t") },
		"leave": func(ctx context.Context) error { return c.Leave(ctx, "t") },
		"clear": func(ctx context.Context) error { return c.ClearInbox(ctx, 0) },
		"inbox": func(ctx context.Context) (err error) {
			for _, err = range c.Inbox(ctx, client.InboxOptions{}) {
			}
			return err
		},
		"nodes": func(ctx context.Context) (err error) {
			for _, err = range c.Nodes(ctx, client.NodesOptions{}) {
			}
			return err
		},
		"topics": func(ctx context.Context) (err error) {
			for _, err = range c.Topics(ctx, "*") {
			}
			return err
		},
		"joined": func(ctx context.Context) (err error) {
			for _, err = range c.Joined(ctx) {
			}
			return err
		},
	}
}

// A registry that takes no more channels cannot hold up a call either.
func TestSubscribeEndsWithItsContextThoughNoChannelIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		alive := func(h fakeregistry.Heard) fakeregistry.Answer {
			if ping, ok := h.Frame.(*protocol.Ping); ok {
				return answer(&protocol.Done{ID: ping.ID})
			}
			return fakeregistry.Answer{}
		}
		require.NoError(t, reg.Hostile(fakeregistry.Impostor{Channels: 1, Answer: alive})) // control
		c := join(t, reg, "a")
		start := time.Now()
		_, err := c.Subscribe(within(t, time.Second), "t")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		_, err = c.Subscribe(t.Context(), "t")
		require.ErrorIs(t, err, protocol.ErrLimit)
		require.Zero(t, c.Stats().Disconnects, "nothing else is concerned")
		require.NoError(t, reg.Start())
		subscribe(t, c, "t")
	})
}

func TestMuteRegistryIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.Mute("a")
		_, err := c.Info(within(t, 3*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start := time.Now()
		require.ErrorIs(t, until[client.Disconnected](t, e).Err, protocol.ErrTimeout)
		require.Less(t, time.Since(start), 3*time.Second, "the call's time counts, though it was given up")
		reg.Unmute("a")
		until[client.Connected](t, e)
	})
}

func TestEveryCallFailsAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		require.NoError(t, c.Close())
		for name, err := range calls(t.Context(), c) {
			require.ErrorIs(t, err, net.ErrClosed, name)
			require.ErrorIs(t, err, protocol.ErrClosed, name)
		}
		_, err := c.Events().Next(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, c.Flush(t.Context()))
		require.NoError(t, c.Close())
	})
}

// Close may be called anywhere, at any moment: it ends soon, and so does all that
// waits.
func TestCloseNeverHangs(t *testing.T) {
	for name, moment := range map[string]func(t *testing.T, reg *fakeregistry.Registry, c *client.Client){
		"at rest":   func(*testing.T, *fakeregistry.Registry, *client.Client) {},
		"mute":      func(_ *testing.T, reg *fakeregistry.Registry, _ *client.Client) { reg.Mute("a") },
		"cut off":   func(_ *testing.T, reg *fakeregistry.Registry, _ *client.Client) { reg.Isolate("a") },
		"just lost": func(_ *testing.T, reg *fakeregistry.Registry, _ *client.Client) { reg.Stop() },
		"dialling": func(t *testing.T, reg *fakeregistry.Registry, c *client.Client) {
			e := c.Events()
			reg.Isolate("a")
			until[client.DialFailed](t, e)
			time.Sleep(3 * time.Second)
		},
		"between dials": func(t *testing.T, reg *fakeregistry.Registry, c *client.Client) {
			e := c.Events()
			reg.RefuseConnects(-1, protocol.ErrNotAdmitted)
			reg.Disconnect("a")
			until[client.DialFailed](t, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				c := join(t, reg, "a", window(4))
				s := subscribe(t, c, "t")
				moment(t, reg, c)
				var busy sync.WaitGroup
				for _, call := range single(c) {
					busy.Go(func() { call(t.Context()) })
				}
				for range 10 {
					busy.Go(func() { c.PublishTo(t.Context(), "t", nil) })
				}
				busy.Go(func() {
					for _, err := range s.Messages(t.Context()) {
						require.NoError(t, err)
					}
				})
				synctest.Wait()
				start := time.Now()
				for range 3 {
					busy.Go(func() { c.Close() })
				}
				require.NoError(t, c.Close())
				busy.Wait()
				require.Less(t, time.Since(start), time.Second)
			})
		})
	}
}

func TestCloseInTheMiddleOfReading(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		put(t, c, "t", "1", "2")
		s := subscribe(t, c, "t", client.FromAll())
		for m, err := range s.Messages(t.Context()) {
			require.NoError(t, err)
			publish(t, c, "in the reader")
			require.Equal(t, "1", string(m.Payload), "nothing comes after Close")
			require.NoError(t, s.Close())
			require.NoError(t, c.Close())
		}
		for ev := range e.All(t.Context()) {
			_, lost := ev.(client.Disconnected)
			require.False(t, lost, "the user's own Close is no loss")
		}
	})
}

// The bubble would not end if one of them left a goroutine.
func TestOpenAndCloseAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		for i := range testenv.Raced(500, 100) {
			addr, o := options(reg, "a")
			c, err := client.Dial(t.Context(), addr, o)
			require.NoError(t, err)
			if i%2 == 0 {
				subscribe(t, c, "t")
				publish(t, c, "x")[0].Done()
			}
			require.NoError(t, c.Close())
			o.PacketConn.Close()
		}
		time.Sleep(time.Minute)
		require.Empty(t, reg.Sessions())
	})
}

func TestRequestIsMadeAgainOnTheNextConnection(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		info := make(chan client.Info)
		go func() {
			i, err := c.Info(t.Context())
			require.NoError(t, err)
			info <- i
		}()
		time.Sleep(time.Second)
		reg.Stop()
		reg.Unmute("a")
		time.Sleep(time.Second)
		require.NoError(t, reg.Start())
		require.Equal(t, reg.Epoch(), (<-info).Epoch)
	})
}

func TestInfo(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		put(t, c, "t", "12345")
		i, err := c.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, reg.Epoch(), i.Epoch)
		require.Equal(t, protocol.Seq(1), i.Head)
		require.Equal(t, uint64(1), i.Messages)
		require.Equal(t, uint64(5), i.Bytes)
		require.Equal(t, uint64(1), i.Online)
		require.Equal(t, reg.Fingerprint(), i.Key)
		require.Equal(t, reg.Addr(), i.Address)
		require.InDelta(t, 2*latency, i.RTT, float64(5*time.Millisecond))
		require.Contains(t, i.Software, "pilotgo")
	})
}

func TestFences(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		f, err := c.Fence(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, client.FenceState{Epoch: reg.Epoch()}, f)
		f, err = c.SetFence(t.Context(), "f", reg.Epoch().ID, 41)
		require.NoError(t, err)
		require.Equal(t, uint64(41), f.K)
		require.Equal(t, uint64(41), reg.Fence("f").K)
		_, err = c.SetFence(t.Context(), "f", 77, 42)
		require.ErrorIs(t, err, protocol.ErrWrongEpoch)
		_, err = c.Fence(t.Context(), "*")
		require.ErrorIs(t, err, protocol.ErrInvalidTopic)
	})
}

func TestInboxComesInPages(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{Page: 2000}), func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		require.NoError(t, a.Join(t.Context(), "x", "y"))
		for i := range 50 {
			put(t, b, "x", fmt.Sprintf("%d%200d", i, 0))
			put(t, b, "other", "no")
		}
		_, err := b.Send(t.Context(), a.Self().Node, []byte("direct"))
		require.NoError(t, err)
		list := func(o client.InboxOptions) (pages, messages int, head protocol.Seq) {
			last := protocol.Seq(0)
			for page, err := range a.Inbox(t.Context(), o) {
				require.NoError(t, err)
				pages, head = pages+1, page.Head
				for _, m := range page.Messages {
					require.Greater(t, m.Seq, last)
					last = m.Seq
					messages++
				}
			}
			return pages, messages, head
		}
		pages, messages, head := list(client.InboxOptions{})
		require.Equal(t, 51, messages)
		require.Greater(t, pages, 3)
		_, messages, _ = list(client.InboxOptions{Topic: "x"})
		require.Equal(t, 50, messages)
		_, messages, _ = list(client.InboxOptions{Topic: "y"})
		require.Zero(t, messages)
		require.NoError(t, a.ClearInbox(t.Context(), head))
		pages, messages, _ = list(client.InboxOptions{})
		require.Equal(t, 1, pages, "there is a page of an empty inbox")
		require.Zero(t, messages)
		_, messages, _ = list(client.InboxOptions{All: true})
		require.Equal(t, 51, messages)
	})
}

func TestListsComeInPages(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{Page: 1000}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		var topics []string
		for i := range 100 {
			topics = append(topics, fmt.Sprintf("topic.%03d", i))
			put(t, c, topics[i], "x")
		}
		require.NoError(t, c.Join(t.Context(), topics...))
		require.NoError(t, c.Leave(t.Context(), topics[0]))
		for i := range 30 {
			join(t, reg, fmt.Sprintf("n%d", i))
		}

		var got []string
		for topic, err := range c.Joined(t.Context()) {
			require.NoError(t, err)
			got = append(got, topic)
		}
		require.Equal(t, topics[1:], got)

		got = nil
		for topic, err := range c.Topics(t.Context(), "topic.*") {
			require.NoError(t, err)
			got = append(got, topic.Name)
		}
		require.Equal(t, topics, got)

		nodes, last := 0, protocol.NodeID(0)
		for node, err := range c.Nodes(t.Context(), client.NodesOptions{}) {
			require.NoError(t, err)
			require.Greater(t, node.ID, last)
			last = node.ID
			nodes++
		}
		require.Equal(t, 31, nodes)
		nodes = 0
		for node, err := range c.Nodes(t.Context(), client.NodesOptions{Topic: topics[1]}) {
			require.NoError(t, err)
			require.Equal(t, c.Self().Node, node.ID)
			require.Equal(t, "a", node.Name)
			nodes++
		}
		require.Equal(t, 1, nodes)
		require.ErrorIs(t, c.Join(t.Context(), "a*"), protocol.ErrInvalidTopic)
		for _, err := range c.Topics(t.Context(), "a*") {
			require.ErrorIs(t, err, protocol.ErrInvalidPattern)
		}
	})
}

// More topics than a frame holds, by count and by bytes, are several frames.
func TestManyLongTopicsAreJoinedInParts(t *testing.T) {
	for name, length := range map[string]int{"long": protocol.MaxTopic, "short": 10} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, limited(registry.Limits{Payload: 100}), func(t *testing.T, reg *fakeregistry.Registry) {
				c := join(t, reg, "a")
				var topics []string
				for i := range 600 {
					topics = append(topics, fmt.Sprintf("%0*d", length, i))
				}
				joined := func() int {
					n := 0
					for _, err := range c.Joined(t.Context()) {
						require.NoError(t, err)
						n++
					}
					return n
				}
				require.NoError(t, c.Join(t.Context(), topics...))
				require.Equal(t, len(topics), joined())
				require.NoError(t, c.Leave(t.Context(), topics...))
				require.Zero(t, joined())
				require.NoError(t, c.Join(t.Context()))
				require.Zero(t, c.Stats().Disconnects)
			})
		})
	}
}

func TestSlowReaderOfEventsMissesTheOldest(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		slow, other := c.Events(), c.Events()
		require.NoError(t, other.Close())
		s := make([]client.Stream, 100)
		for i := range s {
			s[i] = subscribe(t, c, fmt.Sprintf("t%02d", i))
			next(t, s[i], 1)
		}
		ev, err := slow.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, client.Missed{Events: 36}, ev)
		ev, err = slow.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, client.CaughtUp{Pattern: "t36"}, ev)
		require.Equal(t, uint64(36), c.Stats().Events)
		_, err = other.Next(t.Context())
		require.True(t, errors.Is(err, net.ErrClosed))

		require.NoError(t, c.Close())
		n := 0
		for range slow.All(t.Context()) {
			n++
		}
		require.Equal(t, 63, n, "what is held comes after Close too")
	})
}
