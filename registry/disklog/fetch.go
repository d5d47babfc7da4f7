package disklog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// fetch puts the records of the chosen messages into the page: the newest from
// memory, the others from the disk.
func (l *Log) fetch(r *reading, disk *moment) error {
	p, missing := r.Page, 0
	for _, x := range r.stubs {
		rec := x.recent.Load()
		if rec == nil {
			missing++
		}
		p.Records = append(p.Records, rec)
	}
	if missing == 0 {
		return nil
	}
	err := l.fetchParts(r.stubs, p.Records, missing, disk)
	if err != nil {
		p.Records = p.Records[:0] // some are nil
	}
	return err
}

const (
	sparse    = 8  // seqs from one message to the next: few of them share a block
	mostParts = 8  // of a page
	leastPart = 32 // messages that are worth a goroutine
	helpers   = 16 // goroutines that help, for all readers together
)

// fetchParts reads a page whose messages lie far from each other in several
// places of the disk at once, as far as other readers leave goroutines for it.
func (l *Log) fetchParts(stubs []*stub, records []*registry.Record, missing int, disk *moment) error {
	n := len(stubs)
	if span := stubs[n-1].seq - stubs[0].seq; missing < 2*leastPart || span < protocol.Seq(sparse*n) {
		return l.fetchPart(stubs, records, disk)
	}
	size := max(leastPart, (n+mostParts-1)/mostParts)
	var wg sync.WaitGroup
	var errs [mostParts]error
	for i := 1; len(stubs) > size && l.help(); i++ {
		part, to := stubs[:size], records[:size]
		stubs, records = stubs[size:], records[size:]
		wg.Go(func() {
			defer func() { <-l.helpers }()
			errs[i] = l.fetchPart(part, to, disk)
		})
	}
	errs[0] = l.fetchPart(stubs, records, disk)
	wg.Wait()
	return errors.Join(errs[:]...)
}

// help takes one of the goroutines that readers share, if there is one left.
func (l *Log) help() bool {
	select {
	case l.helpers <- struct{}{}:
		return true
	default:
		return false
	}
}

// fetchPart reads the records that are missing in one pass, in the order of
// their rows.
func (l *Log) fetchPart(stubs []*stub, records []*registry.Record, disk pebble.Reader) error {
	missing := make([]wanted, 0, len(stubs))
	for i, x := range stubs {
		if records[i] == nil {
			missing = append(missing, wanted{x, &records[i]})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	// Of one stream they are in order already.
	slices.SortFunc(missing, func(a, b wanted) int { return byRow(a.stub, b.stub) })
	f, err := newFetcher(disk, missing[0].stub, missing[len(missing)-1].stub)
	if err != nil {
		return l.damaged(err)
	}
	for _, w := range missing {
		row, err := f.at(w.stub)
		if err == nil {
			*w.record, err = parseRecord(row, w.seq, w.stream.Topic)
		}
		if err != nil {
			_ = f.it.Close() // has the same to say
			return l.row(fmt.Sprint("message ", w.seq), err)
		}
	}
	return l.damaged(f.it.Close())
}

// wanted is a message that is to be read, and where to.
type wanted struct {
	*stub
	record **registry.Record
}

// fetcher reads rows of messages in their order.
type fetcher struct {
	it   *pebble.Iterator
	key  [16]byte
	last *stub
}

func newFetcher(disk pebble.Reader, first, last *stub) (f *fetcher, err error) {
	f = &fetcher{}
	f.it, err = disk.NewIter(&pebble.IterOptions{LowerBound: first.row(nil), UpperBound: append(last.row(nil), 0)})
	return f, err
}

var errMissing = errors.New("not in the store")

// at is valid until the next call.
func (f *fetcher) at(x *stub) ([]byte, error) {
	key := x.row(f.key[:])
	// The next row is often the one.
	order := -1
	for range f.steps(x) {
		if order >= 0 || !f.it.Next() {
			break
		}
		order = bytes.Compare(f.it.Key(), key)
	}
	found := order == 0 || order < 0 && f.it.SeekGE(key) && bytes.Equal(f.it.Key(), key)
	f.last = x
	if !found {
		return nil, cmp.Or(f.it.Error(), errMissing)
	}
	return f.it.ValueAndErr()
}

// steps tells how many are tried before a search.
func (f *fetcher) steps(x *stub) int {
	switch last := f.last; {
	case last == nil:
	case x.old && x.seq-last.seq <= 4:
		return 1
	case !last.old && last.stream.Own.group == x.stream.Own.group && last.seq/window == x.seq/window:
		return 4
	}
	return 0
}
