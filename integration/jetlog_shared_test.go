package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// writer appends to a shared log as a registry does.
type writer struct {
	t     testing.TB
	log   *jetlog.Log
	id    protocol.NodeID
	n     uint64
	taken []string // what each record said, in the order of the log
	anew  int      // how often the log was read anew
	pad   int
}

func (w *writer) batch(size int) *registry.Batch {
	b := &registry.Batch{}
	seq, at := w.log.Head()
	for range size {
		w.n++
		seq++
		at++
		r := &registry.Record{Epoch: w.log.Epoch().ID}
		r.Seq, r.Time, r.Sender, r.Topic = seq, at, w.id, "t"
		r.Key = binary.BigEndian.AppendUint64(nil, w.n)
		r.Payload = fmt.Appendf(nil, "%d/%d", w.id, w.n)
		r.Payload = append(r.Payload, make([]byte, w.pad)...)
		r.Seal()
		b.Records = append(b.Records, r)
	}
	return b
}

func (w *writer) took(b *registry.Batch) error {
	for _, r := range b.Records {
		w.taken = append(w.taken, fmt.Sprintf("%d/%d", r.Sender, binary.BigEndian.Uint64(r.Key)))
	}
	return nil
}

func (w *writer) take() error {
	err := w.log.Take(w.took)
	if errors.Is(err, registry.ErrReloaded) {
		w.taken = nil
		w.anew++
		return w.log.Load(registry.State{Key: func(k registry.KeyEntry) error {
			w.taken = append(w.taken, fmt.Sprintf("%d/%d", k.Sender, binary.BigEndian.Uint64(k.Key)))
			return nil
		}})
	}
	return err
}

// append appends one batch, however often it must be decided anew.
func (w *writer) append(size int) error {
	n := w.n
	for {
		w.n = n
		b := w.batch(size)
		err := w.log.Append(b)
		if err == nil {
			return w.took(b)
		}
		if !errors.Is(err, registry.ErrBehind) {
			return err
		}
		if err := w.take(); err != nil {
			return err
		}
		if slices.Contains(w.taken, fmt.Sprintf("%d/%d", w.id, n+1)) {
			w.n = n + uint64(size)
			return nil // as a registry finds by the key
		}
	}
}

// meet takes until both have the same.
func meet(t testing.TB, list ...*writer) {
	t.Helper()
	require.Eventually(t, func() bool {
		var head protocol.Seq
		for _, w := range list {
			if err := w.take(); errors.Is(err, protocol.ErrDraining) {
				return false
			} else if !assert.NoError(t, err) {
				return true
			}
			at, _ := w.log.Head()
			head = max(head, at)
		}
		for _, w := range list {
			if at, _ := w.log.Head(); at != head {
				return false
			}
		}
		return true
	}, 20*time.Second, 10*time.Millisecond)
	for _, w := range list {
		require.Equal(t, list[0].taken, w.taken)
	}
}

