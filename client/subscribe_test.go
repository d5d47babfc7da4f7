package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSubscriptionGetsMessagesInLogOrderAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		s := subscribe(t, a, "t")
		require.Equal(t, []string{"caught up 0"}, next(t, s, 1))
		var writers sync.WaitGroup
		for _, c := range []*client.Client{a, b} { // own messages come too
			writers.Go(func() {
				for range 50 {
					publish(t, c, "x")
				}
				require.NoError(t, c.Flush(t.Context()))
			})
		}
		writers.Wait()
		for _, m := range reg.Messages("t") {
			i, err := s.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, client.ItemMessage, i.Kind)
			if m.Sender != a.Self().Node {
				m.Key = nil // told to the sender alone
			}
			require.Equal(t, m.Message, *i.Message)
			require.Equal(t, reg.Epoch(), i.Epoch)
		}
		none(t, s)

		start := time.Now()
		publish(t, b, "soon")
		require.Equal(t, []string{"soon"}, next(t, s, 1))
		require.Equal(t, 2*latency, time.Since(start))
	})
}

func TestSubscriptionStarts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		put(t, c, "t.a", "1", "2")
		time.Sleep(time.Minute)
		noon := time.Now().Add(latency) // of the registry
		put(t, c, "t.b", "3")
		put(t, c, "t.a", "4")
		put(t, c, "u", "5")
		for _, test := range []struct {
			name  string
			start client.SubscribeOption
			want  []string
		}{
			{"new", client.FromNew(), nil},
			{"last", client.FromLast(), []string{"3", "4"}},
			{"all", client.FromAll(), []string{"1", "2", "3", "4"}},
			{"after a seq", client.FromSeq(2), []string{"3", "4"}},
			{"since a time", client.Since(noon), []string{"3", "4"}},
			{"a position", client.FromPosition(reg.Epoch().ID, 3), []string{"4"}},
			{"a position of a lost log", client.FromPosition(77, 3), []string{"epoch", "1", "2", "3", "4"}},
		} {
			s := subscribe(t, c, "t.*", test.start)
			require.Equal(t, append(test.want, "caught up 5"), next(t, s, len(test.want)+1), test.name)
			none(t, s)
			_, seq := s.Position()
			require.Equal(t, protocol.Seq(5), seq, test.name)
			require.NoError(t, s.Close())
		}
	})
}

func TestCaughtUpTellsTheFenceOfTheTopic(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		acked(t, c.Publish(t.Context(), client.Publication{Topic: "f", Conditions: []protocol.Condition{
			{Topic: "f", Epoch: reg.Epoch().ID, Term: 9, HasExpect: true, Raise: 9},
		}}))
		s := subscribe(t, c, "f", client.FromAll())
		i, err := s.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(9), i.Message.Term())
		i, err = s.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, client.Item{Kind: client.ItemCaughtUp, Seq: 1, Fence: protocol.Fence{K: 9, S: 1}, Epoch: reg.Epoch()}, i)
	})
}

// Three subscriptions go on by themselves after a registry was away and then
// refused the first who came back.
func TestSubscriptionsSurviveReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		var subs []*client.Subscription
		for _, pattern := range []string{"x.*", "x.y", "*"} {
			s := subscribe(t, c, pattern)
			require.Equal(t, []string{"caught up 0"}, next(t, s, 1))
			subs = append(subs, s)
		}
		put(t, c, "x.y", "1")
		reg.Stop()
		time.Sleep(5 * time.Second)
		reg.RefuseConnects(3, protocol.ErrInternal)
		require.NoError(t, reg.Start())
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "b", Topic: "x.y", Payload: []byte("2")})
		require.NoError(t, err)
		for _, s := range subs {
			require.Equal(t, []string{"1", "disconnected", "2"}, dropCaughtUp(next(t, s, 4)))
			none(t, s)
			require.Equal(t, uint64(1), s.Stats().Resumes)
		}
		require.Len(t, reg.Subscriptions(), 3)
	})
}

func dropCaughtUp(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return len(s) > 9 && s[:9] == "caught up" })
}

func TestSubscriptionResumesBehindWhatItGot(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		s := subscribe(t, a, "t")
		put(t, b, "t", "1", "2")
		require.Equal(t, []string{"caught up 0", "1"}, next(t, s, 2)) // 2 waits in the queue
		reg.Partition("a", fakeregistry.Host)
		time.Sleep(time.Minute)
		put(t, b, "t", "3")
		put(t, b, "u", "4")
		reg.HealAll()
		require.Equal(t, []string{"2", "disconnected", "3", "caught up 4"}, next(t, s, 4))
		put(t, b, "t", "5")
		require.Equal(t, []string{"5"}, next(t, s, 1))
		none(t, s)
		require.Equal(t, client.SubscriptionStats{Delivered: 4, Resumes: 1}, s.Stats())
	})
}

