package election

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// fast is for safety: a tight group in which much happens in a second.
var fast = Timing{
	Heartbeat: 50 * time.Millisecond, Lease: 200 * time.Millisecond, Silence: 250 * time.Millisecond,
	Jitter: 20 * time.Millisecond, Window: 30 * time.Millisecond, Rank: 20 * time.Millisecond,
	Stop: 50 * time.Millisecond, OneWay: 5 * time.Millisecond, Pause: 20 * time.Millisecond,
}

// birthday is what registries' clocks begin with.
const birthday = 1764500000

// stormy is 72 s with a fault in each silence, then calm.
func stormy(seed uint64, o simOptions) *storm {
	o.timing, o.born = fast, birthday
	o.retention, o.gaps = 3+int(seed)%20, seed%2 == 0
	w := newStorm(seed, 5, o)
	w.twins = seed%3 == 0
	w.rage(72 * time.Second)
	if len(w.broken) == 0 {
		w.calm()
	}
	return w
}

func TestStormsBreakNothing(t *testing.T) {
	require.NoError(t, fast.Validate())
	deadline := time.Now().Add(testenv.Budget(t, time.Second))
	claims := 0
	for seed := uint64(0); seed < 4 || time.Now().Before(deadline); seed++ {
		w := stormy(seed, simOptions{})
		require.Empty(t, w.broken, "seed %d", seed)
		require.NotEmpty(t, w.leads(), "seed %d: nobody leads after the storm", seed)
		require.Greater(t, w.claims, 20, "seed %d: too little happens", seed)
		claims += w.claims

		// From then on nothing changes.
		leader, handovers := w.leads(), w.handovers
		w.run(40 * fast.Silence)
		require.Equal(t, leader, w.leads(), "seed %d", seed)
		require.Equal(t, handovers, w.handovers, "seed %d", seed)
	}
	t.Logf("%d claims", claims)
}

// Each of these rules has its counterexample in some storm.
func TestStormsBreakWhatLacksARule(t *testing.T) {
	for _, r := range []struct {
		name   string
		o      simOptions
		broken string
	}{
		{claimOnly.name, simOptions{mutant: claimOnly}, ""},
		{"R5: a restarted process has the nonce of the one before", simOptions{sameNonce: true}, "two leases"},
		{"R15: clocks do not count sleep", simOptions{sleepingClock: true}, "two leases"},
		{floorForgotten.name, simOptions{mutant: floorForgotten}, "sees term"},
	} {
		t.Run(r.name, func(t *testing.T) {
			for seed := range uint64(30) {
				if w := stormy(seed, r.o); len(w.broken) > 0 {
					require.Contains(t, w.broken[0], r.broken)
					return
				}
			}
			require.Fail(t, "nothing breaks")
		})
	}
}

// calmly is a group of n with nothing wrong yet.
func calmly(seed uint64, n int, o simOptions) *sim {
	if o.timing == (Timing{}) {
		o.timing = LAN
	}
	o.born = birthday
	s := newSim(seed, o)
	for i := range n {
		node := firstNode + protocol.NodeID(i)
		s.member(fmt.Sprint("n", i), node, DefaultPriority(node.String()))
	}
	return s
}

// script publishes what a script would, again and again.
func (s *sim) script(every time.Duration, message func(n uint64) Message) {
	const node = firstNode + 500
	var n uint64
	var next func()
	next = func() {
		n++
		m := message(n)
		m.Node = node.String()
		s.reg.plain(node, m)
		s.in(every, next)
	}
	s.in(every, next)
}

// longestGap is the longest time without a leader in the next d.
func (s *sim) longestGap(d time.Duration) (longest time.Duration) {
	const step = 5 * time.Millisecond
	var gap time.Duration
	for end := s.now + d; s.now < end; s.run(step) {
		gap += step
		if s.leader() != nil {
			gap = 0
		}
		longest = max(longest, gap)
	}
	return longest
}

// leads is the leader's name, or nothing.
func (s *sim) leads() string {
	if l := s.leader(); l != nil {
		return l.name
	}
	return ""
}

// killLeader ends the leader after settling down, at any point of a heartbeat.
func (s *sim) killLeader() {
	s.run(2*time.Second + s.between(0, 200*time.Millisecond))
	s.leader().kill()
}

