package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

func TestPublishIsAcked(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		start := time.Now()
		ack, err := c.PublishTo(t.Context(), "t", []byte("1"))
		require.NoError(t, err)
		require.Equal(t, 2*latency, time.Since(start))
		m := reg.Messages("t")[0]
		require.Equal(t, client.Ack{Seq: m.Seq, Time: m.Time.Time(), Epoch: reg.Epoch().ID}, ack)
		require.Equal(t, c.Self().Node, m.Sender)
	})
}

func TestNothingIsAckedButByTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.DropAcks("a", -1)
		pending := c.Publish(within(t, time.Second), client.Publication{Topic: "t"})
		time.Sleep(900 * time.Millisecond)
		_, ok, _ := pending.Result()
		require.False(t, ok)
		_, err := pending.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.NotErrorIs(t, err, protocol.ErrNotConnected)
		require.Zero(t, c.Stats().Acked)
	})
}

// Whichever of the waits notices the end of the context, the error says all.
func TestErrorOfAPublishThatRanOutOfTime(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.DropAcks("a", -1)
		for range 50 {
			_, err := c.PublishTo(within(t, time.Second), "t", nil)
			require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		}
		pending := c.Publish(within(t, time.Second), client.Publication{Topic: "t"})
		time.Sleep(2 * time.Second)
		_, ok, err := pending.Result()
		require.True(t, ok)
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
	})
}

func TestPublishSurvivesReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		put(t, c, "t", "1")
		reg.DropAcks("a", 2)
		pending := publish(t, c, "2", "3")
		time.Sleep(time.Second)
		reg.Stop()
		pending = append(pending, publish(t, c, "4")...)
		time.Sleep(time.Second)
		require.NoError(t, reg.Start())
		for i, p := range pending {
			require.Equal(t, i < 2, acked(t, p).Duplicate)
		}
		require.Equal(t, numbers(4), stored(reg))
		require.Equal(t, uint64(3), c.Stats().Resent)
	})
}

func TestResendKeepsKeyAndWhatWasKnownWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		put(t, c, "t", "1")
		tape := record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			if _, hello := h.Frame.(*protocol.Hello); hello && h.Session > 1 {
				return answer(&protocol.Welcome{
					Version: 1, Node: c.Self().Node, Epoch: protocol.Epoch{ID: 77},
					Limits: protocol.Limits{Payload: 1000, InFlight: 10},
				})
			}
			return fakeregistry.Answer{}
		})
		conditions := []protocol.Condition{{Topic: "t", Epoch: 1, Term: 4, HasExpect: true, Expect: 1, Raise: 5}}
		time.Sleep(time.Minute)
		first := publish(t, c, "2")[0]
		own := c.Publish(t.Context(), client.Publication{Topic: "t", Key: []byte("mine"), Conditions: conditions})
		time.Sleep(time.Second)
		reg.Partition("a", fakeregistry.Host)
		time.Sleep(time.Minute)
		reg.HealAll()
		time.Sleep(time.Minute)

		publish(t, c, "3")
		time.Sleep(time.Second)

		got := frames[*protocol.Publish](tape)
		require.Len(t, got, 5)
		self := c.Self().Instance
		require.Equal(t, append(self[:], 0, 0, 0, 0, 0, 0, 0, 2), got[0].Key)
		require.Equal(t, got[0].Key, first.Key())
		require.Equal(t, []byte("mine"), own.Key())
		require.Equal(t, conditions, got[1].Conditions)
		for i, f := range got[:2] {
			require.Equal(t, reg.Epoch().ID, f.Epoch)
			require.Equal(t, protocol.Seq(1), f.Head)
			f.Flags |= protocol.FlagResend
			require.Equal(t, f, got[i+2], "in another epoch too")
		}
		require.Equal(t, protocol.EpochID(77), got[4].Epoch)
		require.Zero(t, got[4].Head)
	})
}

