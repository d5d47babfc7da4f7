package election

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// The walk: two members and a small registry, in every order in which publishes
// are stored, answers and pushes arrive, timers fire, time passes and things go
// wrong, within the bounds of a scenario. A member that does not move for a
// while is one that pauses.

// Short times: others act one tick after a lease is over.
var walkTiming = Timing{Heartbeat: 1, Lease: 3, Silence: 4}

const (
	walkLog    = 12 // messages in a log
	walkFlight = 6  // publishes without an answer
)

// world is a state of everything. It is comparable; where time and terms are
// small, two that are equal go on equally.
type world struct {
	Now    instant
	Nodes  [2]walkNode
	Flying [walkFlight]flight

	// The registry.
	Epoch protocol.EpochID
	Fence walkFence
	Rise  uint8 // a raise that was not made in one step with its append
	Log   [walkLog]walkRecord
	Head  uint8
	Gone  uint8 // up to here the messages were purged

	// What happened, for the checks.
	Claimed uint8  // highest claim accepted in this epoch
	Led     uint32 // tokens that were led, a bit for each
	Over    uint32 // and are over

	Left faults
}

type walkNode struct {
	State  machine
	Slow   [channels]bool
	On     bool // connected
	Caught bool // has its marker
	At     uint8
	Epoch  protocol.EpochID // its client's
	Top    uint64           // highest term decided that it ever knew
	Saw    Token            // highest leader shown
	Asleep bool
	Slept  instant
}

// flight is a publish, then its answer, on the way.
type flight struct {
	By      uint8 // 1 + the node; 0 = no flight
	Kind    Kind  // 0 = a leader's write on another topic
	Heir    uint8 // 1 + the node that a resign names
	Attempt uint8
	Epoch   protocol.EpochID // of the condition
	Term    uint8
	Raise   uint8
	Expect  int8 // -1: none
	Resend  bool
	Stored  bool
	Answer  protocol.Code
	Fence   walkFence
	In      uint8
}

type walkFence struct{ K, S uint8 }

func (f walkFence) fence() protocol.Fence {
	return protocol.Fence{K: uint64(f.K), S: protocol.Seq(f.S)}
}

func (f flight) condition() protocol.Condition {
	c := protocol.Condition{Epoch: f.Epoch, Term: uint64(f.Term), Raise: uint64(f.Raise)}
	if f.Expect >= 0 {
		c.HasExpect, c.Expect = true, protocol.Seq(f.Expect)
	}
	return c
}

type walkRecord struct {
	Kind    Kind
	By      uint8 // 1 + the node; by a script walkScript, by another process of node 0 walkOther
	Attempt uint8
	Stamp   uint8
	Term    uint8
	Heir    uint8
}

const (
	walkScript = 3
	walkOther  = 4
)

// channel is a way on which things come to a node or from it. They come at
// once, unless the channel is slow: then at any time, or never.
type channel uint8

const (
	chanStore channel = iota
	chanAnswer
	chanPush
	chanTimer
	channels
)

// faults are how often things may still go wrong, and other bounds.
type faults struct {
	Ticks, Writes                     int8
	Publishes                         [2]int8
	Slow                              int8 // channels that may become slow
	Lose, Resend, Drop, Epochs, Purge int8
	Scripts, Foreign                  int8
	Resigns, Withdraws, Sleeps        int8
}

// scenario is what a walk begins with and may meet.
type scenario struct {
	begin  func(w *walker) world
	faults faults
	mutant mutant
	timing Timing
	rates  [2]int64 // of clocks, in percent; 0 = 100
	twins  bool     // both members have one node id

	// A broken registry or client.
	raiseLater  bool // R1
	renameEpoch bool // R4
	sentAgain   bool // R9: a resend counts as the sending
	deafClock   bool // R15: clocks stand still in sleep
}

type walker struct {
	scenario
	seed  maphash.Seed
	world // the present one

	seen   map[[2]uint64]struct{}
	broken string
	limit  int
	until  time.Time // 0: no end
	cut    bool      // the limit was met, or the end
	log    *strings.Builder
	list   []move // of all worlds on the way
	way    []move

	depth, states, transitions, claims, leads, handovers, lost, refused int
}

func newWalker(c scenario) *walker {
	if c.timing == (Timing{}) {
		c.timing = walkTiming
	}
	return &walker{scenario: c, seed: maphash.MakeSeed(), seen: map[[2]uint64]struct{}{}}
}

