package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// DifferenceKind is what differs.
type DifferenceKind string

// The kinds of difference.
const (
	Added   DifferenceKind = "added"
	Removed DifferenceKind = "removed"
	Changed DifferenceKind = "changed"
	Moved   DifferenceKind = "moved" // an object has its names in another order
)

// Difference is one place in which two documents differ.
type Difference struct {
	Kind DifferenceKind `json:"kind"`

	// Path is a JSON Pointer: into the old document where something was removed,
	// else into the new one.
	Path string `json:"path"`

	// Old and New are the values as they are spelled; nil where there is none, and
	// both for Moved.
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`
}

// Diff tells how b differs from a, in the order of b. Names are compared by case,
// numbers by their spelling, so that 1.0 is not 1 and no integer is too long;
// strings by what they say, and space between values not at all. Two documents of
// the same bytes have no difference.
//
// Elements of arrays are compared after leaving out what is alike at the beginning
// and at the end: one that was put in does not change those behind it.
//
// The error is ErrInvalid where one of them is no document.
func Diff(a, b []byte) ([]Difference, error) {
	if bytes.Equal(a, b) {
		return nil, check(bytes.Trim(a, " \n\t\r"))
	}
	for _, doc := range [][]byte{a, b} {
		if err := check(bytes.Trim(doc, " \n\t\r")); err != nil {
			return nil, err
		}
	}
	d := differ{list: []Difference{}}
	d.value("", bytes.TrimSpace(a), bytes.TrimSpace(b))
	return d.list, nil
}

// differ compares values that were checked.
type differ struct{ list []Difference }

func (d *differ) add(kind DifferenceKind, path string, old, now []byte) {
	d.list = append(d.list, Difference{kind, path, old, now})
}

func (d *differ) value(path string, a, b []byte) {
	switch {
	case bytes.Equal(a, b):
	case a[0] == '{' && b[0] == '{':
		d.object(path, a, b)
	case a[0] == '[' && b[0] == '[':
		d.array(path, a, b)
	case a[0] == '"' && b[0] == '"' && unquote(a) == unquote(b):
	default:
		d.add(Changed, path, a, b)
	}
}

func (d *differ) object(path string, a, b []byte) {
	// The depth and the names were checked.
	old, _ := scanFields(a, MaxDepth, true)
	now, _ := scanFields(b, MaxDepth, true)
	was := index(old)
	is := index(now)
	for _, f := range old {
		if _, ok := is[f.name]; !ok {
			d.add(Removed, path+pointer(f.name), f.value, nil)
		}
	}
	var order []int
	for _, f := range now {
		i, ok := was[f.name]
		if !ok {
			d.add(Added, path+pointer(f.name), nil, f.value)
			continue
		}
		order = append(order, i)
		d.value(path+pointer(f.name), old[i].value, f.value)
	}
	if !slices.IsSorted(order) {
		d.add(Moved, path, nil, nil)
	}
}

func index(list []field) map[string]int {
	m := make(map[string]int, len(list))
	for i, f := range list {
		m[f.name] = i
	}
	return m
}

func (d *differ) array(path string, a, b []byte) {
	old, _ := scanItems(a, MaxDepth)
	now, _ := scanItems(b, MaxDepth)
	from := 0
	for from < min(len(old), len(now)) && alike(old[from], now[from]) {
		from++
	}
	oldEnd, nowEnd := len(old), len(now)
	for oldEnd > from && nowEnd > from && alike(old[oldEnd-1], now[nowEnd-1]) {
		oldEnd--
		nowEnd--
	}
	both := min(oldEnd, nowEnd)
	for i := from; i < both; i++ {
		d.value(path+"/"+strconv.Itoa(i), old[i], now[i])
	}
	for i := both; i < oldEnd; i++ {
		d.add(Removed, path+"/"+strconv.Itoa(i), old[i], nil)
	}
	for i := both; i < nowEnd; i++ {
		d.add(Added, path+"/"+strconv.Itoa(i), nil, now[i])
	}
}

// alike reports whether two values do not differ. It reads both once: a diff
// inside would ask again at each level.
func alike(a, b []byte) bool {
	x, y := scanner{b: a}, scanner{b: b}
	for {
		x.space()
		y.space()
		c := x.peek()
		switch {
		case c != y.peek():
			return false
		case x.at == len(a):
			return true
		case c == '"':
			s, _ := x.text()
			if t, _ := y.text(); s != t {
				return false
			}
		default:
			x.at++
			y.at++
		}
	}
}

// pointer is a name as a step of a JSON Pointer.
func pointer(name string) string {
	return "/" + escape.Replace(name)
}