func TestKeysAreOfTheInstance(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		for range 3 { // processes with one identity
			c := join(t, reg, "a")
			for range 10 {
				publish(t, c, "x")
				c.Publish(t.Context(), client.Publication{Topic: "t", Urgent: true})
			}
			require.NoError(t, c.Flush(t.Context()))
			require.NoError(t, c.Close())
		}
		keys := map[string]bool{}
		for _, m := range reg.Messages("*") {
			require.Len(t, m.Key, 24)
			require.LessOrEqual(t, binary.BigEndian.Uint64(m.Key[16:]), uint64(20))
			keys[string(m.Key)] = true
		}
		require.Len(t, keys, 60, "none was taken for another")
	})
}

func TestPublishingAgainUnderTheSameKeyIsSafe(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.DropAcks("a", 1)
		p := client.Publication{Topic: "t", Payload: []byte("1")}
		first := c.Publish(within(t, time.Second), p)
		_, err := first.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		p.Key = first.Key()
		require.True(t, acked(t, c.Publish(t.Context(), p)).Duplicate)
		p.Payload = []byte("2")
		_, err = c.Publish(t.Context(), p).Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrKeyReused)
		require.Equal(t, []string{"1"}, stored(reg))
	})
}

func TestUnackedPublishOfALostLogHasUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		old := reg.Epoch()
		reg.DropAcks("a", -1)
		pending := publish(t, c, "1")[0]
		time.Sleep(time.Second)
		require.NoError(t, reg.RestartEmpty())
		_, err := pending.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, client.NewEpoch{Old: old, New: reg.Epoch()}, until[client.NewEpoch](t, e))
		require.Empty(t, stored(reg))
	})
}

// What waited for a connection was never in the lost log, and can be published.
func TestWaitingPublishGoesToTheNewLog(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		put(t, c, "t", "1")
		reg.Shutdown(t.Context())
		until[client.Disconnected](t, e)
		pending := publish(t, c, "2")[0]
		require.NoError(t, reg.StartEmpty())
		require.Equal(t, reg.Epoch().ID, acked(t, pending).Epoch)
		require.Equal(t, []string{"2"}, stored(reg))
	})
}

func TestPublishesEnterInCallOrderAcrossReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a", window(16))
		var acks atomic.Int64
		reg.OnAck(func(string, protocol.Seq) (time.Duration, bool) { return 0, acks.Add(1)%3 == 0 })
		reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Times: -1, Do: func(h fakeregistry.Hit) error {
			if h.Seq%20 == 0 {
				reg.Disconnect("a")
			}
			return nil
		}})
		var drops sync.WaitGroup
		drops.Go(func() {
			for time.Sleep(time.Second); len(stored(reg)) < 300; time.Sleep(time.Second) {
				reg.Disconnect("a")
			}
			reg.ClearFaults()
			reg.Disconnect("a")
		})
		var pending []client.Pending
		for i := range 300 {
			pending = append(pending, publish(t, c, fmt.Sprint(i+1))...)
		}
		drops.Wait()
		for _, p := range pending {
			acked(t, p)
		}
		require.Equal(t, numbers(300), stored(reg))
		require.Greater(t, c.Stats().Connects, uint64(5))
		require.NotZero(t, c.Stats().Resent)
	})
}

func TestARefusalDoesNotHoldUpTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		reg.Fail(fakeregistry.Failure{
			Op: fakeregistry.OpPublish, Skip: 1, Code: protocol.ErrRateLimited, RetryAfter: 3 * time.Second,
		})
		list := publish(t, c, "1", "limited", "2")
		stale := c.Publish(t.Context(), client.Publication{
			Topic: "t", Conditions: []protocol.Condition{{Topic: "f", Epoch: reg.Epoch().ID, Term: 2}},
		})
		list = append(list, publish(t, c, "3")...)
		for _, i := range []int{0, 2, 3} {
			acked(t, list[i])
		}
		_, err := list[1].Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrRateLimited)
		require.Equal(t, 3*time.Second, refusalOf(t, err).RetryAfter)
		require.Equal(t, client.RateLimited{Topic: "t", RetryAfter: 3 * time.Second}, until[client.RateLimited](t, e))

		_, err = stale.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		require.Equal(t, "f", refusalOf(t, err).Topic)
		require.Equal(t, numbers(3), stored(reg))
		require.Equal(t, uint64(2), c.Stats().Refused)
		require.Equal(t, uint64(3), c.Stats().Acked)
	})
}