// both runs a test of a rule with the rule and without it. A run's result is how
// bad it was.
func both[T any](t *testing.T, m mutant, run func(m mutant) T, with, without func(T) bool) {
	t.Helper()
	a, b := run(mutant{}), run(m)
	t.Logf("with the rule %v, without %v", a, b)
	require.True(t, with(a), "with the rule: %v", a)
	require.True(t, without(b), "without the rule: %v", b)
}

func none(n int) bool { return n == 0 }

func atLeast(k int) func(int) bool { return func(n int) bool { return n >= k } }

func shorter(than time.Duration) func(time.Duration) bool {
	return func(d time.Duration) bool { return d < than }
}

func longer(than time.Duration) func(time.Duration) bool {
	return func(d time.Duration) bool { return d >= than }
}

// R3: candidates that reach their claims together, while a script moves terms.
func TestClaimsExpectWhatWasRead(t *testing.T) {
	race := fast
	race.Jitter, race.Window, race.Rank = 0, time.Millisecond, time.Millisecond
	both(t, noExpect, func(m mutant) (broken int) {
		for seed := range uint64(5) {
			s := calmly(seed, 5, simOptions{timing: race, mutant: m, delay: [2]time.Duration{time.Millisecond, 8 * time.Millisecond}})
			s.script(2*time.Millisecond, func(n uint64) Message {
				return Message{Kind: KindClaim, Term: s.reg.fence.K + n%1000 + 1}
			})
			for range 5 {
				s.run(time.Second)
				if l := s.leader(); l != nil {
					l.kill()
					s.member(l.name+"'", l.node, l.state.Priority)
				}
			}
			if len(s.broken) > 0 {
				broken++
			}
		}
		return broken
	}, none, atLeast(3))
}

// R8, R24: a log is lost, and so are all who knew its terms.
func TestTermsRiseOverLogsThatNobodyRemembers(t *testing.T) {
	both(t, noBirth, func(m mutant) (fallen int) {
		for seed := range uint64(5) {
			s := calmly(seed, 3, simOptions{mutant: m})
			s.run(3 * time.Second)
			old := s.leader().state.lease.Term
			for _, p := range s.procs {
				p.kill()
			}
			s.reg.restart(time.Second, false)
			s.member("new", firstNode+9, 1)
			s.run(3 * time.Second)
			if s.leader().state.lease.Term <= old {
				fallen++
			}
		}
		return fallen
	}, none, atLeast(5))
}

// R15: a leader sleeps for ten silences.
func TestClocksCountSleep(t *testing.T) {
	for _, stops := range []bool{false, true} {
		broken := 0
		for seed := range uint64(10) {
			s := calmly(seed, 3, simOptions{sleepingClock: stops})
			s.run(2*time.Second + s.between(0, 100*time.Millisecond))
			s.leader().pause(10 * LAN.Silence)
			s.run(20 * LAN.Silence)
			if len(s.broken) > 0 {
				broken++
			}
		}
		require.Equal(t, map[bool]int{false: 0, true: 10}[stops], broken, "clocks stop: %v", stops)
	}
}

// R16: the leader's clock is slow and the others' fast, by one in a hundred.
func TestSilenceOutlastsALeaseOnASlowClock(t *testing.T) {
	for silence, want := range map[time.Duration]int{320: 10, 323: 10, 333: 0, 400: 0} {
		timing := LAN
		timing.Silence = silence * time.Millisecond
		timing.Jitter, timing.Window, timing.Rank, timing.Stop = 0, 1, 1, 0
		broken := 0
		for seed := range uint64(10) {
			s := calmly(seed, 0, simOptions{timing: timing, delay: [2]time.Duration{time.Microsecond, 2 * time.Microsecond}})
			slow := s.member("slow", firstNode, 2)
			quick := s.join("quick", firstNode+1, 1, 0xaa)
			slow.rate, quick.rate = 1-drift, 1+drift
			s.run(time.Second)
			require.Equal(t, "slow", s.leads())
			quick.happen(campaignAsked{})
			s.run(s.between(0, 100*time.Millisecond))
			slow.cut(true, true, time.Second)
			s.run(time.Second)
			if len(s.broken) > 0 {
				broken++
			}
		}
		require.Equal(t, want, broken, "silence %v", timing.Silence)
	}
}

