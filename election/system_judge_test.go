package election_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// judge is told all that members, their work and the registry do, and remembers
// what must not be: two leaderships at one instant, a write of a leader that came
// after a higher claim, terms that fall for who looks, a leadership that began
// twice or did not end.
type judge struct {
	start time.Time
	group string // its topic

	mu       sync.Mutex
	tape     []string
	broken   []string
	held     []*holding // not ended
	began    map[election.Token]string
	claimed  map[protocol.EpochID]uint64 // highest claim stored
	fence    map[protocol.EpochID]uint64 // what claims and resigns have raised it to
	register history
	count    counts
	lastBad  time.Time // when last no leadership was valid
	sole     *holding
	eyes     []*observer

	lastClaim time.Time // when one was stored
}

// counts is how much there was to judge.
type counts struct{ stood, claims, elected, lost, writes, stored, stale, ticks int }

// tally sums up what several judges had.
type tally struct {
	mu     sync.Mutex
	sum    counts
	judges int
	worst  time.Duration
}

func (t *tally) add(c counts, found time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judges++
	t.worst = max(t.worst, found)
	s := &t.sum
	s.stood, s.claims, s.elected, s.lost = s.stood+c.stood, s.claims+c.claims, s.elected+c.elected, s.lost+c.lost
	s.writes, s.stored, s.stale, s.ticks = s.writes+c.writes, s.stored+c.stored, s.stale+c.stale, s.ticks+c.ticks
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d schedules, %d claims, %d leaderships, %d fenced writes (%d stored, %d refused as stale), %d looks; from the last fault to a leader at worst %v",
		t.judges, t.sum.claims, t.sum.elected, t.sum.writes, t.sum.stored, t.sum.stale, t.sum.ticks, t.worst.Round(time.Millisecond))
}

// leadership is what a judge looks at of an election.Leadership.
type leadership interface {
	Valid() bool
	Token() election.Token
	Err() error
}

// holding is a leadership that a process says it has.
type holding struct {
	who   string
	token election.Token
	l     leadership
	dead  func() bool // the process is: what it believes counts for nothing
	past  bool        // it was not valid once
}

func newJudge(group string) *judge {
	return &judge{
		start: time.Now(), lastBad: time.Now(), group: group,
		began: map[election.Token]string{}, claimed: map[protocol.EpochID]uint64{}, fence: map[protocol.EpochID]uint64{},
	}
}

// note writes a line on the tape.
func (j *judge) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(format, args...)
}

func (j *judge) write(format string, args ...any) {
	j.tape = append(j.tape, fmt.Sprintf("%10.4fs  ", time.Since(j.start).Seconds())+fmt.Sprintf(format, args...))
}

// fail is called under mu.
func (j *judge) fail(format string, args ...any) {
	j.write("BROKEN: "+format, args...)
	j.broken = append(j.broken, j.tape[len(j.tape)-1])
}

// attach makes the judge see what the registry stores.
func (j *judge) attach(reg *fakeregistry.Registry) {
	reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Times: -1, Do: func(h fakeregistry.Hit) error {
		j.stored(reg.Epoch().ID, h)
		return nil
	}})
}

func (j *judge) stored(epoch protocol.EpochID, h fakeregistry.Hit) {
	term := uint64(0)
	for _, f := range h.Fences {
		if f.Topic == j.group {
			term = f.Term
		}
	}
	if h.Topic != j.group && h.Topic != registerTopic {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.Topic == registerTopic {
		j.storedWrite(epoch, term, h)
		return
	}
	m, err := election.Parse(h.Payload)
	switch {
	case err != nil:
	case m.Kind == election.KindCandidacy:
		j.count.stood++
	case term == 0:
	case m.Kind == election.KindResign:
		j.write("%s's resign of %d is stored at %d", h.Node, term, h.Seq)
		j.raise(epoch, term+1)
	case m.Kind == election.KindClaim:
		if term <= j.claimed[epoch] {
			j.fail("%s's claim of %d was stored after one of %d", h.Node, term, j.claimed[epoch])
		}
		j.write("%s's claim of %d is stored at %d", h.Node, term, h.Seq)
		j.claimed[epoch] = term
		j.count.claims++
		j.lastClaim = time.Now()
		j.raise(epoch, term)
	}
}

func (j *judge) raise(epoch protocol.EpochID, to uint64) {
	j.fence[epoch] = max(j.fence[epoch], to)
	j.register.raise(epoch, to)
}

func (j *judge) storedWrite(epoch protocol.EpochID, term uint64, h fakeregistry.Hit) {
	j.count.stored++
	if term < j.fence[epoch] {
		j.fail("%s's write %q under term %d was stored when the fence was at %d", h.Node, h.Payload, term, j.fence[epoch])
	}
}

// elected is told when a process begins to lead.
func (j *judge) elected(who string, l leadership, dead func() bool) *holding {
	h := &holding{who: who, token: l.Token(), l: l, dead: dead}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count.elected++
	j.write("%s leads %d", who, h.token.Term)
	if by, ok := j.began[h.token]; ok {
		j.fail("%s leads term %d, which %s has led", who, h.token.Term, by)
	}
	j.began[h.token] = who
	for _, o := range j.held {
		if o.who == who {
			j.fail("%s leads %d and has not ended %d", who, h.token.Term, o.token.Term)
		}
	}
	j.held = append(j.held, h)
	j.look()
	return h
}

// lost is told when a leadership has ended and the work under it is over.
func (j *judge) lost(h *holding) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains(j.held, h) {
		return // it was buried
	}
	j.count.lost++
	j.write("%s ends %d: %v", h.who, h.token.Term, h.l.Err())
	j.drop(h)
}

