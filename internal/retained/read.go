package retained

import (
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	scanMost  = 4096 // messages looked at at once
	scanFew   = 512  // messages that are scanned rather than merged
	mergeMost = 256  // topics of a prefix that are merged
)

// Bounds are those of one page.
type Bounds struct {
	Page *registry.Page

	upTo  protocol.Seq
	n     int
	bytes int
	last  protocol.Seq
	full  bool
}

// Room reports whether a message behind those before, with a payload of a size,
// belongs to the page, and counts it then. If not, none behind it does.
func (b *Bounds) Room(seq protocol.Seq, size int) bool {
	p := b.Page
	size += b.bytes
	switch {
	case seq > b.upTo:
		return false
	case b.n > 0 && (p.MaxRecords > 0 && b.n >= p.MaxRecords || p.MaxBytes > 0 && size > p.MaxBytes):
		b.full = true
		return false
	}
	b.n, b.bytes, b.last = b.n+1, size, seq
	return true
}

// Reading is one read in progress: it chooses the messages of a page. It can
// serve one read after the other, and allocates little then.
type Reading[V Message] struct {
	Bounds

	taker Taker[V]
	sel   *registry.Selection
	after protocol.Seq // where the caller began
	at    protocol.Seq // looked at up to here
	merge merge[V]
}

// Taker gets what a read chooses, in log order.
type Taker[V Message] interface {
	// Take takes the messages up to the first for which there is no Room, and
	// tells how many.
	Take([]V) int
}

// Start begins a read behind a seq.
func (r *Reading[V]) Start(to Taker[V], sel *registry.Selection, after protocol.Seq, page *registry.Page) {
	page.Records = page.Records[:0]
	page.Truncated = false
	r.Bounds = Bounds{Page: page}
	r.taker, r.sel, r.after, r.at = to, sel, after, after
}

// Reset lets go of what was read.
func (r *Reading[V]) Reset() { r.Page, r.sel = nil, nil }

// Limit bounds a read that has started to what the log has now. Choose and
// Finish follow, with writers let in between if the caller likes: it chooses
// nothing that came later, and nothing that went meanwhile.
func (v *View[V, O]) Limit(r *Reading[V], upTo protocol.Seq) {
	r.upTo = min(upTo, v.Head)
	if since := r.sel.Since; since > 0 {
		x, ok := v.All.At(v.All.Search(func(x V) bool { return x.At() >= since }))
		if ok {
			r.at = max(r.at, x.Key()-1)
		} else {
			r.at = max(r.at, r.upTo)
		}
	}
}

// Choose goes on with a read. There is more to do while it returns true.
//
// One topic is read in place; some topics are merged; what is left scans the log,
// a portion at a time.
func (v *View[V, O]) Choose(r *Reading[V]) (more bool) {
	sel := r.sel
	switch {
	case r.at >= r.upTo:
	case sel.LastPerTopic:
		v.chooseLast(r)
	case len(sel.Topics) == 0 && sel.Direct == 0 && protocol.IsExact(sel.Pattern):
		if s := v.Topics[sel.Pattern]; s != nil && r.readable(sel.Pattern) {
			r.list(&s.Messages)
		}
	case r.upTo-r.at > scanFew && v.chooseMerged(r):
	default:
		return v.scan(r)
	}
	return false
}

// ChooseNewest is Choose for registry.Log's ReadNewest.
func (v *View[V, O]) ChooseNewest(r *Reading[V], newest, perTopic int) {
	defer r.merge.reset()
	v.gather(r, 0)
	r.Page.Truncated = r.merge.startNewest(r.at, newest, perTopic)
	r.merge.into(r)
}

// Finish tells in the page how far it goes. Its records are the caller's to fill
// in.
func (v *View[V, O]) Finish(r *Reading[V]) {
	if r.full {
		r.Page.Scanned = r.last
	} else {
		r.Page.Scanned = max(r.after, r.upTo)
	}
	r.Page.Evicted = v.MarkOf(r.sel, r.after)
}

func (r *Reading[V]) readable(topic string) bool {
	return r.sel.Readable == nil || r.sel.Readable(topic)
}

func (r *Reading[V]) selects(x V) bool {
	sel := r.sel
	topic, to := x.Place()
	if to != 0 {
		return to == sel.Direct
	}
	_, ok := sel.Topics[topic]
	return (ok || protocol.Match(sel.Pattern, topic)) && r.readable(topic)
}

// list reads one stream.
func (r *Reading[V]) list(l *List[protocol.Seq, V]) {
	for block := range l.blocksFrom(l.Behind(r.at)) {
		if r.taker.Take(block) < len(block) {
			return
		}
	}
}

// scan reads a portion of the whole log.
func (v *View[V, O]) scan(r *Reading[V]) (more bool) {
	left := scanMost
	for block := range v.All.blocksFrom(v.All.Behind(r.at)) {
		for i, x := range block {
			switch {
			case r.selects(x):
				if r.taker.Take(block[i:i+1]) == 0 {
					return false
				}
			case x.Key() > r.upTo:
				return false
			}
			if left--; left == 0 {
				r.at = x.Key()
				return true
			}
		}
	}
	return false
}

// chooseMerged reads all topics of the selection side by side, unless there are
// too many.
func (v *View[V, O]) chooseMerged(r *Reading[V]) bool {
	if r.sel.Pattern == "*" && r.sel.Readable == nil {
		return false // nearly all is wanted
	}
	defer r.merge.reset()
	if !v.gather(r, mergeMost) {
		return false
	}
	r.merge.startBehind(r.at)
	r.merge.into(r)
	return true
}

func (v *View[V, O]) chooseLast(r *Reading[V]) {
	defer r.merge.reset()
	v.gather(r, 0)
	r.merge.startLast(r.at)
	r.merge.into(r)
}

// gather finds the streams of a selection. It gives up at more than most topics
// of a pattern; 0 = never.
func (v *View[V, O]) gather(r *Reading[V], most int) bool {
	sel := r.sel
	for topic := range sel.Topics {
		if s := v.Topics[topic]; s != nil && r.readable(topic) {
			r.merge.use(&s.Messages)
		}
	}
	if s := v.Direct[sel.Direct]; s != nil {
		r.merge.use(&s.Messages)
	}
	all, seen := true, 0
	v.eachMatch(sel.Pattern, func(s *Stream[V, O]) bool {
		if seen++; most > 0 && seen > most {
			all = false
			return false
		}
		if _, twice := sel.Topics[s.Topic]; !twice && r.readable(s.Topic) {
			r.merge.use(&s.Messages)
		}
		return true
	})
	return all
}
