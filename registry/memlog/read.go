package memlog

import (
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	scanMost  = 4096 // records looked at under one lock
	scanFew   = 512  // records that are scanned rather than merged
	mergeMost = 256  // topics of a prefix that are merged
	markMost  = 1024 // topics of a prefix whose marks are compared
)

// Read implements registry.Log. Readable is called under the log's lock.
//
// One topic is read in place; some topics are merged; what is left scans the
// log, and lets writers in between.
func (l *Log) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	r := newReader(sel, after, page)
	for {
		more, err := l.readSome(&r, upTo)
		if err != nil || !more {
			return err
		}
	}
}

// readSome reads on under one lock and reports whether there is more to do.
func (l *Log) readSome(r *reader, upTo protocol.Seq) (more bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return false, protocol.ErrClosed
	}
	r.begin(l, upTo)
	if r.at < r.upTo {
		more = l.collect(r)
	}
	if !more {
		r.finish(l)
	}
	return more, nil
}

func (l *Log) collect(r *reader) (more bool) {
	sel := r.sel
	switch {
	case sel.LastPerTopic:
		l.readLast(r)
	case len(sel.Topics) == 0 && sel.Direct == 0 && protocol.IsExact(sel.Pattern):
		if s := l.topics[sel.Pattern]; s != nil && r.readable(sel.Pattern) {
			r.stream(s)
		}
	case r.upTo-r.at > scanFew && l.mergeStreams(r):
	default:
		return l.scan(r)
	}
	return false
}

// ReadNewest implements registry.Log.
func (l *Log) ReadNewest(sel *registry.Selection, after protocol.Seq, newest, perTopic int, page *registry.Page) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return protocol.ErrClosed
	}
	r := newReader(sel, after, page)
	r.begin(l, l.head)
	m := newMerge()
	defer m.release()
	l.gather(m, &r, 0)
	page.Truncated = m.startNewest(r.at, newest, perTopic)
	m.into(&r)
	r.finish(l)
	return nil
}

// reader is one read in progress.
type reader struct {
	sel   *registry.Selection
	page  *registry.Page
	after protocol.Seq // where the caller began
	at    protocol.Seq // looked at up to here
	upTo  protocol.Seq
	bytes int
	full  bool
}

func newReader(sel *registry.Selection, after protocol.Seq, page *registry.Page) reader {
	page.Records = page.Records[:0]
	page.Truncated = false
	return reader{sel: sel, page: page, after: after, at: after}
}

// begin limits the read to what the log has now.
func (r *reader) begin(l *Log, upTo protocol.Seq) {
	r.upTo = min(upTo, l.head)
	if since := r.sel.Since; since > 0 {
		x := l.all.at(l.all.search(func(x *item[protocol.Seq, *registry.Record]) bool { return x.value.Time >= since }))
		if x == nil {
			r.at = max(r.at, r.upTo)
		} else {
			r.at = max(r.at, x.key-1)
		}
	}
}

// add puts a record into the page, unless that is full.
func (r *reader) add(rec *registry.Record) bool {
	p := r.page
	n, size := len(p.Records), r.bytes+len(rec.Payload)
	if n > 0 && (p.MaxRecords > 0 && n >= p.MaxRecords || p.MaxBytes > 0 && size > p.MaxBytes) {
		r.full = true
		return false
	}
	p.Records = append(p.Records, rec)
	r.bytes = size
	return true
}

func (r *reader) finish(l *Log) {
	if p := r.page; r.full {
		p.Scanned = p.Records[len(p.Records)-1].Seq
	} else {
		p.Scanned = max(r.after, r.upTo)
	}
	r.page.Evicted = l.markOf(r.sel, r.after)
}

func (r *reader) readable(topic string) bool {
	return r.sel.Readable == nil || r.sel.Readable(topic)
}

