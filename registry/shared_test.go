package registry_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// common is one log that several registries append to.
type common struct {
	epoch   protocol.Epoch
	mu      sync.Mutex
	batches []*registry.Batch
	logs    []*part
}

// part is one registry's view of it.
type part struct {
	*memlog.Log
	all  *common
	at   int
	news chan struct{}

	// Guarded by all.mu:
	deaf   bool  // hears of nothing by itself
	fail   error // of the next Appends
	stores bool  // they store all the same
	behind bool  // the next Take must read all anew
}

func (c *common) open() *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &part{Log: memlog.New(memlog.Options{Epoch: c.epoch}), all: c, news: make(chan struct{}, 1)}
	c.logs = append(c.logs, l)
	return l
}

func (l *part) set(change func(*part)) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	change(l)
	if !l.deaf {
		l.wake()
	}
}

func (l *part) wake() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

func (l *part) News() <-chan struct{} { return l.news }

func (l *part) Append(b *registry.Batch) error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	switch {
	case l.fail != nil && !l.stores:
		return l.fail
	case l.at < len(l.all.batches):
		return registry.ErrBehind
	}
	kept := *b
	kept.Records, kept.Fences = slices.Clone(b.Records), slices.Clone(b.Fences)
	kept.Entries, kept.Claims = slices.Clone(b.Entries), slices.Clone(b.Claims)
	l.all.batches = append(l.all.batches, &kept)
	for _, other := range l.all.logs {
		if other != l && !other.deaf {
			other.wake()
		}
	}
	if l.fail != nil {
		return l.fail
	}
	l.at++
	return l.Log.Append(b)
}

func (l *part) Take(apply func(*registry.Batch) error) error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	for ; l.at < len(l.all.batches); l.at++ {
		b := l.all.batches[l.at]
		if err := l.Log.Append(b); err != nil {
			return err
		}
		if l.behind {
			continue
		}
		if err := apply(b); err != nil {
			return err
		}
	}
	if l.behind {
		l.behind = false
		return registry.ErrReloaded
	}
	return nil
}

// pair is two registries over one log.
type pair struct {
	*world
	log   *part
	other *world
	there *part
}

func startPair(t *testing.T, a registry.Admission) *pair {
	all := &common{epoch: protocol.Epoch{ID: 7, Born: 1}}
	p := &pair{log: all.open(), there: all.open()}
	p.world = start(t, registry.Options{Log: p.log, Admission: a})
	p.other = start(t, registry.Options{Log: p.there, Admission: a})
	return p
}

func (p *pair) close() {
	p.world.close()
	p.other.close()
}

func inPair(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := startPair(t, registry.Admission{})
		defer p.close()
		test(t, p)
	})
}

func claimOf(topic string, k uint64, expect protocol.Seq) protocol.Condition {
	return protocol.Condition{Topic: topic, Epoch: 7, Term: k, HasExpect: true, Expect: expect, Raise: k}
}

func TestMessagesOfAnotherRegistryArePushed(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.join("a"), p.other.join("b")
		defer a.close()
		defer b.close()
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](b, &protocol.Join{ID: 1, Topics: []string{"jobs"}}))
		sub := b.follow("jobs")
		inbox, _ := b.subscribe(protocol.Subscribe{Source: protocol.SourceInbox})
		next[*protocol.CaughtUp](inbox)
		laneA, laneB := a.lane(protocol.LaneNormal), b.lane(protocol.LaneNormal)
		for i := range 4 {
			require.Equal(t, protocol.Seq(2*i+1), a.publish(laneA, "jobs", fmt.Sprint(2*i)))
			require.Equal(t, protocol.Seq(2*i+2), b.publish(laneB, "jobs", fmt.Sprint(2*i+1)))
		}
		want := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
		require.Equal(t, want, deliveries(sub, 8))
		require.Equal(t, want, deliveries(inbox, 8))

		// What the node joins there counts here.
		b2 := p.join("b")
		defer b2.close()
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](b2, &protocol.Join{ID: 1, Topics: []string{"news"}}))
		a.publish(laneA, "news", "8")
		require.Equal(t, []string{"8"}, deliveries(inbox, 1))
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](b2, &protocol.Join{ID: 2, Topics: []string{"news"}, Leave: true}))
		a.publish(laneA, "news", "9")
		a.publish(laneA, "jobs", "10")
		require.Equal(t, []string{"10"}, deliveries(inbox, 1))
	})
}

