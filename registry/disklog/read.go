package disklog

import (
	"strings"
	"sync"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	scanMost  = 4096 // messages looked at under one lock
	scanFew   = 512  // messages that are scanned rather than merged
	mergeMost = 256  // topics of a prefix that are merged
	markMost  = 1024 // topics of a prefix whose marks are compared
)

// Read implements registry.Log. Readable is called under the lock of readers.
//
// Which messages make the page is decided in memory: one topic is read in place,
// some topics are merged, what is left scans the log and lets the writer in
// between. Only then, and without a lock, come those that are not among the
// newest from the disk.
func (l *Log) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	r := newReading(sel, after, page)
	defer r.free()
	disk, err := l.choose(r, upTo, (*Log).collect)
	if err != nil {
		return err
	}
	defer l.using.Done()
	defer disk.release()
	return l.fetch(r, disk)
}

// ReadNewest implements registry.Log.
func (l *Log) ReadNewest(sel *registry.Selection, after protocol.Seq, newest, perTopic int, page *registry.Page) error {
	r := newReading(sel, after, page)
	defer r.free()
	disk, err := l.choose(r, ^protocol.Seq(0), func(l *Log, r *reading) (more bool) {
		m := newMerge()
		defer m.release()
		l.gather(m, r, 0)
		page.Truncated = m.startNewest(r.at, newest, perTopic)
		m.into(r)
		return false
	})
	if err != nil {
		return err
	}
	defer l.using.Done()
	defer disk.release()
	return l.fetch(r, disk)
}

// choose picks the messages of a page. They are in the moment that it returns,
// which the caller releases, telling using afterwards.
func (l *Log) choose(r *reading, upTo protocol.Seq, collect func(*Log, *reading) (more bool)) (*moment, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, protocol.ErrClosed
	}
	l.using.Add(1)
	disk := l.view.disk
	disk.refs.Add(1)
	// What is chosen later on is of this moment too: upTo bounds it to what was
	// there, and what is gone meanwhile is not chosen.
	r.begin(&l.view, upTo)
	for r.at < r.upTo && collect(l, r) {
		l.mu.RUnlock()
		l.mu.RLock()
	}
	r.finish(l)
	return disk, nil
}

func (l *Log) collect(r *reading) (more bool) {
	sel := r.sel
	switch {
	case sel.LastPerTopic:
		l.readLast(r)
	case len(sel.Topics) == 0 && sel.Direct == 0 && protocol.IsExact(sel.Pattern):
		if s := l.view.topics[sel.Pattern]; s != nil && r.readable(sel.Pattern) {
			r.stream(s)
		}
	case r.upTo-r.at > scanFew && l.mergeStreams(r):
	default:
		return l.scan(r)
	}
	return false
}

// reading is one read in progress.
type reading struct {
	sel   *registry.Selection
	page  *registry.Page
	after protocol.Seq // where the caller began
	at    protocol.Seq // looked at up to here
	upTo  protocol.Seq
	stubs []*stub
	bytes int
	full  bool
}

var readings = sync.Pool{New: func() any { return &reading{} }}

func newReading(sel *registry.Selection, after protocol.Seq, page *registry.Page) *reading {
	page.Records = page.Records[:0]
	page.Truncated = false
	r := readings.Get().(*reading)
	*r = reading{sel: sel, page: page, after: after, at: after, stubs: r.stubs[:0]}
	return r
}

func (r *reading) free() {
	if cap(r.stubs) > 1<<16 {
		r.stubs = nil
	}
	clear(r.stubs)
	r.sel, r.page = nil, nil
	readings.Put(r)
}

// begin limits the read to what the log has now.
func (r *reading) begin(v *view, upTo protocol.Seq) {
	r.upTo = min(upTo, v.head)
	if since := r.sel.Since; since > 0 {
		x, ok := v.all.at(v.all.search(func(x *stub) bool { return x.time >= since }))
		if ok {
			r.at = max(r.at, x.seq-1)
		} else {
			r.at = max(r.at, r.upTo)
		}
	}
}

// add puts a message into the page, unless that is full.
func (r *reading) add(x *stub) bool {
	p := r.page
	n, size := len(r.stubs), r.bytes+int(x.size)
	if n > 0 && (p.MaxRecords > 0 && n >= p.MaxRecords || p.MaxBytes > 0 && size > p.MaxBytes) {
		r.full = true
		return false
	}
	r.stubs = append(r.stubs, x)
	r.bytes = size
	return true
}

func (r *reading) finish(l *Log) {
	if r.full {
		r.page.Scanned = r.stubs[len(r.stubs)-1].seq
	} else {
		r.page.Scanned = max(r.after, r.upTo)
	}
	r.page.Evicted = l.view.markOf(r.sel, r.after)
}

