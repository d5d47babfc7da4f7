package disklog

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
)

// fetch puts the records of the chosen messages into the page: the newest from
// memory, the others from the disk in one pass.
func (l *Log) fetch(r *reading, disk *moment) error {
	p := r.page
	f := fetcher{}
	for _, x := range r.stubs {
		rec := x.recent.Load()
		if rec == nil {
			if err := f.begin(disk, x.seq, r.stubs[len(r.stubs)-1].seq); err != nil {
				return l.damaged(err)
			}
			row, err := f.at(x.seq)
			if err == nil {
				rec, err = parseRecord(row, x.seq, x.stream.topic)
			}
			if err != nil {
				_ = f.end() // has the same to say
				return l.row(fmt.Sprint("message ", x.seq), err)
			}
		}
		p.Records = append(p.Records, rec)
	}
	return l.damaged(f.end())
}

// fetcher reads rows of messages with rising seqs.
type fetcher struct {
	it   *pebble.Iterator
	key  [9]byte
	last protocol.Seq
}

func (f *fetcher) begin(disk *moment, first, last protocol.Seq) (err error) {
	if f.it == nil {
		f.it, err = disk.NewIter(&pebble.IterOptions{
			LowerBound: seqKey(nil, kindRecord, first),
			UpperBound: seqKey(nil, kindRecord, last+1),
		})
	}
	return err
}

var errMissing = errors.New("not in the store")

// at is valid until the next call.
func (f *fetcher) at(seq protocol.Seq) ([]byte, error) {
	// In a dense selection the next row is often the one.
	found := protocol.Seq(0)
	if f.last != 0 && seq-f.last <= nextFew && f.it.Next() {
		found, _ = cutSeqKey(f.it.Key())
	}
	if found < seq && f.it.SeekGE(seqKey(f.key[:], kindRecord, seq)) {
		found, _ = cutSeqKey(f.it.Key())
	}
	f.last = seq
	if found != seq {
		return nil, cmp.Or(f.it.Error(), errMissing)
	}
	return f.it.ValueAndErr()
}

// nextFew is how near the next message must be that a step is tried before a
// search.
const nextFew = 4

func (f *fetcher) end() error {
	if f.it == nil {
		return nil
	}
	err := f.it.Close()
	f.it = nil
	return err
}