// What one registry has not heard of yet must not decide: an answer that does
// not hold is not given.
func TestDecisionsKnowWhatOthersStored(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.join("a"), p.other.join("b")
		defer a.close()
		defer b.close()
		laneA, laneB := a.lane(protocol.LaneNormal), b.lane(protocol.LaneNormal)
		synctest.Wait()
		p.there.set(func(l *part) { l.deaf = true })

		first := a.message("election:g", "1")
		first.Conditions = []protocol.Condition{claimOf("election:g", 5, 0)}
		laneA.send(first)
		require.Equal(t, protocol.Seq(1), laneA.ack().Seq)

		// A claim by what was there before is refused with what is there now.
		stale := b.message("election:g", "2")
		stale.Conditions = []protocol.Condition{claimOf("election:g", 6, 0)}
		laneB.send(stale)
		require.Equal(t, protocol.Fence{K: 5, S: 1}, laneB.refused(protocol.ErrConflict).Fence)

		// One by what is there now holds, though this registry did not know of it.
		second := a.message("election:g", "3")
		second.Conditions = []protocol.Condition{claimOf("election:g", 6, 1)}
		laneA.send(second)
		require.Equal(t, protocol.Seq(2), laneA.ack().Seq)
		third := b.message("election:g", "4")
		third.Conditions = []protocol.Condition{claimOf("election:g", 7, 2)}
		laneB.send(third)
		require.Equal(t, protocol.Seq(3), laneB.ack().Seq)

		// And so does a reading of the fence.
		fourth := a.message("election:g", "5")
		fourth.Conditions = []protocol.Condition{claimOf("election:g", 8, 3)}
		laneA.send(fourth)
		require.Equal(t, protocol.Seq(4), laneA.ack().Seq)
		f := ask[*protocol.FenceState](b, &protocol.GetFence{ID: 1, Topic: "election:g"})
		require.Equal(t, protocol.Fence{K: 8, S: 4}, protocol.Fence{K: f.K, S: f.S})

		// The same message over the other registry is the same message.
		again := *fourth
		again.N, again.Flags = b.n+1, protocol.FlagResend
		b2 := p.other.join("a")
		defer b2.close()
		again.N = 1
		lane := b2.lane(protocol.LaneNormal)
		lane.send(&again)
		ack := lane.ack()
		require.Equal(t, protocol.Seq(4), ack.Seq)
		require.True(t, ack.Duplicate)
	})
}

// Without the log's word nothing is said that may be wrong.
func TestSharedLogOutOfReach(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a := p.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		known := a.message("jobs", "0")
		lane.send(known)
		require.Equal(t, protocol.Seq(1), lane.ack().Seq)
		p.log.set(func(l *part) { l.fail = protocol.Errorf(protocol.ErrDraining, "no quorum") })

		known.N = 2
		lane.send(known)
		require.True(t, lane.ack().Duplicate, "what is in the log stays there")
		a.n++
		lane.send(a.message("jobs", "1"))
		lane.refused(protocol.ErrDraining)
		doubtful := a.message("election:g", "2")
		doubtful.Conditions = []protocol.Condition{claimOf("election:g", 5, 77)}
		lane.send(doubtful)
		lane.refused(protocol.ErrDraining)
		require.Equal(t, protocol.ErrDraining, ask[*protocol.Fail](a, &protocol.GetFence{ID: 1, Topic: "g"}).Code)

		// Reading goes on, also for who comes now.
		b := p.join("b")
		defer b.close()
		sub, _ := b.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAll})
		require.Equal(t, []string{"0"}, deliveries(sub, 1))

		p.log.set(func(l *part) { l.fail = nil })
		require.Equal(t, protocol.Seq(2), a.publish(lane, "jobs", "3"))
		require.Equal(t, []string{"3"}, deliveriesAfterCaughtUp(sub, 1))
	})
}