func (w *walker) node(i int) protocol.NodeID {
	if w.twins {
		return firstNode
	}
	return firstNode + protocol.NodeID(i)
}

func walkInstance(i int) protocol.Instance { return protocol.Instance{byte(i + 1)} }

// empty has two candidates that have caught up with an empty log.
func (w *walker) empty() world {
	w.world = world{Epoch: 1, Left: w.faults}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.State = start(settings{
			Topic: "election:walk", Node: w.node(i), Instance: walkInstance(i),
			Priority: int64(i), Timing: w.timing,
		})
		n.Epoch = 1
		w.step(i, campaignAsked{})
		w.connect(i)
		w.marker(i)
	}
	return w.world
}

// led has node 0 leading term 1 by a claim that node 1 has read.
func (w *walker) led() world {
	w.empty()
	w.Left.Publishes = [2]int8{1, 0}
	w.Nodes[1].Slow[chanTimer] = true
	for !w.valid(0) && w.Now < 100 {
		w.Now++
		w.settle()
	}
	w.Nodes[1].Slow[chanTimer] = false
	if !w.valid(0) || w.Nodes[1].State.decided != 1 || w.broken != "" {
		panic("node 0 does not lead: " + w.broken)
	}
	return w.world
}

// unread has a claim of node 0 in the log, which node 1 has read and node 0 has
// not: what comes to it is late.
func (w *walker) unread() world {
	w.empty()
	w.Now = w.Now.Add(w.timing.Silence)
	w.step(1, timerFired{}) // it stands, and as the higher one
	w.push(0)
	w.step(0, timerFired{}) // silently
	w.step(0, timerFired{})
	w.store(0)
	w.push(1)
	w.push(1)
	w.Nodes[0].Slow[chanPush], w.Nodes[0].Slow[chanAnswer] = true, true
	if w.Nodes[1].State.decided != 1 || w.Nodes[0].State.phase != claiming {
		panic("no claim is unread")
	}
	return w.world
}

// flown has a claim of node 1 on its way, after node 0 has led unheard.
func (w *walker) flown() world {
	w.led()
	w.Nodes[0].Slow[chanTimer], w.Nodes[1].Slow[chanStore] = true, true
	w.Left.Publishes = [2]int8{0, 1}
	for w.Nodes[1].State.phase != claiming {
		w.Now++
		w.settle()
	}
	return w.world
}

// clock is a node's own reading.
func (w *walker) clock(i int) instant {
	t := w.Now
	if r := w.rates[i]; r != 0 {
		t = t * instant(r) / 100
	}
	return t - w.Nodes[i].Slept
}

func (w *walker) valid(i int) bool {
	s := &w.Nodes[i].State
	return s.leads() && w.clock(i) < s.lease.Until
}

func (w *walker) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// token is the bit of a token.
func tokenBit(t Token) uint32 { return 1 << (uint32(t.Epoch-1)*10 + uint32(t.Term)) }

// Nodes.

func (w *walker) step(i int, e event) {
	n := &w.Nodes[i]
	n.Top = max(n.Top, n.State.decided)
	s, actions := w.mutant.step(n.State, w.clock(i), e)
	if _, fired := e.(timerFired); fired && s.deadline() <= w.clock(i) {
		w.fail("node %d has nothing to do and is due", i)
	}
	// Only for speed and display, and they tell equal worlds apart.
	s.stand, s.chance, s.bestAt, s.leader.Since, s.lease.Since = never, 0, 0, 0, 0
	n.State = s
	for _, a := range actions {
		w.do(i, a)
	}
	n.Top = max(n.Top, s.decided)
}

func (w *walker) do(i int, a action) {
	n := &w.Nodes[i]
	switch a := a.(type) {
	case sendAction:
		w.send(i, a)
	case leadAction:
		w.leads++
		if w.Led&tokenBit(a.Token) != 0 {
			w.fail("term %d is led twice", a.Token.Term)
		}
		if a.Token.Term <= n.Top {
			w.fail("node %d leads term %d and knew %d", i, a.Token.Term, n.Top)
		}
		if w.Led != 0 {
			w.handovers++
		}
		w.Led |= tokenBit(a.Token)
	case lostAction:
		w.lost++
		w.Over |= tokenBit(a.Token)
	case showAction:
		if a.View.Leader == "" || a.View.Plain {
			return
		}
		if t := a.View.Token; t.Term < n.Saw.Term && t.Epoch == n.Saw.Epoch {
			w.fail("node %d sees term %d after %d", i, t.Term, n.Saw.Term)
		}
		n.Saw = a.View.Token
	default:
	}
}

