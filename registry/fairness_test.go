package registry_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// slowLog stores so many messages a second.
func slowLog(perSecond int) *registry.Hooks {
	return &registry.Hooks{BeforeStore: func(records []*registry.Record) error {
		time.Sleep(time.Duration(len(records)) * time.Second / time.Duration(perSecond))
		return nil
	}}
}

// flood publishes on a lane, with a pause between, until the session ends, and then
// gives how many were accepted.
func (p *peer) flood(kind protocol.Lane, pause time.Duration) (ended chan int) {
	const ahead = 512
	lane := p.lane(kind)
	ended = make(chan int, 1)
	room := make(chan struct{}, ahead)
	acked := 0
	var both sync.WaitGroup
	both.Go(func() {
		for {
			body, err := lane.Next()
			if err != nil {
				return
			}
			f, err := protocol.Parse(slices.Clone(body))
			if err != nil {
				return
			}
			if acks, ok := f.(*protocol.Acks); ok {
				acked += len(acks.List)
				for range acks.List {
					<-room
				}
			} else {
				<-room
			}
		}
	})
	both.Go(func() {
		for {
			if pause > 0 {
				time.Sleep(pause)
			}
			if lane.Send(encode(p.message("flood", "x"))) != nil {
				return
			}
			select {
			case room <- struct{}{}:
			case <-p.s.Done():
				return
			}
		}
	})
	go func() {
		both.Wait()
		ended <- acked
	}()
	return ended
}

// times publishes one by one and tells how long each took, in order of length.
func (p *peer) times(lane *channel, n int) []time.Duration {
	var took []time.Duration
	for range n {
		began := time.Now()
		p.publish(lane, "calm", "x")
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(took)
	return took
}

// One node that floods over as many sessions as it may have holds up another one
// by two steps of the log at most, and not by all that it has sent.
func TestAFloodHoldsUpOthersForTwoSteps(t *testing.T) {
	const perSecond = 20_000
	// A step is as much as one node has under way, and may be longer by one portion.
	step := (1024 + 256) * time.Second / perSecond
	urgent := (256 + 64) * time.Second / perSecond
	for name, test := range map[string]struct {
		flood, calm protocol.Lane
		most        time.Duration
	}{
		"bulk":                {protocol.LaneNormal, protocol.LaneNormal, 2 * step},
		"urgent behind bulk":  {protocol.LaneNormal, protocol.LaneUrgent, 2 * step},
		"bulk behind urgents": {protocol.LaneUrgent, protocol.LaneNormal, 2 * urgent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, registry.Options{Hooks: slowLog(perSecond)})
				defer w.close()
				calm := w.join("calm")
				defer calm.close()
				lane := calm.lane(test.calm)
				alone := calm.times(lane, 20)

				var ends []chan int
				for range 20 {
					p := w.join("flood")
					defer p.close()
					ends = append(ends, p.flood(test.flood, 0))
				}
				time.Sleep(time.Second)
				took := calm.times(lane, testenv.Raced(100, 25))
				p99 := took[len(took)*99/100]
				t.Logf("alone %v, in a flood half of them %v, 99 %% %v, all %v", alone[len(alone)/2], took[len(took)/2], p99, took[len(took)-1])
				require.LessOrEqual(t, p99, alone[len(alone)-1]+test.most)

				// The flood is not held up for nothing: the log is busy all the time.
				require.NoError(t, w.reg.Close())
				acked := 0
				for _, end := range ends {
					acked += <-end
				}
				require.Greater(t, acked, perSecond)
			})
		})
	}
}

// Where all nodes together may publish so much, one that asks for all of it leaves
// the others their share.
func TestOneNodeDoesNotUseUpTheRateOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Total: registry.Rate{Publishes: 100}}})
		defer w.close()
		calm, greedy := w.join("calm"), w.join("greedy")
		defer calm.close()
		defer greedy.close()
		ended := greedy.flood(protocol.LaneNormal, time.Millisecond)
		lane := calm.lane(protocol.LaneNormal)
		time.Sleep(5 * time.Second)
		const n = 300
		began := time.Now()
		for range n {
			calm.publish(lane, "calm", "x") // none is refused
			time.Sleep(25 * time.Millisecond)
		}
		seconds := time.Since(began).Seconds()
		require.NoError(t, w.reg.Close())
		all := float64(n + <-ended)
		require.InDelta(t, 100, all/(seconds+5), 15, "and all together keep to the rate")
	})
}

