package disklog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/internal/retained"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// line is one line of an export: exactly one of its fields is set. Bytes are in
// base64, as package encoding/json writes them.
type line struct {
	Log     *logLine     `json:"log,omitempty"` // the first
	Mark    *markLine    `json:"mark,omitempty"`
	Fence   *fenceLine   `json:"fence,omitempty"`
	Entry   *entryLine   `json:"entry,omitempty"`
	Key     *keyLine     `json:"key,omitempty"`
	Message *messageLine `json:"message,omitempty"`
	End     *endLine     `json:"end,omitempty"` // the last
}

const exportFormat = 1

type logLine struct {
	Format    int           `json:"format"` // of the export
	Epoch     string        `json:"epoch"`
	Born      uint64        `json:"born"`
	Head      protocol.Seq  `json:"head"`
	Time      protocol.Time `json:"time"`
	Floor     protocol.Seq  `json:"key_floor"`
	Forgotten protocol.Seq  `json:"forgotten"`
}

// endLine tells that nothing is missing.
type endLine struct {
	Messages int `json:"messages"`
}

type markLine struct {
	Topic string          `json:"topic,omitempty"`
	To    protocol.NodeID `json:"to,omitempty"`
	Seq   protocol.Seq    `json:"seq"`
}

type fenceLine struct {
	Topic string       `json:"topic"`
	K     uint64       `json:"k"`
	S     protocol.Seq `json:"s"`
}