// buried is told when a process is gone: what it held is over.
func (j *judge) buried(who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range slices.Clone(j.held) {
		if h.who == who {
			j.drop(h)
		}
	}
}

func (j *judge) drop(h *holding) {
	j.held = slices.DeleteFunc(j.held, func(o *holding) bool { return o == h })
	j.look()
}

// tick looks at all leaderships at one instant.
func (j *judge) tick() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count.ticks++
	j.look()
}

func (j *judge) look() {
	var valid []*holding
	for _, h := range j.held {
		switch {
		case h.dead() || !h.l.Valid():
			h.past = true
		case h.past:
			j.fail("%s's leadership of %d is valid again", h.who, h.token.Term)
			h.past = false
		default:
			valid = append(valid, h)
		}
	}
	if len(valid) > 1 {
		var who []string
		for _, h := range valid {
			who = append(who, fmt.Sprintf("%s (%d)", h.who, h.token.Term))
		}
		j.fail("two leaderships: %v", who)
	}
	j.sole = nil
	if len(valid) == 0 {
		j.lastBad = time.Now()
	} else {
		j.sole = valid[0]
	}
}

// leader is who leads now, and since when there was always one.
func (j *judge) leader() (*holding, time.Time) {
	j.tick()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sole, j.lastBad
}

func (j *judge) counts() counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

// claimedAt is when the last claim was stored.
func (j *judge) claimedAt() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastClaim
}

// observer checks that terms never fall for one who looks.
type observer struct {
	j       *judge
	who     string
	highest map[protocol.EpochID]uint64
	floor   uint64 // of all epochs
	last    election.View
	shut    bool
}

func (j *judge) observer(who string) *observer {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := &observer{j: j, who: who, highest: map[protocol.EpochID]uint64{}}
	j.eyes = append(j.eyes, o)
	return o
}

func (o *observer) close() {
	o.j.mu.Lock()
	defer o.j.mu.Unlock()
	o.shut = true
}

func (o *observer) sees(v election.View) {
	o.j.mu.Lock()
	defer o.j.mu.Unlock()
	o.last = v
	if v.Leader == "" || v.Plain {
		return
	}
	if high := o.highest[v.Token.Epoch]; v.Token.Term < high {
		o.j.fail("%s sees term %d after %d", o.who, v.Token.Term, high)
	}
	o.highest[v.Token.Epoch] = v.Token.Term
	o.floor = max(o.floor, v.Token.Term)
}

// agree checks that everybody who looks sees the same leader.
func (j *judge) agree() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, o := range j.eyes {
		// Possible only when a log was lost while the registry's clock was set back.
		below := o.last.Reason == election.ReasonBelowFloor && j.sole != nil && o.floor > j.sole.token.Term
		if !o.shut && !below && j.sole != nil && o.last.Token != j.sole.token {
			j.fail("%s sees %v, and %s leads %v", o.who, o.last, j.sole.who, j.sole.token)
		}
	}
}

// verdict is what was broken, with the register's history; nil when all is well.
func (j *judge) verdict() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, b := range j.broken {
		errs = append(errs, errors.New(b))
	}
	if err := j.register.check(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shown is how much of a tape a failed test prints.
const shown = 250

func (j *judge) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tape[len(j.tape)-min(len(j.tape), shown):]
}