// Several writers, some with batches of many fragments: each batch is there once,
// whole, and in the same place for all.
func TestJetLogManyWriters(t *testing.T) {
	c := newCluster(t, 3)
	stream := newStream()
	var writers []*writer
	for i := range 3 {
		l := openLog(t, c, jetlog.Options{Stream: stream, Retention: registry.Retention{Messages: -1, TopicBytes: -1, TotalBytes: -1}, SnapshotBytes: 4 << 20})
		writers = append(writers, &writer{t: t, log: l, id: protocol.NodeID(i + 1), pad: i * 150 << 10})
	}
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() {
			for range 15 {
				if err := w.append(1 + int(w.id)*2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	meet(t, writers...)
	require.Len(t, writers[0].taken, 15*(3+5+7))
	seen := make(map[string]bool)
	for _, s := range writers[0].taken {
		require.False(t, seen[s], s)
		seen[s] = true
	}
	head, _ := writers[0].log.Head()
	again := openLog(t, c, jetlog.Options{Stream: stream, Retention: registry.Retention{Messages: -1, TopicBytes: -1, TotalBytes: -1}})
	at, _ := again.Head()
	require.Equal(t, head, at)
	require.Equal(t, writers[0].log.Stats(), again.Stats())
}

// Whatever happens to the connections, what Append said is what the log has.
func TestJetLogConnectionsAreCut(t *testing.T) {
	c := newCluster(t, 3)
	stream := newStream()
	type outcome struct{ acked, refused, unknown map[string]bool }
	var outcomes []outcome
	var writers []*writer
	var proxies []*proxy
	for i := range 2 {
		p := newProxy(t, c, 0)
		o := jetlog.Options{Stream: stream, Replicas: 3, Timeout: 300 * time.Millisecond, SnapshotBytes: 20_000}
		writers = append(writers, &writer{t: t, log: openAt(t, p.url(), o), id: protocol.NodeID(i + 1)})
		proxies = append(proxies, p)
		outcomes = append(outcomes, outcome{make(map[string]bool), make(map[string]bool), make(map[string]bool)})
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i, p := range proxies {
		rng := rand.New(rand.NewPCG(uint64(i), 5))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					p.set(false)
					return
				case <-time.After(time.Duration(rng.IntN(300)) * time.Millisecond):
					p.set(true)
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
					p.set(false)
				}
			}
		})
	}
	// try appends once and notes what is known of it.
	try := func(i int) (acked bool) {
		w, o := writers[i], outcomes[i]
		err := w.append(1)
		name := fmt.Sprintf("%d/%d", w.id, w.n)
		switch {
		case err == nil:
			o.acked[name] = true
		case errors.Is(err, protocol.ErrUnknownOutcome):
			o.unknown[name] = true
		case errors.Is(err, protocol.ErrDraining):
			o.refused[name] = true
			time.Sleep(20 * time.Millisecond)
		default:
			t.Errorf("%v", err)
		}
		return err == nil
	}
	deadline := time.Now().Add(testenv.Budget(t, 5*time.Second))
	var busy sync.WaitGroup
	for i := range writers {
		busy.Go(func() {
			for time.Now().Before(deadline) && !t.Failed() {
				try(i)
			}
		})
	}
	busy.Wait()
	close(stop)
	wg.Wait()
	// What is still on its way goes by less than this one, and is refused.
	for deadline = time.Now().Add(20 * time.Second); !try(0); {
		require.True(t, time.Now().Before(deadline) && !t.Failed(), "no append succeeds")
	}
	meet(t, writers...)
	final := &writer{t: t, log: openLog(t, c, jetlog.Options{Stream: stream})}
	require.NoError(t, final.log.Load(registry.State{Key: func(k registry.KeyEntry) error {
		final.taken = append(final.taken, fmt.Sprintf("%d/%d", k.Sender, binary.BigEndian.Uint64(k.Key)))
		return nil
	}}))
	require.Equal(t, final.taken, writers[0].taken)
	count := make(map[string]int)
	for _, name := range final.taken {
		count[name]++
	}
	for _, o := range outcomes {
		t.Logf("acked %d, surely refused %d, unknown %d", len(o.acked), len(o.refused), len(o.unknown))
		require.NotEmpty(t, o.acked)
		for name := range o.acked {
			require.Equal(t, 1, count[name], "acked "+name)
		}
		for name := range o.refused {
			require.Zero(t, count[name], "refused "+name)
		}
		for name := range o.unknown {
			require.LessOrEqual(t, count[name], 1, "unknown "+name)
		}
	}
}

// A registry that was cut off while the stream went on past what it needs reads
// all anew.
func TestJetLogThatWasAway(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream(), Replicas: 3, SnapshotBytes: 3000}
	a := &writer{t: t, log: openLog(t, c, o), id: 1}
	p := newProxy(t, c, 0)
	b := &writer{t: t, log: openAt(t, p.url(), o), id: 2}
	require.NoError(t, a.append(1))
	meet(t, a, b)
	p.set(true)
	for range 200 {
		require.NoError(t, a.append(1))
	}
	p.set(false)
	meet(t, a, b)
	require.Equal(t, 1, b.anew)
	require.NoError(t, b.append(1))
	meet(t, a, b)
}

// What retention and purges take is gone for all registries, and for those that
// come later.
func TestJetLogRetentionIsCommon(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream(), Retention: registry.Retention{Messages: 5}}
	a := &writer{t: t, log: openLog(t, c, o), id: 1}
	b := &writer{t: t, log: openLog(t, c, o), id: 2}
	for range 10 {
		require.NoError(t, a.append(1))
		require.NoError(t, b.append(2))
	}
	meet(t, a, b)
	require.Equal(t, 10, a.log.Stats().Messages)
	require.Equal(t, a.log.Stats(), b.log.Stats())
	require.Equal(t, a.log.Topic("t"), b.log.Topic("t"))

	require.NoError(t, b.log.Purge("t", 28))
	require.Equal(t, 2, b.log.Stats().Messages)
	require.NoError(t, a.append(1))
	meet(t, a, b)
	require.Equal(t, a.log.Stats(), b.log.Stats())

	o.Retention.Messages = 1
	late := openLog(t, c, o)
	require.Equal(t, 2, late.Stats().Messages)
	require.NoError(t, a.append(1))
	require.Equal(t, 2, a.log.Stats().Messages, "the new retention holds for all")
}

