package jetlog

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	// patience is how long fragments of another registry's batch may wait for the
	// rest of it. Then a batch that is put behind them ends that.
	patience = 250 * time.Millisecond

	// again is how long to wait for news before a batch is sent once more.
	again = 100 * time.Millisecond
)

// Append implements registry.SharedLog.
func (l *Log) Append(b *registry.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	last, _ := l.memory().Head()
	for _, r := range b.Records {
		if r.Seq <= last {
			return protocol.Errorf(protocol.ErrInternal, "append seq %d behind %d", r.Seq, last)
		}
		last = r.Seq
	}
	l.letPass()
	a := attempt{l: l, id: newID(), body: (&part{Batch: *b}).append()}
	began := time.Now()
	f, err := a.run()
	if errors.Is(err, registry.ErrBehind) {
		l.ask(time.Since(began))
	}
	if err != nil {
		return err
	}
	l.courtesy.lost, l.full = 0, nil
	if err := l.memory().Append(b); err != nil {
		return l.fail(err)
	}
	before := l.since / l.every
	l.pass(&f)
	if l.since/l.every > before {
		l.save(false)
	}
	return nil
}

// attempt is one batch on its way into the stream.
//
// It is sent until an ack tells that it stands right behind its base, or until
// the stream shows what stands there. The base is always the last message that
// was seen, and a batch counts nowhere else, so it is in the log at most once
// however often it is sent.
type attempt struct {
	l        *Log
	id       id
	body     []byte
	deadline time.Time
	doubt    bool // one that was sent may be on its way
	behind   bool // the stream goes on behind what came
	refused  error
}

// run returns where the batch is.
func (a *attempt) run() (found, error) {
	l := a.l
	a.deadline = time.Now().Add(l.o.Timeout)
	for {
		f, err := l.next()
		switch {
		case errors.Is(err, errGap):
			return f, registry.ErrBehind // Take finds out
		case err != nil:
			return f, err
		case f.body != nil && f.id == a.id:
			return f, nil
		case f.body != nil:
			return f, registry.ErrBehind
		case l.ctx.Err() != nil:
			return f, a.end(protocol.ErrClosed)
		case time.Now().After(a.deadline):
			return f, a.end(unavailable("no answer in time"))
		case f.open > 0 && f.id != a.id && a.patient(&f):
			continue
		}
		if f, ok := a.send(l.pos + uint64(f.open)); ok {
			return f, nil
		}
		if a.refused != nil {
			return f, a.end(a.refused)
		}
		if !l.wait(min(again, time.Until(a.deadline))) && a.behind {
			l.fetch(a.deadline)
		}
	}
}

// end is the error of an attempt that failed.
func (a *attempt) end(err error) error {
	if errors.Is(err, a.refused) && !a.doubt {
		return err
	}
	closed := errors.Is(err, protocol.ErrClosed)
	if !closed {
		a.l.setAway()
	}
	if a.doubt {
		a.l.full = nil // what may yet be stored is not refused when it is sent again
		return protocol.Errorf(protocol.ErrUnknownOutcome, "the cluster did not tell whether it is stored: %v", err)
	}
	if full := a.l.full; full != nil && !closed {
		return full
	}
	return err
}

// patient waits for the rest of another's batch, and reports whether something
// came.
func (a *attempt) patient(f *found) bool {
	until := time.Now().Add(patience)
	for time.Now().Before(until) {
		a.l.wait(time.Until(until))
		if _, ok := a.l.queue.at(f.open); ok {
			return true
		}
	}
	return false
}

// wait waits at most d, and reports whether something came.
func (l *Log) wait(d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-l.queue.more:
		return true
	case <-t.C:
	case <-l.ctx.Done():
	}
	return false
}

// fetchMost is how many messages are fetched in a row.
const fetchMost = 64

// fetch asks the leader for what stands behind all that came. A consumer whose
// server was lost takes seconds to be made anew.
func (l *Log) fetch(deadline time.Time) {
	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	defer cancel()
	s, err := l.js.Stream(ctx, l.logName())
	if err != nil {
		return
	}
	for range fetchMost {
		m, err := s.GetMsg(ctx, l.queue.follows())
		if err != nil {
			return
		}
		l.queue.insert(message{m.Sequence, m.Data})
	}
}