// A share that is used up is refused with the time to wait.
func TestAboveItsShareANodeIsToldToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Total: registry.Rate{Publishes: 10}}})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		lane := a.lane(protocol.LaneNormal)
		for range 10 {
			a.publish(lane, "t", "x")
		}
		lane.send(a.message("t", "x"))
		refused := lane.refused(protocol.ErrRateLimited)
		require.Equal(t, 100*time.Millisecond, refused.RetryAfter.Round(50*time.Millisecond))
		other := b.lane(protocol.LaneNormal)
		for range 5 {
			b.publish(other, "t", "x")
		}
		other.send(b.message("t", "x"))
		require.Positive(t, other.refused(protocol.ErrRateLimited).RetryAfter)
	})
}

func TestSubscriptionsAreLimitedByNodeAndInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startBare(t, registry.Options{
			Access: registry.AllowAll, Limits: registry.Limits{Subscriptions: 2, NodeSubscriptions: 3, TotalSubscriptions: 4},
			Admission: registry.Admission{Operators: []protocol.KeyHash{hashOf("root")}},
		})
		defer w.close()
		refused := func(p *peer, why string) time.Duration {
			t.Helper()
			f := next[*protocol.Fail](p.open(&protocol.Subscribe{Pattern: "t"}))
			require.Equal(t, protocol.ErrLimit, f.Code)
			require.Contains(t, f.Detail, why)
			return f.RetryAfter
		}
		a, a2, b, root := w.join("a"), w.join("a"), w.join("b"), w.join("root")
		for _, p := range []*peer{a, a2, b, root} {
			defer p.close()
		}
		a.follow("t")
		sub := a.follow("t")
		refused(a, "2 subscriptions are open")
		a2.follow("t")
		refused(a2, "3 subscriptions of this node")
		b.follow("t")
		require.Positive(t, refused(b, "4 subscriptions of all nodes"))
		root.follow("t")

		sub.Reset(0)
		time.Sleep(time.Second)
		refused(b, "of all nodes")
		a.close()
		time.Sleep(time.Second)
		b.follow("t")
	})
}

func TestSessionsOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startBare(t, registry.Options{
			Access: registry.AllowAll, Limits: registry.Limits{SourceSessions: 2, Sessions: 4},
			Admission: registry.Admission{Operators: []protocol.KeyHash{hashOf("root")}},
		})
		defer w.close()
		from := func(node, name string) (*link.Session, error) {
			pc := w.net.Listen(node)
			return link.Dial(context.WithoutCancel(t.Context()), w.net.Addr("registry"), link.Config{Identity: link.Identity{Key: key(name)}, PacketConn: pc})
		}
		var open []*link.Session
		enter := func(node, name string) bool {
			t.Helper()
			s, err := from(node, name)
			require.NoError(t, err)
			ch, err := s.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, ch.Send(encode(hello())))
			c := &channel{t, ch}
			if f, refused := c.read().(*protocol.Fail); refused {
				require.Equal(t, protocol.ErrLimit, f.Code)
				require.Equal(t, time.Second, f.RetryAfter)
				c.ends(0)
				s.Close(0, "")
				return false
			}
			open = append(open, s)
			return true
		}
		require.True(t, enter("x", "a") && enter("x", "b"))
		require.False(t, enter("x", "c"), "another key is not another place")
		require.True(t, enter("y", "c") && enter("y", "d"))
		require.False(t, enter("z", "e"), "all places are taken")
		require.True(t, enter("x", "root"), "an operator can always see to it")
		for _, s := range open {
			s.Close(0, "")
		}
		time.Sleep(time.Second)
		require.True(t, enter("x", "c"))
	})
}

func TestInboxesAndNodesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Joins: 1, Nodes: 2}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		ask[*protocol.Done](a, &protocol.Join{ID: 1, Topics: []string{"t"}})
		require.Equal(t, protocol.ErrLimit, ask[*protocol.Fail](a, &protocol.Join{ID: 2, Topics: []string{"u"}}).Code)
		b := w.join("b")
		p, f := w.apply("c", "")
		require.Equal(t, protocol.ErrLimit, f.(*protocol.Fail).Code)
		p.close()
		b.close()
		time.Sleep(time.Minute)
		w.enters("c", "").close() // in b's place, who did nothing
	})
}
