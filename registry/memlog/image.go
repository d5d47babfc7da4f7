package memlog

import (
	"iter"
	"maps"
	"slices"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Image is all that a log holds at one moment, for another log to begin with.
// Two logs with the same image and the same retention that get the same batches
// stay the same.
type Image struct {
	Epoch protocol.Epoch
	Head  protocol.Seq
	Time  protocol.Time

	Records []*registry.Record // in log order
	Fences  []registry.FenceEntry
	Entries []registry.Entry
	Marks   []Mark
	Floor   protocol.Seq // of the keys

	// Forgotten stands for the marks that are not there any more, and up to Aged
	// age has been looked at.
	Forgotten, Aged protocol.Seq

	keys retained.List[protocol.Seq, keyRow]
}

// Mark is the highest seq that left a topic, or the direct messages to a node.
type Mark struct {
	Topic   string
	To      protocol.NodeID
	Evicted protocol.Seq
}

// Keys are the idempotency keys, oldest first. Key is valid until the next one.
func (i *Image) Keys() iter.Seq[registry.KeyEntry] {
	return func(yield func(registry.KeyEntry) bool) {
		var row keyRow
		for row = range i.keys.All() {
			if !yield(row.entry()) {
				return
			}
		}
	}
}

// AddKey adds a key of a later message than those before.
func (i *Image) AddKey(e registry.KeyEntry) {
	i.keys.Put(newKeyRow(e))
}

// Image copies what the log holds, but not the records themselves. Appends wait
// meanwhile: about a tenth of a second for a million records and as many keys.
func (l *Log) Image() *Image {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := &Image{
		Epoch: l.epoch, Head: l.view.Head, Time: l.view.Time,
		Records: make([]*registry.Record, 0, l.view.All.Len()),
		Floor:   l.floor, Forgotten: l.view.Forgotten, Aged: l.aged,
		keys: l.keys.Clone(),
	}
	for x := range l.view.All.All() {
		i.Records = append(i.Records, x.record)
	}
	for s := range l.view.Streams() {
		if s.Evicted > 0 || s.Messages.Len() == 0 {
			i.Marks = append(i.Marks, Mark{s.Topic, s.To, s.Evicted})
		}
	}
	for topic, f := range l.fences {
		i.Fences = append(i.Fences, registry.FenceEntry{Topic: topic, Fence: f})
	}
	for _, table := range slices.Sorted(maps.Keys(l.entries)) {
		for key, value := range l.entries[table] {
			i.Entries = append(i.Entries, registry.Entry{Table: table, Key: key, Value: value})
		}
	}
	return i
}

// FromImage makes a log that goes on where another was; of opts only the
// retention counts. The image is not used any more. It must be of a log: seqs
// rise, and no two records have the same slot of one sender on one topic.
func FromImage(opts Options, i *Image) *Log {
	l := New(Options{Epoch: i.Epoch, Retention: opts.Retention})
	keep := l.keep
	l.keep = registry.Retention{Messages: -1, Age: -1, Versions: -1, TopicBytes: -1, TotalBytes: -1}.WithDefaults()
	for _, r := range i.Records {
		l.add(r)
	}
	l.keep = keep
	l.keys = i.keys
	for _, m := range i.Marks {
		l.restore(m)
	}
	l.store(&registry.Batch{Fences: i.Fences, Entries: i.Entries, KeyFloor: i.Floor})
	l.view.Head, l.view.Time = i.Head, i.Time
	l.view.Forgotten, l.aged = i.Forgotten, i.Aged
	return l
}

func (l *Log) restore(m Mark) {
	r := &registry.Record{}
	r.Topic, r.To = m.Topic, m.To
	s := l.view.Stream(m.Topic, m.To)
	if s == nil {
		s = l.streamFor(r)
		l.emptied(s)
	}
	l.view.Mark(s, m.Evicted)
}
