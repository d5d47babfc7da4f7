package jetlog

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// slow is a cluster that answers publishes when the test lets it, and questions for
// streams with what it is told to say.
type slow struct {
	jetstream.JetStream
	acks    chan uint64
	streams map[string][]jetstream.Stream // the answers to come; nil is not found
}

func (s *slow) Publish(ctx context.Context, _ string, _ []byte, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	select {
	case seq := <-s.acks:
		return &jetstream.PubAck{Sequence: seq}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slow) Stream(_ context.Context, name string) (jetstream.Stream, error) {
	next := s.streams[name][0]
	s.streams[name] = s.streams[name][1:]
	if next == nil {
		return nil, jetstream.ErrStreamNotFound
	}
	return next, nil
}

// info is a stream of which that is known.
type info struct {
	jetstream.Stream
	is *jetstream.StreamInfo
}

func (i info) CachedInfo() *jetstream.StreamInfo { return i.is }

// overSlow is a log of a hundred messages on a slow cluster.
func overSlow(t *testing.T) (*Log, *slow) {
	s := &slow{acks: make(chan uint64)}
	l := &Log{
		o: Options{Stream: "LOG", Timeout: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}, js: s,
		queue: newQueue(), lost: make(chan struct{}), epoch: protocol.Epoch{ID: 7}, pos: 100,
	}
	l.queue.pass(l.pos)
	l.mem.Store(memlog.New(memlog.Options{Epoch: l.epoch}))
	l.ctx, l.end = context.WithCancel(t.Context())
	t.Cleanup(l.end)
	return l, s
}

// requireFree fails when somebody holds up the views of the registry.
func requireFree(t *testing.T, l *Log) {
	t.Helper()
	synctest.Wait()
	require.True(t, l.mu.TryLock(), "views wait for an answer of the cluster")
	l.mu.Unlock()
}

// saying makes a log say that there is a snapshot of its first 90 messages.
func saying(l *Log) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- l.say(kindSaved, numbers(90, 10)) }()
	return ended
}

func TestNobodyWaitsForWhatIsSaid(t *testing.T) {
	t.Run("at the end of the log", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, s := overSlow(t)
			ended := saying(l)
			requireFree(t, l)
			s.acks <- 101
			require.NoError(t, <-ended)
			require.Equal(t, uint64(101), l.pos)
			require.Equal(t, uint64(90), l.saved)
		})
	})
	t.Run("behind what has not come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, s := overSlow(t)
			ended := saying(l)
			s.acks <- 102
			requireFree(t, l)
			for at := range uint64(2) {
				body := numbers(80+at, 10)
				h := head{kind: kindSaved, epoch: l.epoch.ID, id: newID()}
				l.queue.put(message{101 + at, fragments(h, body, headSize+len(body)+1)[0]})
			}
			require.NoError(t, <-ended)
			require.Equal(t, uint64(102), l.pos)
			require.Equal(t, uint64(81), l.saved)
			require.Empty(t, l.queue.awaits)
		})
	})
	t.Run("without an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := overSlow(t)
			ended := saying(l)
			requireFree(t, l)
			require.ErrorIs(t, <-ended, protocol.ErrDraining)
		})
	})
	t.Run("while it is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, s := overSlow(t)
			ended := saying(l)
			requireFree(t, l)
			l.mu.Lock()
			l.closed = true
			l.mu.Unlock()
			s.acks <- 101
			require.ErrorIs(t, <-ended, protocol.ErrClosed)
			require.Zero(t, l.saved)
		})
	})
}

// A leader that tells of an end before what was acknowledged is probed.
func TestNobodyWaitsForAProbe(t *testing.T) {
	for name, is := range map[string]struct {
		end  uint64
		lost bool
	}{"all is there": {101, false}, "it is another stream": {100, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := overSlow(t)
				l.away = true
				for range patientFor - 1 {
					require.False(t, l.back(99))
				}
				ended := make(chan bool, 1)
				go func() { ended <- l.back(99) }()
				requireFree(t, l)
				s.acks <- is.end
				require.True(t, <-ended)
				require.False(t, l.away)
				require.Equal(t, is.lost, l.broken != nil)
			})
		})
	}
	t.Run("no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := overSlow(t)
			l.away, l.short = true, patientFor
			require.False(t, l.back(99))
			require.True(t, l.away)
			require.NoError(t, l.broken)
		})
	})
}

// Another registry that makes room first purges, and then says that it made a
// snapshot of that.
func TestAPurgeIsNoAlarmAtOnce(t *testing.T) {
	for name, is := range map[string]struct {
		saved uint64 // what the other says between two looks
		warns bool
	}{"of a snapshot": {100, false}, "of people": {0, true}} {
		t.Run(name, func(t *testing.T) {
			l, _ := overSlow(t)
			l.saving = true // so that none is made here
			var said bytes.Buffer
			l.o.Logger = slog.New(slog.NewTextHandler(&said, nil))
			found := &jetstream.StreamInfo{Config: l.logConfig(), State: jetstream.StreamState{FirstSeq: 81, LastSeq: 100}}
			found.Config.Discard = jetstream.DiscardNew
			last := look{pos: 100}
			l.inspect(found, &last)
			require.NoError(t, l.broken)
			require.Empty(t, said.String())
			l.noteSaved(is.saved, 10)
			l.inspect(found, &last)
			require.Equal(t, is.warns, bytes.Contains(said.Bytes(), []byte("messages were purged")), said.String())
		})
	}
}

// Two registries may make one log at the same instant: the state is there when the
// log is, and may not have been just before.
func TestALogThatIsJustMadeIsWhole(t *testing.T) {
	l, s := overSlow(t)
	state, log := info{is: &jetstream.StreamInfo{}}, info{is: &jetstream.StreamInfo{Config: l.logConfig(), State: jetstream.StreamState{LastSeq: 1}}}
	s.streams = map[string][]jetstream.Stream{l.stateName(): {nil, state}, l.logName(): {log}}
	require.NoError(t, l.whole(t.Context()))

	s.streams = map[string][]jetstream.Stream{l.stateName(): {nil, nil}, l.logName(): {log}}
	require.ErrorIs(t, l.whole(t.Context()), protocol.ErrNotFound)
}
