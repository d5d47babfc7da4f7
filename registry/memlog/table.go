package memlog

import (
	"maps"
	"slices"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// table is what a log keeps besides messages.
type table struct {
	fences  map[string]protocol.Fence
	entries map[string]map[string][]byte // by table and key
	keys    retained.List[protocol.Seq, keyRow]
	floor   protocol.Seq
}

type keyRow struct {
	seq    protocol.Seq
	at     protocol.Time
	digest [16]byte
	sender protocol.NodeID
	size   uint8
	key    [protocol.MaxKey]byte
}

// Key is the place in the list, not the idempotency key.
func (r keyRow) Key() protocol.Seq { return r.seq }

func newKeyRow(e registry.KeyEntry) keyRow {
	row := keyRow{seq: e.Seq, at: e.Time, digest: e.Digest, sender: e.Sender}
	row.size = uint8(copy(row.key[:], e.Key))
	return row
}

func newTable() table {
	return table{
		fences:  make(map[string]protocol.Fence),
		entries: make(map[string]map[string][]byte),
	}
}

func (t *table) addKey(r *registry.Record) {
	t.keys.Put(newKeyRow(registry.KeyEntry{Sender: r.Sender, Key: r.Key, Seq: r.Seq, Time: r.Time, Digest: r.Digest}))
}

func (t *table) store(b *registry.Batch) {
	for _, e := range b.Fences {
		t.fences[e.Topic] = e.Fence
	}
	for _, e := range b.Entries {
		if e.Value == nil {
			delete(t.entries[e.Table], e.Key)
			continue
		}
		if t.entries[e.Table] == nil {
			t.entries[e.Table] = make(map[string][]byte)
		}
		t.entries[e.Table][e.Key] = e.Value
	}
	t.floor = max(t.floor, b.KeyFloor)
	for t.keys.Len() > 0 && t.keys.First().seq <= t.floor {
		t.keys.Remove(t.keys.First().seq)
	}
}

// Load implements registry.Log.
func (l *Log) Load(s registry.State) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return protocol.ErrClosed
	}
	if err := l.loadFences(s); err != nil {
		return err
	}
	if err := l.loadEntries(s); err != nil {
		return err
	}
	return l.loadKeys(s)
}

func (t *table) loadFences(s registry.State) error {
	if s.Fence == nil {
		return nil
	}
	for _, topic := range slices.Sorted(maps.Keys(t.fences)) {
		if err := s.Fence(registry.FenceEntry{Topic: topic, Fence: t.fences[topic]}); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) loadEntries(s registry.State) error {
	if s.Entry == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		rows := t.entries[name]
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if err := s.Entry(registry.Entry{Table: name, Key: key, Value: rows[key]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table) loadKeys(s registry.State) error {
	if s.Floor != nil {
		if err := s.Floor(t.floor); err != nil {
			return err
		}
	}
	if s.Key == nil {
		return nil
	}
	var row keyRow
	for row = range t.keys.All() {
		if err := s.Key(row.entry()); err != nil {
			return err
		}
	}
	return nil
}

// entry is of the row as it is while that is not changed.
func (r *keyRow) entry() registry.KeyEntry {
	return registry.KeyEntry{Sender: r.sender, Key: r.key[:r.size], Seq: r.seq, Time: r.at, Digest: r.digest}
}
