package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// lost waits until a log cannot go on, and returns why.
func lost(t *testing.T, l *jetlog.Log) error {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(60 * time.Second):
		require.FailNow(t, "it goes on")
	}
	return l.Err()
}

// What people do to the streams with the tools of NATS under a log that does
// nothing meanwhile: it notices by itself.
func TestJetLogAndTheToolsOfNATS(t *testing.T) {
	c := newCluster(t, 3)
	js := jetStream(t, c)
	open := func(t *testing.T) (*writer, jetlog.Options, jetstream.Stream) {
		o := jetlog.Options{Stream: newStream()}
		w := &writer{t: t, log: openLog(t, c, o), id: 1}
		for range 5 {
			require.NoError(t, w.append(1))
		}
		s, err := js.Stream(t.Context(), o.Stream)
		require.NoError(t, err)
		return w, o, s
	}
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		w, o, _ := open(t)
		require.NoError(t, js.DeleteStream(t.Context(), o.Stream))
		err := lost(t, w.log)
		require.ErrorIs(t, err, protocol.ErrNotFound)
		require.ErrorContains(t, err, "deleted")
		require.ErrorIs(t, w.log.Ready(), protocol.ErrNotFound)
	})
	t.Run("purged", func(t *testing.T) {
		t.Parallel()
		w, o, s := open(t)
		require.NoError(t, s.Purge(t.Context()))
		// Until there is a snapshot of what is in memory, nobody else can open it.
		var later *jetlog.Log
		require.Eventually(t, func() bool {
			l, err := jetlog.Open(t.Context(), c.url(), o)
			later = l
			return err == nil
		}, 30*time.Second, 100*time.Millisecond)
		t.Cleanup(func() { later.Close() })
		require.Equal(t, w.log.Stats(), later.Stats())
		require.NoError(t, w.append(1))
	})
	t.Run("given limits", func(t *testing.T) {
		t.Parallel()
		w, _, s := open(t)
		conf := s.CachedInfo().Config
		conf.MaxAge = time.Hour
		_, err := js.UpdateStream(t.Context(), conf)
		require.NoError(t, err)
		require.ErrorIs(t, lost(t, w.log), protocol.ErrInvalid)
	})
	t.Run("given fewer replicas", func(t *testing.T) {
		t.Parallel()
		w, o, s := open(t)
		conf := s.CachedInfo().Config
		conf.Replicas = 1
		_, err := js.UpdateStream(t.Context(), conf)
		require.NoError(t, err)
		appendSoon(t, w)
		require.Equal(t, w.log.Stats(), openLog(t, c, o).Stats())
	})
	t.Run("state deleted", func(t *testing.T) {
		t.Parallel()
		w, o, _ := open(t)
		_, err := w.log.Key(t.Context())
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), o.Stream+"_STATE"))
		require.NoError(t, w.append(1), "what runs goes on")
		_, err = jetlog.Open(t.Context(), c.url(), o)
		require.ErrorIs(t, err, protocol.ErrNotFound)
		require.ErrorContains(t, err, "identity")
	})
}

// appendSoon appends once the cluster takes it.
func appendSoon(t *testing.T, w *writer) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := w.append(1)
		passing := errors.Is(err, protocol.ErrDraining) || errors.Is(err, protocol.ErrUnknownOutcome)
		require.True(t, err == nil || passing, "%v", err)
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
}

// Servers whose max_file_store is reached refuse, and the log is as it was.
func TestJetLogOnServersWithoutRoom(t *testing.T) {
	c := newCluster(t, 1)
	c.stop()
	c.options[0].JetStreamMaxStore = 200 << 10
	c.start(t, 0)
	w := &writer{t: t, log: openLog(t, c, jetlog.Options{}), id: 1, pad: 4 << 10}
	n := 0
	var err error
	for ; err == nil; n++ {
		require.Less(t, n, 1000)
		err = w.append(1)
	}
	require.ErrorIs(t, err, protocol.ErrStorageFull)
	require.NoError(t, w.log.Ready(), "reading goes on, and small ones may fit")
	require.Equal(t, n-1, w.log.Stats().Messages)
}

// Servers of a cluster whose max_file_store is reached elect no leaders. What is
// published meanwhile is refused for lack of room all the same, reading goes on, and
// so does all once they are given more.
func TestJetClusterAtItsMaxFileStore(t *testing.T) {
	c := newCluster(t, 3)
	c.stop()
	for i := range c.options {
		c.options[i].JetStreamMaxStore = 2 << 20
		c.start(t, i)
	}
	c.ready(t)
	reg := serve(t, c, jetlog.Options{Timeout: time.Second}, nil)
	p := dial(t, "publisher", reg.addr)
	publish := func(n int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := p.PublishTo(ctx, itoa(n), make([]byte, 64<<10))
		return err
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		require.Less(t, n, 1000)
		err = publish(n)
	}
	n--
	for range 10 {
		require.ErrorIs(t, err, protocol.ErrStorageFull)
		_, says := errors.AsType[*protocol.Error](err)
		require.True(t, says)
		time.Sleep(500 * time.Millisecond)
		err = publish(n)
	}
	ready := reg.log.Ready()
	require.ErrorIs(t, ready, protocol.ErrStorageFull)
	t.Log(ready)
	r := dial(t, "reader", reg.addr)
	sub, err := r.Subscribe(t.Context(), "*", client.FromAll())
	require.NoError(t, err)
	require.Len(t, messages(t, sub, n), n)

	for i, s := range c.servers {
		o := c.options[i].Clone()
		o.JetStreamMaxStore = 1 << 30
		require.NoError(t, s.ReloadOptions(o))
	}
	require.Eventually(t, func() bool {
		err := publish(n)
		require.True(t, err == nil || errors.Is(err, protocol.ErrStorageFull), "%v", err)
		return err == nil
	}, 60*time.Second, 100*time.Millisecond)
	messages(t, sub, 1)
	require.NoError(t, reg.log.Ready())
}
