package registry_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// house lets everybody in; what begins with "secret." is for root alone, and so
// is what only operators and relays do.
func house(_ context.Context, r registry.Request) error {
	root := r.Key.Equal(key("root").Public())
	switch r.Right {
	case registry.RightPublish, registry.RightSubscribe:
		if !root && (strings.HasPrefix(r.Topic, "secret.") || r.Topic == "*") {
			return protocol.Errorf(protocol.ErrDenied, "%s is secret", r.Topic)
		}
	case registry.RightAdmin, registry.RightRelay:
		if !root {
			return protocol.ErrDenied
		}
	default:
	}
	return nil
}

func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Access: house})
		defer w.close()
		root, a := w.join("root"), w.join("a")
		defer root.close()
		defer a.close()
		all, lane := root.lane(protocol.LaneNormal), a.lane(protocol.LaneNormal)

		root.publish(all, "secret.plan", "1")
		root.publish(all, "open", "2")
		lane.send(a.message("secret.plan", "no"))
		lane.refused(protocol.ErrDenied)

		relayed := a.message("open", "no")
		relayed.Origin = 7
		lane.send(relayed)
		lane.refused(protocol.ErrDenied)
		raising := a.message("open", "no")
		raising.Conditions = []protocol.Condition{{Topic: "secret.fence", Epoch: raising.Epoch, Term: 1, Raise: 1}}
		lane.send(raising)
		lane.refused(protocol.ErrDenied)
		relayed.Origin, relayed.Key = 7, []byte("by root")
		all.send(relayed)
		require.Equal(t, protocol.Seq(3), all.ack().Seq)

		// A pattern brings what may be read; a topic that may not be is refused.
		sub, began := a.subscribe(protocol.Subscribe{Pattern: "*", Start: protocol.StartAll})
		require.True(t, began.Narrowed)
		require.Equal(t, []string{"2", "no"}, deliveries(sub, 2))
		next[*protocol.CaughtUp](sub)
		root.publish(all, "secret.plan", "3")
		root.publish(all, "open", "4")
		require.Equal(t, []string{"4"}, deliveries(sub, 1))
		refused := a.open(&protocol.Subscribe{Pattern: "secret.plan"})
		require.Equal(t, protocol.ErrDenied, next[*protocol.Fail](refused).Code)
		_, began = a.subscribe(protocol.Subscribe{Pattern: "open"})
		require.False(t, began.Narrowed)
		_, began = root.subscribe(protocol.Subscribe{Pattern: "*"})
		require.False(t, began.Narrowed)

		// Requests too.
		for _, f := range []protocol.Frame{
			&protocol.GetFence{ID: 1, Topic: "secret.plan"},
			&protocol.SetFence{ID: 2, Topic: "open", Epoch: a.welcome.Epoch.ID, K: 1},
			&protocol.Join{ID: 3, Topics: []string{"open", "secret.plan"}},
			&protocol.GetNodes{ID: 4, Topic: "secret.plan"},
		} {
			require.Equal(t, protocol.ErrDenied, ask[*protocol.Fail](a, f).Code, "%#v", f)
		}
		require.Len(t, ask[*protocol.TopicsPage](a, &protocol.GetTopics{ID: 5}).Topics, 1)
		require.Len(t, ask[*protocol.TopicsPage](root, &protocol.GetTopics{ID: 5}).Topics, 2)
		require.Equal(t, uint64(9), ask[*protocol.FenceState](root, &protocol.SetFence{ID: 6, Topic: "open", Epoch: a.welcome.Epoch.ID, K: 9}).K)
	})
}

// Who may publish what it may not read does not get to read it by joining.
func TestInboxShowsWhatMayBeRead(t *testing.T) {
	access := func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightSubscribe && r.Topic == "drop" {
			return protocol.ErrDenied
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Access: access})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		inbox, _ := a.subscribe(protocol.Subscribe{Source: protocol.SourceInbox})
		next[*protocol.CaughtUp](inbox)
		for _, topic := range []string{"drop", "jobs"} {
			m := a.message(topic, topic)
			m.Flags = protocol.FlagJoin
			lane.send(m)
			lane.ack()
		}
		require.Equal(t, []string{"jobs"}, deliveries(inbox, 1))
		require.Len(t, ask[*protocol.InboxPage](a, &protocol.GetInbox{ID: 1}).Messages, 1)
		require.Empty(t, ask[*protocol.InboxPage](a, &protocol.GetInbox{ID: 2, Topic: "drop"}).Messages)
	})
}

// watchedLog knows whether it is being read.
type watchedLog struct {
	registry.Log
	reading atomic.Bool
}

func (l *watchedLog) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	l.reading.Store(true)
	defer l.reading.Store(false)
	return l.Log.Read(sel, after, upTo, page)
}

// A rule that takes its time must not hold up who writes.
func TestAccessIsNotAskedWhileTheLogIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &watchedLog{Log: memlog.New(memlog.Options{})}
		w := start(t, registry.Options{Log: l, Access: func(ctx context.Context, r registry.Request) error {
			if l.reading.Load() {
				t.Errorf("asked for %q while the log is read", r.Topic)
			}
			return house(ctx, r)
		}})
		defer w.close()
		root, a := w.join("root"), w.join("a")
		defer root.close()
		defer a.close()
		lane := root.lane(protocol.LaneNormal)
		for i := range 3000 {
			root.publish(lane, fmt.Sprintf("%s.%d", []string{"secret", "open"}[i%2], i), fmt.Sprint(i))
		}
		for _, start := range []protocol.StartKind{protocol.StartAll, protocol.StartLast} {
			sub, began := a.subscribe(protocol.Subscribe{Pattern: "*", Start: start})
			require.True(t, began.Narrowed)
			for i := range 1500 {
				require.Equal(t, []string{fmt.Sprint(2*i + 1)}, deliveries(sub, 1))
			}
			next[*protocol.CaughtUp](sub)
		}
	})
}

// What a narrowed subscription may not read is not missing from it.
func TestGapsOfANarrowedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Access: house, Log: memlog.New(memlog.Options{Retention: registry.Retention{Messages: 2}})})
		defer w.close()
		root, a := w.join("root"), w.join("a")
		defer root.close()
		defer a.close()
		lane := root.lane(protocol.LaneNormal)
		for range 5 {
			root.publish(lane, "secret.plan", "x")
		}
		root.publish(lane, "open", "1")
		resume := protocol.Subscribe{Pattern: "*", Epoch: a.welcome.Epoch.ID}
		sub, _ := a.subscribe(resume)
		require.Equal(t, []string{"1"}, deliveries(sub, 1))
		next[*protocol.CaughtUp](sub)

		root.publish(lane, "open", "2")
		root.publish(lane, "open", "3")
		sub, _ = a.subscribe(resume)
		require.Equal(t, &protocol.Gap{From: 1, To: 6}, next[*protocol.Gap](sub))
		require.Equal(t, []string{"2", "3"}, deliveries(sub, 2))
	})
}