// R25: in a leaderless moment a script claims the largest term.
func TestPlainTermsAreBounded(t *testing.T) {
	both(t, noBound, func(m mutant) (leaderless int) {
		for seed := range uint64(5) {
			s := calmly(seed, 3, simOptions{mutant: m})
			s.run(100 * time.Millisecond)
			const script = firstNode + 500
			s.reg.plain(script, Message{Kind: KindClaim, Node: script.String(), Term: protocol.MaxTerm})
			s.run(3 * time.Second)
			if s.leader() == nil {
				leaderless++
			}
		}
		return leaderless
	}, none, atLeast(5))
}

// R27: heartbeats that the resign overtakes count as life, unless it raises the
// fence above them.
func TestAResignRaisesTheFence(t *testing.T) {
	both(t, noRaise, func(m mutant) (slow int) {
		for seed := range uint64(30) {
			s := calmly(seed, 5, simOptions{mutant: m, overtake: true, delay: [2]time.Duration{time.Millisecond, 9 * time.Millisecond}})
			s.run(2*time.Second + s.between(0, 100*time.Millisecond))
			l := s.leader()
			l.stopDelay = 0
			s.run(max(0, l.when(l.state.lease.Beat)-s.now)) // just after a heartbeat was sent
			l.happen(resignAsked{})
			s.run(time.Second)
			if s.lastLead-s.lastLost >= LAN.Silence {
				slow++
			}
		}
		return slow
	}, none, atLeast(10))
}

// R29: without a known successor, a leader that resigned does not succeed itself.
func TestAResignerDoesNotSucceedItself(t *testing.T) {
	both(t, noBench, func(m mutant) (itself int) {
		for seed := range uint64(5) {
			s := calmly(seed, 5, simOptions{mutant: m})
			s.run(2 * time.Second)
			l := s.leader()
			l.state.best = standing{}
			l.happen(resignAsked{})
			s.run(time.Second)
			if s.leader() == l {
				itself++
			}
		}
		return itself
	}, none, atLeast(3))
}

// R31: a script that stands above all and never claims costs rank steps, no more.
func TestRankDelaysAndMakesNoLeader(t *testing.T) {
	both(t, highestOnly, func(m mutant) (worst time.Duration) {
		for seed := range uint64(5) {
			s := calmly(seed, 5, simOptions{mutant: m})
			s.run(time.Second)
			s.script(50*time.Millisecond, func(uint64) Message {
				return Message{Kind: KindCandidacy, Priority: 1 << 40, Term: s.reg.fence.K + 1}
			})
			s.killLeader()
			worst = max(worst, s.longestGap(5*time.Second))
		}
		return worst
	}, shorter(520*time.Millisecond), longer(4*time.Second))
}

// R33: a higher newcomer that reads nothing is not yielded to.
func TestALeaderYieldsToWhoReads(t *testing.T) {
	both(t, seenIgnored, func(m mutant) (handovers int) {
		for seed := range uint64(5) {
			s := calmly(seed, 3, simOptions{mutant: m, preempt: Preemption{Allowed: true}})
			s.run(2 * time.Second)
			top := s.join("top", firstNode+50, 1<<40, 0xaa)
			s.run(time.Second + s.between(0, 100*time.Millisecond))
			before := s.handovers
			top.stallPush(5 * time.Second)
			s.run(250 * time.Millisecond)
			top.happen(campaignAsked{})
			s.run(4 * time.Second)
			require.Empty(t, s.broken)
			handovers += s.handovers - before
		}
		return handovers
	}, none, atLeast(5))
}

// R35: rising claims of a script hold an election up once, not for ever.
func TestScriptsHoldOnce(t *testing.T) {
	both(t, eachClaimHolds, func(m mutant) (worst time.Duration) {
		for seed := range uint64(10) {
			s := calmly(seed, 5, simOptions{mutant: m})
			s.run(time.Second)
			s.script(LAN.Silence/2, func(n uint64) Message {
				return Message{Kind: KindClaim, Term: s.reg.fence.K + n + 1}
			})
			s.killLeader()
			worst = max(worst, s.longestGap(5*time.Second))
		}
		return worst
	}, shorter(3*LAN.Silence), longer(4*time.Second))
}