type entryLine struct {
	Table []byte `json:"table"`
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

type keyLine struct {
	Sender protocol.NodeID `json:"sender"`
	Key    []byte          `json:"key"`
	Seq    protocol.Seq    `json:"seq"`
	Time   protocol.Time   `json:"time"`
	Digest []byte          `json:"digest"`
}

type messageLine struct {
	Seq     protocol.Seq    `json:"seq"`
	Time    protocol.Time   `json:"time"`
	Sender  protocol.NodeID `json:"sender"`
	Origin  protocol.NodeID `json:"origin,omitempty"`
	To      protocol.NodeID `json:"to,omitempty"`
	Topic   string          `json:"topic,omitempty"`
	Payload []byte          `json:"payload"`
	Key     []byte          `json:"key"`
	Slot    []byte          `json:"slot,omitempty"`
	Fences  []passedLine    `json:"fences,omitempty"`
	Digest  []byte          `json:"digest"`
	Epoch   string          `json:"epoch"`
}

type passedLine struct {
	Topic string `json:"topic"`
	Term  uint64 `json:"term"`
}

// Export writes all that the log holds at this moment as NDJSON, while it goes
// on: messages, the marks of what retention took, fences, entries, idempotency
// keys. The identity key is not in it.
func (l *Log) Export(w io.Writer) error {
	disk, done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	out := bufio.NewWriterSize(w, 64<<10)
	e := exporter{l: l, disk: disk, enc: json.NewEncoder(out)}
	e.enc.SetEscapeHTML(false)
	if err := e.all(); err != nil {
		return err
	}
	return out.Flush()
}

type exporter struct {
	l    *Log
	disk pebble.Reader
	enc  *json.Encoder
	n    int
	fail error // to be told as it is
}

func (e *exporter) put(l line) error {
	e.fail = e.enc.Encode(l)
	return e.fail
}

// each puts a line for each row of a kind.
func (e *exporter) each(kind byte, do func(key, row []byte) error) error {
	err := eachRow(e.disk, kind, do)
	if err == nil || e.fail != nil {
		return e.fail
	}
	return e.l.row("export", err)
}

func (e *exporter) all() error {
	head, err := e.head()
	if err != nil {
		return err
	}
	err = errors.Join(e.put(line{Log: head}), e.each(kindTopic, e.mark), e.each(kindDirect, e.mark))
	if err == nil {
		err = e.l.loadState(e.disk, registry.State{Fence: e.fence, Entry: e.entry, Key: e.key})
	}
	if err == nil {
		err = e.messages()
	}
	if err == nil {
		err = e.put(line{End: &endLine{e.n}})
	}
	return err
}

// head reads what the moment has, which may be less than the log has by now.
func (e *exporter) head() (*logLine, error) {
	at := &Log{dir: e.l.dir}
	if err := at.loadMeta(e.disk); err != nil {
		return nil, err
	}
	return &logLine{
		Format: exportFormat, Epoch: e.l.epoch.ID.String(), Born: e.l.epoch.Born,
		Head: at.view.Head, Time: at.view.Time, Floor: at.keys.floor, Forgotten: at.view.Forgotten,
	}, nil
}

func (e *exporter) mark(key, row []byte) error {
	s, err := parseMark(key, row)
	if err != nil {
		return err
	}
	return e.put(line{Mark: &markLine{Topic: s.Topic, To: s.To, Seq: s.Evicted}})
}

func (e *exporter) fence(f registry.FenceEntry) error {
	return e.put(line{Fence: &fenceLine{f.Topic, f.Fence.K, f.Fence.S}})
}

func (e *exporter) entry(x registry.Entry) error {
	return e.put(line{Entry: &entryLine{[]byte(x.Table), []byte(x.Key), x.Value}})
}

func (e *exporter) key(k registry.KeyEntry) error {
	return e.put(line{Key: &keyLine{k.Sender, k.Key, k.Seq, k.Time, k.Digest[:]}})
}

// messages puts them in log order, which is that of their places.
func (e *exporter) messages() error {
	graves := make(graveyard)
	if err := e.each(kindDead, graves.load); err != nil {
		return err
	}
	var some []*stub
	size := 0
	err := e.each(kindIndex, func(key, row []byte) error {
		seq, err := cutSeqKey(key)
		if err != nil || graves.has(seq) {
			return err
		}
		x, err := parseIndex(row, seq, detached)
		if err != nil {
			return err
		}
		some, size = append(some, x), size+int(x.size)
		if len(some) < window && size < exportBytes {
			return nil
		}
		e.fail = e.some(some)
		some, size = some[:0], 0
		return e.fail
	})
	if err == nil && len(some) > 0 {
		err = e.some(some)
	}
	return err
}

// exportBytes of payload are in memory at once, or one message.
const exportBytes = 1 << 20

func (e *exporter) some(stubs []*stub) error {
	records := make([]*registry.Record, len(stubs))
	if err := e.l.fetchPart(stubs, records, e.disk); err != nil {
		return err
	}
	for _, r := range records {
		if err := e.message(r); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) message(r *registry.Record) error {
	e.n++
	m := &messageLine{
		Seq: r.Seq, Time: r.Time, Sender: r.Sender, Origin: r.Origin, To: r.To, Topic: r.Topic,
		Payload: r.Payload, Key: r.Key, Slot: []byte(r.Slot), Digest: r.Digest[:], Epoch: r.Epoch.String(),
	}
	for _, f := range r.Fences {
		m.Fences = append(m.Fences, passedLine{f.Topic, f.Term})
	}
	return e.put(line{Message: m})
}

// Import makes a log out of an export in a folder that is not there yet or is
// empty. It has a new epoch and no identity key. On an error the folder holds no
// log.
func Import(dir string, r io.Reader, opts Options) error {
	o := opts.withDefaults()
	dir = o.FS.PathJoin(dir) // without a slash behind it
	if _, err := o.FS.Stat(o.FS.PathJoin(dir, fileFormat)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("import into %s: there is a log already", dir)
	}
	// In a folder beside it, which takes its place when all of it is there.
	part := dir + partial
	if err := o.FS.RemoveAll(part); err != nil {
		return err
	}
	err := importInto(part, r, o)
	if err == nil {
		err = o.FS.Remove(dir) // fails where there is anything in it
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = o.FS.Rename(part, dir)
	}
	if err == nil {
		err = syncDir(o.FS, o.FS.PathDir(dir))
	}
	if err != nil {
		return fmt.Errorf("import into %s: %w", dir, errors.Join(err, o.FS.RemoveAll(part)))
	}
	return nil
}

func importInto(dir string, r io.Reader, o Options) error {
	l, err := open(dir, o)
	if err != nil {
		return err
	}
	i := importer{l: l, rows: l.db.NewBatch()}
	err = i.all(r)
	if err == nil {
		l.epoch = newEpoch(o.Now())
		err = i.set(keyEpoch, numbersRow(uint64(l.epoch.ID), l.epoch.Born))
	}
	if err == nil {
		err = i.flush()
	}
	if err == nil {
		err = l.folder.setFormat("")
	}
	return errors.Join(err, l.Close())
}

type importer struct {
	l     *Log
	rows  *pebble.Batch
	head  *logLine
	last  protocol.Seq // of the messages so far
	keyed protocol.Seq // of the keys so far
	n     int
	ended bool
}

var errLine = errors.New("not a line of an export of this format")

// maxLine is above the largest message's.
const maxLine = 2*protocol.MaxPayload + 64<<10

func (i *importer) all(r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	for n := 1; in.Scan(); n++ {
		var x line
		d := json.NewDecoder(bytes.NewReader(in.Bytes()))
		d.DisallowUnknownFields()
		err := d.Decode(&x)
		if err == nil {
			err = i.take(&x)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch {
	case in.Err() != nil:
		return in.Err()
	case !i.ended:
		return errors.New("the export ends too early")
	}
	return nil
}

func (i *importer) take(x *line) error {
	if i.ended || (x.Log != nil) != (i.head == nil) {
		return errLine
	}
	switch {
	case x.Log != nil:
		return i.takeHead(x.Log)
	case x.Mark != nil:
		if err := checkPlace(x.Mark.Topic, x.Mark.To); err != nil {
			return err
		}
		return i.set(markKey(newStream(x.Mark.Topic, x.Mark.To)), numbersRow(uint64(x.Mark.Seq)))
	case x.Fence != nil:
		if err := protocol.ValidTopic(x.Fence.Topic); err != nil {
			return err
		}
		return i.set(fenceKey(x.Fence.Topic), numbersRow(x.Fence.K, uint64(x.Fence.S)))
	case x.Entry != nil && len(x.Entry.Table) <= maxTable:
		return i.set(entryKey(string(x.Entry.Table), string(x.Entry.Key)), entryRow(x.Entry.Value))
	case x.Key != nil:
		return i.takeKey(x.Key)
	case x.Message != nil:
		return i.takeMessage(x.Message)
	case x.End != nil && x.End.Messages == i.n:
		i.ended = true
		return nil
	}
	return errLine
}

func (i *importer) takeHead(h *logLine) error {
	if h.Format != exportFormat {
		return fmt.Errorf("format %d, and this program knows %d", h.Format, exportFormat)
	}
	i.head = h
	return errors.Join(
		i.set(keyHead, numbersRow(uint64(h.Head), uint64(h.Time))),
		i.set(keyFloor, numbersRow(uint64(h.Floor))),
		i.set(keyForgotten, numbersRow(uint64(h.Forgotten))),
	)
}

func (i *importer) takeKey(k *keyLine) error {
	r := &registry.Record{Message: protocol.Message{Seq: k.Seq, Time: k.Time, Sender: k.Sender, Key: k.Key}}
	if len(k.Digest) != len(r.Digest) || len(k.Key) > protocol.MaxKey || k.Seq <= i.keyed || k.Seq > i.head.Head {
		return errLine
	}
	i.keyed = k.Seq
	copy(r.Digest[:], k.Digest)
	return i.set(seqKey(nil, kindKeys, k.Seq), appendKey(nil, r))
}

func (i *importer) takeMessage(m *messageLine) error {
	epoch, err := protocol.ParseEpochID(m.Epoch)
	if err != nil {
		return err
	}
	r := &registry.Record{
		Message: protocol.Message{
			Seq: m.Seq, Time: m.Time, Sender: m.Sender, Origin: m.Origin, To: m.To, Topic: m.Topic,
			Payload: m.Payload, Key: m.Key,
		},
		Slot: string(m.Slot), Epoch: epoch,
	}
	for _, f := range m.Fences {
		r.Fences = append(r.Fences, protocol.Mark{Topic: f.Topic, Term: f.Term})
	}
	if len(m.Digest) != len(r.Digest) || len(m.Key) > protocol.MaxKey || len(m.Slot) > protocol.MaxSlot ||
		len(m.Payload) > protocol.MaxPayload || m.Seq <= i.last || m.Seq > i.head.Head {
		return errLine
	}
	if err := checkPlace(m.Topic, m.To); err != nil {
		return err
	}
	copy(r.Digest[:], m.Digest)
	i.last = m.Seq
	i.n++
	x := &stub{
		seq: r.Seq, time: r.Time, stream: newStream(r.Topic, r.To), slot: r.Slot, sender: r.Sender,
		size: uint32(len(r.Payload)), charge: uint32(retained.Charge(r)),
	}
	return errors.Join(
		i.set(x.row(nil), appendRecord(nil, r)),
		i.set(seqKey(nil, kindIndex, r.Seq), appendIndex(nil, x)),
	)
}

// checkPlace checks that there is a topic or a recipient.
func checkPlace(topic string, to protocol.NodeID) error {
	switch {
	case to == 0:
		return protocol.ValidTopic(topic)
	case topic != "":
		return errLine
	}
	return nil
}

func (i *importer) set(key, row []byte) error {
	if err := i.rows.Set(key, row, nil); err != nil {
		return err
	}
	if i.rows.Len() < 4<<20 {
		return nil
	}
	return i.flush()
}

func (i *importer) flush() error {
	if err := i.l.room.check(int64(i.rows.Len())); err != nil {
		return err
	}
	if err := i.l.committer.set(i.rows); err != nil {
		return err
	}
	i.rows = i.l.db.NewBatch()
	return nil
}