func TestRefusalsTellTheFence(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		claim := client.Publication{Topic: "f", Conditions: []protocol.Condition{
			{Topic: "f", Epoch: reg.Epoch().ID, Term: 9, HasExpect: true, Raise: 9},
		}}
		first := acked(t, c.Publish(t.Context(), claim))
		_, err := c.Publish(t.Context(), claim).Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrConflict)
		require.Equal(t, protocol.Fence{K: 9, S: first.Seq}, refusalOf(t, err).Fence)
		state, err := c.Fence(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, client.FenceState{Fence: protocol.Fence{K: 9, S: first.Seq}, Epoch: reg.Epoch()}, state)
	})
}

func TestUrgentPublishIsNotBehindBulk(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.SetLink("a", fakeregistry.Host, fakeregistry.Link{Latency: latency, Bandwidth: 1 << 20})
		c := join(t, reg, "a")
		big := strings.Repeat("x", 512<<10)
		bulk := publish(t, c, big, big, big, big) // two seconds
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		ack := acked(t, c.Publish(t.Context(), client.Publication{Topic: "heartbeat", Urgent: true}))
		require.Less(t, time.Since(start), 500*time.Millisecond)
		require.Less(t, ack.Seq, acked(t, bulk[3]).Seq)
	})
}

func TestPublicationReachesTheRegistryWhole(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		tape := record(t, reg, nil)
		c := join(t, reg, "a")
		conditions := []protocol.Condition{{Topic: "f", Epoch: 1, Term: 2}, {Topic: "g", Epoch: 1, Term: 2, Raise: 3}}
		c.Publish(t.Context(), client.Publication{
			Topic: "t", Payload: []byte("{}"), Slot: "s", Join: true, Origin: 6, Key: []byte("k"), Conditions: conditions,
		})
		c.Publish(t.Context(), client.Publication{To: 9, Payload: []byte("hi")})
		time.Sleep(time.Second)
		got := frames[*protocol.Publish](tape)
		require.Equal(t, &protocol.Publish{
			N: 1, Flags: protocol.FlagJoin, Key: []byte("k"), Epoch: reg.Epoch().ID,
			Topic: "t", Payload: []byte("{}"), Slot: []byte("s"), Origin: 6, Conditions: conditions,
		}, got[0])
		require.Equal(t, protocol.NodeID(9), got[1].To)
		require.Equal(t, "hi", string(got[1].Payload))
	})
}

func TestPublishWithoutConnectionFailsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		e := c.Events()
		require.NoError(t, reg.Shutdown(t.Context()))
		until[client.Disconnected](t, e)
		start := time.Now()
		_, err := c.PublishTo(within(t, time.Second), "t", []byte("1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, reg.Start())
		put(t, c, "t", "2")
		require.Equal(t, []string{"2"}, stored(reg), "what was given up is never sent")
	})
}

