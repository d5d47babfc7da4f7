package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func TestFenceRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		epoch := a.welcome.Epoch.ID
		m := a.message("jobs", "x")
		m.Conditions = []protocol.Condition{{Topic: "jobs", Epoch: epoch, Term: 5, Raise: 6}}
		lane := a.lane(protocol.LaneNormal)
		lane.send(m)
		lane.ack()

		require.Equal(t, &protocol.FenceState{ID: 1, Topic: "jobs", Epoch: epoch, K: 6, S: 1},
			ask[*protocol.FenceState](a, &protocol.GetFence{ID: 1, Topic: "jobs"}))
		require.Equal(t, &protocol.FenceState{ID: 2, Topic: "none", Epoch: epoch},
			ask[*protocol.FenceState](a, &protocol.GetFence{ID: 2, Topic: "none"}))
		require.Equal(t, &protocol.FenceState{ID: 3, Topic: "jobs", Epoch: epoch, K: 2, S: 1},
			ask[*protocol.FenceState](a, &protocol.SetFence{ID: 3, Topic: "jobs", Epoch: epoch, K: 2}))
		require.Equal(t, protocol.ErrWrongEpoch,
			ask[*protocol.Fail](a, &protocol.SetFence{ID: 4, Topic: "jobs", Epoch: epoch + 1, K: 3}).Code)
		require.Equal(t, protocol.ErrInvalidTopic, ask[*protocol.Fail](a, &protocol.GetFence{ID: 5, Topic: "a.*"}).Code)
	})
}

// A refusal with id 0 would be about the session, so that is what ends.
func TestRequestWithoutID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		for _, f := range []protocol.Frame{
			&protocol.GetFence{Topic: "jobs"}, &protocol.SetFence{Topic: "jobs", Epoch: 1, K: 1},
			&protocol.Join{Topics: []string{"jobs"}}, &protocol.GetJoined{}, &protocol.GetInbox{}, &protocol.ClearInbox{},
			&protocol.GetInfo{}, &protocol.GetNodes{}, &protocol.GetTopics{}, &protocol.Ping{},
		} {
			a := w.join("a")
			a.control.send(f)
			a.ends(protocol.ErrInvalid)
			a.close()
		}
	})
}

// pages asks page by page until the last one.
func pages[F protocol.Frame](p *peer, more func(F) protocol.Frame, first protocol.Frame) (n int) {
	for f := first; f != nil; n++ {
		f = more(ask[F](p, f))
	}
	return n
}

func TestJoinedInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Page: 1000}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprintf("%02d%s", i, strings.Repeat("x", i)))
		}
		ask[*protocol.Done](a, &protocol.Join{ID: 1, Topics: want})
		require.Equal(t, protocol.ErrInvalidTopic, ask[*protocol.Fail](a, &protocol.Join{ID: 1, Topics: []string{"a", "*"}}).Code)

		var got []string
		n := pages(a, func(f *protocol.JoinedPage) protocol.Frame {
			got = append(got, f.Topics...)
			if f.Next == "" {
				return nil
			}
			return &protocol.GetJoined{ID: 2, After: f.Next}
		}, &protocol.GetJoined{ID: 2})
		require.Equal(t, want, got)
		require.Greater(t, n, 4)

		page := ask[*protocol.JoinedPage](a, &protocol.GetJoined{ID: 3, After: want[9], Limit: 2})
		require.Equal(t, want[10:12], page.Topics)
		require.Equal(t, want[11], page.Next)
		ask[*protocol.Done](a, &protocol.Join{ID: 4, Topics: want[1:], Leave: true})
		require.Equal(t, &protocol.JoinedPage{ID: 5, Topics: want[:1]}, ask[*protocol.JoinedPage](a, &protocol.GetJoined{ID: 5}))
	})
}

func TestInboxInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Page: 2000}})
		defer w.close()
		a, b := w.join("a"), w.join("b")
		defer a.close()
		defer b.close()
		ask[*protocol.Done](b, &protocol.Join{ID: 1, Topics: []string{"one", "two"}})
		lane := a.lane(protocol.LaneNormal)
		for i := range 30 {
			a.publish(lane, []string{"one", "two", "three"}[i%3], fmt.Sprint(i)+strings.Repeat(" ", 10*i))
		}
		m := a.message("", "direct")
		m.To = nodeID("b")
		lane.send(m)
		lane.ack()

		list := func(first *protocol.GetInbox) (got []protocol.Message, n int) {
			n = pages(b, func(f *protocol.InboxPage) protocol.Frame {
				require.Equal(t, protocol.Seq(31), f.Head)
				require.False(t, f.Truncated)
				got = append(got, f.Messages...)
				if f.Next == 0 {
					return nil
				}
				again := *first
				again.After = f.Next
				return &again
			}, first)
			return got, n
		}
		got, n := list(&protocol.GetInbox{ID: 2})
		require.Len(t, got, 21)
		require.Greater(t, n, 2)
		require.Equal(t, "direct", string(got[20].Payload))
		for i := 1; i < len(got); i++ {
			require.Greater(t, got[i].Seq, got[i-1].Seq)
			require.Empty(t, got[i].Key)
		}
		got, _ = list(&protocol.GetInbox{ID: 3, Topic: "two"})
		require.Len(t, got, 10)
		got, _ = list(&protocol.GetInbox{ID: 3, Topic: "three"})
		require.Empty(t, got)

		ask[*protocol.Done](b, &protocol.ClearInbox{ID: 4, UpTo: 28})
		got, _ = list(&protocol.GetInbox{ID: 5})
		require.Len(t, got, 2)
		got, _ = list(&protocol.GetInbox{ID: 6, All: true})
		require.Len(t, got, 21)
		got, _ = list(&protocol.GetInbox{ID: 7, All: true, After: 20})
		require.Len(t, got, 7)

		// The largest payload fits a page of its own.
		big := a.message("one", strings.Repeat("x", protocol.DefaultPayload))
		lane.send(big)
		lane.ack()
		page := ask[*protocol.InboxPage](b, &protocol.GetInbox{ID: 8, After: 31})
		require.Len(t, page.Messages, 1)
		require.Zero(t, page.Next)
	})
}

func TestInboxIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		ask[*protocol.Done](a, &protocol.Join{ID: 1, Topics: []string{"jobs"}})
		lane := a.lane(protocol.LaneNormal)
		for range 150 {
			a.publish(lane, "jobs", "x")
		}
		page := ask[*protocol.InboxPage](a, &protocol.GetInbox{ID: 2, Limit: 10})
		require.Len(t, page.Messages, 100)
		require.True(t, page.Truncated)
		require.NotEmpty(t, page.Messages[0].Key, "own messages have their key")
	})
}

func TestNodesAndTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Page: 1000}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		for i := range 20 {
			h := hello()
			h.Name, h.Tags = fmt.Sprint("node ", i), []string{"x"}
			p := w.dial(fmt.Sprint(i))
			next[*protocol.Welcome](p.open(h))
			p.close()
			a.publish(lane, fmt.Sprintf("topic.%02d", i), strings.Repeat("x", i))
		}
		time.Sleep(time.Second)

		var nodes []protocol.Node
		n := pages(a, func(f *protocol.NodesPage) protocol.Frame {
			nodes = append(nodes, f.Nodes...)
			if f.Next == 0 {
				return nil
			}
			return &protocol.GetNodes{ID: 1, After: f.Next}
		}, &protocol.GetNodes{ID: 1})
		require.Len(t, nodes, 21)
		require.Greater(t, n, 1)
		for _, node := range nodes {
			require.Equal(t, node.ID, protocol.NodeIDOf(node.Key))
			if node.ID == nodeID("a") {
				require.Equal(t, uint64(1), node.Online)
				continue
			}
			require.Zero(t, node.Online)
			require.Contains(t, node.Name, "node ")
			require.Equal(t, []string{"x"}, node.Tags)
		}
		ask[*protocol.Done](a, &protocol.Join{ID: 2, Topics: []string{"topic.01"}})
		page := ask[*protocol.NodesPage](a, &protocol.GetNodes{ID: 3, Topic: "topic.01"})
		require.Len(t, page.Nodes, 1)
		require.Equal(t, nodeID("a"), page.Nodes[0].ID)

		var topics []protocol.Topic
		n = pages(a, func(f *protocol.TopicsPage) protocol.Frame {
			topics = append(topics, f.Topics...)
			if f.Next == "" {
				return nil
			}
			return &protocol.GetTopics{ID: 4, After: f.Next}
		}, &protocol.GetTopics{ID: 4})
		require.Len(t, topics, 20)
		require.Greater(t, n, 1)
		require.Equal(t, protocol.Topic{Name: "topic.03", Messages: 1, Bytes: 3, Last: 4}, topics[3])
		one := ask[*protocol.TopicsPage](a, &protocol.GetTopics{ID: 5, Pattern: "topic.07"})
		require.Len(t, one.Topics, 1)
		require.Equal(t, protocol.ErrInvalidPattern, ask[*protocol.Fail](a, &protocol.GetTopics{ID: 6, Pattern: "a*"}).Code)
	})
}

func TestInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := protocol.TimeOf(time.Now())
		w := start(t, registry.Options{Software: "test 1"})
		defer w.close()
		a := w.join("a")
		defer a.close()
		a.publish(a.lane(protocol.LaneNormal), "jobs", "12345")
		a.follow("jobs")
		w.join("b").close()
		time.Sleep(time.Second)
		require.Equal(t, &protocol.InfoState{
			ID: 1, Epoch: w.log.Epoch().ID, Born: w.log.Epoch().Born, Head: 1, Now: protocol.TimeOf(time.Now().Add(time.Millisecond)),
			Started: begin, Nodes: 2, Online: 1, Sessions: 1, Subscriptions: 1,
			Topics: 1, Messages: 1, Bytes: 5, Published: 1, Software: "test 1",
		}, ask[*protocol.InfoState](a, &protocol.GetInfo{ID: 1}))
	})
}
