package disklog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/bits"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Report is what Check found.
type Report struct {
	Epoch    protocol.Epoch
	Head     protocol.Seq
	Messages int
	Topics   int
	Bytes    int64 // of payload
	Keys     int   // idempotency keys remembered
	Fences   int
	Entries  int
	HasKey   bool // an identity key

	// Faults tell what is not as it should be, at most 100 of them.
	Faults []string
}

const maxFaults = 100

// Check reads all of a log's folder, changes nothing in it, and tells what it
// holds and what is wrong with it. The folder must not be in use. The error is
// for folders that cannot be opened at all, as that of Open.
func Check(dir string, opts Options) (*Report, error) {
	o := opts.withDefaults()
	f, err := openFolder(o.FS, dir, false)
	if err != nil {
		return nil, err
	}
	alarm := newAlarm(dir, o.Logger)
	db, err := openStore(f, o, alarm, true)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	l := &Log{dir: dir, o: o, folder: f, alarm: alarm, db: db, view: newView(), graves: make(graveyard)}
	c := checker{l: l, places: make(map[protocol.Seq]*stub)}
	c.all()
	return &c.report, errors.Join(db.Close(), f.close())
}

type checker struct {
	l      *Log
	report Report
	places map[protocol.Seq]*stub
}

func (c *checker) fault(format string, args ...any) {
	if len(c.report.Faults) < maxFaults {
		c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
	}
}

// note turns an error into a fault and goes on.
func (c *checker) note(err error) {
	if err != nil {
		c.fault("%v", err)
	}
}

func (c *checker) all() {
	l := c.l
	c.note(l.db.CheckLevels(nil))
	c.note(l.loadMeta(l.db))
	c.rows("mark", kindTopic, l.loadMark)
	c.rows("mark", kindDirect, l.loadMark)
	c.rows("dead messages", kindDead, l.graves.load)
	c.rows("message's place", kindIndex, c.place)
	c.rows("message", kindRecord, func(key, row []byte) error { return c.record(cutSeqKey, key, row) })
	c.rows("message", kindRun, func(key, row []byte) error { return c.record(cutRunKey, key, row) })
	c.rows("keys", kindKeys, l.loadKeys)
	c.rows("fence", kindFence, func(key, row []byte) error {
		c.report.Fences++
		_, err := parseFence(key, row)
		return err
	})
	c.rows("entry", kindEntry, func(key, row []byte) error {
		c.report.Entries++
		_, err := parseEntry(key, row)
		return err
	})
	for seq := range c.places {
		c.fault("message %d: it has a place and no content", seq)
	}
	for first, n := range c.misnamed() {
		c.fault("messages from %d to %d: %d are noted as dead and are not there", first, first+window-1, n)
	}
	c.sum()
}

// misnamed counts, for each window, the dead that have no place.
func (c *checker) misnamed() map[protocol.Seq]int {
	counts := make(map[protocol.Seq]int)
	for first, dead := range c.l.graves {
		for _, word := range dead {
			counts[first] += bits.OnesCount64(word)
		}
	}
	for _, x := range c.l.dead {
		counts[x.seq&^(window-1)]--
	}
	maps.DeleteFunc(counts, func(_ protocol.Seq, n int) bool { return n == 0 })
	return counts
}

func (c *checker) sum() {
	l := c.l
	if noted := l.folder.readWitness(l.epoch.ID); noted > l.view.Head {
		c.fault("the log ends at seq %d, and %d was acknowledged: the next start begins a new epoch", l.view.Head, noted)
	}
	if n := l.view.All.Len(); n > 0 && l.view.All.Last().seq > l.view.Head {
		c.fault("messages up to seq %d stand behind the head %d", l.view.All.Last().seq, l.view.Head)
	}
	r := &c.report
	r.Epoch, r.Head = l.epoch, l.view.Head
	r.Messages, r.Topics, r.Bytes, r.Keys = l.view.All.Len(), l.view.Stats().Topics, l.view.Bytes, l.keys.n
	r.HasKey = l.identity.key != nil
}

// rows looks at all rows of a kind that can be read.
func (c *checker) rows(name string, kind byte, do func(key, row []byte) error) {
	c.note(eachRow(c.l.db, kind, func(key, row []byte) error {
		if err := do(key, row); err != nil {
			c.fault("%s %x: %v", name, key, err)
		}
		return nil
	}))
}

func (c *checker) place(key, row []byte) error {
	l := c.l
	dead := len(l.dead)
	if err := l.loadStub(key, row); err != nil {
		return err
	}
	var x *stub
	if len(l.dead) > dead {
		x = l.dead[dead]
	} else {
		x = l.view.All.Last()
	}
	c.places[x.seq] = x
	return nil
}

func (c *checker) record(cut func([]byte) (protocol.Seq, error), key, row []byte) error {
	seq, err := cut(key)
	if err != nil {
		return err
	}
	x := c.places[seq]
	delete(c.places, seq)
	r, err := parseRecord(row, seq, "")
	switch {
	case err != nil:
		return err
	case x == nil:
		return errors.New("it has no place")
	case !sameMessage(x, r) || !bytes.Equal(key, x.row(nil)):
		return errors.New("its place is another message's")
	}
	return nil
}

func sameMessage(x *stub, r *registry.Record) bool {
	return x.time == r.Time && x.sender == r.Sender && x.stream.Topic == r.Topic && x.stream.To == r.To &&
		x.slot == r.Slot && int(x.size) == len(r.Payload) && x.charge == uint32(retained.Charge(r))
}
