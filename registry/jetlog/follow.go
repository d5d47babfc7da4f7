package jetlog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// follow makes the queue get what stands behind pos, until Close. The consumer
// lives in the memory of one server and is made anew when that or the
// connection is lost.
func (l *Log) follow(ctx context.Context) error {
	c, err := l.js.OrderedConsumer(ctx, l.logName(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   l.pos + 1,
	})
	if err != nil {
		return err
	}
	running, err := c.Consume(func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			l.queue.put(message{meta.Sequence.Stream, m.Data()})
		}
	}, jetstream.PullMaxBytes(4<<20), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			l.o.Logger.Debug("consumer", "stream", l.o.Stream, "error", err)
		}))
	if err != nil {
		return err
	}
	l.work.Go(func() {
		<-l.ctx.Done()
		running.Stop()
		<-running.Closed()
	})
	return nil
}

// found is what stands next in the stream: something whole, whose body is not
// nil; or open messages; or nothing.
type found struct {
	head
	body  []byte
	last  uint64 // stream sequence of its last message
	bytes int

	// open messages may become something whole with those that come next. Once a
	// batch stands behind them they never will.
	open int
}

// errGap: messages behind pos are not there any more.
var errGap = errors.New("messages behind what was taken are gone")

func goneBehind(pos uint64) error {
	return protocol.Errorf(protocol.ErrInternal, "messages behind %d are gone: the stream was purged by somebody else, or has lost them", pos)
}

// next finds the batch that stands behind pos. It does what other messages say,
// and passes over those that do not stand where they must. The caller has mu.
func (l *Log) next() (found, error) {
	for {
		m, ok := l.queue.at(0)
		switch {
		case !ok:
			return found{}, nil
		case m.seq <= l.pos:
			l.queue.pass(l.pos)
			continue
		case m.seq != l.pos+1:
			return found{}, errGap
		}
		f, err := l.assemble()
		if err != nil {
			return found{}, l.fail(err)
		}
		switch {
		case f.open > 0, f.body != nil && f.kind == kindBatch:
			return f, nil
		case f.body != nil:
			if err := l.perform(&f); err != nil {
				return found{}, l.fail(err)
			}
		}
		l.pass(&f)
	}
}

// assemble puts the messages at the front together. When they are nothing whole
// and will not be, the body is nil.
func (l *Log) assemble() (f found, err error) {
	for i := 0; ; i++ {
		m, ok := l.queue.at(i)
		if !ok {
			f.open, f.body = i, nil
			return f, nil
		}
		h, body, err := parseHead(m.data)
		if err == nil {
			err = l.mine(&h)
		}
		if err != nil && !errors.Is(err, errForeign) {
			return f, err
		}
		switch {
		case err == nil && l.fits(&f, &h, i, m.seq):
		case i == 0:
			f.last, f.bytes = m.seq, len(m.data)
			fallthrough
		default:
			f.body = nil // and m is looked at once those before it are passed
			return f, nil
		}
		f.head, f.last, f.bytes = h, m.seq, f.bytes+len(m.data)
		if h.count == 1 {
			f.body = body
		} else {
			f.body = append(f.body, body...)
		}
		if i+1 == int(h.count) {
			return f, nil
		}
	}
}

// mine tells why a message cannot be of this log.
func (l *Log) mine(h *head) error {
	switch {
	case h.epoch == l.epoch.ID, l.epoch.ID == 0 && h.kind == kindBegin:
		return nil
	case l.epoch.ID == 0:
		return damaged("the first is of kind %d", h.kind)
	}
	return protocol.Errorf(protocol.ErrWrongEpoch, "the stream goes on with epoch %v", h.epoch)
}

// fits reports whether a message is the i-th of what was found so far, and where
// it must be.
func (l *Log) fits(f *found, h *head, i int, seq uint64) bool {
	switch {
	case int(h.index) != i, seq != l.pos+1+uint64(i):
		return false
	case i > 0 && (h.id != f.id || h.count != f.count || h.kind != f.kind):
		return false
	case h.count > 1 && h.kind != kindBatch:
		return false
	}
	return !h.kind.conditional() || h.base == seq-1
}

// perform does what a message says that is no batch.
func (l *Log) perform(f *found) error {
	var topic string
	var a, b, c, d, e uint64
	switch f.kind {
	case kindBegin:
		if err := parseNumbers(f.body, &a, &b); err != nil || l.epoch.ID != 0 {
			return err
		}
		l.epoch = protocol.Epoch{ID: protocol.EpochID(a), Born: b}
		l.mem.Store(memlog.New(memlog.Options{Epoch: l.epoch}))
	case kindPurge:
		err := read(f.body, func(r *reader) { r.array(2, func() { topic, a = r.text(), r.uint() }) })
		if err != nil {
			return err
		}
		return l.memory().Purge(topic, protocol.Seq(a))
	case kindExpire:
		if err := parseNumbers(f.body, &a); err != nil {
			return err
		}
		return l.memory().Expire(protocol.Time(a))
	case kindRetain:
		if err := parseNumbers(f.body, &a, &b, &c, &d, &e); err != nil {
			return err
		}
		l.keep = retention(a, b, c, d, e)
		l.memory().Retain(l.keep)
	case kindSaved:
		if err := parseNumbers(f.body, &a, &b); err != nil {
			return err
		}
		l.noteSaved(a, b)
	case kindBatch, kindPart, kindSnapshot:
	}
	return nil
}

func retention(messages, age, versions, topic, total uint64) registry.Retention {
	return registry.Retention{
		Messages: int(messages), Age: time.Duration(age), Versions: int(versions),
		TopicBytes: int64(topic), TotalBytes: int64(total),
	}
}

// pass moves pos behind what was found.
func (l *Log) pass(f *found) {
	l.pos = f.last
	l.since += int64(f.bytes)
	l.queue.pass(f.last)
}

// take makes a batch part of what is read.
func (l *Log) take(f *found) (*registry.Batch, error) {
	p, err := parsePart(f.body)
	if err == nil {
		err = l.memory().Append(&p.Batch)
	}
	if err != nil {
		return nil, l.fail(err)
	}
	l.pass(f)
	return &p.Batch, nil
}

// News implements registry.SharedLog.
func (l *Log) News() <-chan struct{} { return l.queue.news }

// Take implements registry.SharedLog.
func (l *Log) Take(apply func(*registry.Batch) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.over(); err != nil {
			return err
		}
		f, err := l.next()
		if errors.Is(err, errGap) {
			return l.reload()
		}
		if err != nil || f.body == nil {
			return err
		}
		b, err := l.take(&f)
		if err != nil {
			return err
		}
		if err := apply(b); err != nil {
			return l.fail(err)
		}
	}
}

// catchUp takes what stands up to a stream sequence.
func (l *Log) catchUp(ctx context.Context, to uint64) error {
	for {
		f, err := l.next()
		switch {
		case errors.Is(err, errGap):
			return l.fail(goneBehind(l.pos))
		case err != nil:
			return err
		case f.body != nil:
			if _, err := l.take(&f); err != nil {
				return err
			}
			continue
		case l.pos+uint64(f.open) >= to:
			return nil
		}
		select {
		case <-l.queue.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
