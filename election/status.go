package election

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Status is what a member knows at a moment.
type Status struct {
	Group    string
	Topic    string
	Node     protocol.NodeID
	Instance protocol.Instance // of this Member; another than its connection's
	Priority int64

	// Now is the leader that is seen, or why there is none, and how long so.
	Now Observation

	// Heard is how long ago the leader's last claim or heartbeat was read; below 0
	// when there is no leader or none was read.
	Heard time.Duration

	Epoch      protocol.Epoch // of the log that was read last
	Connected  bool           // and caught up
	Candidate  bool           // it campaigns or leads
	Leads      bool           // this very member leads
	BestEffort bool           // the link has no fences: two can lead for a while
	Suspend    bool           // deadlines go on while the machine is suspended

	// Candidates have announced themselves and are not known to lead, highest
	// first; the newest 64. Whether they are still there is not known.
	Candidates []Candidate

	// History is the newest 32 changes, oldest first.
	History []Observation

	// Voids counts messages that did not count, by why, and the two other things
	// that a Void can tell.
	Voids map[Void]uint64

	// Refusal is why the registry refused this member's last publish, if it did
	// and that was not a matter of who is first.
	Refusal error
}

// Status tells what is known now. It may be called after Close too.
func (m *Member) Status() Status {
	now := instant(m.o.Clock())
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.record
	s := Status{
		Group: m.o.Group, Topic: m.topic, Node: m.conn.Self().Node, Instance: m.instance, Priority: m.o.Priority,
		Now: r.seen, Heard: -1,
		Epoch: r.epoch, Connected: r.connected, Candidate: r.candidate, Leads: r.leads,
		BestEffort: m.bestEffort, Suspend: m.suspend,
		Candidates: r.standing(), History: slices.Clone(r.history), Voids: maps.Clone(r.voids),
		Refusal: r.refusal,
	}
	if r.seen.Leader != "" && r.heard != never {
		s.Heard = max(0, now.Sub(r.heard))
	}
	return s
}

// Candidate is who announced itself.
type Candidate struct {
	Node     string
	Instance protocol.Instance // zero: a script
	Priority int64
	Term     uint64
	At       time.Time // registry time of the announcement
}

// How much a record keeps.
const (
	maxHistory    = 32
	maxCandidates = 64
)

// record is what a Member tells about itself and its group, guarded by
// Member.mu.
type record struct {
	seen      Observation
	changed   chan struct{} // closed when seen or connected changes
	history   []Observation
	heard     instant // of the leader; never: not yet
	voids     map[Void]uint64
	stood     []Candidate // oldest first
	refusal   error
	epoch     protocol.Epoch
	connected bool
	read      bool // was connected once: history was read
	candidate bool
	leads     bool
}

func (r *record) begin(now time.Time) {
	r.seen.At = now
	r.changed = make(chan struct{})
	r.heard = never
	r.voids = make(map[Void]uint64)
}

// standing lists candidates, highest first, without the leader.
func (r *record) standing() []Candidate {
	list := slices.DeleteFunc(slices.Clone(r.stood), func(c Candidate) bool {
		return c.Node == r.seen.Leader && c.Instance == r.seen.Instance
	})
	slices.SortFunc(list, func(a, b Candidate) int {
		if (standing{a.Priority, a.Node, a.Instance}).above(standing{b.Priority, b.Node, b.Instance}) {
			return -1
		}
		return 1
	})
	return list
}

// snapshot notes what the machine knows.
func (m *Member) snapshot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, x := &m.record, &m.machine
	if r.connected != x.caughtUp {
		r.turn()
	}
	r.read = r.read || x.caughtUp
	r.epoch, r.connected, r.candidate, r.leads = x.epoch, x.caughtUp, x.candidate, m.leads != nil
}

// show notes what is seen from now on.
func (m *Member) show(a showAction) {
	m.o.Logger.Debug("sees", "group", m.o.Group, "change", a.Change.String(), "leader", a.View.Leader, "term", a.View.Token.Term, "reason", a.View.Reason.String())
	at := m.o.WallClock()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.record
	if a.View.Leader != r.seen.Leader || a.View.Token != r.seen.Token {
		r.heard = never
	}
	r.seen = Observation{View: a.View, Change: a.Change, At: at}
	if len(r.history) == maxHistory {
		r.history = slices.Delete(r.history, 0, 1)
	}
	r.history = append(r.history, r.seen)
	r.turn()
}

// turn wakes those who wait for a change.
func (r *record) turn() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// count notes what did not count.
func (m *Member) count(a countAction) {
	m.counted = m.counted || a.Void != VoidTwin
	m.mu.Lock()
	m.record.voids[a.Void]++
	n := m.record.voids[a.Void]
	m.mu.Unlock()
	if a.Void == VoidTwin && n == 1 {
		m.o.Logger.Warn("another process has this node's key", "group", m.o.Group, "seq", a.Seq)
		return
	}
	m.o.Logger.Debug("void", "group", m.o.Group, "why", a.Void.String(), "seq", a.Seq, "sender", a.Sender)
}

// note remembers of a message what the machine does not.
func (m *Member) note(e messageRead, raw *protocol.Message) {
	if m.counted {
		return
	}
	node, term := e.Message.Node, e.Message.Term
	if e.Term != 0 {
		node, term = e.Sender.String(), e.Term
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.record
	switch e.Message.Kind {
	case KindCandidacy:
		r.stands(Candidate{node, e.Message.Instance, e.Message.Priority, term, raw.Time.Time()})
	case KindClaim, KindHeartbeat:
		if node == r.seen.Leader && term == r.seen.Token.Term {
			r.heard = m.now
		}
	case KindResign:
	}
}

// stands remembers a candidate by its newest announcement.
func (r *record) stands(c Candidate) {
	r.stood = slices.DeleteFunc(r.stood, func(o Candidate) bool { return o.Node == c.Node && o.Instance == c.Instance })
	if len(r.stood) == maxCandidates {
		r.stood = slices.Delete(r.stood, 0, 1)
	}
	r.stood = append(r.stood, c)
}

// forget drops the candidates of a log that is gone.
func (m *Member) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.stood = nil
}

// refusal notes whether the registry took a publish.
func (m *Member) refusal(e event, err error) {
	if _, ok := e.(unanswered); ok || isRace(err) {
		return
	}
	m.mu.Lock()
	m.record.refusal = err
	m.mu.Unlock()
	if err != nil {
		m.o.Logger.Warn("refused", "group", m.o.Group, "error", err)
	}
}

// isRace tells the refusals by which an election decides who is first.
func isRace(err error) bool {
	return errors.Is(err, protocol.ErrStaleTerm) || errors.Is(err, protocol.ErrConflict) || errors.Is(err, protocol.ErrWrongEpoch)
}
