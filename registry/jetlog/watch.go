package jetlog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
)

const (
	// lookEvery is how often a log looks at its stream, also when it has nothing
	// to do there.
	lookEvery = 5 * time.Second

	// patientFor is how many times in a row, half a second apart, a leader says that
	// the stream is not there, or has less than was acknowledged, before that
	// counts: one that is new may not have read all of its own log.
	patientFor = 20

	// moveAfter is how many times a server does not answer before the log tries
	// another one: it may be cut off from the others and not from here. The others
	// may need as long to elect a leader, and moving then may end at the one that
	// is cut off.
	moveAfter = 12
)

// look is what a log has seen of its stream before.
type look struct {
	pos      uint64 // of the log, before it asked
	follows  uint64 // of the queue
	purged   bool   // of what no snapshot is known to hold
	replicas int
}

// watch looks at the stream now and then. A log that is only read would otherwise
// not notice that its server is cut off, and none notices what people do to the
// stream until it is too late.
func (l *Log) watch(replicas int) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := look{replicas: replicas}
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		l.mu.Lock()
		last.pos = l.pos // what is acknowledged while the answer comes is not in it
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(l.ctx, l.o.Timeout)
		s, err := l.js.Stream(ctx, l.logName())
		cancel()
		l.seen(s, err, &last)
	}
}

// seen takes in how the stream was found.
func (l *Log) seen(s jetstream.Stream, err error, last *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.broken != nil || l.away {
		return
	}
	if err != nil {
		if l.pos == last.pos || errors.Is(err, jetstream.ErrStreamNotFound) {
			l.setAway()
		}
		return
	}
	if c := s.CachedInfo().Cluster; c != nil && c.Leader != "" {
		l.full = nil // without room there would be none
	}
	l.inspect(s.CachedInfo(), last)
}

// inspect acts on what others did to the stream. The caller has mu.
func (l *Log) inspect(is *jetstream.StreamInfo, last *look) {
	want := l.logConfig()
	if err := ours(&is.Config, &want); err != nil {
		_ = l.fail(err)
		return
	}
	if is.Config.Replicas < last.replicas {
		l.o.Logger.Warn("the stream was given fewer replicas: what is acknowledged is on fewer servers",
			"stream", l.o.Stream, "replicas", is.Config.Replicas, "before", last.replicas)
	}
	last.replicas = is.Config.Replicas
	follows := l.queue.follows()
	purged := is.State.LastSeq == l.pos && is.State.FirstSeq > l.saved+1
	switch {
	case is.State.LastSeq < last.pos:
		l.setAway() // comeBack finds out whether it stays like that
	case purged && !last.purged:
		// Perhaps by a registry that has yet to say that it made a snapshot.
	case purged:
		// All that was purged is in memory here, but for a registry that starts it
		// would be lost.
		l.o.Logger.Warn("messages were purged that no snapshot holds; making one",
			"stream", l.o.Stream, "up to", is.State.FirstSeq-1, "snapshot", l.saved)
		l.save(true)
	case is.State.LastSeq >= follows && follows == last.follows:
		l.work.Go(func() { l.fetch(time.Now().Add(l.o.Timeout)) }) // the consumer brings nothing
	}
	last.follows, last.purged = follows, purged
}

// setAway makes all that would be appended be refused at once, until the stream
// answers again. The caller has mu.
func (l *Log) setAway() {
	if l.away || l.closed {
		return
	}
	l.away = true
	l.o.Logger.Warn("cluster out of reach", "stream", l.o.Stream, "error", l.why())
	// A leader that is cut off from the others answers as if it were not for a
	// while: nothing came of it since it answered last.
	stuck := l.awayAt == l.pos+1
	l.awayAt = l.pos + 1
	l.work.Go(func() {
		if stuck {
			l.move()
		}
		l.comeBack()
	})
}

// move makes the connection one to another server, if there is one.
func (l *Log) move() {
	if l.nc.IsConnected() && len(l.nc.Servers()) > 1 {
		l.o.Logger.Info("trying another NATS server", "stream", l.o.Stream, "not", l.nc.ConnectedUrlRedacted())
		_ = l.nc.ForceReconnect()
	}
}

// comeBack asks for the stream until a leader answers.
func (l *Log) comeBack() {
	for silent := 0; l.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(l.ctx, 500*time.Millisecond)
		s, err := l.js.Stream(ctx, l.logName())
		<-ctx.Done() // not more often
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if l.missing() {
				return
			}
		case err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader == "":
			silent++
		case err == nil:
			if l.back(s.CachedInfo().State.LastSeq) {
				return
			}
		default:
			silent++
		}
		if silent >= moveAfter {
			silent = 0
			l.move()
		}
	}
}

// missing notes that there is no stream, and reports whether that is so for good.
func (l *Log) missing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.short++; l.short < patientFor {
		return false
	}
	_ = l.fail(protocol.Errorf(protocol.ErrNotFound,
		"stream %s is gone: somebody deleted it, and with it what was acknowledged. Restore both streams from a backup, or remove %s too, which begins a new log",
		l.logName(), l.stateName()))
	return true
}

// back notes that the stream is there, and reports whether that ends the waiting.
func (l *Log) back(end uint64) bool {
	pos, doubt := l.doubts(end)
	switch {
	case doubt == 0:
	case doubt < patientFor:
		return false
	default:
		var ok bool
		if end, ok = l.probe(); !ok {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if doubt > 0 && end <= pos {
		_ = l.fail(protocol.Errorf(protocol.ErrWrongEpoch,
			"the stream ends at %d, and had %d: it has lost messages that were acknowledged, or is another one", end, pos))
	}
	l.away, l.full, l.short = false, nil, 0
	l.o.Logger.Info("cluster answers again", "stream", l.o.Stream)
	return true
}

// doubts counts how often the stream ended before pos, 0 when it does not.
func (l *Log) doubts(end uint64) (pos uint64, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end >= l.pos {
		return l.pos, 0
	}
	l.short++
	return l.pos, l.short
}

// probe finds out where the stream ends by a message to it that says nothing. A
// server that led the stream and was cut off may still tell where it ended then,
// but it cannot have a message committed.
func (l *Log) probe() (end uint64, ok bool) {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.Timeout)
	defer cancel()
	ack, err := l.js.Publish(ctx, l.logSubject(), nil, jetstream.WithExpectStream(l.logName()))
	if err != nil {
		return 0, false
	}
	return ack.Sequence, true
}
