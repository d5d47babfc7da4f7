package disklog

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
)

// Messages that have gone leave their rows behind. To remove each for itself
// would cost as much as to write it; so it is noted that they are dead, a row for
// many, and the rows of a window are removed by range once all in it have gone.
// What lies there in the meantime is bounded by what it counts and by time.
const (
	remainsMost = 64 << 20    // what dead messages count, see retained.Charge
	remainsAge  = time.Minute // then a window is swept though others in it live

	// agedMost is how many windows are swept for their age with a change that brings
	// no messages, as they come while nobody publishes. Others sweep one, or a
	// publish would wait for many.
	agedMost = 8

	// runLeast is how many dead neighbours are worth a range. The store sorts all
	// ranges of a table in memory anew for the first reader after each.
	runLeast = 64
)

// remains is the writer's account of rows in the store: of those that are to
// stay, and of those that are to be removed.
type remains struct {
	panes   map[protocol.Seq]*pane
	newest  *pane
	charge  int64     // of the dead
	waiting []waiting // panes with dead messages, the oldest of these first
	order   grouping
}

// pane is one window of the log.
type pane struct {
	first protocol.Seq
	stubs []*stub // in log order, also the dead
	dead  int
	// charge is what the dead count.
	charge int64
	noted  bool   // there are rows of its dead
	sweeps uint64 // so far

	fresh []uint16 // the dead of this plan, while it is made
}

// waiting is a place in the queue, which is void after a sweep.
type waiting struct {
	*pane
	since  protocol.Time
	sweeps uint64
}

// note is a row that tells of the dead of one window, counted from its first seq.
type note struct {
	first protocol.Seq
	dead  []uint16
}

// sweep is what is to be removed of one window.
type sweep struct {
	first    protocol.Seq
	places   [][]*stub // runs of dead messages with none between them that lives
	contents [][]*stub // the same, in the order of their rows
	noted    bool
}

func newRemains() remains { return remains{panes: make(map[protocol.Seq]*pane)} }

// put takes in a message behind all others of its window.
func (m *remains) put(x *stub) {
	if x.old {
		return // each is removed for itself
	}
	first := x.seq &^ (window - 1)
	if m.newest == nil || m.newest.first != first {
		p := m.panes[first]
		if p == nil {
			p = &pane{first: first}
			m.panes[first] = p
		}
		m.newest = p
	}
	m.newest.stubs = append(m.newest.stubs, x)
}

// bury is told that one of its messages has gone.
func (m *remains) bury(x *stub) *pane {
	p := m.panes[x.seq&^(window-1)]
	p.dead++
	p.charge += int64(x.charge)
	m.charge += int64(x.charge)
	return p
}

// restore takes in dead messages of which there are rows.
func (m *remains) restore(dead []*stub) {
	for _, x := range dead {
		m.put(x)
		if at := m.bury(x); !at.noted {
			at.noted = true
			m.waiting = append(m.waiting, waiting{pane: at})
		}
	}
	for _, w := range m.waiting {
		slices.SortFunc(w.stubs, func(a, b *stub) int { return cmp.Compare(a.seq, b.seq) })
	}
}

// settle decides what becomes of the rows of the messages that a plan removes.
func (m *remains) settle(p *plan) {
	var touched []*pane
	for _, x := range p.removed {
		if x.old {
			continue
		}
		at := m.bury(x)
		if len(at.fresh) == 0 {
			touched = append(touched, at)
		}
		at.fresh = append(at.fresh, uint16(x.seq&(window-1)))
	}
	for _, at := range touched {
		if at.dead == len(at.stubs) || p.purge {
			p.sweeps = append(p.sweeps, m.sweep(at))
		} else if at.dead == len(at.fresh) {
			m.waiting = append(m.waiting, waiting{at, p.now, at.sweeps})
		}
	}
	m.relieve(p)
	for _, at := range touched {
		if at.dead > 0 {
			at.noted = true
			p.notes = append(p.notes, note{at.first, at.fresh})
		}
		at.fresh = nil
	}
}

