package registry_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// A log of a.1 a.2 b.1 b.2, a second apart.
func filled(t *testing.T, o registry.Options) (*world, *peer, *channel) {
	w := start(t, o)
	a := w.join("a")
	lane := a.lane(protocol.LaneNormal)
	for i, topic := range []string{"a.1", "a.2", "a.1", "b.1"} {
		a.publish(lane, topic, fmt.Sprint(i+1))
		time.Sleep(time.Second)
	}
	return w, a, lane
}

func TestStarts(t *testing.T) {
	for _, test := range []struct {
		name     string
		sub      protocol.Subscribe
		ago      time.Duration
		position protocol.Seq
		want     string
	}{
		{"new", protocol.Subscribe{Pattern: "*"}, 0, 4, ""},
		{"all", protocol.Subscribe{Pattern: "*", Start: protocol.StartAll}, 0, 0, "1 2 3 4"},
		{"all of a prefix", protocol.Subscribe{Pattern: "a.*", Start: protocol.StartAll}, 0, 0, "1 2 3"},
		{"all of a topic", protocol.Subscribe{Pattern: "a.1", Start: protocol.StartAll}, 0, 0, "1 3"},
		{"nothing there", protocol.Subscribe{Pattern: "c", Start: protocol.StartAll}, 0, 0, ""},
		{"last", protocol.Subscribe{Pattern: "*", Start: protocol.StartLast}, 0, 0, "2 3 4"},
		{"after", protocol.Subscribe{Pattern: "*", Start: protocol.StartAfter, After: 2}, 0, 2, "3 4"},
		{"after the head", protocol.Subscribe{Pattern: "*", Start: protocol.StartAfter, After: 4}, 0, 4, ""},
		{"since", protocol.Subscribe{Pattern: "*", Start: protocol.StartSince}, 2500 * time.Millisecond, 0, "3 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, a, lane := filled(t, registry.Options{})
				defer w.close()
				defer a.close()
				if test.ago > 0 {
					test.sub.Since = protocol.TimeOf(time.Now().Add(-test.ago))
				}
				sub, began := a.subscribe(test.sub)
				require.Equal(t, a.welcome.Epoch, began.Epoch)
				require.Equal(t, test.position, began.Position)
				require.False(t, began.Narrowed)
				require.Equal(t, test.want, strings.Join(deliveries(sub, len(strings.Fields(test.want))), " "))
				require.Equal(t, protocol.Seq(4), next[*protocol.CaughtUp](sub).Seq)

				// What comes then comes to all, whatever came first.
				topic := strings.TrimSuffix(test.sub.Pattern, "*") + strings.Repeat("a.1", strings.Count(test.sub.Pattern, "*"))
				a.publish(lane, topic, "5")
				require.Equal(t, []string{"5"}, deliveries(sub, 1))
			})
		})
	}
}

func TestRefusedSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, _ := filled(t, registry.Options{Limits: registry.Limits{Subscriptions: 3}})
		defer w.close()
		defer a.close()
		epoch := a.welcome.Epoch.ID
		for _, test := range []struct {
			sub  protocol.Subscribe
			want protocol.Code
		}{
			{protocol.Subscribe{Pattern: ""}, protocol.ErrInvalidPattern},
			{protocol.Subscribe{Pattern: "a*"}, protocol.ErrInvalidPattern},
			{protocol.Subscribe{Pattern: "$sys"}, protocol.ErrInvalidPattern},
			{protocol.Subscribe{Pattern: "a", Source: 2}, protocol.ErrInvalid},
			{protocol.Subscribe{Pattern: "a", Source: protocol.SourceInbox}, protocol.ErrInvalid},
			{protocol.Subscribe{Pattern: "a", Start: 5}, protocol.ErrInvalid},
			{protocol.Subscribe{Pattern: "a", Start: protocol.StartAfter, After: 5}, protocol.ErrInvalid},
			{protocol.Subscribe{Pattern: "a", After: 5, Epoch: epoch}, protocol.ErrInvalid},
		} {
			ch := a.open(&test.sub)
			f := next[*protocol.Fail](ch)
			require.Equal(t, test.want, f.Code, "%+v", test.sub)
			require.Zero(t, f.ID)
			ch.ends(0)
			require.NoError(t, ch.CloseSend())
		}
		require.Empty(t, w.reg.Subscriptions())

		subs := []*channel{a.follow("a"), a.follow("a"), a.follow("b.*")}
		ch := a.open(&protocol.Subscribe{Pattern: "a"})
		require.Equal(t, protocol.ErrLimit, next[*protocol.Fail](ch).Code)
		require.Len(t, w.reg.Subscriptions(), 3)

		// A place is free again once one has ended, either way.
		require.NoError(t, subs[0].CloseSend())
		subs[0].ends(protocol.ErrNotConnected)
		subs[1].Reset(0)
		time.Sleep(time.Second)
		require.Equal(t, []registry.SubscriptionInfo{{Session: 1, Node: nodeID("a"), Pattern: "b.*"}}, w.reg.Subscriptions())
		a.follow("a")
		a.follow("a")
	})
}

func TestFrameBehindSubscribeIsMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		sub := a.follow("a")
		sub.send(&protocol.Subscribe{Pattern: "b"})
		sub.ends(protocol.ErrMalformed)
		synctest.Wait()
		require.Empty(t, w.reg.Subscriptions())
	})
}

func TestOnlyTheSenderSeesItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		own, foreign := a.follow("jobs"), b.follow("jobs")
		m := a.message("jobs", "x")
		m.Conditions = []protocol.Condition{{Topic: "jobs", Epoch: m.Epoch, Term: 3, Raise: 3}}
		a.lane(protocol.LaneNormal).send(m)

		got := next[*protocol.Deliver](own)
		require.Equal(t, m.Key, got.Key)
		require.Equal(t, nodeID("a"), got.Sender)
		require.Equal(t, uint64(3), got.Term())

		got.Key = nil
		require.Equal(t, got, next[*protocol.Deliver](foreign))
	})
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, lane := filled(t, registry.Options{})
		defer w.close()
		defer a.close()
		epoch := a.welcome.Epoch.ID

		// Behind the position, whatever the start is.
		for _, start := range []protocol.StartKind{protocol.StartNew, protocol.StartAll, protocol.StartAfter} {
			sub, began := a.subscribe(protocol.Subscribe{Pattern: "*", Start: start, After: 2, Epoch: epoch})
			require.Equal(t, protocol.Seq(2), began.Position)
			require.Equal(t, []string{"3", "4"}, deliveries(sub, 2))
			require.Equal(t, protocol.Seq(4), next[*protocol.CaughtUp](sub).Seq)
		}
		// One that had not yet the last of each topic goes on with that.
		for range 3 {
			a.publish(lane, "a.1", "newest")
		}
		sub, _ := a.subscribe(protocol.Subscribe{Pattern: "*", Start: protocol.StartLast, After: 2, Epoch: epoch})
		require.Equal(t, []string{"4", "newest"}, deliveries(sub, 2))
		require.Equal(t, protocol.Seq(7), next[*protocol.CaughtUp](sub).Seq)

		// The position in another log means nothing.
		sub, began := a.subscribe(protocol.Subscribe{Pattern: "a.2", Start: protocol.StartAfter, After: 99, Epoch: epoch + 1})
		require.Equal(t, epoch, began.Epoch.ID)
		require.Zero(t, began.Position)
		require.Equal(t, []string{"2"}, deliveries(sub, 1))
		next[*protocol.CaughtUp](sub)
	})
}

