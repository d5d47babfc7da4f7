package registry_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func TestHookRefusesOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := registry.Op(0)
		w := start(t, registry.Options{Hooks: &registry.Hooks{Before: func(o registry.Operation) error {
			if o.Op == refuse {
				return &protocol.Error{Code: protocol.ErrInternal, Detail: "injected", RetryAfter: time.Minute}
			}
			return nil
		}}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)

		refuse = registry.OpConnect
		b := w.dial("b")
		f := next[*protocol.Fail](b.open(hello()))
		require.Equal(t, &protocol.Fail{Code: protocol.ErrInternal, RetryAfter: time.Minute, Detail: "injected"}, f)
		b.close()

		refuse = registry.OpPublish
		lane.send(a.message("jobs", "x"))
		require.Equal(t, time.Minute, lane.refused(protocol.ErrInternal).RetryAfter)

		refuse = registry.OpSubscribe
		require.Equal(t, protocol.ErrInternal, next[*protocol.Fail](a.open(&protocol.Subscribe{Pattern: "jobs"})).Code)

		for op, f := range map[registry.Op]protocol.Frame{
			registry.OpGetFence:   &protocol.GetFence{ID: 1, Topic: "jobs"},
			registry.OpSetFence:   &protocol.SetFence{ID: 1, Topic: "jobs", K: 1},
			registry.OpJoin:       &protocol.Join{ID: 1, Topics: []string{"jobs"}},
			registry.OpGetJoined:  &protocol.GetJoined{ID: 1},
			registry.OpGetInbox:   &protocol.GetInbox{ID: 1},
			registry.OpClearInbox: &protocol.ClearInbox{ID: 1},
			registry.OpGetInfo:    &protocol.GetInfo{ID: 1},
			registry.OpGetNodes:   &protocol.GetNodes{ID: 1},
			registry.OpGetTopics:  &protocol.GetTopics{ID: 1},
		} {
			refuse = op
			require.Equal(t, protocol.ErrInternal, ask[*protocol.Fail](a, f).Code, "%#v", f)
		}
	})
}

func TestHookFailsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored []string
		fail := false
		w := start(t, registry.Options{Hooks: &registry.Hooks{
			BeforeStore: func(list []*registry.Record) error {
				if fail {
					return protocol.Errorf(protocol.ErrStorageFull, "injected")
				}
				return nil
			},
			AfterStore: func(list []*registry.Record) {
				for _, r := range list {
					stored = append(stored, string(r.Payload))
				}
			},
		}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		a.publish(lane, "jobs", "1")
		fail = true
		lane.send(a.message("jobs", "2"))
		lane.refused(protocol.ErrStorageFull)
		fail = false
		require.Equal(t, protocol.Seq(2), a.publish(lane, "jobs", "3"))
		require.Equal(t, []string{"1", "3"}, stored)
	})
}

func TestHookDelaysAndDropsAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var left []protocol.Seq
		w := start(t, registry.Options{Hooks: &registry.Hooks{
			BeforeAck: func(_ protocol.NodeID, a protocol.Ack) (time.Duration, bool) {
				return map[protocol.Seq]time.Duration{1: time.Second}[a.Seq], a.Seq == 2
			},
			AfterAck: func(_ protocol.NodeID, acks []protocol.Ack) {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range acks {
					left = append(left, a.Seq)
				}
			},
		}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		begin := time.Now()
		lane.send(a.message("jobs", "late"), a.message("jobs", "never"), a.message("jobs", "now"))
		require.Equal(t, protocol.Seq(3), lane.ack().Seq)
		require.Less(t, time.Since(begin), 10*time.Millisecond)
		require.Equal(t, protocol.Seq(1), lane.ack().Seq)
		require.GreaterOrEqual(t, time.Since(begin), time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []protocol.Seq{3, 1}, left)
	})
}

func TestHookMutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		quiet := map[protocol.NodeID]chan struct{}{nodeID("b"): make(chan struct{})}
		w := start(t, registry.Options{Hooks: &registry.Hooks{Mute: func(n protocol.NodeID) <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return quiet[n]
		}}})
		defer w.close()
		a, b := w.join("a"), w.dial("b")
		defer a.close()
		defer b.close()
		b.control = b.open(hello())
		a.publish(a.lane(protocol.LaneNormal), "jobs", "x")
		require.NoError(t, b.control.SetReadDeadline(time.Now().Add(time.Minute)))
		b.control.ends(protocol.ErrTimeout)
		require.NoError(t, b.control.SetReadDeadline(time.Time{}))

		mu.Lock()
		close(quiet[nodeID("b")])
		delete(quiet, nodeID("b"))
		mu.Unlock()
		next[*protocol.Welcome](b.control)
	})
}

// What is held back are messages: answers go on, and so does the session's end.
func TestHookHoldsBackPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		held := map[protocol.NodeID]chan struct{}{nodeID("b"): make(chan struct{})}
		w := start(t, registry.Options{Hooks: &registry.Hooks{Push: func(n protocol.NodeID) <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return held[n]
		}}})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		sub, other, lost := b.follow("jobs"), a.follow("jobs"), w.join("b")
		lost.follow("jobs")
		lane := b.lane(protocol.LaneNormal)
		b.publish(lane, "jobs", "1")
		b.publish(lane, "jobs", "2")
		require.Equal(t, []string{"1", "2"}, deliveries(other, 2))
		require.NoError(t, sub.SetReadDeadline(time.Now().Add(time.Minute)))
		sub.ends(protocol.ErrTimeout)
		require.NoError(t, sub.SetReadDeadline(time.Time{}))

		lost.close()
		time.Sleep(time.Second)
		require.Len(t, w.reg.Sessions(), 2)

		mu.Lock()
		close(held[nodeID("b")])
		delete(held, nodeID("b"))
		mu.Unlock()
		require.Equal(t, []string{"1", "2"}, deliveries(sub, 2))
	})
}

func TestHookSeesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []registry.Event
		var ends []error
		w := start(t, registry.Options{Hooks: &registry.Hooks{Event: func(e registry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == registry.EventSessionClosed {
				ends = append(ends, e.Err)
			}
			e.Addr, e.Err = nil, nil
			events = append(events, e)
		}}})
		defer w.close()
		a := w.join("a")
		lane := a.lane(protocol.LaneNormal)
		sub := a.follow("jobs")
		a.publish(lane, "jobs", "x")
		deliveries(sub, 1)
		lane.send(a.message("*", "x"))
		lane.refused(protocol.ErrInvalidTopic)
		ask[*protocol.Fail](a, &protocol.GetFence{ID: 1, Topic: "*"})
		require.NoError(t, sub.CloseSend())
		time.Sleep(time.Second)
		a.close()
		time.Sleep(time.Second)

		node := nodeID("a")
		mu.Lock()
		defer mu.Unlock()
		require.ElementsMatch(t, []registry.Event{
			{Kind: registry.EventSessionOpened, Session: 1, Node: node},
			{Kind: registry.EventSubscribed, Session: 1, Node: node, Op: registry.OpSubscribe, Topic: "jobs"},
			{Kind: registry.EventAccepted, Session: 1, Node: node, Op: registry.OpPublish, Topic: "jobs", Seq: 1},
			{Kind: registry.EventDelivered, Session: 1, Node: node, Topic: "jobs", Seq: 1},
			{Kind: registry.EventRefused, Session: 1, Node: node, Op: registry.OpPublish, Topic: "*"},
			{Kind: registry.EventRefused, Session: 1, Node: node, Op: registry.OpGetFence, Topic: "*"},
			{Kind: registry.EventUnsubscribed, Session: 1, Node: node, Op: registry.OpSubscribe, Topic: "jobs"},
			{Kind: registry.EventSessionClosed, Session: 1, Node: node},
		}, events)
		require.Equal(t, registry.EventSessionOpened, events[0].Kind)
		require.Equal(t, registry.EventSessionClosed, events[len(events)-1].Kind)
		require.Equal(t, []error{nil}, ends, "the client has closed it")
	})
}