// A full log refuses what is new. What is sent again may yet be stored by the
// registry that had it first, and has no answer before there is room.
func TestSharedLogThatIsFull(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a := p.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		p.log.set(func(l *part) { l.fail = protocol.Errorf(protocol.ErrStorageFull, "full") })
		lane.send(a.message("jobs", "0"))
		require.Positive(t, lane.refused(protocol.ErrStorageFull).RetryAfter)
		again := a.message("jobs", "1")
		again.Flags, again.Epoch = protocol.FlagResend, 7
		lane.send(again)
		require.Positive(t, lane.refused(protocol.ErrDraining).RetryAfter)
	})
}

func deliveriesAfterCaughtUp(c *channel, n int) []string {
	c.t.Helper()
	next[*protocol.CaughtUp](c)
	return deliveries(c, n)
}

// Who brought what may or may not be stored gets no answer, and finds out by
// sending it again, here or elsewhere.
func TestSharedLogWithoutAnswer(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				a := p.join("a")
				lane := a.lane(protocol.LaneNormal)
				p.log.set(func(l *part) {
					l.fail, l.stores = protocol.Errorf(protocol.ErrUnknownOutcome, "no ack"), stored
				})
				sent := a.message("jobs", "0")
				lane.send(sent)
				a.ends(protocol.ErrDraining)
				a.close()
				p.log.set(func(l *part) { l.fail = nil })

				sent.N, sent.Flags = 1, protocol.FlagResend
				b := p.other.join("a")
				defer b.close()
				lane = b.lane(protocol.LaneNormal)
				lane.send(sent)
				ack := lane.ack()
				require.Equal(t, protocol.Seq(1), ack.Seq)
				require.Equal(t, stored, ack.Duplicate)
				synctest.Wait()
				require.Equal(t, 1, p.log.Stats().Messages)
				require.Equal(t, 1, p.there.Stats().Messages)
			})
		})
	}
}

// A publish that a client gave up with its last session does not enter the log
// behind what it sends on its next one, on another registry.
func TestOlderSessionElsewhereIsOver(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		h := hello()
		h.Instance = protocol.Instance{1}
		join := func(w *world) *peer {
			c := w.dial("a")
			c.control = c.open(h)
			c.welcome = next[*protocol.Welcome](c.control)
			return c
		}
		a := join(p.world)
		defer a.close()
		old := a.lane(protocol.LaneNormal)
		require.Equal(t, protocol.Seq(1), a.publish(old, "jobs", "1"))
		synctest.Wait()
		p.log.set(func(l *part) { l.deaf = true })

		b := join(p.other)
		defer b.close()
		require.Equal(t, protocol.Seq(2), b.publish(b.lane(protocol.LaneNormal), "jobs", "2"))
		old.send(a.message("jobs", "late"))
		a.ends(protocol.ErrDraining)
		synctest.Wait()
		require.Equal(t, 2, p.there.Stats().Messages)

		c := join(p.world) // and back again
		defer c.close()
		require.Equal(t, protocol.Seq(3), c.publish(c.lane(protocol.LaneNormal), "jobs", "3"))
	})
}

// A client may know more of the log than the registry that it comes to.
func TestResumeAheadOfThisRegistry(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.join("a"), p.other.join("b")
		defer a.close()
		defer b.close()
		synctest.Wait()
		p.there.set(func(l *part) { l.deaf = true })
		lane := a.lane(protocol.LaneNormal)
		a.publish(lane, "jobs", "1")
		a.publish(lane, "jobs", "2")
		time.AfterFunc(time.Second, func() { p.there.set(func(l *part) { l.deaf = false }) })
		sub, began := b.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAfter, After: 2, Epoch: 7})
		require.Equal(t, protocol.Seq(2), began.Position)
		next[*protocol.CaughtUp](sub)
		a.publish(lane, "jobs", "3")
		require.Equal(t, []string{"3"}, deliveries(sub, 1))

		none := b.open(&protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAfter, After: 99, Epoch: 7})
		require.Equal(t, protocol.ErrTimeout, next[*protocol.Fail](none).Code)
	})
}