// relieve sweeps where the dead have lain longest: as much as is too much, and
// some windows that have waited long enough.
func (m *remains) relieve(p *plan) {
	aged := 1
	if len(p.added) == 0 {
		aged = agedMost
	}
	for len(m.waiting) > 0 {
		next := m.waiting[0]
		if next.sweeps == next.pane.sweeps {
			old := next.since+protocol.Time(remainsAge) <= p.now
			if m.charge <= remainsMost && (!old || aged == 0) {
				return
			}
			aged = max(0, aged-1)
			p.sweeps = append(p.sweeps, m.sweep(next.pane))
		}
		m.waiting[0] = waiting{}
		m.waiting = m.waiting[1:]
	}
}

// sweepAll sweeps every window.
func (m *remains) sweepAll(p *plan) {
	for _, w := range m.waiting {
		if w.sweeps == w.pane.sweeps {
			p.sweeps = append(p.sweeps, m.sweep(w.pane))
		}
	}
	m.waiting = nil
}

// sweep takes the dead out of a pane.
func (m *remains) sweep(p *pane) sweep {
	s := sweep{first: p.first, noted: p.noted}
	live := make([]*stub, 0, len(p.stubs)-p.dead)
	dead := make([]*stub, 0, p.dead)
	for _, x := range p.stubs {
		if x.gone {
			dead = append(dead, x)
		} else {
			live = append(live, x)
		}
	}
	if len(dead) < runLeast {
		s.places = [][]*stub{dead}
		s.contents = s.places
	} else {
		s.places = deadRuns(p.stubs)
		s.contents = deadRuns(m.order.sort(p.stubs))
	}
	p.stubs = live
	if len(live) == 0 {
		delete(m.panes, p.first)
		if m.newest == p {
			m.newest = nil
		}
	}
	m.charge -= p.charge
	p.dead, p.charge, p.noted = 0, 0, false
	p.sweeps++
	return s
}

// deadRuns cuts what lives out of a list.
func deadRuns(list []*stub) (runs [][]*stub) {
	for i := 0; i < len(list); i++ {
		from := i
		for i < len(list) && list[i].gone {
			i++
		}
		if i > from {
			runs = append(runs, list[from:i])
		}
	}
	return runs
}

// write removes rows. Ranges are no wider than what has gone: messages of format 1
// may have their places in the same window.
func (s *sweep) write(rows *pebble.Batch) error {
	var errs []error
	if s.noted {
		errs = append(errs, rows.DeleteRange(seqKey(nil, kindDead, s.first), seqKey(nil, kindDead, s.first+window), nil))
	}
	for _, run := range s.places {
		errs = append(errs, removeRun(rows, run, func(b []byte, x *stub) []byte { return seqKey(b, kindIndex, x.seq) }))
	}
	for _, run := range s.contents {
		errs = append(errs, removeRun(rows, run, func(b []byte, x *stub) []byte { return x.row(b) }))
	}
	return errors.Join(errs...)
}

// removeRun removes the rows of dead messages between whose keys there are none of
// others.
func removeRun(rows *pebble.Batch, run []*stub, row func([]byte, *stub) []byte) error {
	var from, to [16]byte
	if len(run) >= runLeast {
		return rows.DeleteRange(row(from[:], run[0]), append(row(to[:], run[len(run)-1]), 0), nil)
	}
	for _, x := range run {
		if err := rows.SingleDelete(row(from[:], x), nil); err != nil {
			return err
		}
	}
	return nil
}

// graveyard is which messages rows of the dead name.
type graveyard map[protocol.Seq]*[window / 64]uint64

func (g graveyard) load(key, row []byte) error {
	n, err := parseDead(key, row)
	if err != nil {
		return err
	}
	bits := g[n.first]
	if bits == nil {
		bits = new([window / 64]uint64)
		g[n.first] = bits
	}
	for _, behind := range n.dead {
		bits[behind/64] |= 1 << (behind % 64)
	}
	return nil
}

func (g graveyard) has(seq protocol.Seq) bool {
	bits, behind := g[seq&^(window-1)], seq&(window-1)
	return bits != nil && bits[behind/64]&(1<<(behind%64)) != 0
}