// send sends all fragments and reports whether all of them stand behind base.
func (a *attempt) send(base uint64) (f found, ok bool) {
	l := a.l
	h := head{kind: kindBatch, epoch: l.epoch.ID, base: base, id: a.id}
	f = found{last: base}
	list := fragments(h, a.body, l.room())
	if len(list) > maxFragments {
		a.refused = protocol.Errorf(protocol.ErrTooLarge, "a batch of %d bytes", len(a.body))
		return f, false
	}
	acks := make([]jetstream.PubAckFuture, 0, len(list))
	for i, m := range list {
		ack, err := l.js.PublishAsync(l.logSubject(), m, jetstream.WithExpectStream(l.logName()),
			jetstream.WithExpectLastSequence(base+uint64(i)), jetstream.WithRetryAttempts(0))
		if err != nil {
			a.failed(err)
			break
		}
		acks = append(acks, ack)
	}
	ok = len(acks) == len(list)
	timer := time.NewTimer(max(0, time.Until(a.deadline)))
	defer timer.Stop()
	for i, ack := range acks {
		select {
		case got := <-ack.Ok():
			ok = ok && got.Sequence == base+1+uint64(i)
			f.last, f.bytes = got.Sequence, f.bytes+len(list[i])
		case err := <-ack.Err():
			a.failed(err)
			ok = false
		case <-timer.C:
			a.doubt = true
			return f, false
		case <-l.ctx.Done():
			a.doubt = true
			return f, false
		}
	}
	return f, ok
}

// maxFragments is what the head of a message can count.
const maxFragments = 1<<16 - 1

// room is how large a message may be.
func (l *Log) room() int {
	const headers = 512 // of NATS
	return int(min(l.nc.MaxPayload(), 1<<20)) - headers
}

// failed notes why a message was not acked. What surely was not stored leaves no
// doubt.
func (a *attempt) failed(err error) {
	code := errorCode(err)
	switch {
	case isConflict(err):
		a.behind = true
	case unsent(err):
	case code == codeExceeded || code == codeResources || code == codeStorage:
		a.refused = protocol.Errorf(protocol.ErrStorageFull, "the NATS servers have no room: %v", err)
		a.l.full = a.refused
		a.l.save(true)
	// A full stream has no code of its own, only the text of the store's error.
	case code == codeStoreFailed && strings.Contains(err.Error(), "maximum bytes"):
		a.refused = protocol.Errorf(protocol.ErrStorageFull, "%v", err)
		a.l.save(true)
	case errors.Is(err, nats.ErrMaxPayload):
		a.refused = protocol.Errorf(protocol.ErrTooLarge, "%v", err)
	case errors.Is(err, nats.ErrConnectionClosed):
		a.refused = protocol.ErrClosed
	default:
		a.doubt = true
	}
}

// unsent reports whether no server had the message: there is no connection, or
// the stream has no leader.
func unsent(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting)
}

// Purge implements registry.Log. All registries purge at the same place of the
// log.
func (l *Log) Purge(topic string, upTo protocol.Seq) error {
	w := newWriter()
	w.list(2)
	w.text(topic)
	w.uint(uint64(upTo))
	return l.say(kindPurge, w.buf.Bytes())
}

// Expire implements registry.Log.
func (l *Log) Expire(now protocol.Time) error {
	if l.Stats().Messages == 0 {
		return l.memory().Expire(now)
	}
	return l.say(kindExpire, numbers(uint64(now)))
}

// retain tells a new retention, if it is one.
func (l *Log) retain() error {
	k := l.o.Retention
	l.mu.Lock()
	same := k == l.keep
	l.mu.Unlock()
	if same {
		return nil
	}
	return l.say(kindRetain, numbers(uint64(k.Messages), uint64(k.Age), uint64(k.Versions), uint64(k.TopicBytes), uint64(k.TotalBytes)))
}

// say puts a message into the stream that counts wherever it stands, and does
// what it says unless batches of others stand before it: then Take does. Saying
// it twice does no harm.
//
// It does not hold mu while it waits: views of the registry wait for whoever does.
func (l *Log) say(k kind, body []byte) error {
	l.mu.Lock()
	err := l.usable()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	h := head{kind: k, epoch: l.epoch.ID, id: newID()}
	m := fragments(h, body, headSize+len(body)+1)[0]
	ctx, cancel := context.WithTimeout(l.ctx, l.o.Timeout)
	defer cancel()
	ack, err := l.js.Publish(ctx, l.logSubject(), m, jetstream.WithExpectStream(l.logName()))
	if err != nil {
		return unavailable(err.Error())
	}
	done, err := l.said(&found{head: h, body: body, last: ack.Sequence, bytes: len(m)})
	if done || err != nil {
		return err
	}
	select {
	case <-l.queue.reaches(ack.Sequence):
		return l.sift()
	case <-ctx.Done():
		return nil
	}
}

// said does what a message says that is in the stream, if all before it was passed.
func (l *Log) said(f *found) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.over(); err != nil {
		return false, err
	}
	if f.last == l.pos+1 {
		if err := l.perform(f); err != nil {
			return false, l.fail(err)
		}
		l.pass(f)
	}
	return f.last <= l.pos, nil
}

// sift does what messages say that stand before the next batch.
func (l *Log) sift() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.over(); err != nil {
		return err
	}
	if _, err := l.next(); err != nil && !errors.Is(err, errGap) {
		return err
	}
	return nil
}