func (r *reader) selects(rec *registry.Record) bool {
	sel := r.sel
	if rec.To != 0 {
		return rec.To == sel.Direct
	}
	_, ok := sel.Topics[rec.Topic]
	return (ok || protocol.Match(sel.Pattern, rec.Topic)) && r.readable(rec.Topic)
}

// stream reads one stream.
func (r *reader) stream(s *stream) {
	p := s.records.behind(r.at)
	for x := s.records.at(p); x != nil && x.key <= r.upTo && r.add(x.value); x = s.records.at(p) {
		p = s.records.next(p)
	}
}

// scan reads a portion of the whole log.
func (l *Log) scan(r *reader) (more bool) {
	p := l.all.behind(r.at)
	for range scanMost {
		x := l.all.at(p)
		if x == nil || x.key > r.upTo || r.selects(x.value) && !r.add(x.value) {
			return false
		}
		r.at = x.key
		p = l.all.next(p)
	}
	return true
}

// mergeStreams reads all topics of the selection side by side, unless there are
// too many.
func (l *Log) mergeStreams(r *reader) bool {
	m := newMerge()
	defer m.release()
	if !l.gather(m, r, mergeMost) {
		return false
	}
	m.startBehind(r.at)
	m.into(r)
	return true
}

func (l *Log) readLast(r *reader) {
	m := newMerge()
	defer m.release()
	l.gather(m, r, 0)
	m.startLast(r.at)
	m.into(r)
}

// gather finds the streams of a selection. It gives up at more than most topics
// of a pattern; 0 = never.
func (l *Log) gather(m *merge, r *reader, most int) bool {
	sel := r.sel
	for topic := range sel.Topics {
		if s := l.topics[topic]; s != nil && r.readable(topic) {
			m.use(s)
		}
	}
	if s := l.direct[sel.Direct]; s != nil {
		m.use(s)
	}
	all, seen := true, 0
	l.eachMatch(sel.Pattern, func(s *stream) bool {
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
func (l *Log) eachMatch(pattern string, do func(*stream) bool) {
	if pattern == "" {
		return
	}
	stem, star := strings.CutSuffix(pattern, "*")
	if !star {
		if s := l.topics[pattern]; s != nil {
			do(s)
		}
		return
	}
	for p := l.names.behind(stem); ; p = l.names.next(p) {
		x := l.names.at(p)
		if x == nil || !strings.HasPrefix(x.key, stem) || !do(x.value) {
			return
		}
	}
}

// markOf is the highest mark of a selection, 0 when it is not behind after.
func (l *Log) markOf(sel *registry.Selection, after protocol.Seq) protocol.Seq {
	mark := protocol.Seq(0)
	if sel.Direct != 0 {
		mark = l.mark(l.direct[sel.Direct])
	}
	// Readers near the head end here.
	if l.evicted > after {
		for topic := range sel.Topics {
			if sel.Readable == nil || sel.Readable(topic) {
				mark = max(mark, l.mark(l.topics[topic]))
			}
		}
		mark = max(mark, l.patternMark(sel))
	}
	if mark <= after {
		return 0
	}
	return mark
}

func (l *Log) mark(s *stream) protocol.Seq {
	if s == nil {
		return l.forgotten
	}
	return s.evicted
}

func (l *Log) patternMark(sel *registry.Selection) protocol.Seq {
	if sel.Pattern == "" {
		return 0
	}
	if protocol.IsExact(sel.Pattern) {
		if sel.Readable != nil && !sel.Readable(sel.Pattern) {
			return 0
		}
		return l.mark(l.topics[sel.Pattern])
	}
	mark, left := l.forgotten, markMost
	l.eachMatch(sel.Pattern, func(s *stream) bool {
		if left--; left < 0 {
			mark = max(l.evicted, l.forgotten)
			return false
		}
		if sel.Readable == nil || sel.Readable(s.topic) {
			mark = max(mark, s.evicted)
		}
		return true
	})
	return mark
}