// Heartbeats and configs of a time without connection do not flood out later,
// looked at or not.
func TestThereIsNoOfflineBuffer(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a", window(8))
		e := c.Events()
		require.NoError(t, reg.Shutdown(t.Context()))
		until[client.Disconnected](t, e)
		var list []client.Pending
		for range 20 { // more than the window, and no call waits for a place
			ctx := within(t, 100*time.Millisecond)
			start := time.Now()
			list = append(list, c.Publish(ctx, client.Publication{Topic: "heartbeat", Urgent: true}),
				c.Publish(ctx, client.Publication{Topic: "config"}))
			require.Equal(t, start, time.Now())
			time.Sleep(80 * time.Millisecond)
		}
		time.Sleep(time.Second)
		require.NoError(t, reg.Start())
		until[client.Connected](t, e)
		time.Sleep(time.Second)
		require.Empty(t, stored(reg))
		for _, p := range list {
			_, ok, err := p.Result()
			require.True(t, ok)
			require.ErrorIs(t, err, protocol.ErrNotConnected)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		put(t, c, "t", "1")
	})
}

func TestWithdrawnPublishIsNotSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		tape := record(t, reg, nil)
		c := join(t, reg, "a")
		dead := c.Publish(within(t, time.Second), client.Publication{Topic: "t", Payload: []byte("dead")})
		live := publish(t, c, "live")[0]
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"dead", "live"}, tape.payloads())
		tape = record(t, reg, nil)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"live again"}, tape.payloads())
		_, err := dead.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.NoError(t, reg.Start())
		acked(t, live)
	})
}

// Nobody looks at this Pending until all is over.
func TestPublishThatEndsBehindBulkIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.SetLink("a", fakeregistry.Host, fakeregistry.Link{Latency: latency, Bandwidth: 1 << 20})
		c := join(t, reg, "a")
		big := strings.Repeat("x", 512<<10)
		bulk := publish(t, c, big, big, big, big)
		late := c.Publish(within(t, 100*time.Millisecond), client.Publication{Topic: "late"})
		acked(t, bulk[3])
		time.Sleep(time.Minute)
		require.Empty(t, reg.Messages("late"))
		_, err := late.Wait(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
	})
}

func TestPublishBlocksWhileTheWindowIsFull(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{InFlight: 3}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a") // its own window is larger
		reg.Mute("a")
		publish(t, c, "1", "2", "3")
		start := time.Now()
		_, ok, err := c.Publish(within(t, time.Second), client.Publication{Topic: "t", Payload: []byte("late")}).Result()
		require.True(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, time.Second, time.Since(start))

		var calls sync.WaitGroup
		for _, text := range []string{"4", "5", "6"} {
			calls.Go(func() { acked(t, publish(t, c, text)[0]) })
			synctest.Wait() // so that the calls have an order
		}
		reg.Unmute("a")
		calls.Wait()
		require.Equal(t, numbers(6), stored(reg))
	})
}

func TestSmallerWindowAfterAReconnect(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{InFlight: 8}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		pending := publish(t, c, numbers(8)...)
		time.Sleep(time.Second)
		reg.Stop()
		reg.ClearFaults()
		reg.SetLimits(registry.Limits{InFlight: 2})
		require.NoError(t, reg.Start())
		for _, p := range pending {
			acked(t, p)
		}
		require.Equal(t, numbers(8), stored(reg))
	})
}

// The wait of one caller has nothing to do with the publish.
func TestWaitEndsWithItsOwnContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		pending := publish(t, c, "1")[0]
		_, err := pending.Wait(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		reg.Unmute("a")
		acked(t, pending)
		<-pending.Done()
	})
}

func TestDoneIsClosedWhenTheContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		ctx, cancel := context.WithCancel(t.Context())
		pending := c.Publish(ctx, client.Publication{Topic: "t"})
		select {
		case <-pending.Done():
			t.Fatal("done")
		case <-time.After(time.Second):
		}
		cancel()
		<-pending.Done()
		_, ok, err := pending.Result()
		require.True(t, ok)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestPublishUnderAnEndedContextIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		_, err := c.PublishTo(ended(t), "t", []byte("0"))
		require.ErrorIs(t, err, context.Canceled)
		put(t, c, "t", "1")
		require.Equal(t, []string{"1"}, stored(reg))
	})
}

