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

// keyRow is the message a key belongs to.
type keyRow struct {
	digest [16]byte
	seq    protocol.Seq
	at     protocol.Time
}

// keyTable remembers the keys of all messages above floor.
type keyTable struct {
	rows  map[keyID]keyRow
	order [][]keyID // the same keys, oldest first, in blocks
	floor protocol.Seq
}

const keyBlock = 1024

func newKeyTable() keyTable { return keyTable{rows: make(map[keyID]keyRow)} }

func (t *keyTable) find(id keyID) (keyRow, bool) {
	row, ok := t.rows[id]
	return row, ok
}

// add is for keys that are not in the table, each of a later message.
func (t *keyTable) add(id keyID, row keyRow) {
	t.rows[id] = row
	if n := len(t.order); n == 0 || len(t.order[n-1]) == keyBlock {
		t.order = append(t.order, make([]keyID, 0, keyBlock))
	}
	last := &t.order[len(t.order)-1]
	*last = append(*last, id)
}

// drop takes back the newest n keys.
func (t *keyTable) drop(n int) {
	for range n {
		at := len(t.order) - 1
		block := t.order[at]
		delete(t.rows, block[len(block)-1])
		t.order[at] = block[:len(block)-1]
		if len(t.order[at]) == 0 {
			t.order = t.order[:at]
		}
	}
}

// forget raises the floor past keys beyond the newest limit and those from
// before cutoff, up to budget of them.
func (t *keyTable) forget(limit int, cutoff protocol.Time, budget int) {
	for ; budget > 0 && len(t.order) > 0; budget-- {
		oldest := t.order[0][0]
		row := t.rows[oldest]
		if len(t.rows) <= limit && row.at >= cutoff {
			return
		}
		delete(t.rows, oldest)
		t.floor = row.seq
		t.order[0] = t.order[0][1:]
		if len(t.order[0]) == 0 {
			t.order[0] = nil
			t.order = t.order[1:]
		}
	}
}