func (r *reading) readable(topic string) bool {
	return r.sel.Readable == nil || r.sel.Readable(topic)
}

func (r *reading) selects(s *stream) bool {
	sel := r.sel
	if s.to != 0 {
		return s.to == sel.Direct
	}
	_, ok := sel.Topics[s.topic]
	return (ok || protocol.Match(sel.Pattern, s.topic)) && r.readable(s.topic)
}

// stream reads one stream.
func (r *reading) stream(s *stream) {
	for p := s.stubs.behind(r.at); ; p = s.stubs.next(p) {
		x, ok := s.stubs.at(p)
		if !ok || x.seq > r.upTo || !r.add(x) {
			return
		}
	}
}

// scan reads a portion of the whole log.
func (l *Log) scan(r *reading) (more bool) {
	all := &l.view.all
	p := all.behind(r.at)
	for range scanMost {
		x, ok := all.at(p)
		if !ok || x.seq > r.upTo || r.selects(x.stream) && !r.add(x) {
			return false
		}
		r.at = x.seq
		p = all.next(p)
	}
	return true
}

// mergeStreams reads all topics of the selection side by side, unless there are
// too many.
func (l *Log) mergeStreams(r *reading) bool {
	if r.sel.Pattern == "*" && r.sel.Readable == nil {
		return false // nearly all is wanted
	}
	m := newMerge()
	defer m.release()
	if !l.gather(m, r, mergeMost) {
		return false
	}
	m.startBehind(r.at)
	m.into(r)
	return true
}

func (l *Log) readLast(r *reading) {
	m := newMerge()
	defer m.release()
	l.gather(m, r, 0)
	m.startLast(r.at)
	m.into(r)
}

// gather finds the streams of a selection. It gives up at more than most topics
// of a pattern; 0 = never.
func (l *Log) gather(m *merge, r *reading, most int) bool {
	sel := r.sel
	for topic := range sel.Topics {
		if s := l.view.topics[topic]; s != nil && r.readable(topic) {
			m.use(s)
		}
	}
	if s := l.view.direct[sel.Direct]; s != nil {
		m.use(s)
	}
	all, seen := true, 0
	l.view.eachMatch(sel.Pattern, func(s *stream) bool {
		if seen++; most > 0 && seen > most {
			all = false
			return false
		}
		if _, twice := sel.Topics[s.topic]; !twice && r.readable(s.topic) {
			m.use(s)
		}
		return true
	})
	return all
}

// eachMatch goes through the topics of a pattern, also the empty ones.
func (v *view) eachMatch(pattern string, do func(*stream) bool) {
	if pattern == "" {
		return
	}
	stem, star := strings.CutSuffix(pattern, "*")
	if !star {
		if s := v.topics[pattern]; s != nil {
			do(s)
		}
		return
	}
	for p := v.names.behind(stem); ; p = v.names.next(p) {
		s, ok := v.names.at(p)
		if !ok || !strings.HasPrefix(s.topic, stem) || !do(s) {
			return
		}
	}
}

// markOf is the highest mark of a selection, 0 when it is not behind after.
func (v *view) markOf(sel *registry.Selection, after protocol.Seq) protocol.Seq {
	mark := protocol.Seq(0)
	if sel.Direct != 0 {
		mark = v.markAt(v.direct[sel.Direct])
	}
	// Readers near the head end here.
	if v.evicted > after {
		for topic := range sel.Topics {
			if sel.Readable == nil || sel.Readable(topic) {
				mark = max(mark, v.markAt(v.topics[topic]))
			}
		}
		mark = max(mark, v.patternMark(sel))
	}
	if mark <= after {
		return 0
	}
	return mark
}

func (v *view) markAt(s *stream) protocol.Seq {
	if s == nil {
		return v.forgotten
	}
	return s.evicted
}

func (v *view) patternMark(sel *registry.Selection) protocol.Seq {
	if sel.Pattern == "" {
		return 0
	}
	if protocol.IsExact(sel.Pattern) {
		if sel.Readable != nil && !sel.Readable(sel.Pattern) {
			return 0
		}
		return v.markAt(v.topics[sel.Pattern])
	}
	mark, left := v.forgotten, markMost
	v.eachMatch(sel.Pattern, func(s *stream) bool {
		if left--; left < 0 {
			mark = max(v.evicted, v.forgotten)
			return false
		}
		if sel.Readable == nil || sel.Readable(s.topic) {
			mark = max(mark, s.evicted)
		}
		return true
	})
	return mark
}