// The fence is S of stamped messages, not the last of the topic: with that, one
// chatty script keeps a group without a leader.
func TestAChattyScriptDoesNotDisturb(t *testing.T) {
	for _, topic := range []bool{false, true} {
		s := calmly(1, 5, simOptions{topicCompare: topic, delay: [2]time.Duration{time.Millisecond, 3 * time.Millisecond}})
		s.script(time.Millisecond, func(uint64) Message { return Message{Kind: KindHeartbeat, Term: 1} })
		gap := s.longestGap(3 * time.Second)
		require.Equal(t, topic, gap >= 3*time.Second, "topic-wide: %v, leaderless %v", topic, gap)
	}
}

// How fast, on a LAN with legs of 1 to 2 ms.

func TestAKilledLeaderIsReplaced(t *testing.T) {
	var claim []time.Duration
	for seed := range uint64(40) {
		s := calmly(seed, 5, simOptions{})
		s.killLeader()
		at, claims := s.now, s.claims
		s.run(time.Second)
		require.Equal(t, claims+1, s.claims, "one claim replaces it")
		require.Empty(t, s.broken)
		claim = append(claim, s.lastClaim-at)
	}
	slices.Sort(claim)
	t.Logf("kill to claim: p50 %v, worst %v", claim[len(claim)/2], claim[len(claim)-1])
	require.Less(t, claim[len(claim)/2], 425*time.Millisecond)
	require.Less(t, claim[len(claim)-1], 483*time.Millisecond)
}

func TestAResignTakesTwoRoundTrips(t *testing.T) {
	var gap []time.Duration
	for seed := range uint64(40) {
		s := calmly(seed, 5, simOptions{delay: [2]time.Duration{2500 * time.Microsecond, 4500 * time.Microsecond}})
		s.run(2*time.Second + s.between(0, 100*time.Millisecond))
		l := s.leader()
		l.happen(resignAsked{})
		s.run(time.Second)
		require.NotEqual(t, l.name, s.leads())
		require.Empty(t, s.broken)
		gap = append(gap, s.lastLead-s.lastLost)
	}
	slices.Sort(gap)
	t.Logf("resign to lead: p50 %v, worst %v", gap[len(gap)/2], gap[len(gap)-1])
	require.Less(t, gap[len(gap)-1], 20*time.Millisecond)
}

// R31: of many candidates few speak before they have read a higher one.
func TestFewOfManyCandidatesSpeak(t *testing.T) {
	t.Parallel()
	const size, runs = 300, 3
	for _, r := range []struct {
		leg           time.Duration
		with, without float64 // candidacies in an election
	}{{time.Millisecond, 24, 36}, {2 * time.Millisecond, 34, 65}} {
		both(t, evenJitter, func(m mutant) (mean float64) {
			for seed := range uint64(runs) {
				s := calmly(seed, size, simOptions{mutant: m, straight: true, delay: [2]time.Duration{r.leg, r.leg + r.leg/10}})
				s.killLeader()
				before, claims := s.candidacies, s.claims
				s.run(500 * time.Millisecond)
				require.Equal(t, claims+1, s.claims)
				mean += float64(s.candidacies-before) / runs
			}
			return mean
		}, func(n float64) bool { return n < r.with }, func(n float64) bool { return n > r.without })
	}
}

// Hundreds of candidates neither flood the topic nor get into each other's way.
func TestManyCandidates(t *testing.T) {
	for n, most := range map[int]int{5: 6, 50: 30, 300: 45} {
		s := calmly(1, n, simOptions{delay: [2]time.Duration{time.Millisecond, 3 * time.Millisecond}})
		s.killLeader()
		before := s.candidacies
		conflicts, claims := s.conflicts, s.claims
		s.run(500 * time.Millisecond)
		require.Equal(t, claims+1, s.claims)
		require.Zero(t, s.conflicts-conflicts, "%d candidates", n)
		require.LessOrEqual(t, s.candidacies-before, most, "candidacies of %d", n)
		require.NotEmpty(t, s.leads())
	}
}