// A registry that was away for too long begins again with what the log has, and
// its sessions go on.
func TestRegistryThatWasAwayForLong(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.join("a"), p.other.join("b")
		defer a.close()
		defer b.close()
		sub := b.follow("jobs")
		inbox, _ := b.subscribe(protocol.Subscribe{Source: protocol.SourceInbox})
		next[*protocol.CaughtUp](inbox)
		synctest.Wait()
		p.there.set(func(l *part) { l.deaf = true })
		b2 := p.join("b")
		defer b2.close()
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](b2, &protocol.Join{ID: 1, Topics: []string{"jobs"}}))
		lane := a.lane(protocol.LaneNormal)
		sent := a.message("jobs", "1")
		sent.Conditions = []protocol.Condition{claimOf("jobs", 5, 0)}
		lane.send(sent)
		lane.ack()
		p.there.set(func(l *part) { l.behind, l.deaf = true, false })
		require.Equal(t, []string{"1"}, deliveries(sub, 1))
		require.Equal(t, []string{"1"}, deliveries(inbox, 1))
		require.Equal(t, protocol.Fence{K: 5, S: 1}, p.other.reg.Fence("jobs"))
		require.Equal(t, protocol.Seq(2), b.publish(b.lane(protocol.LaneNormal), "jobs", "2"))
		require.Equal(t, []string{"2"}, deliveries(inbox, 1))
		require.Equal(t, uint64(1), p.other.reg.Info().Online)
	})
}

// Whom one registry of a log lets in, the others do not keep out because they have
// not heard of it yet; and they do not ask for strangers each time.
func TestATokenOfAnotherRegistryLetsInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPair(t, registry.Admission{Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")}})
		defer p.close()
		root := p.enters("root", "")
		defer root.close()
		p.there.set(func(l *part) { l.deaf = true })
		token := grant(root, 1)
		p.other.enters("a", token.String()).close()
		ask[*protocol.KeysPage](root, &protocol.SetKey{ID: 1, Key: hashOf("b"), Standing: protocol.StandingAdmitted})
		p.other.enters("b", "").close()

		looks := func() int {
			p.log.all.mu.Lock()
			defer p.log.all.mu.Unlock()
			return len(p.log.all.batches)
		}
		var before, refused, late int
		time.Sleep(time.Second)
		for before = looks(); refused+late < 60; {
			stranger, f := p.other.apply("c", "")
			stranger.close()
			switch f := f.(*protocol.Fail); f.Code {
			case protocol.ErrNotAdmitted:
				refused++
			default:
				require.Equal(t, protocol.ErrRateLimited, f.Code)
				require.Positive(t, f.RetryAfter)
				late++
			}
		}
		require.Positive(t, late)
		require.Equal(t, refused, looks()-before)
	})
}

// What an operator says at one registry of a log holds at the others.
func TestWhatIsSaidOfKeysHoldsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPair(t, registry.Admission{Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")}})
		defer p.close()
		root := p.enters("root", "")
		defer root.close()
		token := grant(root, 1, func(f *protocol.CreateToken) { f.Uses = 1 })
		synctest.Wait()
		p.other.enters("a", token.String()).close()
		synctest.Wait()
		p.barred("b", token.String(), "used up")
		set := func(standing protocol.Standing) {
			ask[*protocol.KeysPage](root, &protocol.SetKey{ID: 1, Key: hashOf("a"), Standing: standing})
		}
		for _, behind := range []bool{false, true} {
			a := p.other.enters("a", "")
			p.there.set(func(l *part) { l.deaf = behind })
			set(protocol.StandingRevoked)
			p.there.set(func(l *part) { l.deaf, l.behind = false, behind })
			a.ends(protocol.ErrNotAdmitted)
			a.close()
			p.other.barred("a", "", "revoked")
			set(protocol.StandingAdmitted)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](root, &protocol.ForgetNode{ID: 2, Node: nodeID("a")}))
		synctest.Wait()
		p.other.barred("a", "", "not known")
		ask[*protocol.TokensPage](root, &protocol.RevokeToken{ID: 3, Token: token.ID})
	})
}
