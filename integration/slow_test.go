package integration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// slowLog is a log whose disk takes its time for each sync, as long as the test
// says. Who begins to subscribe waits for it too, and must not in a bubble: a
// lock is no reason for its time to pass.
type slowLog struct {
	registry.Log
	sync, stall atomic.Int64 // usually, and once a second

	stalled time.Time // owned by who appends
}

func (l *slowLog) Append(b *registry.Batch) error {
	time.Sleep(time.Duration(l.sync.Load()))
	if stall := l.stall.Load(); stall > 0 && time.Since(l.stalled) > time.Second {
		l.stalled = time.Now()
		time.Sleep(time.Duration(stall))
	}
	return l.Log.Append(b)
}

// lan is a registry with a disk and near clients.
type lan struct {
	t   *testing.T
	net *simnet.Network
	log *slowLog
	reg *registry.Registry
}

const oneWay = time.Millisecond

func onLAN(t *testing.T, keep registry.Retention, limits registry.Limits) *lan {
	t.Helper()
	n := &lan{t: t, net: simnet.New(simnet.Options{Latency: oneWay}), log: &slowLog{Log: memlog.New(memlog.Options{Retention: keep})}}
	r, err := registry.New(registry.Options{
		Log: n.log, Key: fakeregistry.Key("registry"), Limits: limits,
		Access: func(context.Context, registry.Request) error { return nil },
	})
	require.NoError(t, err)
	n.reg = r
	pc := n.net.Listen("registry")
	served := make(chan error, 1)
	go func() { served <- r.Serve(pc) }()
	t.Cleanup(func() {
		n.log.sync.Store(0)
		r.Close()
		assert.NoError(t, <-served)
		pc.Close()
		n.net.Close()
	})
	return n
}

func (n *lan) join(name string) *client.Client {
	n.t.Helper()
	c, err := client.Dial(n.t.Context(), n.net.Addr("registry"), client.Options{
		Key: fakeregistry.Key(name), NoState: true, PacketConn: n.net.Listen(name), Name: name,
	})
	require.NoError(n.t, err)
	n.t.Cleanup(func() { c.Close() })
	return c
}

// bulk keeps publishes in flight until the returned function is called, and
// checks that each ack is that of its message.
func (n *lan) bulk(name string, flight int) (stop func() (acks int)) {
	c := n.join(name)
	ctx, cancel := context.WithCancel(n.t.Context())
	var working sync.WaitGroup
	var acks atomic.Int64
	for i := range flight {
		working.Go(func() {
			var last protocol.Seq
			for k := 0; ctx.Err() == nil; k++ {
				ack, err := c.PublishTo(context.WithoutCancel(ctx), fmt.Sprintf("bulk.%s.%d", name, i), fmt.Append(nil, k))
				if !assert.NoError(n.t, err) {
					return
				}
				assert.Greater(n.t, ack.Seq, last)
				assert.False(n.t, ack.Duplicate)
				last = ack.Seq
				acks.Add(1)
			}
		})
	}
	return func() int {
		cancel()
		working.Wait()
		return int(acks.Load())
	}
}

// crew is members of one group, who lead as long as they may.
type crew struct {
	working sync.WaitGroup
	cancel  context.CancelFunc
	terms   atomic.Int64
}

func (n *lan) crew(timing election.Timing) *crew {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	w := &crew{cancel: cancel}
	for i := range 3 {
		c := n.join(fmt.Sprint("member ", i))
		w.working.Go(func() {
			election.Run(ctx, c, election.Options{Group: "workers", Timing: timing}, func(ctx context.Context, _ *election.Leadership) error {
				w.terms.Add(1)
				<-ctx.Done()
				return nil
			})
		})
	}
	for w.terms.Load() == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	return w
}

func (w *crew) leave() {
	w.cancel()
	w.working.Wait()
}

// Whether each sync takes 100 ms or now and then one does, acks are late and
// right, urgent ones wait for the sync at hand and their own and for nothing of
// the load, and who leads goes on leading.
func TestASlowDiskMakesAcksLateAndNothingElse(t *testing.T) {
	const slow = 100 * time.Millisecond
	for name, test := range map[string]struct {
		sync, stall time.Duration
		timing      election.Timing
	}{
		"each sync":         {slow, 0, election.WAN},
		"one sync a second": {2 * time.Millisecond, slow, election.LAN},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := onLAN(t, registry.Retention{}, registry.Limits{})
				crew := n.crew(test.timing)
				beat := n.join("beat")
				stops := []func() int{n.bulk("one", 10), n.bulk("two", 10)}
				n.log.sync.Store(int64(test.sync))
				n.log.stall.Store(int64(test.stall))
				var worst time.Duration
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(80 * time.Millisecond) {
					sent := time.Now()
					_, err := beat.Publish(t.Context(), client.Publication{Topic: "beats", Urgent: true, Slot: "beat"}).Wait(t.Context())
					require.NoError(t, err)
					worst = max(worst, time.Since(sent))
				}
				led := crew.terms.Load()
				n.log.sync.Store(0)
				n.log.stall.Store(0)
				acks := stops[0]() + stops[1]()
				crew.leave()
				t.Logf("urgent acks within %v; %d others; %d led", worst, acks, led)
				require.Greater(t, worst, slow)
				require.Less(t, worst, 2*(test.sync+test.stall)+10*oneWay)
				require.EqualValues(t, 1, led, "nobody else has led")
				require.Greater(t, acks, 1000)
			})
		})
	}
}

// A disk that hangs holds up nobody who reads what is there.
func TestReadersGoOnWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hang, retained = time.Minute, 900
		n := onLAN(t, registry.Retention{}, registry.Limits{})
		publisher, reader := n.join("publisher"), n.join("reader")
		sub, err := reader.Subscribe(t.Context(), "jobs")
		require.NoError(t, err)
		// It takes nothing yet, so that most of this waits in the log.
		for i := range retained {
			_, err := publisher.PublishTo(t.Context(), "jobs", fmt.Appendf(nil, "%04096d", i))
			require.NoError(t, err)
		}
		n.log.sync.Store(int64(hang))
		late := publisher.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: []byte("late")})
		time.Sleep(time.Second)
		began := time.Now()
		for i := range retained {
			require.Equal(t, fmt.Sprintf("%04096d", i), string(next(t, sub).Payload))
		}
		require.Less(t, time.Since(began), time.Second)
		n.log.sync.Store(0)
		_, err = late.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "late", string(next(t, sub).Payload))
		require.Greater(t, time.Since(began), hang/2)
	})
}