// H04: a member that was away does not disturb those that were not.
func TestReturningMembersDisturbNobody(t *testing.T) {
	cut := []func(p *proc, d time.Duration){
		func(p *proc, d time.Duration) { p.cut(true, true, d) },
		func(p *proc, d time.Duration) { p.cut(true, false, d) },
		func(p *proc, d time.Duration) { p.cut(false, true, d) },
		func(p *proc, d time.Duration) { p.stallPush(d) },
	}
	for seed := range uint64(8) {
		s := calmly(seed, 3, simOptions{})
		s.run(2 * time.Second)
		leader, term := s.leader(), s.leader().state.lease.Term
		for _, p := range s.procs {
			if p != leader {
				cut[seed%4](p, 20*LAN.Silence)
				break
			}
		}
		s.run(30 * LAN.Silence)
		require.Equal(t, leader.name, s.leads())
		require.Equal(t, term, leader.state.lease.Term)
		require.Empty(t, s.broken)
	}
}

// H01: a leader that is cut off stops by itself, before another leads.
func TestACutOffLeaderStopsFirst(t *testing.T) {
	for seed := range uint64(10) {
		s := calmly(seed, 3, simOptions{})
		s.run(2 * time.Second)
		old := s.leader()
		at := s.now
		old.cut(true, true, 5*time.Second)
		s.run(LAN.Lease)
		require.False(t, old.state.leads())
		require.GreaterOrEqual(t, s.lastLost-at, LAN.Lease-LAN.Stop-LAN.Heartbeat-10*time.Millisecond)
		s.run(time.Second)
		require.NotContains(t, []string{"", old.name}, s.leads())
		require.Empty(t, s.broken)
	}
}

// H02: a candidate whose link was down when it mattered stands again by itself,
// and leads only by a claim that was accepted.
func TestACandidateThatWasAwayCanWin(t *testing.T) {
	for seed := range uint64(10) {
		s := calmly(seed, 2, simOptions{})
		s.run(2 * time.Second)
		leader := s.leader()
		waits := s.procs[0]
		if waits == leader {
			waits = s.procs[1]
		}
		waits.cut(true, true, 2*time.Second)
		s.run(LAN.Silence + 200*time.Millisecond)
		leader.happen(resignAsked{})
		s.run(500 * time.Millisecond)
		require.Empty(t, s.leads(), "one is away, one has resigned")
		leader.happen(withdrawAsked{})
		s.run(3 * time.Second)
		require.Equal(t, waits.name, s.leads())
		require.Empty(t, s.broken)
	}
}

// H04 with preemption: one orderly handover, and only once d has passed.
func TestPreemptionIsOneHandover(t *testing.T) {
	for seed := range uint64(10) {
		s := calmly(seed, 3, simOptions{preempt: Preemption{Allowed: true, After: 4 * time.Second}})
		s.run(3 * time.Second)
		before := s.handovers
		s.member("top", firstNode+50, 1<<40)
		s.run(time.Second)
		require.Equal(t, before, s.handovers, "it has not led long enough")
		s.run(10 * LAN.Silence)
		require.Equal(t, "top", s.leads())
		require.Equal(t, before+1, s.handovers)
		require.Less(t, s.lastLead-s.lastLost, 20*time.Millisecond)
		s.run(20 * time.Second)
		require.Equal(t, before+1, s.handovers)
		require.Empty(t, s.broken)
	}
}

// H05: without fences and order, a group comes together again within F.
func TestBestEffortComesTogether(t *testing.T) {
	agree := func(s *sim, seed uint64) {
		t.Helper()
		var leaders []string
		views := map[View]bool{}
		for _, p := range s.procs {
			views[p.state.view] = true
			if p.valid() {
				leaders = append(leaders, p.name)
			}
		}
		require.Len(t, leaders, 1, "seed %d", seed)
		require.Len(t, views, 1, "seed %d", seed)
	}
	for seed := range uint64(10) {
		s := calmly(seed, 5, simOptions{open: true, delay: [2]time.Duration{time.Millisecond, 20 * time.Millisecond}})
		s.run(2 * time.Second)
		agree(s, seed)
		s.leader().cut(true, true, 2*time.Second)
		s.run(2*time.Second + LAN.Silence)
		agree(s, seed)
		s.leader().kill()
		s.procs = slices.DeleteFunc(s.procs, func(p *proc) bool { return p.dead })
		s.run(time.Second)
		agree(s, seed)
		s.leader().happen(resignAsked{})
		s.run(time.Second)
		agree(s, seed)
		require.Empty(t, s.broken, "seed %d", seed)
	}
}
