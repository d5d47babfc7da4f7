package registry

import (
	"bytes"
	"slices"

	"github.com/pilotgo/pilotgo/protocol"
)

// standings know what operators, and join tokens in their name, have said about
// keys. A key that nothing was said about has no entry.
type standings struct {
	standingOf map[protocol.KeyHash]protocol.KeyEntry
	judged     []protocol.KeyHash // rising
}

func newStandings() standings {
	return standings{standingOf: make(map[protocol.KeyHash]protocol.KeyEntry)}
}

func (t *standings) revoked(key protocol.KeyHash) bool {
	return t.standingOf[key].Standing == protocol.StandingRevoked
}

// vouchedFor reports whether an operator has said something good about a key.
func (t *standings) vouchedFor(key protocol.KeyHash) bool {
	e := t.standingOf[key]
	return e.Standing == protocol.StandingAdmitted || e.Standing == protocol.StandingNone && len(e.Labels) > 0
}

func compareHashes(a, b protocol.KeyHash) int { return bytes.Compare(a[:], b[:]) }

func (t *standings) putStanding(e protocol.KeyEntry) {
	if _, known := t.standingOf[e.Key]; !known {
		at, _ := slices.BinarySearchFunc(t.judged, e.Key, compareHashes)
		t.judged = slices.Insert(t.judged, at, e.Key)
	}
	t.standingOf[e.Key] = e
}

func (t *standings) dropStanding(key protocol.KeyHash) {
	delete(t.standingOf, key)
	if at, ok := slices.BinarySearchFunc(t.judged, key, compareHashes); ok {
		t.judged = slices.Delete(t.judged, at, at+1)
	}
}

// setKey does what an operator says about a key. Said again, it changes nothing.
func (b *broker) setKey(now protocol.Time, f *protocol.SetKey) (protocol.KeyEntry, *protocol.Error) {
	was, known := b.standingOf[f.Key]
	e := was
	e.Key = f.Key
	if !f.Keep && e.Standing != f.Standing {
		e.Standing, e.Since, e.Token = f.Standing, now, nil
	}
	e.Labels = relabelled(e.Labels, f.Add, f.Drop)
	switch {
	case len(e.Labels) > protocol.MaxLabels:
		return was, protocol.Errorf(protocol.ErrLimit, "%d labels, maximum %d", len(e.Labels), protocol.MaxLabels)
	case !known && len(b.standingOf) >= b.opts.maxStandings:
		return was, protocol.Errorf(protocol.ErrLimit, "no room for what is said about another key")
	}
	if e.Standing != was.Standing || !slices.Equal(e.Labels, was.Labels) {
		b.judge(e)
	}
	return e, nil
}

// relabelled is a new list, in byte order and each once.
func relabelled(have, add, drop []string) []string {
	list := slices.Concat(have, add)
	list = slices.DeleteFunc(list, func(label string) bool { return slices.Contains(drop, label) })
	slices.Sort(list)
	return slices.Compact(list)
}

// judge stages what is said about a key.
func (b *broker) judge(e protocol.KeyEntry) {
	was, known := b.standingOf[e.Key]
	undo := func() {
		if known {
			b.putStanding(was)
		} else {
			b.dropStanding(e.Key)
		}
	}
	if e.Standing == protocol.StandingNone && len(e.Labels) == 0 {
		b.dropStanding(e.Key)
		if known {
			b.stage(tableStandings, string(e.Key[:]), nil, undo)
		}
		return
	}
	b.putStanding(e)
	b.stage(tableStandings, string(e.Key[:]), standingRow(&e), undo)
}

// keyEntries lists up to limit entries by rising hash behind after; an after that
// is no hash is where one with these first bytes would be.
func (t *standings) keyEntries(after []byte, limit int) []protocol.KeyEntry {
	at, found := slices.BinarySearchFunc(t.judged, after, func(key protocol.KeyHash, after []byte) int {
		return bytes.Compare(key[:], after)
	})
	if found {
		at++
	}
	keys := t.judged[at:]
	keys = keys[:min(limit, len(keys))]
	list := make([]protocol.KeyEntry, 0, len(keys))
	for _, key := range keys {
		list = append(list, t.standingOf[key])
	}
	return list
}
