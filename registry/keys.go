package registry

import (
	"encoding/binary"

	"github.com/pilotgo/pilotgo/protocol"
)

// keyID is an idempotency key together with its sender.
type keyID struct {
	sender protocol.NodeID
	size   uint8
	key    [protocol.MaxKey]byte
}

func keyOf(sender protocol.NodeID, key []byte) keyID {
	id := keyID{sender: sender, size: uint8(len(key))}
	copy(id.key[:], key)
	return id
}

// counted reports whether the key has the form that clients give theirs: an
// instance and a counter.
func (k *keyID) counted() (i keyInstance, counter uint64, ok bool) {
	const instance = len(protocol.Instance{})
	if int(k.size) != instance+8 {
		return keyInstance{}, 0, false
	}
	i = keyInstance{k.sender, protocol.Instance(k.key[:instance])}
	return i, binary.BigEndian.Uint64(k.key[instance:]), true
}

type keyInstance struct {
	sender   protocol.NodeID
	instance protocol.Instance
}

// keyRow is a key and the message it belongs to.
type keyRow struct {
	id     keyID
	digest [16]byte
	seq    protocol.Seq
	at     protocol.Time
}

// keyTable remembers the keys of all messages above floor.
type keyTable struct {
	rows  [][]keyRow // in order of seq, in blocks
	first uint64     // place of the oldest row, counted from the first key ever
	live  int        // rows
	floor protocol.Seq

	// Where a row is. Counted keys are found through their instance's run, which
	// is read and written in one direction; in a map of a million each access is a
	// miss of the processor's caches.
	runs   map[keyInstance]*keyRun
	places map[keyID]uint64
}

// Rows are kept in blocks because a table of a million, grown as one piece,
// would stop everything while it is copied.
const keyBlock = 1024

func newKeyTable() keyTable {
	return keyTable{places: make(map[keyID]uint64), runs: make(map[keyInstance]*keyRun)}
}

func (t *keyTable) find(id keyID) (keyRow, bool) {
	place, ok := t.place(&id)
	if !ok {
		return keyRow{}, false
	}
	return *t.row(place), true
}

func (t *keyTable) place(id *keyID) (uint64, bool) {
	if i, counter, ok := id.counted(); ok {
		run := t.runs[i]
		if run == nil {
			return 0, false
		}
		if place, ok := run.find(counter); ok || run.strays == 0 {
			return place, ok
		}
	}
	place, ok := t.places[*id]
	return place, ok
}

func (t *keyTable) row(place uint64) *keyRow {
	return &t.rows[place/keyBlock-t.first/keyBlock][place%keyBlock]
}

// next is the place behind the newest row.
func (t *keyTable) next() uint64 { return t.first + uint64(t.live) }

// add is for keys that are not in the table, each of a later message.
func (t *keyTable) add(row keyRow) {
	place := t.next()
	if place%keyBlock == 0 {
		t.rows = append(t.rows, make([]keyRow, keyBlock))
	}
	*t.row(place) = row
	t.live++
	if i, counter, ok := row.id.counted(); ok {
		run := t.runs[i]
		if run == nil {
			run = &keyRun{first: counter}
			t.runs[i] = run
		}
		if run.add(counter, place) {
			return
		}
		run.strays++
	}
	t.places[row.id] = place
}

// remove forgets where a row is.
func (t *keyTable) remove(id *keyID) {
	i, counter, ok := id.counted()
	if !ok {
		delete(t.places, *id)
		return
	}
	run := t.runs[i]
	if !run.remove(counter) {
		delete(t.places, *id)
		run.strays--
	}
	if run.live+run.strays == 0 {
		delete(t.runs, i)
	}
}

// drop takes back the newest n keys.
func (t *keyTable) drop(n int) {
	for range n {
		place := t.next() - 1
		t.remove(&t.row(place).id)
		t.live--
		if place%keyBlock == 0 {
			t.rows = t.rows[:len(t.rows)-1]
		}
	}
}

// forget raises the floor past keys beyond the newest limit and those from
// before cutoff, up to budget of them and up to a seq.
func (t *keyTable) forget(limit int, upTo protocol.Seq, cutoff protocol.Time, budget int) {
	for ; budget > 0 && t.live > 0; budget-- {
		oldest := t.row(t.first)
		if oldest.seq > upTo || t.live <= limit && oldest.at >= cutoff {
			return
		}
		t.forgetOldest(oldest)
	}
}

// forgetUpTo raises the floor.
func (t *keyTable) forgetUpTo(floor protocol.Seq) {
	for t.live > 0 {
		oldest := t.row(t.first)
		if oldest.seq > floor {
			break
		}
		t.forgetOldest(oldest)
	}
	t.floor = max(t.floor, floor)
}

func (t *keyTable) forgetOldest(oldest *keyRow) {
	t.remove(&oldest.id)
	t.floor = oldest.seq
	t.first++
	t.live--
	if t.first%keyBlock == 0 {
		t.rows[0] = nil
		t.rows = t.rows[1:]
	}
}

// keyRun holds the places of one instance's keys by their counter. Counters come
// in rising order but for what two lanes do to it; those far from the others are
// strays, which a map holds.
type keyRun struct {
	first  uint64   // counter of places[0]
	places []uint64 // plus one; 0 = no such key
	live   int      // places that are not 0
	strays int
}

// keyLead is how far ahead of its instance's others a counter may be. Together
// with the rule that half of a run is in use it bounds what a client can make
// the table hold by leaving counters out.
const keyLead = 64

func (r *keyRun) find(counter uint64) (place uint64, ok bool) {
	at := counter - r.first // beyond any length where counter is below first
	if at >= uint64(len(r.places)) || r.places[at] == 0 {
		return 0, false
	}
	return r.places[at] - 1, true
}

func (r *keyRun) add(counter, place uint64) bool {
	at := counter - r.first
	if at >= uint64(2*r.live+keyLead) {
		return false
	}
	for at >= uint64(len(r.places)) {
		r.places = append(r.places, 0)
	}
	r.places[at] = place + 1
	r.live++
	return true
}

func (r *keyRun) remove(counter uint64) bool {
	if _, ok := r.find(counter); !ok {
		return false
	}
	r.places[counter-r.first] = 0
	r.live--
	for len(r.places) > 0 && r.places[0] == 0 {
		r.places = r.places[1:]
		r.first++
	}
	return true
}
