package jetlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pilotgo/pilotgo/protocol"
)

func (l *Log) connect() (*nats.Conn, error) {
	o := &l.o
	opts := []nats.Option{
		nats.Name("pilotgo registry"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// What cannot be sent now is not sent later by surprise.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Logger.Warn("NATS server lost", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				l.denied.Store(&err)
			}
			level := slog.LevelWarn
			if last := l.told.Swap(&err); last != nil && (*last).Error() == err.Error() {
				level = slog.LevelDebug // at every try to connect
			}
			o.Logger.Log(context.Background(), level, "NATS", "error", err)
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			l.denied.Store(nil)
			l.told.Store(nil)
		}),
		// What was revoked may be allowed again, and a file with new credentials
		// is read at the next try.
		nats.IgnoreAuthErrorAbort(),
	}
	if o.Creds != "" {
		if _, err := os.ReadFile(o.Creds); err != nil {
			return nil, unusable(err, l.urls, noFile) // nats.go would not tell which error
		}
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, unusable(err, l.urls, noFile)
		}
		opts = append(opts, nkey)
	}
	if o.TLS != nil {
		opts = append(opts, nats.Secure(o.TLS))
	}
	nc, err := nats.Connect(l.urls, opts...)
	return nc, unusable(err, l.urls, noServer)
}

// The names of the two streams and of their subjects. All of the log is on one
// subject.
func (l *Log) logName() string      { return l.o.Stream }
func (l *Log) stateName() string    { return l.o.Stream + "_STATE" }
func (l *Log) logSubject() string   { return l.logName() + ".log" }
func (l *Log) stateSubject() string { return l.stateName() + ".>" }

// Metadata by which we know our own.
const (
	madeBy    = "pilotgo"
	madeLog   = "log 1"
	madeState = "state 1"
)

// ready opens the streams once the cluster answers: one that just starts, or has
// lost its leader, drops questions.
func (l *Log) ready(ctx context.Context) (*jetstream.StreamInfo, error) {
	const each, all = 2 * time.Second, 30 * time.Second
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, all)
		defer cancel()
	}
	for first := true; ; first = false {
		once, cancel := context.WithTimeout(ctx, each)
		info, err := l.streams(once)
		passing := err != nil && once.Err() != nil || unsent(err) || errorCode(err) == codeUnavailable
		if !passing || l.denied.Load() != nil {
			cancel()
			return info, err
		}
		if first {
			l.o.Logger.Warn("waiting for the cluster", "stream", l.o.Stream, "error", l.unusable(err))
		}
		<-once.Done() // not more often
		cancel()
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

func (l *Log) logConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: l.logName(), Subjects: []string{l.logSubject()}, MaxBytes: l.o.MaxBytes,
		Description: "a log of pilotgo registries; not to be written or purged by others",
		Metadata:    map[string]string{madeBy: madeLog},
	}
}

func (l *Log) stateConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: l.stateName(), Subjects: []string{l.stateSubject()},
		Description: "snapshots and keys of a log of pilotgo registries",
		Metadata:    map[string]string{madeBy: madeState},
	}
}

// streams opens both streams, and makes those that are not there.
func (l *Log) streams(ctx context.Context) (*jetstream.StreamInfo, error) {
	if err := l.whole(ctx); err != nil {
		return nil, err
	}
	if _, err := l.stream(ctx, l.stateConfig()); err != nil {
		return nil, err
	}
	return l.stream(ctx, l.logConfig())
}

// whole refuses a log whose state was deleted: with that went the identity, and a
// new one would be a stranger to all clients. The state is always made first.
func (l *Log) whole(ctx context.Context) error {
	_, err := l.js.Stream(ctx, l.stateName())
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	log, err := l.js.Stream(ctx, l.logName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil || log.CachedInfo().Config.Metadata[madeBy] != madeLog || log.CachedInfo().State.LastSeq == 0 {
		return err
	}
	// Another registry may have made both since the first look.
	if _, err = l.js.Stream(ctx, l.stateName()); errors.Is(err, jetstream.ErrStreamNotFound) {
		return protocol.Errorf(protocol.ErrNotFound,
			"%s, which has its identity and snapshots, was deleted: restore it from a backup. To begin a new log remove %s too", l.stateName(), l.logName())
	}
	return err
}

func (l *Log) stream(ctx context.Context, c jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	c.Storage, c.Replicas = jetstream.FileStorage, l.o.Replicas
	c.Retention, c.Discard = jetstream.LimitsPolicy, jetstream.DiscardNew
	s, err := l.js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = l.js.CreateStream(ctx, c)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = l.js.Stream(ctx, c.Name) // another registry was first
		}
	}
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	return info, ours(&info.Config, &c)
}

// ours tells why a stream is not one that this build made and can rely on.
func ours(is, want *jetstream.StreamConfig) error {
	refuse := func(why string) error {
		return protocol.Errorf(protocol.ErrInvalid, "stream %s %s", is.Name, why)
	}
	switch made := is.Metadata[madeBy]; {
	case made == "":
		return refuse("is not of pilotgo: choose another name")
	case made != want.Metadata[madeBy]:
		return protocol.Errorf(protocol.ErrVersion, "stream %s holds %q, not %q", is.Name, made, want.Metadata[madeBy])
	case len(is.Subjects) != 1 || is.Subjects[0] != want.Subjects[0]:
		return refuse("has other subjects than it was made with")
	case is.MaxAge != 0 || is.MaxMsgs > 0 || is.MaxMsgsPerSubject > 0 || is.Discard != jetstream.DiscardNew ||
		is.Retention != jetstream.LimitsPolicy || is.Mirror != nil || len(is.Sources) > 0 || is.SubjectTransform != nil:
		return refuse("was given limits by which it loses messages")
	case is.Storage != jetstream.FileStorage || is.Sealed || is.NoAck:
		return refuse("is not on disk, sealed, or without acks")
	}
	return nil
}

// begin writes the first message, unless another registry is faster.
func (l *Log) begin(ctx context.Context) error {
	h := head{kind: kindBegin, id: newID()}
	h.epoch = protocol.EpochID(binary.BigEndian.Uint64(h.id[:]) | 1)
	body := numbers(uint64(h.epoch), uint64(time.Now().Unix()))
	m := fragments(h, body, headSize+len(body))[0]
	_, err := l.js.Publish(ctx, l.logSubject(), m, jetstream.WithExpectLastSequence(0), jetstream.WithExpectStream(l.logName()))
	if isConflict(err) {
		return nil
	}
	return err
}

func newID() (i id) {
	_, _ = rand.Read(i[:]) // never fails
	return i
}

func errorCode(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// isConflict reports whether a message was not stored because it would not have
// been behind the one that it names.
func isConflict(err error) bool {
	code := errorCode(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}
