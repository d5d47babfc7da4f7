package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestPublishIsAcked(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		start := time.Now()
		ack, err := c.PublishTo(t.Context(), "t", []byte("1"))
		require.NoError(t, err)
		require.Equal(t, protocol.Seq(1), ack.Seq)
		require.Equal(t, protocol.EpochID(1), ack.Epoch)
		require.False(t, ack.Duplicate)
		require.Equal(t, 2*latency, time.Since(start))
		require.Equal(t, []string{"1"}, p.stored())
	})
}

func TestNothingIsAckedButByTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		pending := c.Publish(ctx, client.Publication{Topic: "t"})
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

func TestPublishSurvivesReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		wait(t, publish(t, c, "1")[0])
		p.onPublish = func(f *protocol.Publish) protocol.Frame {
			p.accept(0, f) // and the ack is lost
			return mute
		}
		pending := publish(t, c, "2", "3")
		p.waitFor(func() bool { return len(p.got) == 3 })
		p.onPublish = nil
		p.kill()
		pending = append(pending, publish(t, c, "4")...)
		p.start()
		for i, p := range pending {
			ack := wait(t, p)
			require.Equal(t, protocol.Seq(i+2), ack.Seq)
			require.Equal(t, i < 2, ack.Duplicate)
		}
		require.Equal(t, []string{"1", "2", "3", "2 again", "3 again", "4 again"}, p.received())
		require.Equal(t, numbers(1, 4), p.stored())
		require.Equal(t, uint64(3), c.Stats().Resent)
	})
}

func TestResendKeepsKeyAndWhatWasKnownWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		wait(t, publish(t, c, "1")[0])
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		pending := publish(t, c, "2")[0]
		own := c.Publish(t.Context(), client.Publication{
			Topic: "t", Payload: []byte("3"), Key: []byte("mine"),
			Conditions: []protocol.Condition{{Topic: "t", Epoch: 1, Term: 4, HasExpect: true, Expect: 1, Raise: 5}},
		})
		p.waitFor(func() bool { return len(p.got) == 3 })
		p.stop()
		p.renew()
		p.start()
		p.waitFor(func() bool { return len(p.got) == 5 })

		self := c.Self().Instance
		require.Equal(t, append(self[:], 0, 0, 0, 0, 0, 0, 0, 2), p.got[1].Key)
		require.Equal(t, p.got[1].Key, pending.Key())
		require.Equal(t, []byte("mine"), own.Key())
		require.Equal(t, protocol.Seq(1), p.got[1].Head)
		for i := 1; i <= 2; i++ {
			first, again := p.got[i], p.got[i+2]
			require.Equal(t, protocol.FlagResend, again.Flags)
			again.Flags, again.N = first.Flags, first.N
			require.Equal(t, first, again, "the epoch too, though the log has another by now")
		}
	})
}

func TestKeysAreOfTheInstance(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		seen := map[string]bool{}
		for i := range 3 {
			c := p.dial("a") // the same identity
			for range 10 {
				publish(t, c, "x")
				c.Publish(t.Context(), client.Publication{Topic: "t", Urgent: true})
			}
			require.NoError(t, c.Flush(t.Context()))
			require.NoError(t, c.Close())
			require.Len(t, p.stored(), 20*(i+1))
		}
		for _, f := range p.got {
			require.Len(t, f.Key, 24)
			require.False(t, seen[string(f.Key)])
			seen[string(f.Key)] = true
			require.LessOrEqual(t, binary.BigEndian.Uint64(f.Key[16:]), uint64(20))
		}
	})
}

func TestUnackedPublishOfALostLogHasUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		e := c.Events()
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		pending := publish(t, c, "1")[0]
		p.waitFor(func() bool { return len(p.got) == 1 })
		p.onPublish = nil
		p.stop()
		p.renew()
		p.start()
		_, err := pending.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, client.NewEpoch{Old: protocol.Epoch{ID: 1, Born: 100}, New: protocol.Epoch{ID: 2, Born: 200}},
			until[client.NewEpoch](t, e))
		require.Empty(t, p.stored())
	})
}

func TestPublishesEnterInCallOrderAcrossReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a", func(o *client.Options) { o.Window = 16 })
		var answers atomic.Int64
		p.onPublish = func(f *protocol.Publish) protocol.Frame {
			// Every third ack is lost, and now and then the session.
			answer := p.accept(0, f)
			switch n := answers.Add(1); {
			case n%25 == 0:
				go p.drop(protocol.ErrInternal)
				return mute
			case n%3 == 0:
				return mute
			}
			return answer
		}
		var drops sync.WaitGroup
		drops.Go(func() {
			for time.Sleep(time.Second); len(p.stored()) < 300; time.Sleep(time.Second) {
				p.drop(protocol.ErrInternal)
			}
		})
		var pending []*client.Pending
		for i := range 300 {
			pending = append(pending, publish(t, c, fmt.Sprint(i+1))...)
		}
		drops.Wait()
		p.onPublish = nil
		p.drop(protocol.ErrInternal)
		for _, p := range pending {
			wait(t, p)
		}
		require.Equal(t, numbers(1, 300), p.stored())
		require.Greater(t, c.Stats().Connects, uint64(5))
		require.NotZero(t, c.Stats().Resent)
	})
}

func TestARefusalDoesNotHoldUpTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		e := c.Events()
		p.onPublish = func(f *protocol.Publish) protocol.Frame {
			switch string(f.Payload) {
			case "limited":
				return &protocol.Refuse{N: f.N, Code: protocol.ErrRateLimited, RetryAfter: 3 * time.Second}
			case "stale":
				return &protocol.Refuse{N: f.N, Code: protocol.ErrStaleTerm, Topic: "f", Epoch: 1, Fence: protocol.Fence{K: 9, S: 8}}
			}
			return nil
		}
		list := publish(t, c, "1", "limited", "2", "stale", "3")
		for _, i := range []int{0, 2, 4} {
			wait(t, list[i])
		}
		_, err := list[1].Wait(t.Context())
		var refused *protocol.Error
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, protocol.ErrRateLimited)
		require.Equal(t, 3*time.Second, refused.RetryAfter)
		require.Equal(t, client.RateLimited{Topic: "t", RetryAfter: 3 * time.Second}, until[client.RateLimited](t, e))

		_, err = list[3].Wait(t.Context())
		require.EqualError(t, err, `publish "t": stale term: have 9`)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, protocol.Fence{K: 9, S: 8}, refused.Fence)
		require.Equal(t, numbers(1, 3), p.stored())
		require.Equal(t, uint64(2), c.Stats().Refused)
		require.Equal(t, uint64(3), c.Stats().Acked)
	})
}

func TestUrgentPublishIsNotBehindBulk(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		p.n.SetLink("a", "registry", simnet.Link{Latency: latency, Bandwidth: 1 << 20}) // 1 MiB/s
		c := p.dial("a")
		big := strings.Repeat("x", 512<<10)
		bulk := publish(t, c, big, big, big, big)
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		ack, err := c.Publish(t.Context(), client.Publication{Topic: "heartbeat", Urgent: true}).Wait(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(start), 500*time.Millisecond)
		require.Less(t, ack.Seq, wait(t, bulk[3]).Seq)
	})
}

func TestPublicationReachesTheRegistryWhole(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		_, err := c.Publish(t.Context(), client.Publication{
			Topic: "t", Payload: []byte("{}"), Slot: "s", Join: true, Origin: 6, Key: []byte("k"),
			Conditions: []protocol.Condition{{Topic: "f", Epoch: 1, Term: 2}, {Topic: "g", Epoch: 1, Term: 2, Raise: 3}},
		}).Wait(t.Context())
		require.NoError(t, err)
		_, err = c.Send(t.Context(), 9, []byte("hi"))
		require.NoError(t, err)
		require.Equal(t, protocol.Publish{
			N: 1, Flags: protocol.FlagJoin, Key: []byte("k"), Epoch: 1, Topic: "t", Payload: []byte("{}"), Slot: []byte("s"), Origin: 6,
			Conditions: []protocol.Condition{{Topic: "f", Epoch: 1, Term: 2}, {Topic: "g", Epoch: 1, Term: 2, Raise: 3}},
		}, p.got[0])
		require.Equal(t, protocol.NodeID(9), p.got[1].To)
		require.Equal(t, []byte("hi"), p.got[1].Payload)
	})
}

func TestPublishWithoutConnectionFailsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		e := c.Events()
		p.stop()
		until[client.Disconnected](t, e)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.PublishTo(ctx, "t", []byte("1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.ErrNotConnected)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, time.Second, time.Since(start))
		p.start()
		until[client.Connected](t, e)
		wait(t, publish(t, c, "2")[0])
		synctest.Wait()
		require.Equal(t, []string{"2"}, p.received(), "what was given up is never sent")
	})
}

// Heartbeats and configs of a time without connection do not flood out later,
// looked at or not.
func TestThereIsNoOfflineBuffer(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a", func(o *client.Options) { o.Window = 8 })
		e := c.Events()
		p.stop()
		until[client.Disconnected](t, e)
		var list []*client.Pending
		for range 20 { // more than the window
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			list = append(list, c.Publish(ctx, client.Publication{Topic: "heartbeat", Urgent: true}),
				c.Publish(ctx, client.Publication{Topic: "config"}))
			time.Sleep(80 * time.Millisecond)
		}
		time.Sleep(time.Second)
		p.start()
		until[client.Connected](t, e)
		time.Sleep(time.Second)
		require.Empty(t, p.received())
		for _, p := range list {
			_, ok, err := p.Result()
			require.True(t, ok)
			require.ErrorIs(t, err, protocol.ErrNotConnected)
		}
		wait(t, publish(t, c, "1")[0])
	})
}

func TestWithdrawnPublishIsNotSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dead := c.Publish(ctx, client.Publication{Topic: "t", Payload: []byte("dead")})
		live := publish(t, c, "live")[0]
		time.Sleep(2 * time.Second)
		p.onPublish = nil
		p.drop(protocol.ErrInternal)
		wait(t, live)
		require.Equal(t, []string{"dead", "live", "live again"}, p.received())
		_, err := dead.Wait(t.Context())
		require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
	})
}

func TestPublishBlocksWhileTheWindowIsFull(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		p.limits.InFlight = 3 // below the client's
		c := p.dial("a")
		hold := make(chan struct{})
		p.onPublish = func(*protocol.Publish) protocol.Frame { <-hold; return nil }
		publish(t, c, "1", "2", "3")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, ok, err := c.Publish(ctx, client.Publication{Topic: "t", Payload: []byte("late")}).Result()
		require.True(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		require.Equal(t, time.Second, time.Since(start))

		var calls sync.WaitGroup
		for _, text := range []string{"4", "5", "6"} {
			calls.Go(func() { wait(t, publish(t, c, text)[0]) })
			synctest.Wait() // so that the calls have an order
		}
		close(hold)
		calls.Wait()
		require.Equal(t, numbers(1, 6), p.stored())
	})
}

// The wait of one caller has nothing to do with the publish.
func TestWaitEndsWithItsOwnContext(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		hold := make(chan struct{})
		p.onPublish = func(*protocol.Publish) protocol.Frame { <-hold; return nil }
		pending := publish(t, c, "1")[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := pending.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, protocol.ErrUnknownOutcome)
		close(hold)
		wait(t, pending)
		<-pending.Done()
	})
}

func TestDoneIsClosedWhenTheContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		ctx, cancel := context.WithCancelCause(t.Context())
		pending := c.Publish(ctx, client.Publication{Topic: "t"})
		select {
		case <-pending.Done():
			t.Fatal("done")
		case <-time.After(time.Second):
		}
		cancel(nil)
		<-pending.Done()
		_, ok, err := pending.Result()
		require.True(t, ok)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestPublishOnTwoContextsInOneLane(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.PublishTo(ended, "t", nil)
		require.ErrorIs(t, err, context.Canceled)
		wait(t, publish(t, c, "1")[0])
		require.Equal(t, []string{"1"}, p.received())
	})
}

func TestInvalidPublicationsAreRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		p.limits.Payload = 100
		c := p.dial("a")
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
			{"large term", cond(protocol.Condition{Topic: "f", Term: protocol.MaxTerm + 1}), protocol.ErrInvalid},
			{"lower raise", cond(protocol.Condition{Topic: "f", Term: 2, Raise: 1}), protocol.ErrInvalid},
			{"one fence twice", cond(protocol.Condition{Topic: "f", Term: 1}, protocol.Condition{Topic: "f", Term: 1}), protocol.ErrInvalid},
			{"three fences", cond(make([]protocol.Condition, 3)...), protocol.ErrInvalid},
		} {
			_, ok, err := c.Publish(t.Context(), test.pub).Result()
			require.True(t, ok, test.name)
			require.ErrorIs(t, err, test.want, test.name)
		}
		require.Empty(t, p.received())
	})
}

// What is a topic is sent byte for byte; what is none is refused with a reason.
func TestAwkwardTopicsAndPayloads(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		s := subscribe(t, c, "*")
		require.Equal(t, []string{"caught up 0"}, next(t, s, 1))
		for _, topic := range []string{"🚀", "e\u0301", "\u00e9", "a b", "a:b", "a.b", ":", ".", "a..b", strings.Repeat("x", 1024)} {
			for _, payload := range []string{"", "null", "\n", "\x00\xff\xfe"} {
				_, err := c.PublishTo(t.Context(), topic, []byte(payload))
				require.NoError(t, err, topic)
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
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a", func(o *client.Options) { o.Window = 2 })
		acked := publish(t, c, "1")[0]
		wait(t, acked)
		p.onPublish = func(*protocol.Publish) protocol.Frame { return mute }
		sent := publish(t, c, "2", "3")
		var late *client.Pending
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
			require.Equal(t, p != late, errorIs(err, protocol.ErrUnknownOutcome))
		}
		wait(t, acked)
		require.Equal(t, []string{"1"}, p.stored(), "what was acked is kept")
		_, err := c.PublishTo(t.Context(), "t", nil)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestFlushWaitsForAllAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, p *peer) {
		c := p.dial("a")
		hold := make(chan struct{})
		p.onPublish = func(*protocol.Publish) protocol.Frame { <-hold; return nil }
		publish(t, c, numbers(1, 50)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.Flush(ctx), context.DeadlineExceeded)
		close(hold)
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, uint64(50), c.Stats().Acked)
		require.Equal(t, numbers(1, 50), p.stored())
	})
}