// send puts a publish on its way. A candidacy is stored at once if it is for a
// claim, and not at all if it is only to be known.
func (w *walker) send(i int, a sendAction) {
	s := &w.Nodes[i].State
	if a.Message.Kind == KindCandidacy {
		if s.phase == announced && w.Nodes[i].Epoch == w.Epoch {
			w.append(walkRecord{Kind: KindCandidacy, By: uint8(1 + i), Attempt: uint8(a.Attempt), Term: uint8(a.Message.Term)})
		}
		return
	}
	f := flight{
		By: uint8(1 + i), Kind: a.Message.Kind, Attempt: uint8(a.Attempt),
		Epoch: a.Condition.Epoch, Term: uint8(a.Condition.Term), Raise: uint8(a.Condition.Raise), Expect: -1,
	}
	if a.Condition.HasExpect {
		f.Expect = int8(a.Condition.Expect)
	}
	if a.Message.Successor == w.node(1-i).String() {
		f.Heir = uint8(2 - i)
	}
	w.fly(f)
}

func (w *walker) fly(f flight) {
	left := &w.Left.Publishes[f.By-1]
	if *left <= 0 {
		return // lost
	}
	for k := range w.Flying {
		if w.Flying[k].By == 0 {
			*left--
			w.Flying[k] = f
			return
		}
	}
}

// write lets a leader write under its token.
func (w *walker) write(i int) {
	w.Left.Writes--
	t := w.Nodes[i].State.lease.Token
	w.fly(flight{By: uint8(1 + i), Epoch: t.Epoch, Term: uint8(t.Term), Expect: -1})
}

// The registry.

// store decides a publish.
func (w *walker) store(k int) {
	f := &w.Flying[k]
	f.Stored, f.In, f.Fence = true, uint8(w.Epoch), w.Fence
	if f.Resend && f.Kind != 0 && w.stored(*f) {
		return
	}
	if f.Answer = verdict(f.condition(), w.Epoch, w.Fence.fence()); f.Answer != 0 {
		w.refused++
		return
	}
	if w.Rise = max(w.Rise, f.Raise); !w.raiseLater {
		w.Fence.K = max(w.Fence.K, w.Rise)
	}
	w.checkTerm(*f)
	if f.Kind == 0 {
		return
	}
	w.append(walkRecord{Kind: f.Kind, By: f.By, Attempt: f.Attempt, Stamp: f.Term, Term: f.Term, Heir: f.Heir})
	w.Fence.S = w.Head
}

func (w *walker) stored(f flight) bool {
	for _, r := range w.Log[:w.Head] {
		if r.By == f.By && r.Attempt == f.Attempt {
			return true
		}
	}
	return false
}

// checkTerm looks at what passes the fence.
func (w *walker) checkTerm(f flight) {
	switch f.Kind {
	case 0:
		if f.Term < w.Claimed {
			w.fail("a write of term %d passes after the claim of %d", f.Term, w.Claimed)
		}
		for i := range w.Nodes {
			if s := &w.Nodes[i].State; s.epoch.ID == w.Epoch && s.decided > uint64(f.Term) {
				w.fail("a write of term %d passes after node %d has read %d", f.Term, i, s.decided)
			}
		}
	case KindClaim:
		w.claims++
		if f.Term <= w.Claimed {
			w.fail("a claim of term %d is accepted after one of %d", f.Term, w.Claimed)
		}
		w.Claimed = max(w.Claimed, f.Term)
	default:
	}
}

func (w *walker) append(r walkRecord) {
	if int(w.Head) < len(w.Log) {
		w.Log[w.Head] = r
	}
	w.Head++
}

// answer hands the answer of a publish to its sender.
func (w *walker) ack(k int) {
	f := w.Flying[k]
	w.Flying[k] = flight{}
	i := int(f.By - 1)
	r := refused{Attempt: uint64(f.Attempt), Code: f.Answer, Epoch: protocol.EpochID(f.In), Fence: f.Fence.fence()}
	switch {
	case f.Answer == 0 && f.Kind == 0:
	case f.Answer == 0:
		w.step(i, acked{Attempt: uint64(f.Attempt), Epoch: protocol.EpochID(f.In)})
	default:
		if f.Kind == 0 {
			r.Token = Token{f.Epoch, uint64(f.Term)}
		}
		w.step(i, r)
	}
}