func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Log: memlog.New(memlog.Options{Retention: registry.Retention{Messages: 2}})})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		for i := range 6 {
			a.publish(lane, []string{"even", "odd"}[i%2], fmt.Sprint(i+1)) // 1 and 2 are evicted
		}
		epoch := a.welcome.Epoch.ID

		// Who begins misses nothing.
		for _, start := range []protocol.StartKind{protocol.StartLast, protocol.StartAll, protocol.StartSince} {
			sub, _ := a.subscribe(protocol.Subscribe{Pattern: "odd", Start: start})
			require.IsType(t, &protocol.Deliver{}, sub.read())
		}
		// Who goes on is told, and gets what is still there.
		for _, f := range []protocol.Subscribe{
			{Pattern: "odd", Start: protocol.StartAfter, After: 1},
			{Pattern: "odd", After: 1, Epoch: epoch},
			{Pattern: "odd", Start: protocol.StartSince, After: 1, Epoch: epoch},
		} {
			sub, _ := a.subscribe(f)
			require.Equal(t, &protocol.Gap{From: 2, To: 2}, next[*protocol.Gap](sub))
			require.Equal(t, []string{"4", "6"}, deliveries(sub, 2))
			next[*protocol.CaughtUp](sub)
			a.publish(lane, "other", "x")
		}
		// Who had read it all is not.
		sub, _ := a.subscribe(protocol.Subscribe{Pattern: "odd", After: 2, Epoch: epoch})
		require.Equal(t, []string{"4", "6"}, deliveries(sub, 2))
		next[*protocol.CaughtUp](sub)
		// Of another log all is missing that is gone.
		sub, _ = a.subscribe(protocol.Subscribe{Pattern: "odd", After: 2, Epoch: epoch + 1})
		require.Equal(t, &protocol.Gap{From: 1, To: 2}, next[*protocol.Gap](sub))
	})
}

// A reader that stalls holds up nobody, costs a bounded amount of memory, and is
// told what it missed; what was replaced meanwhile is not missed.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Log: memlog.New(memlog.Options{Retention: registry.Retention{Messages: 100}})})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		slow, beside, fast := b.follow("jobs"), b.follow("jobs"), a.follow("jobs")
		status := b.follow("status")
		lane := a.lane(protocol.LaneNormal)

		// Nobody reads slow and status.
		payload := strings.Repeat("x", 10_000)
		before := heap()
		const messages = 2000 // 20 MB
		var readers sync.WaitGroup
		for _, sub := range []*channel{beside, fast} {
			readers.Go(func() {
				for seq := protocol.Seq(0); ; {
					switch f := sub.read().(type) {
					case *protocol.Deliver:
						require.Greater(t, f.Seq, seq)
						seq = f.Seq
						if string(f.Payload) == "end" {
							return
						}
					default:
						t.Errorf("got %#v", f)
						return
					}
				}
			})
		}
		for i := range messages {
			a.publish(lane, "jobs", payload)
			if i%100 == 0 {
				m := a.message("status", "busy "+payload)
				m.Slot = []byte("slot")
				lane.send(m)
				lane.ack()
			}
		}
		a.publish(lane, "jobs", "end")
		readers.Wait()
		require.Less(t, heap()-before, int64(8<<20))

		// The slow one: some of the beginning, one gap, the newest.
		seq, gaps := protocol.Seq(0), 0
		for payload != "end" {
			switch f := slow.read().(type) {
			case *protocol.Gap:
				gaps++
				require.Equal(t, f.From, seq+1)
				seq = f.To
			case *protocol.Deliver:
				require.Greater(t, f.Seq, seq)
				if gaps == 0 {
					seq = f.Seq
				}
				payload = string(f.Payload)
			}
		}
		require.Equal(t, 1, gaps)
		// Replaced statuses are skipped: no gap, and the last is the newest.
		a.publish(lane, "status", "idle")
		for {
			if f := next[*protocol.Deliver](status); string(f.Payload) == "idle" {
				break
			}
		}
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The fence of a caught up counts the fenced messages up to its seq and none
// behind it, while they come as fast as they can.
func TestCaughtUpFenceBelongsToItsSeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		ctx, cancel := context.WithCancel(t.Context())
		var writer sync.WaitGroup
		writer.Go(func() {
			lane := a.lane(protocol.LaneNormal)
			for k := uint64(1); ctx.Err() == nil; k++ {
				m := a.message("jobs", fmt.Sprint(k))
				m.Conditions = []protocol.Condition{{Topic: "jobs", Epoch: m.Epoch, Term: k, Raise: k}}
				lane.send(m, a.message("jobs", "plain"))
				for n := 0; n < 2; {
					n += len(next[*protocol.Acks](lane).List)
				}
			}
		})
		for i := range 100 {
			sub, _ := b.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAll})
			var fence protocol.Fence
			var seq protocol.Seq
			for caught := false; !caught; {
				switch f := sub.read().(type) {
				case *protocol.Deliver:
					seq = f.Seq
					if term := f.Term(); term != 0 {
						fence = protocol.Fence{K: term, S: f.Seq}
					}
				case *protocol.CaughtUp:
					require.Equal(t, fence, f.Fence, "subscription %d", i)
					require.Equal(t, seq, f.Seq)
					caught = true
				}
			}
			sub.Reset(0)
		}
		cancel()
		writer.Wait()
	})
}