func TestJetLogRefusesOtherStreams(t *testing.T) {
	c := newCluster(t, 1)
	nc, err := nats.Connect(c.url())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	ctx := t.Context()
	foreign := newStream()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: foreign, Subjects: []string{foreign + ".log"}})
	require.NoError(t, err)
	refused := func(stream string, code protocol.Code) {
		t.Helper()
		_, err = jetlog.Open(ctx, c.url(), jetlog.Options{Stream: stream})
		require.ErrorIs(t, err, code)
	}
	refused(foreign, protocol.ErrInvalid)

	w := &writer{t: t, log: openLog(t, c, jetlog.Options{Stream: "OURS"}), id: 1}
	require.NoError(t, w.append(1))
	s, err := js.Stream(ctx, "OURS")
	require.NoError(t, err)
	conf := s.CachedInfo().Config
	changed := conf
	changed.MaxAge = time.Hour
	_, err = js.UpdateStream(ctx, changed)
	require.NoError(t, err)
	refused("OURS", protocol.ErrInvalid)
	_, err = js.UpdateStream(ctx, conf)
	require.NoError(t, err)

	// A log of a later format.
	conf.Metadata["pilotgo"] = "log 2"
	_, err = js.UpdateStream(ctx, conf)
	require.NoError(t, err)
	refused("OURS", protocol.ErrVersion)
	conf.Metadata["pilotgo"] = "log 1"
	_, err = js.UpdateStream(ctx, conf)
	require.NoError(t, err)

	// One whose beginning somebody purged.
	require.NoError(t, s.Purge(ctx))
	refused("OURS", protocol.ErrInternal)
}

// A stream that was removed and made anew under a registry is another log.
func TestJetLogIsReplaced(t *testing.T) {
	c := newCluster(t, 1)
	o := jetlog.Options{Stream: newStream(), Timeout: 200 * time.Millisecond}
	w := &writer{t: t, log: openLog(t, c, o), id: 1}
	for range 5 {
		require.NoError(t, w.append(1))
	}
	nc, err := nats.Connect(c.url())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), o.Stream))
	other := openLog(t, c, o)
	require.NotEqual(t, w.log.Epoch().ID, other.Epoch().ID)
	var said error
	require.Eventually(t, func() bool {
		said = w.append(1)
		require.Error(t, said)
		return errors.Is(said, protocol.ErrWrongEpoch)
	}, 30*time.Second, 50*time.Millisecond, "%v", said)
	require.ErrorIs(t, said, protocol.ErrDraining, "for clients: another registry may do")
	require.ErrorIs(t, w.log.Err(), protocol.ErrWrongEpoch)
	<-w.log.Lost()
	require.Equal(t, 0, other.Stats().Messages)
	page := registry.Page{}
	require.NoError(t, w.log.Read(&registry.Selection{Pattern: "t"}, 0, 5, &page))
	require.Len(t, page.Records, 5, "what it had can be read")
}

// What somebody else puts on the subject is passed over. What a newer pilotgo puts
// there ends this one before it reads anything wrong.
func TestJetLogForeignMessages(t *testing.T) {
	c := newCluster(t, 1)
	o := jetlog.Options{Stream: newStream()}
	a := &writer{t: t, log: openLog(t, c, o), id: 1}
	b := &writer{t: t, log: openLog(t, c, o), id: 2}
	nc, err := nats.Connect(c.url())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	put := func(data string) {
		t.Helper()
		_, err = js.Publish(t.Context(), o.Stream+".log", []byte(data))
		require.NoError(t, err)
	}
	require.NoError(t, a.append(1))
	put("hello")
	put("")
	require.NoError(t, b.append(1))
	require.NoError(t, a.append(1))
	meet(t, a, b)
	c2 := &writer{t: t, log: openLog(t, c, o), id: 3}
	require.NoError(t, c2.append(1))

	put("\x02pgl what will be")
	require.ErrorIs(t, a.append(1), protocol.ErrVersion)
	<-a.log.Lost()
	require.Equal(t, 4, a.log.Stats().Messages)
	_, err = jetlog.Open(t.Context(), c.url(), o)
	require.ErrorIs(t, err, protocol.ErrVersion)
}

func TestJetLogSecrets(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream()}
	a, b := openLog(t, c, o), openLog(t, c, o)
	require.Equal(t, a.Epoch(), b.Epoch())
	var wg sync.WaitGroup
	keys := make([]string, 8)
	for i := range keys {
		wg.Go(func() {
			k, err := []*jetlog.Log{a, b}[i%2].Key(context.Background())
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(k)
		})
	}
	wg.Wait()
	for _, k := range keys {
		require.Equal(t, keys[0], k)
	}
	tickets, err := a.Secret(t.Context(), "tickets", 32)
	require.NoError(t, err)
	require.NotEqual(t, keys[0][:32], string(tickets))
}

// A stream that is full refuses, and goes on once a snapshot has made room.
func TestJetLogIsFull(t *testing.T) {
	c := newCluster(t, 3)
	o := jetlog.Options{Stream: newStream(), MaxBytes: 100_000, SnapshotBytes: 1 << 30, Retention: registry.Retention{Messages: 10}}
	w := &writer{t: t, log: openLog(t, c, o), id: 1, pad: 1000}
	full := 0
	for n := 0; n < 300; {
		err := w.append(1)
		if errors.Is(err, protocol.ErrStorageFull) {
			full++
			require.Less(t, full, 10_000)
			continue
		}
		require.NoError(t, err)
		n++
	}
	require.NotZero(t, full)
	require.Equal(t, 10, w.log.Stats().Messages)
}
