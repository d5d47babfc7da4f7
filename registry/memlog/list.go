package memlog

import (
	"cmp"
	"slices"
)

// list is an ordered list kept in blocks: adding at the end, taking from the
// front and from the middle, and finding a place are all cheap, also with
// millions of items.
type list[K cmp.Ordered, V any] struct {
	blocks [][]item[K, V] // none of them empty
	n      int
}

type item[K cmp.Ordered, V any] struct {
	key   K
	value V
}

// place is where an item is; one behind the last item is the end.
type place struct{ block, at int }

const (
	blockMax = 256
	blockLow = 16 // below this a block is moved down, so that its memory serves on
)

// search finds the first item for which ok holds; it must hold for all after.
func (l *list[K, V]) search(ok func(*item[K, V]) bool) place {
	lo, hi := 0, len(l.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b := l.blocks[mid]; ok(&b[len(b)-1]) {
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
		if ok(&b[mid]) {
			end = mid
		} else {
			at = mid + 1
		}
	}
	return place{lo, at}
}

// behind finds the first item with a key above k.
func (l *list[K, V]) behind(k K) place {
	return l.search(func(x *item[K, V]) bool { return x.key > k })
}

// from finds the first item with a key of k or above.
func (l *list[K, V]) from(k K) place {
	return l.search(func(x *item[K, V]) bool { return x.key >= k })
}

// at is the item at a place, nil at the end.
func (l *list[K, V]) at(p place) *item[K, V] {
	if p.block >= len(l.blocks) {
		return nil
	}
	return &l.blocks[p.block][p.at]
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

func (l *list[K, V]) first() *item[K, V] { return l.at(place{}) }

func (l *list[K, V]) last() *item[K, V] {
	if l.n == 0 {
		return nil
	}
	b := l.blocks[len(l.blocks)-1]
	return &b[len(b)-1]
}

// put adds an item whose key is not in the list.
func (l *list[K, V]) put(k K, v V) {
	l.n++
	x := item[K, V]{k, v}
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, []item[K, V]{x})
		return
	}
	tail := &l.blocks[len(l.blocks)-1]
	switch {
	case k < (*tail)[len(*tail)-1].key:
		l.insert(x)
	case len(*tail) < blockMax:
		*tail = append(*tail, x)
	default:
		l.blocks = append(l.blocks, append(make([]item[K, V], 0, blockMax), x))
	}
}

// insert adds before the end.
func (l *list[K, V]) insert(x item[K, V]) {
	p := l.from(x.key)
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
	l.blocks[p.block] = slices.Insert(l.blocks[p.block], p.at, x)
}

// clone copies the list.
func (l *list[K, V]) clone() list[K, V] {
	c := list[K, V]{blocks: make([][]item[K, V], len(l.blocks)), n: l.n}
	for i, b := range l.blocks {
		c.blocks[i] = slices.Clone(b)
	}
	return c
}

// remove takes out the item with a key, if it is there.
func (l *list[K, V]) remove(k K) {
	p := l.from(k)
	x := l.at(p)
	if x == nil || x.key != k {
		return
	}
	l.n--
	b := l.blocks[p.block]
	if p.at == 0 && len(b) > blockLow {
		b[0] = item[K, V]{}
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