func TestInvalidPublicationsAreRefusedAtOnce(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{Payload: 100}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		long := bytes.Repeat([]byte("x"), 101)
		cond := func(f ...protocol.Condition) client.Publication {
			return client.Publication{Topic: "t", Conditions: f}
		}
		for _, test := range []struct {
			name string
			pub  client.Publication
			want protocol.Code
		}{
			{"no topic", client.Publication{}, protocol.ErrInvalidTopic},
			{"two goals", client.Publication{Topic: "t", To: 1}, protocol.ErrInvalid},
			{"payload", client.Publication{Topic: "t", Payload: long}, protocol.ErrTooLarge},
			{"key", client.Publication{Topic: "t", Key: long[:33]}, protocol.ErrInvalid},
			{"slot", client.Publication{Topic: "t", Slot: string(long[:33])}, protocol.ErrInvalid},
			{"fence topic", cond(protocol.Condition{Topic: "*", Term: 1}), protocol.ErrInvalidTopic},
			{"no term", cond(protocol.Condition{Topic: "f"}), protocol.ErrInvalid},
		} {
			_, ok, err := c.Publish(t.Context(), test.pub).Result()
			require.True(t, ok, test.name)
			require.ErrorIs(t, err, test.want, test.name)
		}
		require.Equal(t, uint64(7), c.Stats().Refused)
	})
}

// What is a topic is sent byte for byte; what is none is refused with a reason.
func TestAwkwardTopicsAndPayloads(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "*")
		next(t, s, 1)
		for _, topic := range []string{"🚀", "e\u0301", "\u00e9", "a b", "a:b", "a.b", ":", ".", "a..b", strings.Repeat("x", 1024)} {
			for _, payload := range []string{"", "null", "\n", "\x00\xff\xfe"} {
				put(t, c, topic, payload)
				i, err := s.Next(t.Context())
				require.NoError(t, err)
				require.Equal(t, topic, i.Message.Topic)
				require.Equal(t, payload, string(i.Message.Payload))
			}
		}
		for _, topic := range []string{"", "a\nb", "a\x00", "\xff", "a*", "*", "$sys", strings.Repeat("x", 1025), "a\u0085b"} {
			_, err := c.PublishTo(t.Context(), topic, nil)
			require.ErrorIs(t, err, protocol.ErrInvalidTopic, "%q", topic)
		}
	})
}

func TestCloseEndsPublishes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a", window(2))
		first := publish(t, c, "1")[0]
		acked(t, first)
		reg.Mute("a")
		sent := publish(t, c, "2", "3")
		var late client.Pending
		blocked := make(chan struct{})
		go func() {
			defer close(blocked)
			late = publish(t, c, "4")[0]
		}()
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		<-blocked
		for _, p := range append(sent, late) {
			_, err := p.Wait(t.Context())
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorIs(t, err, protocol.ErrClosed)
			require.Equal(t, p != late, errors.Is(err, protocol.ErrUnknownOutcome))
		}
		acked(t, first)
		_, err := c.PublishTo(t.Context(), "t", nil)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// A process that ends once it has its acks has lost nothing.
func TestWhatWasAckedBeforeCloseIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		big := strings.Repeat("x", 1<<20)
		reg.OnAck(func(_ string, seq protocol.Seq) (time.Duration, bool) {
			return time.Duration(seq%50) * time.Millisecond, false
		})
		n := testenv.Raced(50, 15)
		for i := range n {
			c := join(t, reg, "a")
			ack, err := c.PublishTo(t.Context(), "t", []byte(big))
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.Equal(t, protocol.Seq(i+1), ack.Seq)
		}
		require.Len(t, stored(reg), n)
	})
}

func TestFlushWaitsForAllAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		publish(t, c, numbers(50)...)
		require.ErrorIs(t, c.Flush(within(t, time.Second)), context.DeadlineExceeded)
		reg.Unmute("a")
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, uint64(50), c.Stats().Acked)
		require.Equal(t, numbers(50), stored(reg))
	})
}
