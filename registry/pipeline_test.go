package registry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// tardyLog is a log to which batches, and what drops messages, come when the test
// says so.
type tardyLog struct {
	*memlog.Log

	mu    sync.Mutex
	held  bool
	full  error // of Begin
	begun []onItsWay
}

type onItsWay struct {
	messages int
	do       func() error
	done     chan error
}

// aDrop is what waiting tells of a purge or an expiry.
const aDrop = -1

func (l *tardyLog) Begin(b *registry.Batch) (<-chan error, error) {
	return l.begin(len(b.Records), func() error { return l.Append(b) })
}

func (l *tardyLog) BeginPurge(topic string, upTo protocol.Seq) (<-chan error, error) {
	return l.begin(aDrop, func() error { return l.Log.Purge(topic, upTo) })
}

func (l *tardyLog) BeginExpire(now protocol.Time) (<-chan error, error) {
	return l.begin(aDrop, func() error { return l.Log.Expire(now) })
}

func (l *tardyLog) begin(messages int, do func() error) (<-chan error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil && (messages != aDrop || !errors.Is(l.full, protocol.ErrStorageFull)) {
		return nil, l.full
	}
	done := make(chan error, 1)
	l.begun = append(l.begun, onItsWay{messages, do, done})
	if !l.held {
		l.landOldest()
	}
	return done, nil
}

func (l *tardyLog) landOldest() {
	l.begun[0].done <- l.begun[0].do()
	l.begun = l.begun[1:]
}

func (l *tardyLog) land(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.landOldest()
	}
}

// lose is the end of the log: nothing on its way arrives, and nothing more is
// taken.
func (l *tardyLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = protocol.ErrDraining
	for _, b := range l.begun {
		b.done <- protocol.ErrUnknownOutcome
	}
	l.begun = nil
}

// Expire and Purge are not called by a registry, which would wait in them.
func (l *tardyLog) Expire(protocol.Time) error { panic("waits for the log") }

func (l *tardyLog) Purge(string, protocol.Seq) error { panic("waits for the log") }

func (l *tardyLog) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// waiting is how many messages each step on its way has, or that it is a drop.
func (l *tardyLog) waiting() []int {
	arrive()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []int
	for _, b := range l.begun {
		list = append(list, b.messages)
	}
	return list
}

// tardy is a registry over a tardy log, with two sessions.
type tardy struct {
	*world
	log  *tardyLog
	a, b *peer
}

func inTardy(t *testing.T, test func(t *testing.T, w *tardy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &tardy{log: &tardyLog{Log: memlog.New(memlog.Options{Epoch: protocol.Epoch{ID: 7, Born: 1}})}}
		w.world = start(t, registry.Options{Log: w.log})
		w.a, w.b = w.join("a"), w.join("b")
		for _, p := range []*peer{w.a, w.b} {
			p.publish(p.lane(protocol.LaneUrgent), "first", "") // so that the nodes are in the log
		}
		arrive()
		w.log.set(func() { w.log.held = true })
		test(t, w)
		w.a.close()
		w.b.close()
		w.log.set(func() { w.log.held = false })
		w.close()
	})
}

// arrive waits until what was sent is there.
func arrive() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

// quiet checks that nothing comes on a channel for a while.
func quiet(c *channel) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(time.Second)))
	_, err := c.Next()
	require.ErrorIs(c.t, err, protocol.ErrTimeout)
	require.NoError(c.t, c.SetReadDeadline(time.Time{}))
}

func (p *peer) claim(k uint64, expect protocol.Seq) *protocol.Publish {
	m := p.message("election:g", fmt.Sprint(k))
	m.Conditions = []protocol.Condition{claimOf("election:g", k, expect)}
	return m
}

// Steps go to the log one behind the other, and what comes while there is no room
// for another one makes one step. Nobody hears of anything before it is there.
func TestStepsFollowEachOther(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		sub := w.b.follow("jobs")
		lane, other := w.a.lane(protocol.LaneNormal), w.b.lane(protocol.LaneNormal)
		lane.send(w.a.message("jobs", "1"))
		require.Equal(t, []int{1}, w.log.waiting())
		lane.send(w.a.message("jobs", "2"))
		require.Equal(t, []int{1, 1}, w.log.waiting(), "the lane does not wait for the answer")
		lane.send(w.a.message("jobs", "3"))
		require.Equal(t, []int{1, 1, 1}, w.log.waiting())
		lane.send(w.a.message("jobs", "4"))
		arrive()
		other.send(w.b.message("jobs", "5"))
		arrive()
		lane.send(w.a.message("jobs", "6"))
		require.Equal(t, []int{1, 1, 1}, w.log.waiting())
		quiet(sub)
		quiet(lane)

		w.log.land(1)
		require.Equal(t, protocol.Seq(3), lane.ack().Seq)
		require.Equal(t, []string{"1"}, deliveries(sub, 1))
		require.Equal(t, []int{1, 1, 3}, w.log.waiting())
		quiet(sub)
		w.log.land(3)
		require.Equal(t, []string{"2", "3", "4", "5", "6"}, deliveries(sub, 5))
		for _, seq := range []protocol.Seq{4, 5, 6, 8} {
			require.Equal(t, seq, lane.ack().Seq)
		}
		require.Equal(t, protocol.Seq(7), other.ack().Seq)
	})
}

