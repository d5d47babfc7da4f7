package disklog

import (
	"cmp"
	"slices"
)

// list is an ordered list kept in blocks: adding at the end, taking from the
// front and from the middle, and finding a place are all cheap, also with
// millions of items. No two items have the same key.
type list[K cmp.Ordered, V interface{ key() K }] struct {
	blocks [][]V // none of them empty
	n      int
}

// place is where an item is; one behind the last item is the end.
type place struct{ block, at int }

const (
	blockMax = 256
	blockLow = 16 // below this a block is moved down, so that its memory serves on
)

// search finds the first item for which ok holds; it must hold for all after.
func (l *list[K, V]) search(ok func(V) bool) place {
	lo, hi := 0, len(l.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b := l.blocks[mid]; ok(b[len(b)-1]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == len(l.blocks) {
		return place{lo, 0}
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
	return place{lo, at}
}

// behind finds the first item with a key above k.
func (l *list[K, V]) behind(k K) place {
	return l.search(func(v V) bool { return v.key() > k })
}

// at is the item at a place; ok is false at the end.
func (l *list[K, V]) at(p place) (v V, ok bool) {
	if p.block >= len(l.blocks) {
		return v, false
	}
	return l.blocks[p.block][p.at], true
}

func (l *list[K, V]) next(p place) place {
	if p.at+1 < len(l.blocks[p.block]) {
		return place{p.block, p.at + 1}
	}
	return place{p.block + 1, 0}
}

// back goes n items back from a place, at most to the first item.
func (l *list[K, V]) back(p place, n int) place {
	for p.at < n {
		if p.block == 0 {
			return place{}
		}
		n -= p.at
		p.block--
		p.at = len(l.blocks[p.block])
	}
	return place{p.block, p.at - n}
}

func (l *list[K, V]) end() place { return place{len(l.blocks), 0} }

// rest counts the items from a place on.
func (l *list[K, V]) rest(p place) int {
	n := -p.at
	for _, b := range l.blocks[min(p.block, len(l.blocks)):] {
		n += len(b)
	}
	return n
}

// first and last are for lists that have items.
func (l *list[K, V]) first() V { return l.blocks[0][0] }

func (l *list[K, V]) last() V {
	b := l.blocks[len(l.blocks)-1]
	return b[len(b)-1]
}

// put adds an item whose key is not in the list.
func (l *list[K, V]) put(v V) {
	l.n++
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, []V{v})
		return
	}
	tail := &l.blocks[len(l.blocks)-1]
	switch {
	case v.key() < (*tail)[len(*tail)-1].key():
		l.insert(v)
	case len(*tail) < blockMax:
		*tail = append(*tail, v)
	default:
		l.blocks = append(l.blocks, append(make([]V, 0, blockMax), v))
	}
}

// insert adds before the end.
func (l *list[K, V]) insert(v V) {
	p := l.behind(v.key())
	b := l.blocks[p.block]
	if len(b) >= blockMax {
		half := slices.Clone(b[blockMax/2:])
		clear(b[blockMax/2:])
		l.blocks[p.block] = b[:blockMax/2]
		l.blocks = slices.Insert(l.blocks, p.block+1, half)
		if p.at > blockMax/2 {
			p = place{p.block + 1, p.at - blockMax/2}
		}
	}
	l.blocks[p.block] = slices.Insert(l.blocks[p.block], p.at, v)
}

// remove takes out the item with a key, if it is there.
func (l *list[K, V]) remove(k K) {
	p := l.search(func(v V) bool { return v.key() >= k })
	v, ok := l.at(p)
	if !ok || v.key() != k {
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
func (l *list[K, V]) tidy(i int) {
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
