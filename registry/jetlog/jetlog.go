package jetlog

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// Options of a log. The zero value is the log PILOTGO, made with one replica.
type Options struct {
	// Stream names the stream of the log; the one beside it has _STATE behind the
	// name. PILOTGO by default.
	Stream string

	// Replicas is on how many servers the streams are, when they are made: 1
	// (default), 3 or 5. Those that are there stay as they are.
	Replicas int

	// MaxBytes bounds the stream of the log when it is made; 0 = no bound but the
	// servers'. At it publishes are refused with protocol.ErrStorageFull until
	// the next snapshot has made room. It is well above 2 × SnapshotBytes.
	MaxBytes int64

	// Creds is the file with user JWT and key, NKey one with an nkey's seed. Users
	// with passwords, and tokens, stand in the URL.
	Creds, NKey string

	// TLS is for servers that demand it; schemes tls:// and wss:// in the URL do
	// with none.
	TLS *tls.Config

	// Retention holds for the log, and so for all its registries, from this Open
	// on until one that brings another.
	Retention registry.Retention

	// Timeout is how long an Append tries to have an answer, 3 s by default.
	Timeout time.Duration

	// SnapshotBytes is after how many bytes in the stream a snapshot is made, and
	// at least as many as the last one had. 64 MiB by default.
	SnapshotBytes int64

	Logger *slog.Logger // few lines; nil is silent
}

func (o Options) withDefaults() (Options, error) {
	invalid := func(what string, args ...any) (Options, error) {
		return o, protocol.Errorf(protocol.ErrInvalid, "jetlog: "+what, args...)
	}
	if o.Stream == "" {
		o.Stream = "PILOTGO"
	}
	if strings.ContainsAny(o.Stream, ".*>/\\ \t\r\n") {
		return invalid("stream name %q", o.Stream)
	}
	switch o.Replicas {
	case 0:
		o.Replicas = 1
	case 1, 3, 5:
	default:
		return invalid("%d replicas, not 1, 3 or 5", o.Replicas)
	}
	if o.MaxBytes < 0 || o.Timeout < 0 || o.SnapshotBytes < 0 {
		return invalid("MaxBytes, Timeout and SnapshotBytes are not negative")
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Retention = o.Retention.WithDefaults()
	return o, nil
}

// Log is a registry.SharedLog on a JetStream cluster.
type Log struct {
	o     Options
	urls  string
	nc    *nats.Conn
	js    jetstream.JetStream
	epoch protocol.Epoch
	queue *queue
	lost  chan struct{} // closed once broken is set

	courtesy courtesy
	told     atomic.Pointer[error] // what NATS said last that was logged
	denied   atomic.Pointer[error] // what the servers said last that the user may not do

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mem atomic.Pointer[memlog.Log] // what was taken

	// mu is held by whoever changes what was taken.
	mu     sync.Mutex
	closed bool
	broken error  // why nothing can be appended or taken any more
	away   bool   // the last Append had no answer, and the stream none since
	awayAt uint64 // pos + 1 when it was away last; 0 = never
	full   error  // as which the servers' lack of room was told; nil once they have stored something or have a leader
	short  int    // how often since then the stream was gone, or ended before pos
	pos    uint64
	keep   registry.Retention

	// Bytes in the stream since the newest snapshot, and how many make one more.
	since, every int64
	saving       bool
	saved        uint64 // where the newest snapshot is
}

var (
	_ registry.SharedLog = (*Log)(nil)
	_ registry.SenderLog = (*Log)(nil)
)

// Open connects to a cluster and opens the log there, or makes it. url is one or
// several nats:// URLs of the cluster's servers, with commas between them. ctx
// bounds Open, which waits for the cluster to have leaders (without a deadline of
// ctx half a minute) and reads all that the log retains.
//
// A stream of that name that pilotgo did not make is refused.
func Open(ctx context.Context, url string, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, urls: url, queue: newQueue(), lost: make(chan struct{})}
	if l.nc, err = l.connect(); err != nil {
		return nil, fmt.Errorf("jetlog: %w", err)
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	if err := l.open(ctx); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("jetlog: stream %s: %w", o.Stream, l.unusable(err))
	}
	return l, nil
}

func (l *Log) open(ctx context.Context) error {
	var err error
	l.js, err = jetstream.New(l.nc, jetstream.WithPublishAsyncTimeout(l.o.Timeout), jetstream.WithPublishAsyncMaxPending(1<<16))
	if err != nil {
		return err
	}
	log, err := l.ready(ctx)
	if err != nil {
		return err
	}
	if err := l.fill(ctx, log); err != nil {
		return err
	}
	l.work.Go(func() { l.watch(log.Config.Replicas) })
	return l.retain()
}