// Decisions are by what is on its way, and are told once that is there.
func TestDecisionsWaitForWhatTheyAreMadeBy(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		lane, other := w.a.lane(protocol.LaneNormal), w.b.lane(protocol.LaneNormal)
		claim := w.a.claim(5, 0)
		lane.send(claim)
		arrive()
		other.send(w.b.claim(6, 0)) // by what is there
		arrive()
		again := *claim
		again.N++
		lane.send(&again)
		require.Equal(t, []int{1}, w.log.waiting())
		quiet(other)
		quiet(lane)
		require.Zero(t, w.reg.Fence("election:g"))
		require.Zero(t, ask[*protocol.FenceState](w.b, &protocol.GetFence{ID: 1, Topic: "election:g"}).K)

		w.log.land(1)
		require.Equal(t, protocol.Fence{K: 5, S: 3}, other.refused(protocol.ErrConflict).Fence)
		require.Equal(t, protocol.Seq(3), lane.ack().Seq)
		require.True(t, lane.ack().Duplicate)
		require.Equal(t, protocol.Fence{K: 5, S: 3}, w.reg.Fence("election:g"))
	})
}

// Whoever looks meanwhile sees what is in the log, and does not wait for it.
func TestReadersDoNotWaitForTheLog(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		lane := w.a.lane(protocol.LaneNormal)
		lane.send(w.a.claim(5, 0))
		arrive()
		lane.send(w.a.claim(6, 3))
		require.Equal(t, []int{1, 1}, w.log.waiting())

		early, _ := w.b.subscribe(protocol.Subscribe{Pattern: "election:g", Start: protocol.StartAll})
		require.Equal(t, &protocol.CaughtUp{Seq: 2}, next[*protocol.CaughtUp](early))
		require.Equal(t, uint64(2), w.reg.Info().Messages)
		require.Empty(t, ask[*protocol.InboxPage](w.b, &protocol.GetInbox{ID: 1}).Messages)
		topics := ask[*protocol.TopicsPage](w.b, &protocol.GetTopics{ID: 2}).Topics
		require.Len(t, topics, 1)

		w.log.land(1)
		require.Equal(t, []string{"5"}, deliveries(early, 1))
		late, _ := w.b.subscribe(protocol.Subscribe{Pattern: "election:g", Start: protocol.StartAll})
		require.Equal(t, []string{"5"}, deliveries(late, 1))
		require.Equal(t, &protocol.CaughtUp{Seq: 3, Fence: protocol.Fence{K: 5, S: 3}}, next[*protocol.CaughtUp](late))
		w.log.land(1)
		require.Equal(t, []string{"6"}, deliveries(late, 1))
	})
}

// An inbox is cleared up to its head only by who has been shown all of it, so a
// leave on its way is not believed yet.
func TestAnInboxWaitsForJoins(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.held = false })
		second := w.join("b")
		defer second.close()
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](w.b, &protocol.Join{ID: 1, Topics: []string{"first"}}))
		w.log.set(func() { w.log.held = true })

		w.b.control.send(&protocol.Join{ID: 2, Topics: []string{"first"}, Leave: true})
		require.Equal(t, []int{0}, w.log.waiting())
		second.control.send(&protocol.GetInbox{ID: 3, All: true})
		quiet(second.control)
		w.log.land(1)
		next[*protocol.Done](w.b.control)
		require.Empty(t, next[*protocol.InboxPage](second.control).Messages)
	})
}

// fill puts as many steps on their way as there can be.
func (w *tardy) fill() {
	lane := w.a.lane(protocol.LaneNormal)
	for range 3 {
		lane.send(w.a.message("jobs", ""))
		arrive()
	}
	require.Equal(w.t, []int{1, 1, 1}, w.log.waiting())
}