func TestGapAfterRetentionTookWhatWasMissed(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		e := a.Events()
		s := subscribe(t, a, "t")
		put(t, b, "t", "1")
		require.Equal(t, []string{"caught up 0", "1"}, next(t, s, 2))
		reg.SetRetention(fakeregistry.Retention{Messages: 2})
		reg.Partition("a", fakeregistry.Host)
		time.Sleep(time.Minute)
		put(t, b, "t", "2", "3", "4", "5")
		reg.HealAll()
		require.Equal(t, []string{"disconnected", "gap 2-3", "4", "5", "caught up 5"}, next(t, s, 5))
		require.Equal(t, client.Gap{Pattern: "t", From: 2, To: 3}, until[client.Gap](t, e))
		require.Equal(t, client.CaughtUp{Pattern: "t", Seq: 5}, until[client.CaughtUp](t, e))
		require.Equal(t, uint64(1), a.Stats().Gaps)
	})
}

func TestNewEpochIsAnItem(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "t")
		put(t, c, "t", "1", "2", "3")
		require.Equal(t, []string{"caught up 0", "1", "2", "3"}, next(t, s, 4))
		epoch, seq := s.Position()
		require.Equal(t, reg.Epoch().ID, epoch)
		require.Equal(t, protocol.Seq(3), seq)
		e := c.Events()
		require.NoError(t, reg.RestartEmpty())
		until[client.Connected](t, e)
		put(t, c, "t", "4")
		require.Equal(t, []string{"disconnected", "epoch"}, next(t, s, 2))
		require.Equal(t, []string{"4"}, dropCaughtUp(next(t, s, 2)))
		epoch, seq = s.Position()
		require.Equal(t, reg.Epoch().ID, epoch)
		require.Equal(t, protocol.Seq(1), seq)
	})
}

// However the registry repeats itself, each message is handed over once.
func TestEachMessageAtMostOnce(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		deliver := func(seq protocol.Seq) protocol.Frame {
			return &protocol.Deliver{Message: protocol.Message{Seq: seq, Topic: "t", Payload: fmt.Append(nil, seq)}}
		}
		tape := record(t, reg, func(h fakeregistry.Heard) fakeregistry.Answer {
			f, ok := h.Frame.(*protocol.Subscribe)
			if !ok {
				return fakeregistry.Answer{}
			}
			a := answer(&protocol.Subscribed{Epoch: reg.Epoch()}, deliver(1), deliver(2), deliver(2), deliver(1), deliver(f.After+3))
			a.End = true
			return a
		})
		s := subscribe(t, c, "t", client.FromAll())
		require.Equal(t, []string{"1", "2", "3", "disconnected", "6", "disconnected", "9"}, next(t, s, 7))
		require.NoError(t, s.Close())
		got := frames[*protocol.Subscribe](tape)
		require.Equal(t, protocol.StartAll, got[0].Start)
		for i, f := range got[1:] {
			require.Equal(t, &protocol.Subscribe{
				Pattern: "t", Start: protocol.StartAfter, After: protocol.Seq(3 * (i + 1)), Epoch: reg.Epoch().ID,
			}, f)
		}
	})
}

func TestPatternsAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		for _, pattern := range []string{"", "a*", "*.a", "a.*.b", "$sys", "\xff"} {
			_, err := c.Subscribe(t.Context(), pattern)
			require.ErrorIs(t, err, protocol.ErrInvalidPattern, pattern)
		}
		require.Empty(t, reg.Subscriptions())
	})
}

func TestNarrowedSubscription(t *testing.T) {
	access := func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightSubscribe && (r.Topic == "secret" || r.Topic == "*") {
			return protocol.ErrDenied
		}
		return nil
	}
	bubbleWith(t, fakeregistry.Options{Access: access}, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "*")
		require.True(t, s.Narrowed())
		require.False(t, subscribe(t, c, "t").Narrowed())
		put(t, c, "secret", "1")
		put(t, c, "t", "2")
		require.Equal(t, []string{"caught up 0", "2"}, next(t, s, 2))
		_, err := c.Subscribe(t.Context(), "secret")
		require.ErrorIs(t, err, protocol.ErrDenied)
	})
}

