package disklog

import (
	"errors"
	"fmt"

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
	l := &Log{dir: dir, o: o, folder: f, alarm: alarm, db: db, view: newView()}
	c := checker{l: l, sizes: make(map[protocol.Seq]*stub)}
	c.all()
	return &c.report, errors.Join(db.Close(), f.close())
}

type checker struct {
	l      *Log
	report Report
	sizes  map[protocol.Seq]*stub
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
	c.rows("message's place", kindIndex, c.place)
	c.rows("message", kindRecord, c.record)
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
	for seq := range c.sizes {
		c.fault("message %d: it has a place and no content", seq)
	}
	c.sum()
}

func (c *checker) sum() {
	l := c.l
	if noted := l.folder.readWitness(l.epoch.ID); noted > l.view.head {
		c.fault("the log ends at seq %d, and %d was acknowledged: the next start begins a new epoch", l.view.head, noted)
	}
	if n := l.view.all.n; n > 0 && l.view.all.last().seq > l.view.head {
		c.fault("messages up to seq %d stand behind the head %d", l.view.all.last().seq, l.view.head)
	}
	r := &c.report
	r.Epoch, r.Head = l.epoch, l.view.head
	r.Messages, r.Topics, r.Bytes, r.Keys = l.view.all.n, l.view.filled, l.view.bytes, l.keys.n
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
	if err := c.l.loadStub(key, row); err != nil {
		return err
	}
	x := c.l.view.all.last()
	c.sizes[x.seq] = x
	return nil
}

func (c *checker) record(key, row []byte) error {
	seq, err := cutSeqKey(key)
	if err != nil {
		return err
	}
	x := c.sizes[seq]
	delete(c.sizes, seq)
	r, err := parseRecord(row, seq, "")
	switch {
	case err != nil:
		return err
	case x == nil:
		return errors.New("it has no place")
	case !sameMessage(x, r):
		return errors.New("its place is another message's")
	}
	return nil
}

func sameMessage(x *stub, r *registry.Record) bool {
	return x.time == r.Time && x.sender == r.Sender && x.stream.topic == r.Topic && x.stream.to == r.To &&
		x.slot == r.Slot && int(x.size) == len(r.Payload) && x.charge == chargeOf(r)
}