// resend sends a publish again whose answer was lost, or may have been.
func (w *walker) resend(k int) {
	w.Left.Resend--
	f := &w.Flying[k]
	f.Resend, f.Stored, f.Answer = true, false, 0
	s := &w.Nodes[f.By-1].State
	if w.sentAgain && s.leads() {
		s.lease.Sent[f.Attempt%16] = w.clock(int(f.By - 1))
	}
}

// reading is what node i gets of the message at seq.
func (w *walker) reading(i int, seq uint8) messageRead {
	r := w.Log[seq-1]
	e := messageRead{
		Epoch: protocol.Epoch{ID: w.Epoch}, Seq: protocol.Seq(seq), Term: uint64(r.Stamp),
		Message: Message{Kind: r.Kind, Term: uint64(r.Term)},
	}
	if r.Heir != 0 {
		e.Message.Successor = w.node(int(r.Heir - 1)).String()
	}
	switch r.By {
	case walkScript:
		e.Sender = firstNode + 7
		e.Message.Stamp, e.Message.Clock = fmt.Sprint(seq), float64(seq)
	case walkOther:
		e.Sender = w.node(0)
		e.Message.Instance = walkInstance(8)
	default:
		by := int(r.By - 1)
		e.Sender = w.node(by)
		e.Message.Instance, e.Message.Priority = walkInstance(by), int64(by)
		if w.node(by) == w.node(i) {
			e.Key = key{walkInstance(by), uint64(r.Attempt)}
		}
	}
	e.Message.Node = e.Sender.String()
	return e
}

// push hands node i the next message.
func (w *walker) push(i int) {
	n := &w.Nodes[i]
	n.At = max(n.At, w.Gone) + 1
	w.step(i, w.reading(i, n.At))
}

func (w *walker) hasPush(i int) bool {
	n := &w.Nodes[i]
	return n.On && max(n.At, w.Gone) < w.Head
}

func (w *walker) marker(i int) {
	n := &w.Nodes[i]
	n.Caught, n.At = true, w.Head
	w.step(i, caughtUp{protocol.Epoch{ID: w.Epoch}, protocol.Seq(w.Head), w.Fence.fence()})
}

func (w *walker) connect(i int) {
	n := &w.Nodes[i]
	n.On, n.Caught = true, false
	if w.renameEpoch {
		for k := range w.Flying {
			if f := &w.Flying[k]; int(f.By) == i+1 {
				f.Epoch, f.Resend, f.Stored, f.Answer = w.Epoch, true, false, 0
			}
		}
	}
	if n.Epoch != w.Epoch {
		n.Epoch, n.At = w.Epoch, 0
		w.step(i, epochBegan{protocol.Epoch{ID: w.Epoch}})
	}
}

func (w *walker) disconnect(i int) {
	w.Nodes[i].On, w.Nodes[i].Caught = false, false
	w.step(i, disconnected{})
}

// loseLog begins another epoch.
func (w *walker) loseLog() {
	w.Left.Epochs--
	w.Epoch++
	w.Fence, w.Rise, w.Log, w.Head, w.Gone, w.Claimed = walkFence{}, 0, [walkLog]walkRecord{}, 0, 0, 0
	for i := range w.Nodes {
		w.disconnect(i)
	}
}

// The walk itself.

// check looks at what must hold at every instant.
func (w *walker) check() {
	a, b := w.valid(0), w.valid(1)
	if a && b {
		w.fail("two leases: terms %d and %d", w.Nodes[0].State.lease.Term, w.Nodes[1].State.lease.Term)
	}
	for i := range w.Nodes {
		s := &w.Nodes[i].State
		if !s.leads() {
			continue
		}
		switch bit := tokenBit(s.lease.Token); {
		case !w.valid(i):
			w.Over |= bit
		case w.Over&bit != 0:
			w.fail("term %d was over and is led again", s.lease.Term)
		}
	}
}

// move is one thing that may happen now, to a node or a publish.
type move struct {
	kind moveKind
	at   int
}

type moveKind uint8

