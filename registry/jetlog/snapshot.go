package jetlog

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// snapshot says where all that a log held is kept. It is the last message on its
// subject; its body is
//
//	[at, messages, epoch, born, head, time, forgotten, aged, bytes,
//	 messages, age, versions, topic bytes, total bytes (of the retention), subject]
//
// and the parts are on that subject, in order.
type snapshot struct {
	at       uint64 // stream sequence up to which it holds the log
	messages uint64
	bytes    uint64 // of the parts
	subject  string
	keep     registry.Retention
	image    *memlog.Image // of what was read, the numbers alone
	seq      uint64        // of the message that says so
}

func (s *snapshot) append() []byte {
	w := newWriter()
	w.list(15)
	i, k := s.image, s.keep
	for _, n := range []uint64{
		s.at, s.messages, uint64(i.Epoch.ID), i.Epoch.Born, uint64(i.Head), uint64(i.Time),
		uint64(i.Forgotten), uint64(i.Aged), s.bytes,
		uint64(k.Messages), uint64(k.Age), uint64(k.Versions), uint64(k.TopicBytes), uint64(k.TotalBytes),
	} {
		w.uint(n)
	}
	w.text(s.subject)
	return w.buf.Bytes()
}

func parseSnapshot(data []byte) (*snapshot, error) {
	h, body, err := parseHead(data)
	if err != nil {
		return nil, err
	}
	if h.kind != kindSnapshot {
		return nil, damaged("kind %d for a snapshot", h.kind)
	}
	s := &snapshot{image: &memlog.Image{}}
	err = read(body, func(r *reader) {
		r.array(15, func() {
			i := s.image
			s.at, s.messages = r.uint(), r.uint()
			i.Epoch = protocol.Epoch{ID: protocol.EpochID(r.uint()), Born: r.uint()}
			i.Head, i.Time = protocol.Seq(r.uint()), protocol.Time(r.uint())
			i.Forgotten, i.Aged = protocol.Seq(r.uint()), protocol.Seq(r.uint())
			s.bytes = r.uint()
			s.keep = retention(r.uint(), r.uint(), r.uint(), r.uint(), r.uint())
			s.subject = r.text()
		})
	})
	return s, err
}

func (l *Log) snapshotSubject() string { return l.stateName() + ".snapshot" }

// partsOf names the parts of snapshots; older ones sort before newer ones.
func (l *Log) partsOf(at uint64) string { return fmt.Sprintf("%s.parts.%020d-", l.stateName(), at) }

// save makes a snapshot beside the work and shortens the stream of the log: not
// quite up to the snapshot, so that registries that are a little behind need not
// read it, unless it is full. The caller has mu.
func (l *Log) save(full bool) {
	if l.saving || l.closed {
		return
	}
	l.saving = true
	i := newID()
	s := &snapshot{at: l.pos, keep: l.keep, image: l.memory().Image(), subject: l.partsOf(l.pos) + hex.EncodeToString(i[:])}
	upTo := l.saved
	if full {
		upTo = s.at
	}
	l.work.Go(func() {
		err := l.write(s)
		if err == nil {
			err = l.shorten(s, upTo)
		}
		if err != nil && l.ctx.Err() == nil {
			l.o.Logger.Warn("snapshot", "stream", l.o.Stream, "at", s.at, "error", err)
		}
		if err == nil {
			_ = l.say(kindSaved, numbers(s.at, s.bytes))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.saving = false
	})
}

// noteSaved notes that there is a snapshot.
func (l *Log) noteSaved(at, bytes uint64) {
	l.saved = max(l.saved, at)
	l.since = 0
	l.every = max(l.o.SnapshotBytes, int64(bytes))
}

// write stores the parts, and then that they are there.
func (l *Log) write(s *snapshot) error {
	p := &parts{l: l, s: s}
	for _, r := range s.image.Records {
		p.Records = append(p.Records, r)
		p.add(len(r.Payload) + registry.RecordOverhead)
	}
	for _, f := range s.image.Fences {
		p.Fences = append(p.Fences, f)
		p.add(len(f.Topic) + 16)
	}
	for _, e := range s.image.Entries {
		p.Entries = append(p.Entries, e)
		p.add(len(e.Key) + len(e.Value) + 16)
	}
	for _, m := range s.image.Marks {
		p.marks = append(p.marks, m)
		p.add(len(m.Topic) + 16)
	}
	for k := range s.image.Keys() {
		k.Key = append([]byte(nil), k.Key...)
		p.keys = append(p.keys, k)
		p.add(96)
	}
	p.KeyFloor = s.image.Floor
	p.flush()
	p.settle(0)
	if p.err != nil {
		return p.err
	}
	return l.announce(s)
}

// parts sends the parts of a snapshot, a few ahead of their acks.
type parts struct {
	part
	l    *Log
	s    *snapshot
	size int // of part, about
	acks []jetstream.PubAckFuture
	err  error
}

const (
	partBytes  = 256 << 10
	partsAhead = 8
)

func (p *parts) add(size int) {
	if p.size += size; p.size >= partBytes {
		p.flush()
	}
}

func (p *parts) flush() {
	body := p.append()
	p.part, p.size = part{}, 0
	h := head{kind: kindPart, epoch: p.l.epoch.ID, id: newID()}
	for _, m := range fragments(h, body, p.l.room()) {
		if p.err != nil {
			return
		}
		ack, err := p.l.js.PublishAsync(p.s.subject, m)
		if err != nil {
			p.err = err
			return
		}
		p.acks = append(p.acks, ack)
		p.s.messages++
		p.s.bytes += uint64(len(m))
		p.settle(partsAhead)
	}
}

// settle waits until so many acks are missing.
func (p *parts) settle(ahead int) {
	for ; p.err == nil && len(p.acks) > ahead; p.acks = p.acks[1:] {
		select {
		case <-p.acks[0].Ok():
		case p.err = <-p.acks[0].Err():
		case <-p.l.ctx.Done():
			p.err = p.l.ctx.Err()
		}
	}
}

// announce makes a snapshot the newest, unless another registry has made a newer
// one meanwhile.
func (l *Log) announce(s *snapshot) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.Timeout)
	defer cancel()
	was, err := l.newest(ctx)
	if err != nil {
		return err
	}
	last := uint64(0)
	if was != nil {
		last = was.seq
		if was.at >= s.at {
			return errors.New("there is a newer one")
		}
	}
	h := head{kind: kindSnapshot, epoch: l.epoch.ID, id: newID()}
	body := s.append()
	_, err = l.js.Publish(ctx, l.snapshotSubject(), fragments(h, body, headSize+len(body))[0],
		jetstream.WithExpectLastSequencePerSubject(last))
	return err
}

