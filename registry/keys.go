package registry

import "github.com/pilotgo/pilotgo/protocol"

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

// keyRow is a key and the message it belongs to.
type keyRow struct {
	id     keyID
	digest [16]byte
	seq    protocol.Seq
	at     protocol.Time
}

// keyTable remembers the keys of all messages above floor.
type keyTable struct {
	places map[keyID]uint64 // in rows, counted from the first key ever
	rows   [][]keyRow       // in order of seq, in blocks
	first  uint64           // place of the oldest row
	floor  protocol.Seq
}

// Rows are kept in blocks because a table of a million, grown as one piece,
// would stop everything while it is copied.
const keyBlock = 1024

func newKeyTable() keyTable { return keyTable{places: make(map[keyID]uint64)} }

func (t *keyTable) find(id keyID) (keyRow, bool) {
	place, ok := t.places[id]
	if !ok {
		return keyRow{}, false
	}
	return *t.row(place), true
}

func (t *keyTable) row(place uint64) *keyRow {
	return &t.rows[place/keyBlock-t.first/keyBlock][place%keyBlock]
}

// next is the place behind the newest row.
func (t *keyTable) next() uint64 { return t.first + uint64(len(t.places)) }

// add is for keys that are not in the table, each of a later message.
func (t *keyTable) add(row keyRow) {
	place := t.next()
	if place%keyBlock == 0 {
		t.rows = append(t.rows, make([]keyRow, keyBlock))
	}
	t.places[row.id] = place
	*t.row(place) = row
}

// drop takes back the newest n keys.
func (t *keyTable) drop(n int) {
	for range n {
		place := t.next() - 1
		delete(t.places, t.row(place).id)
		if place%keyBlock == 0 {
			t.rows = t.rows[:len(t.rows)-1]
		}
	}
}

// forget raises the floor past keys beyond the newest limit and those from
// before cutoff, up to budget of them.
func (t *keyTable) forget(limit int, cutoff protocol.Time, budget int) {
	for ; budget > 0 && len(t.places) > 0; budget-- {
		oldest := t.row(t.first)
		if len(t.places) <= limit && oldest.at >= cutoff {
			return
		}
		delete(t.places, oldest.id)
		t.floor = oldest.seq
		t.first++
		if t.first%keyBlock == 0 {
			t.rows[0] = nil
			t.rows = t.rows[1:]
		}
	}
}