const (
	movePush moveKind = iota
	moveMarker
	moveTimer
	moveStop
	moveResign
	moveWithdraw
	moveWrite
	moveDrop
	moveConnect
	moveSleep
	moveWake
	moveStore
	moveAck
	moveLose
	moveResend
	moveRise
	moveEpoch
	movePurge
	moveScript
	moveForeign
	moveSlow
	moveTick
)

var moveNames = [...]string{
	"push to", "marker to", "timer of", "work stops of", "asked to resign:", "withdraws:", "writes:", "disconnects:",
	"connects:", "sleeps:", "wakes:", "store", "answer", "lose", "resend", "the fence rises", "the log is lost",
	"purge", "a script claims", "another process resigns for", "slow", "tick",
}

func (w *walker) name(m move) string {
	s := fmt.Sprintf("%2d %s %d", w.Now, moveNames[m.kind], m.at)
	if m.kind == moveSlow {
		s = fmt.Sprintf("%2d %s of %d become slow", w.Now, [...]string{"stores", "answers", "pushes", "timers"}[m.at%4], m.at/4)
	}
	if moveStore <= m.kind && m.kind <= moveResend {
		f := w.Flying[m.at]
		s = fmt.Sprintf("%2d %s %v %d of %d", w.Now, moveNames[m.kind], f.Kind, f.Term, f.By-1)
	}
	return s
}