func TestSessionsComeAndGoWhileTheLogHangs(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		require.Zero(t, w.reg.Stalled())
		w.fill()
		require.Greater(t, w.reg.Stalled(), 20*time.Millisecond)
		time.Sleep(5 * time.Minute) // what is done now and then is done meanwhile
		c, d := w.join("c"), w.join("d")
		require.Len(t, ask[*protocol.NodesPage](c, &protocol.GetNodes{ID: 1}).Nodes, 4)
		d.close()
		arrive()
		require.Equal(t, uint64(3), w.reg.Info().Online)

		w.log.land(1)
		require.Equal(t, []int{1, 1, 0}, w.log.waiting(), "nobody waits for what is stored of them, and it is stored")
		w.log.land(3)
		c.close()
		arrive()
		w.log.land(1)
		require.Empty(t, w.log.waiting())
		require.Zero(t, w.reg.Stalled())
		after, err := registry.New(registry.Options{Log: w.log.Log, Key: key("registry")})
		require.NoError(t, err)
		require.Equal(t, uint64(4), after.Info().Nodes)
		require.NoError(t, after.Close())
	})
}

func TestSessionsStayWhenTheLogFails(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.fill()
		c, d := w.join("c"), w.join("d")
		d.close()
		arrive()
		w.log.lose()
		w.a.ends(protocol.ErrDraining)
		arrive()
		require.Equal(t, uint64(2), w.reg.Info().Online, "b and c")
		require.Equal(t, uint64(4), w.reg.Info().Nodes)
		c.close()
		arrive()
		require.Equal(t, uint64(1), w.reg.Info().Online)
	})
}

// A purge comes behind what is on its way, and nobody waits for it but who asked
// for it.
func TestAPurgeHoldsUpNobodyElse(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		lane := w.a.lane(protocol.LaneNormal)
		lane.send(w.a.claim(5, 0))
		require.Equal(t, []int{1}, w.log.waiting())
		w.b.control.send(&protocol.PurgeTopic{ID: 1, Topic: "first"})
		require.Equal(t, []int{1, aDrop}, w.log.waiting())
		w.fillBehind(1, aDrop)
		w.lookAndCome(3)
		quiet(w.b.control)
		require.Equal(t, uint64(2), w.reg.Info().Messages)
		w.log.land(1)
		require.Equal(t, protocol.Seq(3), lane.ack().Seq)
		quiet(w.b.control)
		require.Greater(t, w.reg.Stalled(), time.Second)
		w.log.land(1)
		next[*protocol.Done](w.b.control)
		require.Equal(t, uint64(1), w.reg.Info().Messages)
		w.log.land(1)
	})
}

// What is too old is dropped while nobody publishes, and nobody waits for that.
func TestTidyingHoldsUpNobody(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		time.Sleep(5 * time.Minute)
		require.Equal(t, []int{aDrop}, w.log.waiting(), "one is enough")
		w.fillBehind(aDrop)
		w.lookAndCome(3)
		w.log.land(3)
		require.NotZero(t, w.reg.Info().Messages)
		w.log.set(func() { w.log.held = false })
		w.log.land(len(w.log.waiting()))
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		require.Zero(t, w.reg.Info().Messages)
	})
}

// fillBehind puts as many steps on their way as there can be behind some.
func (w *tardy) fillBehind(these ...int) {
	w.t.Helper()
	lane := w.b.lane(protocol.LaneNormal)
	for len(these) < 3 {
		lane.send(w.b.message("jobs", ""))
		these = append(these, 1)
		arrive()
	}
	require.Equal(w.t, these, w.log.waiting())
}

// lookAndCome checks that sessions come and go and that who asks is answered,
// while steps are on their way.
func (w *tardy) lookAndCome(steps int) {
	w.t.Helper()
	began := time.Now()
	c := w.join("c")
	require.Zero(w.t, ask[*protocol.FenceState](c, &protocol.GetFence{ID: 1, Topic: "election:g"}).K)
	require.Len(w.t, ask[*protocol.TopicsPage](c, &protocol.GetTopics{ID: 2}).Topics, 1)
	sub, _ := c.subscribe(protocol.Subscribe{Pattern: "first", Start: protocol.StartAll})
	require.Len(w.t, deliveries(sub, 2), 2)
	c.close()
	arrive()
	require.Equal(w.t, uint64(2), w.reg.Info().Online)
	require.Less(w.t, time.Since(began), time.Second)
	require.Len(w.t, w.log.waiting(), steps)
}

