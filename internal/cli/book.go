package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// book is what this node remembers of the hosts it uses, by their address: the
// inbox is read from all of them, and a registry that lost its log is told
// again which topics this node had joined.
type book struct {
	Hosts map[string]*entry `json:"hosts"`
}

type entry struct {
	// Used is the last time the host answered; zero while it never has. A host
	// without a use counts for nothing.
	Used  time.Time `json:"used,omitzero"`
	Epoch string    `json:"epoch,omitempty"` // of the log that was told of Joins
	Joins []string  `json:"joined,omitempty"`
	Tries []string  `json:"pending,omitempty"` // asked to join, not yet acknowledged
	Name  string    `json:"name,omitempty"`    // as it was called last
}

// A host that has not answered for a week is not asked any more.
const idleAfter = 7 * 24 * time.Hour

// useGrain is how exactly Used is kept, so that polling does not write at each turn.
const useGrain = time.Hour

func (a *app) book() (*book, error) {
	b := &book{}
	if err := readJSON(a.bookFile(), b); err != nil {
		return nil, err
	}
	if b.Hosts == nil {
		b.Hosts = make(map[string]*entry)
	}
	maps.DeleteFunc(b.Hosts, func(_ string, e *entry) bool { return e == nil })
	return b, nil
}

// changeBook changes the book if change says that it did.
func (a *app) changeBook(change func(*book) bool) error {
	return a.locked(func() error {
		b, err := a.book()
		if err != nil || !change(b) {
			return err
		}
		return replaceFile(a.bookFile(), b)
	})
}

func (b *book) entry(addr string) *entry {
	e := b.Hosts[addr]
	if e == nil {
		e = &entry{}
		b.Hosts[addr] = e
	}
	return e
}

// counting lists the addresses that the inbox asks.
func (b *book) counting(now time.Time) []string {
	var addrs []string
	for addr, e := range b.Hosts {
		if !e.Used.IsZero() && now.Sub(e.Used) < idleAfter {
			addrs = append(addrs, addr)
		}
	}
	slices.Sort(addrs)
	return addrs
}

// intend notes, before a host is asked, that this node will join topics there. A
// disk that takes no note must stop the command now: after the registry's ack it
// would be too late to say that the inbox will miss these topics.
func (a *app) intend(h host, topics ...string) error {
	b, err := a.book()
	if err != nil {
		return err
	}
	if e := b.Hosts[h.addr]; e != nil && e.knows(topics) {
		return nil
	}
	return a.changeBook(func(b *book) bool {
		e := b.entry(h.addr)
		e.Tries = union(e.Tries, topics)
		e.Tries = e.Tries[max(0, len(e.Tries)-maxTries):]
		return true
	})
}

// maxTries bounds what is kept for hosts that never answer.
const maxTries = 100

func (e *entry) knows(topics []string) bool {
	return !slices.ContainsFunc(topics, func(t string) bool {
		return !slices.Contains(e.Joins, t) && !slices.Contains(e.Tries, t)
	})
}

// joined notes that the host acknowledged the topics in this epoch of its log. It
// returns topics of before that a log of another epoch must be told again, also
// when it fails to note anything.
func (a *app) joined(h host, epoch protocol.EpochID, topics ...string) (again []string, err error) {
	b, err := a.book()
	if err != nil {
		return nil, err
	}
	e := b.entry(h.addr)
	if e.current(epoch, topics, time.Now()) {
		return nil, nil
	}
	again = e.unknownTo(epoch, topics)
	return again, a.changeBook(func(b *book) bool {
		e := b.entry(h.addr)
		e.Joins = union(e.Joins, topics)
		e.Tries = slices.DeleteFunc(e.Tries, func(t string) bool { return slices.Contains(topics, t) })
		e.Used, e.Name = time.Now().UTC(), h.word
		if len(again) == 0 {
			e.Epoch = epoch.String()
		}
		return true
	})
}

// unknownTo are the topics, besides those it has just acknowledged, of which a
// log of this epoch was not told.
func (e *entry) unknownTo(epoch protocol.EpochID, acknowledged []string) []string {
	if e.Epoch == "" || e.Epoch == epoch.String() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.Joins), func(t string) bool { return slices.Contains(acknowledged, t) })
}

// current is whether there is nothing new to note.
func (e *entry) current(epoch protocol.EpochID, topics []string, now time.Time) bool {
	return e.Epoch == epoch.String() && now.Sub(e.Used) < useGrain &&
		!slices.ContainsFunc(topics, func(t string) bool { return !slices.Contains(e.Joins, t) })
}

// rejoined notes that a log of a new epoch knows all topics again.
func (a *app) rejoined(h host, epoch protocol.EpochID) error {
	return a.changeBook(func(b *book) bool {
		b.entry(h.addr).Epoch = epoch.String()
		return true
	})
}

// rejoin tells a log of a new epoch what this node had joined. A topic that is
// refused now does not keep the others out.
func rejoin(ctx context.Context, c *client.Client, topics []string) error {
	for part := range slices.Chunk(topics, joinsAtOnce) {
		err := c.Join(ctx, part...)
		if refused(err) && len(part) > 1 {
			for _, t := range part {
				if err = c.Join(ctx, t); err != nil && !refused(err) {
					return err
				}
			}
		}
		if err != nil && !refused(err) {
			return err
		}
	}
	return nil
}

// joinsAtOnce is how many topics are tried one by one when one of them is refused.
const joinsAtOnce = protocol.MaxJoin

func refused(err error) bool {
	return errors.Is(err, protocol.ErrDenied) || errors.Is(err, protocol.ErrLimit) || errors.Is(err, protocol.ErrInvalidTopic)
}

func union(list, more []string) []string {
	for _, t := range more {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