// moves appends what may happen now.
func (w *walker) moves(list []move) []move {
	may := func(ok bool, kind moveKind, at int) {
		if ok {
			list = append(list, move{kind, at})
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		for c := range channels {
			may(w.Left.Slow > 0 && !n.Slow[c], moveSlow, i*int(channels)+int(c))
			if m, ok := w.comes(i, c); ok && c >= chanPush {
				list = append(list, m)
			}
		}
		may(n.Asleep, moveWake, i)
		may(n.On && w.Left.Drop > 0, moveDrop, i)
		may(!n.On, moveConnect, i)
		may(!n.Asleep && n.State.phase == leading && w.Left.Resigns > 0, moveResign, i)
		may(!n.Asleep && n.State.candidate && w.Left.Withdraws > 0, moveWithdraw, i)
		may(!n.Asleep && w.Left.Writes > 0 && w.valid(i), moveWrite, i)
		may(!n.Asleep && w.Left.Sleeps > 0, moveSleep, i)
	}
	for k := range w.Flying {
		f := &w.Flying[k]
		if f.By == 0 {
			continue
		}
		// What is sent over a slow channel may overtake.
		on, n := w.Nodes[f.By-1].On, &w.Nodes[f.By-1]
		may(on && !f.Stored && w.room() && n.Slow[chanStore], moveStore, k)
		may(on && f.Stored && !n.Asleep && n.Slow[chanAnswer], moveAck, k)
		may(w.Left.Lose > 0 && !f.Stored, moveLose, k)
		may(w.Left.Resend > 0 && f.Stored, moveResend, k)
	}
	may(w.Rise > w.Fence.K, moveRise, 0)
	may(w.Left.Epochs > 0, moveEpoch, 0)
	may(w.Left.Purge > 0 && w.Head > w.Gone, movePurge, 0)
	may(w.Left.Scripts > 0 && w.room(), moveScript, 0)
	may(w.Left.Foreign > 0 && w.room() && w.Fence.K > 0, moveForeign, 0)
	may(w.Left.Ticks > 0, moveTick, 0)
	return list
}

func (w *walker) room() bool { return int(w.Head) < len(w.Log)-1 }

// comes is what a channel brings to a node next, or from it.
func (w *walker) comes(i int, c channel) (move, bool) {
	n := &w.Nodes[i]
	switch c {
	default: // chanStore, chanAnswer
		for k := range w.Flying {
			f := &w.Flying[k]
			if int(f.By) == i+1 && n.On && f.Stored == (c == chanAnswer) && (f.Stored && !n.Asleep || !f.Stored && w.room()) {
				return move{moveStore + moveKind(c), k}, !n.Slow[c]
			}
		}
	case chanPush:
		if w.hasPush(i) {
			return move{movePush, i}, !n.Asleep
		}
		return move{moveMarker, i}, n.On && !n.Caught && !n.Asleep
	case chanTimer:
		if n.State.phase == stopping {
			return move{moveStop, i}, !n.Asleep
		}
		return move{moveTimer, i}, !n.Asleep && w.room() && w.clock(i) >= n.State.deadline()
	}
	return move{}, false
}

// settle lets the channels that are not slow bring what they have.
func (w *walker) settle() {
	for again := true; again && w.broken == ""; {
		again = false
		for i := range w.Nodes {
			for c := range channels {
				if w.Nodes[i].Slow[c] {
					continue
				}
				if m, ok := w.comes(i, c); ok {
					w.make(m)
					again = true
				}
			}
		}
	}
}

func (w *walker) make(m move) {
	if w.log != nil {
		fmt.Fprintln(w.log, w.name(m))
	}
	defer w.check()
	n := &w.Nodes[m.at%2]
	switch i := m.at; m.kind {
	case movePush:
		w.push(i)
	case moveMarker:
		w.marker(i)
	case moveTimer:
		w.step(i, timerFired{})
	case moveStop:
		w.step(i, workStopped{})
	case moveResign:
		w.Left.Resigns--
		w.step(i, resignAsked{w.node(1 - i).String()})
	case moveWithdraw:
		w.Left.Withdraws--
		w.step(i, withdrawAsked{})
	case moveWrite:
		w.write(i)
	case moveDrop:
		w.Left.Drop--
		w.disconnect(i)
	case moveConnect:
		w.connect(i)
	case moveSleep:
		w.Left.Sleeps--
		n.Asleep = true
	case moveWake:
		n.Asleep = false
	case moveStore:
		w.store(i)
	case moveAck:
		w.ack(i)
	case moveLose:
		w.Left.Lose--
		w.Flying[i] = flight{}
	case moveResend:
		w.resend(i)
	case moveRise:
		w.Fence.K = w.Rise
	case moveEpoch:
		w.loseLog()
	case movePurge:
		w.Left.Purge--
		w.Gone = w.Head
	case moveScript:
		w.Left.Scripts--
		w.append(walkRecord{Kind: KindClaim, By: walkScript, Term: w.Fence.K + 1})
	case moveForeign:
		w.Left.Foreign--
		w.append(walkRecord{Kind: KindResign, By: walkOther, Stamp: w.Fence.K, Term: w.Fence.K, Heir: 2})
		w.Fence = walkFence{K: w.Fence.K + 1, S: w.Head}
	case moveSlow:
		w.Left.Slow--
		w.Nodes[i/int(channels)].Slow[i%int(channels)] = true
	case moveTick:
		w.tick()
	}
}

func (w *walker) tick() {
	w.Left.Ticks--
	w.Now++
	for i := range w.Nodes {
		if n := &w.Nodes[i]; n.Asleep && w.deafClock {
			n.Slept++
		}
	}
}

func (w *walker) fresh() bool {
	var h maphash.Hash
	h.SetSeed(w.seed)
	maphash.WriteComparable(&h, w.world)
	a := h.Sum64()
	h.WriteByte(1)
	key := [2]uint64{a, h.Sum64()}
	if _, old := w.seen[key]; old {
		return false
	}
	w.seen[key] = struct{}{}
	w.states++
	return true
}

// walk goes through all worlds, up to a number of them. It returns the way to
// what is broken.
func (w *walker) walk(limit int) (trace string) {
	w.world = w.begin(w)
	w.Left = w.faults
	first := w.world
	w.limit, w.way = limit, nil
	w.fresh()
	if w.deeper() {
		return w.tell(first)
	}
	return ""
}

// deeper goes on from the present world, and reports whether something broke.
func (w *walker) deeper() bool {
	here := w.world
	at := len(w.way)
	w.depth = max(w.depth, at)
	begin := len(w.list)
	w.list = w.moves(w.list)
	end := len(w.list)
	for k := begin; k < end; k++ {
		m := w.list[k]
		w.world = here
		w.way = append(w.way[:at], m)
		w.make(m)
		w.settle()
		w.transitions++
		if w.broken != "" || w.fresh() && w.goesOn() && w.deeper() {
			return true
		}
	}
	w.list = w.list[:begin]
	return false
}

// goesOn reports whether there are states and time left.
func (w *walker) goesOn() bool {
	over := w.states >= w.limit || w.states%1000 == 0 && !w.until.IsZero() && time.Now().After(w.until)
	w.cut = w.cut || over
	return !w.cut
}

// tell goes the way again.
func (w *walker) tell(from world) string {
	var b strings.Builder
	w.world, w.broken, w.log = from, "", &b
	for _, m := range w.way {
		w.make(m)
		w.settle()
	}
	return b.String() + w.broken
}