// A topic is deleted when its messages are dropped and its members have left.
func TestADeletedTopicIsPurgedFirst(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.held = false })
		next[*protocol.Done](w.b.asks(&protocol.Join{ID: 1, Topics: []string{"first"}}))
		w.log.set(func() { w.log.held = true })
		control := w.b.asks(&protocol.DeleteTopic{ID: 2, Topic: "first"})
		require.Equal(t, []int{aDrop, 0}, w.log.waiting())
		w.log.land(1)
		require.Zero(t, w.reg.Info().Messages)
		quiet(control)
		w.log.land(1)
		next[*protocol.Done](control)
		w.log.set(func() { w.log.held = false })
		w.a.publish(w.a.lane(protocol.LaneNormal), "first", "again")
		require.Empty(t, ask[*protocol.InboxPage](w.b, &protocol.GetInbox{ID: 3}).Messages)
	})
}

// asks sends a question, and leaves its answer to be read.
func (p *peer) asks(f protocol.Frame) *channel {
	p.control.send(f)
	return p.control
}

// Many purges at once are begun one after the other, with room for others.
func TestPurgesComeOneByOne(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		peers := []*peer{w.a, w.b}
		for range 8 {
			peers = append(peers, w.join("p"))
		}
		w.log.land(len(w.log.waiting()))
		for _, p := range peers {
			p.control.send(&protocol.PurgeTopic{ID: 1, Topic: "first"})
		}
		begun := w.log.waiting()
		require.LessOrEqual(t, len(begun), 4, "%v", begun)
		require.Contains(t, begun, aDrop)
		w.log.set(func() { w.log.held = false })
		w.log.land(len(begun))
		for _, p := range peers {
			next[*protocol.Done](p.control)
		}
		for _, p := range peers[2:] {
			p.close()
		}
	})
}

// When the log fails it is not known whether messages were dropped.
func TestAPurgeOnItsWayIsLost(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		control := w.b.asks(&protocol.PurgeTopic{ID: 1, Topic: "first"})
		require.Equal(t, []int{aDrop}, w.log.waiting())
		w.log.lose()
		require.Equal(t, protocol.ErrUnknownOutcome, next[*protocol.Fail](control).Code)
		require.Equal(t, uint64(2), w.reg.Info().Messages)
		control.send(&protocol.PurgeTopic{ID: 2, Topic: "first"})
		require.Equal(t, protocol.ErrDraining, next[*protocol.Fail](control).Code)
	})
}

// There is room for a purge in a full log.
func TestAPurgeOfAFullLog(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.full, w.log.held = protocol.ErrStorageFull, false })
		control := w.b.asks(&protocol.PurgeTopic{ID: 1, Topic: "first"})
		next[*protocol.Done](control)
		require.Zero(t, w.reg.Info().Messages)
	})
}

// What was noted of sessions is stored at the end, also where there was no room for
// it yet.
func TestTheEndWaitsForNotes(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		for _, name := range []string{"c", "d", "e", "f"} {
			defer w.join(name).close()
		}
		require.Equal(t, []int{0, 0, 0}, w.log.waiting())
		closed := make(chan error)
		go func() { closed <- w.reg.Close() }()
		arrive()
		w.log.set(func() { w.log.held = false })
		w.log.land(3)
		require.NoError(t, <-closed)
		after, err := registry.New(registry.Options{Log: w.log.Log, Key: key("registry")})
		require.NoError(t, err)
		require.Equal(t, uint64(6), after.Info().Nodes)
		require.NoError(t, after.Close())
	})
}

// A log that takes nothing is told of once for each time that it begins to, with
// what follows from it, however many publishes it has not taken.
func TestAFailureOfTheLogIsLoggedOnce(t *testing.T) {
	var lines []string
	note := func(r slog.Record) {
		line := r.Message
		r.Attrs(func(a slog.Attr) bool {
			line += " " + a.String()
			return true
		})
		lines = append(lines, line)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &tardy{log: &tardyLog{Log: memlog.New(memlog.Options{Epoch: protocol.Epoch{ID: 7, Born: 1}})}}
		w.world = start(t, registry.Options{Log: w.log, Logger: slog.New(counter(note))})
		w.a = w.join("a")
		lane := w.a.lane(protocol.LaneNormal)
		fail := func(err error, n int) {
			w.log.set(func() { w.log.full = err })
			for range n {
				lane.send(w.a.message("jobs", ""))
				next[*protocol.Refuse](lane)
			}
		}
		for range 2 {
			fail(protocol.ErrStorageFull, 20)
			fail(protocol.ErrInternal, 2)
			w.log.set(func() { w.log.full = nil })
			w.a.publish(lane, "jobs", "")
		}
		w.log.set(func() { w.log.held = true })
		lane.send(w.a.message("jobs", ""))
		arrive()
		w.log.lose()
		arrive()
		w.a.close()
		w.close()
	})
	const full, again = "nothing stored error=storage full then=publishes are refused until there is room; reads go on", "stored again steps_not_stored=22"
	require.Equal(t, []string{
		full, again, full, again,
		"nothing stored error=unknown outcome then=publishes are refused until a registry opens the log anew; reads go on",
	}, lines)
}

