package registry

import (
	"errors"
	"sync/atomic"

	"github.com/pilotgo/pilotgo/protocol"
)

// SharedLog is a Log to which other registries append too. What a registry reads
// and decides by is what it has taken; Append refuses what was decided by less
// than there is, so that the log itself gives everything one order.
//
// One goroutine calls Append and Take. Append differs from that of a Log:
//
//   - It fails with ErrBehind, and stores nothing, when others appended behind
//     what was taken. Take then has something to hand over. Where Take fails with
//     ErrReloaded the batch may be part of what Load hands over.
//   - An empty batch is stored like any other. That it was tells that what was
//     decided before was decided by all there is.
//   - With protocol.ErrUnknownOutcome the batch may be stored all the same, also
//     later; if it is, Take hands it over like another's. With any other error it
//     is not and will not be.
type SharedLog interface {
	Log

	// News holds a token when there may be something to take.
	News() <-chan struct{}

	// Take makes what others have appended part of what is read, batch after
	// batch, and calls apply behind each. It returns when nothing more is at
	// hand, and does not wait for more.
	//
	// It fails with ErrReloaded when the log was too far behind for that and has
	// read all of its state anew: Load hands it over.
	Take(apply func(*Batch) error) error
}

var (
	// ErrBehind is that others have appended to a SharedLog first.
	ErrBehind = errors.New("others have appended first")

	// ErrReloaded is that a SharedLog has read its state anew.
	ErrReloaded = errors.New("the log was read anew")
)

// apply takes over a batch that another registry has appended, while nothing is
// staged.
func (b *broker) apply(batch *Batch) error {
	// Who appended it knew no keys up to there. A message may have one that was
	// used before.
	b.keys.forgetUpTo(batch.KeyFloor)
	for _, r := range batch.Records {
		b.seq, b.time = r.Seq, max(b.time, r.Time)
		b.keys.add(keyRow{keyOf(r.Sender, r.Key), r.Digest, r.Seq, r.Time})
	}
	for _, e := range batch.Fences {
		b.fences[e.Topic] = e.Fence
	}
	for _, e := range batch.Entries {
		if err := b.applyEntry(e); err != nil {
			return err
		}
	}
	for _, c := range batch.Claims {
		b.claimed(c)
	}
	b.settled(moment{b.seq, b.time}, len(batch.Records))
	return nil
}

func (b *broker) applyEntry(e Entry) error {
	if e.Value != nil {
		return b.loadEntry(e)
	}
	return b.dropEntry(e)
}

// Claim is that a session of a client process began, so that an earlier one is
// over, on whichever registry that is: what it brought and was given up must not
// enter the log behind what the new one brings.
type Claim struct {
	Key      string // of the node
	Instance protocol.Instance
}

// instances are the client processes with a session here. What one is told of is
// set once its session is over.
type instances map[Claim]*atomic.Bool

// claim begins a session.
func (b *broker) claim(c Claim, over *atomic.Bool) {
	was, had := b.instances[c]
	b.instances[c] = over
	b.step.Claims = append(b.step.Claims, c)
	b.step.undo = append(b.step.undo, func() {
		if had {
			b.instances[c] = was
		} else {
			delete(b.instances, c)
		}
	})
}

// claimed notes that a session began elsewhere.
func (b *broker) claimed(c Claim) {
	if over := b.instances[c]; over != nil {
		over.Store(true)
		delete(b.instances, c)
	}
}

// disclaim ends a session. Nothing of that is in the log.
func (b *broker) disclaim(c Claim, over *atomic.Bool) {
	if b.instances[c] == over {
		delete(b.instances, c)
	}
}

// present takes over which nodes have a session here, which no log knows.
func (b *broker) present(was *broker) {
	for _, id := range was.nodeIDs {
		old := was.nodesByID[id]
		n, known := b.nodesByID[id]
		if old.Online == 0 {
			continue
		}
		if !known {
			n = old // its admission could not be stored
		}
		n.Online = old.Online
		b.putNode(n)
	}
	for _, over := range was.instances {
		over.Store(true) // claims may have been missed
	}
}

// take catches up with what others have appended to a shared log.
func (q *sequencer) take() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.shared.Take(func(batch *Batch) error {
		if err := q.broker.apply(batch); err != nil {
			return err
		}
		q.retell(batch.Entries)
		if n := len(batch.Records); n > 0 {
			q.head.Store(uint64(batch.Records[n-1].Seq))
			q.index.wake(batch.Records)
			q.grow()
		}
		return nil
	})
	if errors.Is(err, ErrReloaded) {
		return q.reload()
	}
	return err
}

// reload puts a broker in the place of one that the log has left behind.
func (q *sequencer) reload() error {
	fresh := newBroker(q.broker.epoch, q.broker.opts)
	if err := fresh.load(q.log); err != nil {
		return err
	}
	fresh.present(q.broker)
	was := q.headSeq()
	q.broker = fresh
	q.index.rejoinAll(was, fresh.joinedSet)
	q.head.Store(uint64(fresh.seq))
	q.judged(fresh, nil)
	q.index.wakeAll()
	q.grow()
	return nil
}

// follow is take while there is no job.
func (q *sequencer) follow() {
	if err := q.take(); err != nil {
		q.lost(err)
	}
}

// grow tells those who wait for the head.
func (q *sequencer) grow() {
	close(q.grown)
	q.grown = make(chan struct{})
}

// doubtful reports whether an answer to the jobs at hand may be wrong for a
// shared log of which not all is taken. That a message is in the log, or a node
// id taken, stays true; that a condition does not hold need not.
func (q *sequencer) doubtful() bool {
	if q.shared == nil {
		return false
	}
	for _, j := range q.jobs {
		if j.fresh {
			return true
		}
		for i := range j.items {
			if it := &j.items[i]; !it.passed && it.refuse != nil && conditional(it.refuse.Code) {
				return true
			}
		}
	}
	return false
}

func conditional(code protocol.Code) bool {
	return code == protocol.ErrStaleTerm || code == protocol.ErrConflict
}