// newest is what the newest snapshot is, nil while there is none.
func (l *Log) newest(ctx context.Context) (*snapshot, error) {
	stream, err := l.js.Stream(ctx, l.stateName())
	if err != nil {
		return nil, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, l.snapshotSubject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := parseSnapshot(m.Data)
	if err == nil {
		s.seq = m.Sequence
	}
	return s, err
}

// shorten drops what a snapshot makes needless: the log up to a sequence, and
// the parts of older snapshots, also unfinished ones.
func (l *Log) shorten(s *snapshot, upTo uint64) error {
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	state, err := l.js.Stream(ctx, l.stateName())
	if err != nil {
		return err
	}
	info, err := state.Info(ctx, jetstream.WithSubjectFilter(l.stateName()+".parts.>"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		if subject < l.partsOf(s.at) {
			if err := state.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return err
			}
		}
	}
	log, err := l.js.Stream(ctx, l.logName())
	if err != nil || upTo == 0 {
		return err
	}
	return log.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
}

var errReplaced = errors.New("the snapshot was replaced meanwhile")

// load begins with the newest snapshot, or with nothing when there is none. The
// caller has mu.
func (l *Log) load(ctx context.Context) error {
	for range 5 {
		s, err := l.newest(ctx)
		if err != nil || s == nil {
			return err
		}
		if l.epoch.ID != 0 && s.image.Epoch != l.epoch {
			return protocol.Errorf(protocol.ErrWrongEpoch, "the snapshot is of epoch %v", s.image.Epoch.ID)
		}
		err = l.readParts(ctx, s)
		if errors.Is(err, errReplaced) {
			continue
		}
		if err != nil {
			return err
		}
		l.epoch, l.pos, l.keep = s.image.Epoch, s.at, s.keep
		l.mem.Store(memlog.FromImage(memlog.Options{Retention: s.keep}, s.image))
		l.noteSaved(s.at, s.bytes)
		return nil
	}
	return errReplaced
}

// readParts completes the image of a snapshot.
func (l *Log) readParts(ctx context.Context, s *snapshot) error {
	c, err := l.js.OrderedConsumer(ctx, l.stateName(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{s.subject}})
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxBytes(4 << 20))
	if err != nil {
		return err
	}
	defer it.Stop()
	var body []byte
	for n := range s.messages {
		m, err := it.Next(jetstream.NextMaxWait(5 * time.Second))
		if errors.Is(err, nats.ErrTimeout) {
			err = errReplaced
		}
		if err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		h, piece, err := parseHead(m.Data())
		if err != nil {
			return err
		}
		if meta, err := m.Metadata(); err != nil || meta.NumPending < s.messages-n-1 {
			return errReplaced
		}
		if body = append(body, piece...); h.index+1 < h.count {
			continue
		}
		p, err := parsePart(body)
		if err != nil {
			return err
		}
		s.add(p)
		body = nil
	}
	return nil
}

func (s *snapshot) add(p *part) {
	i := s.image
	i.Records = append(i.Records, p.Records...)
	i.Fences = append(i.Fences, p.Fences...)
	i.Entries = append(i.Entries, p.Entries...)
	i.Marks = append(i.Marks, p.marks...)
	i.Floor = max(i.Floor, p.KeyFloor)
	for _, k := range p.keys {
		i.AddKey(k)
	}
}

// reload begins anew with the newest snapshot, after messages behind pos were
// dropped because of it.
func (l *Log) reload() error {
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	was := l.pos
	if err := l.load(ctx); err != nil {
		l.work.Go(func() { // later
			t := time.NewTimer(time.Second)
			defer t.Stop()
			select {
			case <-t.C:
				signal(l.queue.news)
			case <-l.ctx.Done():
			}
		})
		if protocol.CodeOf(err) == protocol.ErrWrongEpoch {
			return l.fail(err)
		}
		return unavailable(err.Error())
	}
	if l.pos <= was {
		return l.fail(goneBehind(l.pos))
	}
	l.queue.pass(l.pos)
	signal(l.queue.news)
	l.o.Logger.Info("log read anew", "stream", l.o.Stream, "from", was, "at", l.pos)
	return registry.ErrReloaded
}