// fill reads all that the log retains.
func (l *Log) fill(ctx context.Context, log *jetstream.StreamInfo) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.every = l.o.SnapshotBytes
	if err := l.load(ctx); err != nil {
		return err
	}
	switch {
	case l.pos > log.State.LastSeq:
		return protocol.Errorf(protocol.ErrWrongEpoch,
			"it ends at %d, and there is a snapshot of %d: it has lost messages that were acknowledged. To begin a new log remove it and %s",
			log.State.LastSeq, l.pos, l.stateName())
	case log.State.FirstSeq > l.pos+1:
		return goneBehind(l.pos)
	case log.State.LastSeq == 0:
		if err := l.begin(ctx); err != nil {
			return err
		}
	}
	if err := l.listen(); err != nil {
		return err
	}
	if err := l.follow(ctx); err != nil {
		return err
	}
	if err := l.catchUp(ctx, max(1, log.State.LastSeq)); err != nil {
		return err
	}
	if l.epoch.ID == 0 {
		return damaged("the stream has no beginning")
	}
	return nil
}

// memory is what was taken.
func (l *Log) memory() *memlog.Log { return l.mem.Load() }

// Epoch implements registry.Log.
func (l *Log) Epoch() protocol.Epoch { return l.epoch }

// Head implements registry.Log.
func (l *Log) Head() (protocol.Seq, protocol.Time) { return l.memory().Head() }

// Load implements registry.Log.
func (l *Log) Load(s registry.State) error { return l.memory().Load(s) }

// Read implements registry.Log.
func (l *Log) Read(sel *registry.Selection, after, upTo protocol.Seq, page *registry.Page) error {
	return l.memory().Read(sel, after, upTo, page)
}

// ReadNewest implements registry.Log.
func (l *Log) ReadNewest(sel *registry.Selection, after protocol.Seq, newest, perTopic int, page *registry.Page) error {
	return l.memory().ReadNewest(sel, after, newest, perTopic, page)
}

// Retained implements registry.SenderLog.
func (l *Log) Retained(node protocol.NodeID) (protocol.Time, bool) { return l.memory().Retained(node) }

// Topic implements registry.Log.
func (l *Log) Topic(topic string) registry.TopicStats { return l.memory().Topic(topic) }

// Topics implements registry.Log.
func (l *Log) Topics(after string, limit int) ([]registry.TopicStats, error) {
	return l.memory().Topics(after, limit)
}

// Stats implements registry.Log.
func (l *Log) Stats() registry.LogStats { return l.memory().Stats() }

// Close implements registry.Log. The streams stay.
func (l *Log) Close() error {
	l.end()
	l.queue.close()
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
	if first {
		if m := l.memory(); m != nil {
			_ = m.Close()
		}
		l.nc.Close()
	}
	return nil
}

// Lost is closed when the log cannot go on: the stream was deleted, replaced or
// damaged, was purged of what was not taken here yet, was given a form by which it
// loses messages, has lost what was acknowledged, or holds what only a newer pilotgo
// reads. What was taken can still be read; the registry's process does best to end.
// Err tells why.
func (l *Log) Lost() <-chan struct{} { return l.lost }

// Err is why the log cannot go on, nil while it can.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Ready is why nothing can be appended now: Err, or that the cluster is out of
// reach, which passes. It is nil when the log takes what comes.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	return l.usable()
}

// usable is why nothing can be appended now. The caller has mu.
func (l *Log) usable() error {
	switch {
	case l.closed:
		return protocol.ErrClosed
	case l.broken != nil:
		return fmt.Errorf("%w: %w", unavailable("it cannot go on"), l.broken) // others may
	case l.away && l.full != nil:
		return fmt.Errorf("%w: %s", l.full, l.why())
	case l.away:
		// The reason has addresses: it is behind what clients are told.
		return fmt.Errorf("%w: %s", unavailable("the cluster does not answer"), l.why())
	}
	return nil
}

// over is why nothing more is done. The caller has mu.
func (l *Log) over() error {
	if l.closed {
		return protocol.ErrClosed
	}
	return l.broken
}

// fail ends the log: what it holds can still be read. The caller has mu.
func (l *Log) fail(err error) error {
	if l.broken == nil {
		l.broken = err
		close(l.lost)
		l.o.Logger.Error("log lost", "stream", l.o.Stream, "error", err)
	}
	return l.broken
}

// unavailable refuses what was surely not stored; clients keep it and come back,
// or go to another registry.
func unavailable(why string) error {
	return &protocol.Error{Code: protocol.ErrDraining, RetryAfter: time.Second, Detail: "the log is out of reach: " + why}
}

// unusable gives errors of NATS a code and a hint.
func (l *Log) unusable(err error) error {
	if denied := l.denied.Load(); denied != nil && err != nil && errorCode(err) == 0 && protocol.CodeOf(err) == protocol.ErrInternal {
		err = *denied // what is forbidden has no answer
	}
	return unusable(err, l.urls, refused)
}

// why is the reason why the cluster does not answer, as far as it is known.
func (l *Log) why() string {
	denied := l.denied.Load()
	switch err := l.nc.LastError(); {
	case !l.nc.IsConnected() && err != nil:
		return unusable(err, l.urls, noServer).Error()
	case !l.nc.IsConnected():
		return "no NATS server answers at " + places(l.urls)
	case denied != nil:
		return unusable(*denied, l.urls, forbidden).Error()
	}
	return "no answer about the stream: most of its servers must run, reach each other and have room, in max_file_store and on disk"
}
