package election_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// view is an observation in words.
func view(o election.Observation) string {
	if o.Leader == "" {
		return fmt.Sprintf("%v: %v", o.Change, o.Reason)
	}
	return fmt.Sprintf("%v %s", o.Change, o.Leader)
}

func TestAnObserverSeesWhatHappens(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "o")
		seen := make(chan string, 100)
		go func() {
			for o, err := range m.Observe(t.Context()) {
				if err != nil {
					seen <- err.Error()
					break
				}
				seen <- view(o)
			}
			close(seen)
		}()
		time.Sleep(time.Second)
		a := elect(t, member(t, reg, "a"))
		time.Sleep(time.Second)
		require.NoError(t, a.Resign(t.Context()))
		b := elect(t, member(t, reg, "b"))
		time.Sleep(time.Second)
		reg.Partition("b", fakeregistry.Host)
		time.Sleep(time.Second)
		require.NoError(t, m.Close())
		var list []string
		for s := range seen {
			list = append(list, s)
		}
		require.Equal(t, []string{
			"none: unknown", "none: silent",
			"leader " + id("a"), "lost: resigned",
			"leader " + id("b"), "lost: silent",
			`election "workers": closed: use of closed network connection`,
		}, list)
		require.False(t, b.Valid())
	})
}

// A slow reader misses what is over, is told changes that follow from one another,
// and sees the truth in the end.
func TestASlowObserverEndsInTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "o")
		ctx, cancel := context.WithCancel(t.Context())
		var seen []election.Observation
		done := make(chan struct{})
		go func() {
			defer close(done)
			for o, err := range m.Observe(ctx) {
				if err != nil {
					return
				}
				seen = append(seen, o)
				time.Sleep(3 * time.Second)
			}
		}()
		for _, node := range []string{"a", "b", "c", "d"} {
			l := elect(t, member(t, reg, node))
			require.NoError(t, l.Resign(t.Context()))
		}
		l := elect(t, member(t, reg, "e"))
		time.Sleep(10 * time.Second)
		cancel()
		<-done
		require.Less(t, len(seen), len(m.Status().History))
		last := seen[len(seen)-1]
		require.Equal(t, m.Status().Now.View, last.View)
		require.Equal(t, l.Token(), last.Token)
		for i := 1; i < len(seen); i++ {
			before, now := seen[i-1], seen[i]
			require.NotEqual(t, before.View, now.View)
			require.Equal(t, now.Leader == "" && before.Leader != "", now.Change == election.ChangeLost)
			require.Equal(t, now.Leader != "" && before.Leader == "", now.Change == election.ChangeLeader)
			require.GreaterOrEqual(t, max(now.Token.Term, before.Token.Term), before.Token.Term)
		}
		require.NoError(t, l.Resign(t.Context()))
	})
}

// Who reads a long history slowly is not told of an end that was not the last of it.
func TestAnObserverIsToldNothingOfHistory(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		require.NoError(t, elect(t, member(t, reg, "a")).Resign(t.Context()))
		c := dial(t, reg, "c")
		for range 200 {
			_, err := c.PublishTo(t.Context(), election.TopicPrefix+group, make([]byte, 1000))
			require.NoError(t, err)
		}
		l := elect(t, member(t, reg, "b"))

		observer := dial(t, reg, "o")
		reg.SetLink(fakeregistry.Host, "o", fakeregistry.Link{Latency: latency / 2, Bandwidth: 20_000})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var list []string
		for seen, err := range over(t, observer).Observe(ctx) {
			require.NoError(t, err)
			list = append(list, view(seen))
			if seen.Leader != "" {
				break
			}
		}
		require.Equal(t, []string{"none: unknown", "leader " + id("b")}, list)
		require.Greater(t, time.Since(began), 5*time.Second, "the history was there at once")
		require.NoError(t, l.Resign(t.Context()))
	})
}

func TestObserveEndsWithItsContextOrItsReader(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "o")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var last error
		for _, err := range m.Observe(ctx) {
			last = err
		}
		require.ErrorIs(t, last, context.DeadlineExceeded)
		for o := range m.Observe(t.Context()) {
			require.Equal(t, "none: silent", view(o))
			break
		}
	})
}

func TestStatusTellsWhatIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "a", priority(5))
		s := m.Status()
		require.Equal(t, group, s.Group)
		require.Equal(t, topic, s.Topic)
		require.Equal(t, fakeregistry.NodeID("a"), s.Node)
		require.NotZero(t, s.Instance)
		require.EqualValues(t, 5, s.Priority)
		require.Negative(t, s.Heard)
		require.Empty(t, s.History)
		require.False(t, s.BestEffort)
		require.Equal(t, election.Observation{At: s.Now.At}, s.Now)

		l := elect(t, m)
		member(t, reg, "observer")
		p := newPool(t, reg)
		p.run("b", priority(4))
		p.run("c", priority(6))
		time.Sleep(5 * time.Second)
		s = m.Status()
		require.True(t, s.Leads)
		require.True(t, s.Candidate)
		require.True(t, s.Connected)
		require.Equal(t, reg.Epoch(), s.Epoch)
		require.Equal(t, election.View{Leader: id("a"), Instance: s.Instance, Token: l.Token()}, s.Now.View)
		require.LessOrEqual(t, s.Heard, lan.Heartbeat)
		require.GreaterOrEqual(t, s.Heard, time.Duration(0))
		require.Len(t, s.History, 2, "silent, and then itself")
		require.Equal(t, s.Now, s.History[1])
		var names []string
		for _, c := range s.Candidates {
			names = append(names, c.Node)
			require.WithinDuration(t, time.Now(), c.At, 10*time.Second)
		}
		require.Equal(t, id("c"), names[0])
		require.Subset(t, []string{id("b"), id("c")}, names)

		// What does not count is counted.
		_, err := reg.Inject(t.Context(),
			fakeregistry.Raw{From: "x", Topic: topic, Payload: []byte(`what?`)},
			fakeregistry.Raw{From: "x", Topic: topic, Payload: []byte(`{"type":"leader","leader":"7","term":9}`)},
			fakeregistry.Raw{From: "x", Topic: topic, Payload: []byte(`{"type":"heartbeat","leader":"` + id("x") + `","term":4398046511103}`)},
		)
		require.NoError(t, err)
		time.Sleep(latency)
		synctest.Wait()
		s = m.Status()
		require.Equal(t, map[election.Void]uint64{
			election.VoidMalformed: 1, election.VoidSender: 1, election.VoidLed: 1,
		}, s.Voids)
		s.Voids[election.VoidMalformed] = 9
		require.EqualValues(t, 1, m.Status().Voids[election.VoidMalformed], "a copy")

		require.NoError(t, m.Close())
		s = m.Status()
		require.Equal(t, election.ReasonWithdrawn, s.Now.Reason)
		require.Equal(t, election.ChangeLost, s.Now.Change)
		require.False(t, s.Leads)
	})
}

// However often the leader changes, what is kept has a bound.
func TestTheHistoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		m := member(t, reg, "o")
		a := member(t, reg, "a")
		for range 20 {
			require.NoError(t, elect(t, a).Resign(t.Context()))
		}
		for i := range 100 {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{
				Sender: protocol.NodeID(1<<31 + i), Topic: topic,
				Payload: fmt.Appendf(nil, `{"type":"election","candidate":"%d","priority":%d,"term":2000000000}`, 1<<31+i, i),
			})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		s := m.Status()
		require.Len(t, s.History, 32)
		require.Equal(t, s.Now, s.History[31])
		require.Len(t, s.Candidates, 64)
		require.EqualValues(t, 99, s.Candidates[0].Priority)
	})
}

// After Close every call has the same error, and Status what was last.
func TestAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		conn := dial(t, reg, "a")
		m := over(t, conn)
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		_, err := m.Campaign(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, err, protocol.ErrClosed)
		require.ErrorIs(t, m.Run(t.Context(), nil), net.ErrClosed)
		require.ErrorIs(t, m.Ask(t.Context(), ""), net.ErrClosed)
		for _, err = range m.Observe(t.Context()) {
		}
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, group, m.Status().Group)
		_, err = conn.PublishTo(t.Context(), "still.there", nil)
		require.NoError(t, err)
	})
}
