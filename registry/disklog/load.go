package disklog

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// load fills the view from the store, in the order of the kinds of rows.
func (l *Log) load() error {
	l.view.recent.limit = l.o.Recent
	l.graves = make(graveyard)
	disk := l.view.disk
	if err := l.loadMeta(disk); err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		kind byte
		row  func(key, row []byte) error
	}{
		{"mark of a topic", kindTopic, l.loadMark},
		{"mark of a node's messages", kindDirect, l.loadMark},
		{"dead messages", kindDead, l.graves.load},
		{"message's place", kindIndex, l.loadStub},
		{"keys", kindKeys, l.loadKeys},
	} {
		if err := eachRow(disk, kind.kind, kind.row); err != nil {
			return l.row(kind.name, err)
		}
	}
	l.view.Evicted = max(l.view.Evicted, l.view.Forgotten)
	if n := l.view.All.Len(); n > 0 && l.view.All.Last().seq > l.view.Head {
		return l.row("head", fmt.Errorf("%w: there are messages behind it", errRow))
	}
	return nil
}

// eachRow goes through the rows of one kind in the order of their keys, which
// are valid only until do returns.
func eachRow(from pebble.Reader, kind byte, do func(key, row []byte) error) error {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var row []byte
		if row, err = it.ValueAndErr(); err == nil {
			err = do(it.Key(), row)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// getRow hands over a row, if it is there.
func getRow(from pebble.Reader, key []byte, do func(row []byte) error) error {
	var row []byte
	var c io.Closer
	row, c, err := from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return do(row)
}

func getNumbers(from pebble.Reader, key []byte, numbers ...*uint64) error {
	return getRow(from, key, func(row []byte) error { return parseNumbers(row, numbers...) })
}

func (l *Log) loadMeta(disk pebble.Reader) error {
	var epoch, head, at, floor, forgotten uint64
	err := getNumbers(disk, keyEpoch, &epoch, &l.epoch.Born)
	err = errors.Join(err, getNumbers(disk, keyHead, &head, &at))
	err = errors.Join(err, getNumbers(disk, keyFloor, &floor))
	err = errors.Join(err, getNumbers(disk, keyForgotten, &forgotten))
	err = errors.Join(err, getRow(disk, keyIdentity, func(row []byte) (err error) {
		l.identity, err = parseIdentity(row)
		return err
	}))
	l.epoch.ID = protocol.EpochID(epoch)
	l.view.Head, l.view.Time = protocol.Seq(head), protocol.Time(at)
	l.view.Forgotten = protocol.Seq(forgotten)
	l.keys.floor, l.keyRows.floor = protocol.Seq(floor), protocol.Seq(floor)
	return l.row("head of the log", err)
}

func (l *Log) loadMark(key, row []byte) error {
	s, err := parseMark(key, row)
	if err != nil {
		return err
	}
	l.view.Enter(s)
	return nil
}

// parseMark makes a stream that has nothing but its mark.
func parseMark(key, row []byte) (*stream, error) {
	topic, to := string(key[1:]), protocol.NodeID(0)
	if key[0] == kindDirect {
		r := reader{b: key[1:]}
		topic, to = "", protocol.NodeID(r.u32())
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	var seq uint64
	err := parseNumbers(row, &seq)
	s := newStream(topic, to)
	s.Evicted = protocol.Seq(seq)
	return s, err
}

func (l *Log) loadStub(key, row []byte) error {
	seq, err := cutSeqKey(key)
	if err != nil {
		return err
	}
	if l.graves.has(seq) {
		x, err := parseIndex(row, seq, detached)
		if err != nil {
			return err
		}
		if x.old {
			return errRow // it would have been removed
		}
		x.gone = true
		l.dead = append(l.dead, x)
		return nil
	}
	x, err := parseIndex(row, seq, l.loadStream)
	if err != nil {
		return err
	}
	l.view.put(x)
	return nil
}

// detached is for messages that nobody is to see.
func detached(topic []byte, to protocol.NodeID) *stream { return newStream(string(topic), to) }

func (l *Log) loadStream(topic []byte, to protocol.NodeID) *stream {
	s := l.view.Direct[to]
	if to == 0 {
		s = l.view.Topics[string(topic)]
	}
	if s == nil {
		s = newStream(string(topic), to)
		s.Evicted = l.view.Forgotten
		l.view.Enter(s)
	}
	return s
}

func (l *Log) loadKeys(key, row []byte) error {
	first, err := cutSeqKey(key)
	if err != nil {
		return err
	}
	l.keyRows.add(first)
	return parseKeys(row, func(e registry.KeyEntry) error {
		l.keys.add(e.Seq)
		return nil
	})
}

// Load implements registry.Log.
func (l *Log) Load(s registry.State) error {
	disk, done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	return l.loadState(disk, s)
}

func (l *Log) loadState(disk pebble.Reader, s registry.State) error {
	var stop error // of a function of s
	each := func(kind byte, do func(key, row []byte) (fault error)) error {
		err := eachRow(disk, kind, do)
		if err == nil || stop != nil {
			return stop
		}
		return l.row("state", err)
	}
	keep := func(err error) error {
		stop = err
		return err
	}
	if s.Fence != nil {
		if err := each(kindFence, func(key, row []byte) error {
			e, err := parseFence(key, row)
			if err != nil {
				return err
			}
			return keep(s.Fence(e))
		}); err != nil {
			return err
		}
	}
	if s.Entry != nil {
		if err := each(kindEntry, func(key, row []byte) error {
			e, err := parseEntry(key, row)
			if err != nil {
				return err
			}
			return keep(s.Entry(e))
		}); err != nil {
			return err
		}
	}
	var floor uint64
	if err := l.row("floor of the keys", getNumbers(disk, keyFloor, &floor)); err != nil {
		return err
	}
	if s.Floor != nil {
		if err := s.Floor(protocol.Seq(floor)); err != nil {
			return err
		}
	}
	if s.Key == nil {
		return nil
	}
	return each(kindKeys, func(_, row []byte) error {
		return parseKeys(row, func(e registry.KeyEntry) error {
			if e.Seq <= protocol.Seq(floor) {
				return nil
			}
			return keep(s.Key(e))
		})
	})
}

// runs counts the seqs above a floor; there are few gaps between them.
type runs struct {
	list  []run
	n     int
	floor protocol.Seq
}

type run struct{ from, to protocol.Seq }

// add is for seqs above all others.
func (r *runs) add(seq protocol.Seq) {
	if seq <= r.floor {
		return
	}
	r.n++
	if last := len(r.list) - 1; last >= 0 && r.list[last].to+1 == seq {
		r.list[last].to = seq
		return
	}
	r.list = append(r.list, run{seq, seq})
}

// forget raises the floor.
func (r *runs) forget(floor protocol.Seq) {
	r.floor = max(r.floor, floor)
	for len(r.list) > 0 && r.list[0].from <= r.floor {
		first := &r.list[0]
		gone := min(first.to, r.floor)
		r.n -= int(gone - first.from + 1)
		first.from = gone + 1
		if first.from > first.to {
			r.list = r.list[1:]
		}
	}
}
