package retained

import (
	"cmp"
	"iter"
	"slices"
)

// List is an ordered list kept in blocks: adding at the end, taking from the
// front and from the middle, and finding a place are all cheap, also with
// millions of items. No two items have the same key.
type List[K cmp.Ordered, V interface{ Key() K }] struct {
	blocks [][]V // none of them empty
	n      int
}

// Place is where an item is in a list; one behind the last item is the end. The
// zero value is that of the first item. A change of the list ends its use.
type Place struct{ block, at int }

const (
	blockMax = 256
	blockLow = 16 // below this a block is moved down, so that its memory serves on
)

// Len is how many items there are.
func (l *List[K, V]) Len() int { return l.n }

// Search finds the first item for which ok holds; it must hold for all after.
func (l *List[K, V]) Search(ok func(V) bool) Place {
	lo, hi := 0, len(l.blocks)
	if hi > 1 && !ok(l.blocks[hi-1][0]) {
		lo = hi - 1 // most readers are near the head
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b := l.blocks[mid]; ok(b[len(b)-1]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == len(l.blocks) {
		return Place{lo, 0}
	}
	b := l.blocks[lo]
	at, end := 0, len(b)
	for at < end {
		mid := int(uint(at+end) >> 1)
		if ok(b[mid]) {
			end = mid
		} else {
			at = mid + 1
		}
	}
	return Place{lo, at}
}

// Behind finds the first item with a key above k.
func (l *List[K, V]) Behind(k K) Place {
	return l.Search(func(v V) bool { return v.Key() > k })
}

// From finds the first item with a key of k or above.
func (l *List[K, V]) From(k K) Place {
	return l.Search(func(v V) bool { return v.Key() >= k })
}

// At is the item at a place; ok is false at the end.
func (l *List[K, V]) At(p Place) (v V, ok bool) {
	if p.block >= len(l.blocks) {
		return v, false
	}
	return l.blocks[p.block][p.at], true
}

// Next is the place behind that of an item.
func (l *List[K, V]) Next(p Place) Place {
	if p.at+1 < len(l.blocks[p.block]) {
		return Place{p.block, p.at + 1}
	}
	return Place{p.block + 1, 0}
}

// Back goes n items back from a place, at most to the first item.
func (l *List[K, V]) Back(p Place, n int) Place {
	for p.at < n {
		if p.block == 0 {
			return Place{}
		}
		n -= p.at
		p.block--
		p.at = len(l.blocks[p.block])
	}
	return Place{p.block, p.at - n}
}

// End is the place behind the last item.
func (l *List[K, V]) End() Place { return Place{len(l.blocks), 0} }

// Rest counts the items from a place on.
func (l *List[K, V]) Rest(p Place) int {
	n := -p.at
	for _, b := range l.blocks[min(p.block, len(l.blocks)):] {
		n += len(b)
	}
	return n
}

// First is for lists that have items.
func (l *List[K, V]) First() V { return l.blocks[0][0] }

// Last is for lists that have items.
func (l *List[K, V]) Last() V {
	b := l.blocks[len(l.blocks)-1]
	return b[len(b)-1]
}

// All goes through the items in order. The list stays as it is meanwhile.
func (l *List[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		for b := range l.blocksFrom(Place{}) {
			for _, v := range b {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// one is the item at a place that is not the end.
func (l *List[K, V]) one(p Place) []V { return l.blocks[p.block][p.at : p.at+1] }

// blocksFrom goes through the items from a place on, many at a time.
func (l *List[K, V]) blocksFrom(p Place) iter.Seq[[]V] {
	return func(yield func([]V) bool) {
		for ; p.block < len(l.blocks) && yield(l.blocks[p.block][p.at:]); p = (Place{p.block + 1, 0}) {
		}
	}
}

// Clone copies the list.
func (l *List[K, V]) Clone() List[K, V] {
	c := List[K, V]{blocks: make([][]V, len(l.blocks)), n: l.n}
	for i, b := range l.blocks {
		c.blocks[i] = slices.Clone(b)
	}
	return c
}

// Put adds an item whose key is not in the list.
func (l *List[K, V]) Put(v V) {
	l.n++
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, []V{v})
		return
	}
	tail := &l.blocks[len(l.blocks)-1]
	switch {
	case v.Key() < (*tail)[len(*tail)-1].Key():
		l.insert(v)
	case len(*tail) < blockMax:
		*tail = append(*tail, v)
	default:
		l.blocks = append(l.blocks, append(make([]V, 0, blockMax), v))
	}
}

// insert adds before the end.
func (l *List[K, V]) insert(v V) {
	p := l.Behind(v.Key())
	b := l.blocks[p.block]
	if len(b) >= blockMax {
		half := slices.Clone(b[blockMax/2:])
		clear(b[blockMax/2:])
		l.blocks[p.block] = b[:blockMax/2]
		l.blocks = slices.Insert(l.blocks, p.block+1, half)
		if p.at > blockMax/2 {
			p = Place{p.block + 1, p.at - blockMax/2}
		}
	}
	l.blocks[p.block] = slices.Insert(l.blocks[p.block], p.at, v)
}

// Remove takes out the item with a key, if it is there.
func (l *List[K, V]) Remove(k K) {
	p := Place{}
	if l.n > 0 && l.First().Key() != k { // it mostly is
		p = l.From(k)
	}
	v, ok := l.At(p)
	if !ok || v.Key() != k {
		return
	}
	l.n--
	b := l.blocks[p.block]
	if p.at == 0 && len(b) > blockLow {
		clear(b[:1])
		b = b[1:]
	} else {
		b = slices.Delete(b, p.at, p.at+1)
	}
	l.blocks[p.block] = b
	l.tidy(p.block)
}

// tidy drops a block that has become empty and joins small neighbours.
func (l *List[K, V]) tidy(i int) {
	switch b := l.blocks[i]; {
	case len(b) == 0 && i == 0:
		l.blocks[0] = nil
		l.blocks = l.blocks[1:]
	case len(b) == 0:
		l.blocks = slices.Delete(l.blocks, i, i+1)
	case len(b) < blockMax/4 && i+1 < len(l.blocks) && len(b)+len(l.blocks[i+1]) <= blockMax/2:
		l.blocks[i] = append(b, l.blocks[i+1]...)
		l.blocks = slices.Delete(l.blocks, i+1, i+2)
	case len(b) < blockMax/4 && i > 0 && len(b)+len(l.blocks[i-1]) <= blockMax/2:
		l.blocks[i-1] = append(l.blocks[i-1], b...)
		l.blocks = slices.Delete(l.blocks, i, i+1)
	}
}