func TestDirectMessagesComeToTheInboxAlone(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		all := subscribe(t, a, "*")
		require.NoError(t, a.Join(t.Context(), "joined"))
		inbox, err := a.SubscribeInbox(t.Context())
		require.NoError(t, err)
		_, err = b.Send(t.Context(), a.Self().Node, []byte("direct"))
		require.NoError(t, err)
		put(t, b, "joined", "1")
		put(t, b, "other", "2")
		require.Equal(t, []string{"caught up 0", "direct", "1"}, next(t, inbox, 3))
		require.Equal(t, []string{"caught up 0", "1", "2"}, next(t, all, 3))
		none(t, inbox)
		require.Empty(t, inbox.Pattern())
	})
}

// One publisher's bad topic does not put subscribers into a loop.
func TestInvalidTopicIsSkippedAndCounted(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "*")
		next(t, s, 1)
		bad := []string{"a\nb", "\xff", "$sys", "a*"}
		for _, topic := range bad {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: topic})
			require.NoError(t, err)
		}
		put(t, c, "t", "good")
		require.Equal(t, []string{"good"}, next(t, s, 1))
		require.Equal(t, uint64(len(bad)), s.Stats().Invalid)
		require.Equal(t, uint64(len(bad)), c.Stats().Invalid)
		require.Zero(t, c.Stats().Disconnects)
	})
}

// A reader that sleeps holds a bounded number of messages, and nobody else waits:
// not the other subscriptions of its client, not other clients, not publishes.
func TestSlowReaderHurtsOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		slow := subscribe(t, a, "t", client.Buffer(16))
		alsoSlow := subscribe(t, a, "*", client.FromAll())
		fast, other := subscribe(t, a, "t"), subscribe(t, b, "t")
		const many, large = 4000, 1024
		payload := make([]byte, large)
		var readers sync.WaitGroup
		for _, s := range []*client.Subscription{fast, other} {
			readers.Go(func() {
				n := 0
				for _, err := range s.Messages(t.Context()) {
					require.NoError(t, err)
					if n++; n == many {
						return
					}
				}
			})
		}
		for i := range many {
			b.Publish(t.Context(), client.Publication{Topic: "t", Payload: payload})
			if i%100 == 0 {
				start := time.Now()
				acked(t, a.Publish(t.Context(), client.Publication{Topic: "heartbeat", Urgent: true}))
				require.Less(t, time.Since(start), 100*time.Millisecond)
			}
		}
		require.NoError(t, b.Flush(t.Context()))
		readers.Wait()
		require.Equal(t, uint64(16), slow.Stats().Delivered)
		require.Equal(t, uint64(256), alsoSlow.Stats().Delivered)

		// It missed nothing but what retention took.
		reader := fakeregistry.NewChecker(t, reg).Reader("slow", "t")
		newest := reg.Messages("t")
		for last := protocol.Seq(0); last < newest[len(newest)-1].Seq; {
			i, err := slow.Next(t.Context())
			require.NoError(t, err)
			note(reader, i)
			if i.Kind == client.ItemMessage {
				last = i.Message.Seq
			}
		}
		require.NotZero(t, slow.Stats().Gaps)
	})
}

// note tells a checker what a reader got.
func note(r *fakeregistry.Reader, i client.Item) {
	switch i.Kind {
	case client.ItemMessage:
		r.Message(i.Message)
	case client.ItemGap:
		r.Gap(i.From, i.To)
	case client.ItemCaughtUp:
		r.CaughtUp(i.Seq)
	case client.ItemEpoch:
		r.Epoch(i.Epoch.ID)
	case client.ItemDisconnected:
	}
}

func TestManyReadersOfOneSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "t")
		next(t, s, 1)
		var mu sync.Mutex
		got := map[string]bool{}
		var readers sync.WaitGroup
		for range 50 {
			readers.Go(func() {
				i, err := s.Next(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				got[show(i)] = true
			})
		}
		synctest.Wait()
		publish(t, c, numbers(50)...)
		readers.Wait()
		require.Len(t, got, 50)
	})
}

func TestLargePayloads(t *testing.T) {
	const large = 3 << 20
	bubbleWith(t, limited(registry.Limits{Payload: 4 << 20}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		require.NoError(t, c.Join(t.Context(), "t"))
		s := subscribe(t, c, "t")
		next(t, s, 1)
		put(t, c, "t", string(make([]byte, large)))
		require.Len(t, next(t, s, 1)[0], large)
		for page, err := range c.Inbox(t.Context(), client.InboxOptions{}) {
			require.NoError(t, err)
			require.Len(t, page.Messages[0].Payload, large)
		}
	})
}

func TestALargeBacklogIsBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a", func(o *client.Options) { o.BufferBytes = 1000 })
		s := subscribe(t, c, "t")
		put(t, c, "t", string(make([]byte, 5000)), string(make([]byte, 600)), string(make([]byte, 600)), string(make([]byte, 600)))
		next(t, s, 1)
		synctest.Wait()
		require.Equal(t, uint64(1), s.Stats().Delivered, "one always fits")
		next(t, s, 1)
		synctest.Wait()
		require.Equal(t, uint64(3), s.Stats().Delivered)
		next(t, s, 3)
	})
}

func TestSubscriptionEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "t")
		next(t, s, 1)
		waiting := make(chan error)
		go func() {
			_, err := s.Next(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waiting, net.ErrClosed)
		time.Sleep(time.Second)
		require.Empty(t, reg.Subscriptions())
		put(t, c, "t", "1")
		_, err := s.Next(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)

		other := subscribe(t, c, "t", client.FromAll())
		synctest.Wait()
		require.NoError(t, c.Close())
		_, err = other.Next(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s := subscribe(t, c, "t")
		next(t, s, 1)
		start := time.Now()
		_, err := s.Next(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		put(t, c, "t", "1")
		synctest.Wait()
		i, err := s.Next(ended(t))
		require.NoError(t, err, "what is at hand is given all the same")
		require.Equal(t, "1", show(i))
	})
}

func TestMessagesLeavesOutTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		put(t, c, "t", "1", "2")
		s := subscribe(t, c, "t", client.FromAll())
		put(t, c, "t", "3")
		var got []string
		for m, err := range s.Messages(within(t, time.Second)) {
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				break
			}
			got = append(got, string(m.Payload))
		}
		require.Equal(t, numbers(3), got)
		require.NoError(t, s.Close())
		for range s.Messages(t.Context()) {
			t.Fatal("a closed subscription has no messages and no error")
		}
	})
}

// A right that was taken away ends the subscription with the refusal; one that
// cannot be served for a moment is tried again.
func TestRefusalOfAResumedSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		s, lost := subscribe(t, c, "s"), subscribe(t, c, "lost")
		next(t, s, 1)
		put(t, c, "lost", "1")
		synctest.Wait()
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpSubscribe, Topic: "lost", Code: protocol.ErrDenied})
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpSubscribe, Topic: "s", Times: 3, Code: protocol.ErrLimit, RetryAfter: time.Second})
		start := time.Now()
		reg.Disconnect("a")
		require.Equal(t, []string{"caught up 0", "1", "disconnected"}, next(t, lost, 3))
		_, err := lost.Next(t.Context())
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.Equal(t, []string{"disconnected", "caught up 1"}, next(t, s, 2))
		require.Greater(t, time.Since(start), 3*time.Second)
		put(t, c, "s", "2")
		require.Equal(t, []string{"2"}, next(t, s, 1))
	})
}

func TestTooManySubscriptions(t *testing.T) {
	bubbleWith(t, limited(registry.Limits{Subscriptions: 2}), func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		one := subscribe(t, c, "t")
		subscribe(t, c, "t")
		_, err := c.Subscribe(t.Context(), "t")
		require.ErrorIs(t, err, protocol.ErrLimit)
		require.NoError(t, one.Close())
		time.Sleep(time.Second)
		subscribe(t, c, "t")
	})
}

// An opening that was given up leaves nothing behind.
func TestSubscribeGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		reg.Mute("a")
		s, err := c.Subscribe(within(t, time.Second), "t")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, s == nil)
		time.Sleep(time.Second)
		require.Empty(t, reg.Subscriptions())
		reg.Unmute("a")
		subscribe(t, c, "t")
		require.Zero(t, c.Stats().Disconnects)

		require.NoError(t, reg.Shutdown(t.Context()))
		_, err = c.Subscribe(within(t, time.Second), "t")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, protocol.ErrNotConnected)
	})
}

func TestSlowReaderOverReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		check := fakeregistry.NewChecker(t, reg)
		s := subscribe(t, a, "t", client.Buffer(8))
		reader := check.Reader("a", "t")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				i, err := s.Next(t.Context())
				if errors.Is(err, net.ErrClosed) {
					return
				}
				note(reader, i)
				time.Sleep(3 * time.Millisecond)
			}
		}()
		for i := range 1000 {
			publish(t, b, fmt.Sprint(i))
			if i%100 == 0 {
				time.Sleep(50 * time.Millisecond)
				reg.Disconnect("a")
			}
		}
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Minute)
		check.Settled()
		require.NotZero(t, s.Stats().Resumes)
		require.NoError(t, a.Close())
		<-done
	})
}