func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		lane := a.lane(protocol.LaneNormal)
		direct := func(to, payload string) {
			m := a.message("", payload)
			m.To = nodeID(to)
			lane.send(m)
			lane.ack()
		}
		ask[*protocol.Done](b, &protocol.Join{ID: 1, Topics: []string{"one"}})
		a.publish(lane, "one", "1")
		a.publish(lane, "two", "not joined")
		direct("b", "2")
		direct("c", "not mine")

		inbox, _ := b.subscribe(protocol.Subscribe{Source: protocol.SourceInbox, Start: protocol.StartAll})
		require.Equal(t, []string{"1", "2"}, deliveries(inbox, 2))
		require.Equal(t, protocol.Fence{}, next[*protocol.CaughtUp](inbox).Fence)

		direct("b", "3")
		direct("a", "not mine")
		a.publish(lane, "two", "still not joined")
		ask[*protocol.Done](b, &protocol.Join{ID: 2, Topics: []string{"two"}})
		a.publish(lane, "two", "4")
		require.Equal(t, []string{"3", "4"}, deliveries(inbox, 2))

		ask[*protocol.Done](b, &protocol.Join{ID: 3, Topics: []string{"one"}, Leave: true})
		a.publish(lane, "one", "left")
		a.publish(lane, "two", "5")
		require.Equal(t, []string{"5"}, deliveries(inbox, 1))

		// A publish can join, and brings its own message.
		m := b.message("three", "6")
		m.Flags = protocol.FlagJoin
		own := b.lane(protocol.LaneNormal)
		own.send(m)
		own.ack()
		require.Equal(t, []string{"6"}, deliveries(inbox, 1))
		require.Equal(t, []string{"three", "two"}, ask[*protocol.JoinedPage](b, &protocol.GetJoined{ID: 4}).Topics)

		// Nobody else sees direct messages.
		all, _ := a.subscribe(protocol.Subscribe{Pattern: "*", Start: protocol.StartAll})
		for {
			f, ok := all.read().(*protocol.Deliver)
			if !ok {
				break
			}
			require.Zero(t, f.To)
		}
	})
}

// One subscription is woken by all that it matches and by nothing else.
func TestWhoIsWoken(t *testing.T) {
	patterns := []string{"*", "a.*", "a.b.*", "a:*", "a", "a.b", "a.b.c", "ab"}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		subs := map[string]*channel{}
		for _, p := range patterns {
			subs[p] = a.follow(p)
		}
		lane := a.lane(protocol.LaneNormal)
		topics := []string{"a", "a.", "a.b", "a.b.", "a.b.c", "a.b.c.d", "a:b", "a:b.c", "ab", "ab.c", ".a", "b"}
		for _, topic := range topics {
			a.publish(lane, topic, topic)
		}
		for _, p := range patterns {
			for _, topic := range topics {
				if protocol.Match(p, topic) {
					require.Equal(t, topic, next[*protocol.Deliver](subs[p]).Topic, "pattern %q", p)
				}
			}
			require.NoError(t, subs[p].SetReadDeadline(time.Now().Add(time.Second)))
			subs[p].ends(protocol.ErrTimeout)
		}
	})
}