// What finds no room is refused, behind what is on its way, which arrives.
func TestNoRoomBehindWhatIsOnItsWay(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.held = false })
		leaving := w.join("c")
		lane, other := w.a.lane(protocol.LaneNormal), w.b.lane(protocol.LaneNormal)
		arrive()
		w.log.set(func() { w.log.held = true })
		lane.send(w.a.claim(5, 0))
		require.Equal(t, []int{1}, w.log.waiting())
		w.log.set(func() { w.log.full = protocol.ErrStorageFull })
		leaving.close() // which needs no room to hold
		arrive()
		require.Zero(t, w.reg.Fence("election:g"))
		other.send(w.b.claim(6, 3))
		quiet(other)
		w.log.land(1)
		require.Equal(t, protocol.Seq(3), lane.ack().Seq)
		require.Positive(t, other.refused(protocol.ErrStorageFull).RetryAfter)
		require.Equal(t, protocol.Fence{K: 5, S: 3}, w.reg.Fence("election:g"))

		w.log.set(func() { w.log.full, w.log.held = nil, false })
		other.send(w.b.claim(6, 3))
		require.Equal(t, protocol.Seq(4), other.ack().Seq, "no seq is left out")
	})
}

// When the log fails nobody is told what became of what was on its way. Nothing
// that comes behind it is accepted, and what was there before is as it was.
func TestWhatIsOnItsWayIsLostTogether(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		lane, other := w.a.lane(protocol.LaneNormal), w.b.lane(protocol.LaneNormal)
		lane.send(w.a.claim(5, 0))
		arrive()
		other.send(w.b.claim(6, 3))
		arrive()
		lane.send(w.a.claim(7, 4))
		require.Equal(t, []int{1, 1, 1}, w.log.waiting())
		other.send(w.b.claim(8, 5))
		require.Len(t, w.log.waiting(), 3)
		w.log.lose()
		w.a.ends(protocol.ErrDraining)
		w.b.ends(protocol.ErrDraining)
		require.Zero(t, w.reg.Fence("election:g"))
		require.Equal(t, uint64(2), w.reg.Info().Messages)
	})
}

// Who comes to a log that has failed is sent to the registry that opens it again:
// nothing is refused for good that may be in the log, and nothing that could be.
func TestAFailedLogSendsPublishersAway(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.held = false })
		lane, known := w.b.lane(protocol.LaneNormal), w.b.message("jobs", "known")
		lane.send(known)
		seq := lane.ack().Seq
		w.log.set(func() { w.log.held = true })
		w.a.lane(protocol.LaneNormal).send(w.a.claim(5, 0))
		arrive()
		w.log.lose()
		w.a.ends(protocol.ErrDraining)

		lane.send(w.b.message("jobs", "new"))
		require.Positive(t, lane.refused(protocol.ErrDraining).RetryAfter)
		perhaps := w.b.claim(6, seq+1) // as a of its last session
		perhaps.Flags = protocol.FlagResend
		lane.send(perhaps)
		lane.refused(protocol.ErrDraining)
		known.Flags = protocol.FlagResend
		lane.send(known)
		require.Equal(t, seq, lane.ack().Seq)
	})
}

// That sessions stay is decided again when the log fails, while nobody waits for it.
func TestPresenceIsNotedWhenTheLogFails(t *testing.T) {
	inTardy(t, func(t *testing.T, w *tardy) {
		w.log.set(func() { w.log.held = false })
		time.Sleep(58 * time.Minute)
		w.log.set(func() { w.log.held = true })
		w.fill()
		time.Sleep(5 * time.Minute)
		w.log.lose()
		w.a.ends(protocol.ErrDraining)
		arrive()
		seen := time.Duration(0)
		for _, n := range ask[*protocol.NodesPage](w.b, &protocol.GetNodes{ID: 1}).Nodes {
			if n.Online > 0 {
				seen = time.Since(n.LastSeen.Time())
			}
		}
		require.Positive(t, seen)
		require.Less(t, seen, 10*time.Minute)
	})
}
