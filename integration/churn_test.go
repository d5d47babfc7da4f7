package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

const (
	churnNodes  = 150              // remembered at most
	churnAge    = 10 * time.Minute // of messages
	churnPlaces = 30               // in the network, taken in turn
	churnGroups = 3
)

// churn is visitors who come and go.
type churn struct {
	*lan
	rng     *rand.Rand
	working sync.WaitGroup
	visits  int
	regular int // those with an identity that comes again
}

// come lets one more visitor in, who stays for a while. Regulars publish;
// strangers, who are new each time, only read.
func (c *churn) come(ctx context.Context) {
	c.visits++
	regular, stay := c.rng.IntN(2) == 0, 30*time.Second+rand.N(time.Minute)
	turn := c.visits % churnPlaces
	name, place := fmt.Sprint("stranger ", c.visits), fmt.Sprint("place ", turn)
	if regular {
		c.regular++
		name = fmt.Sprint("regular ", turn) // its last visit is over
	}
	lost := c.rng.IntN(5) == 0 // it does not say goodbye
	c.working.Go(func() {
		pc := c.net.Listen(place)
		defer pc.Close()
		one, err := client.Dial(ctx, c.net.Addr("registry"), client.Options{
			Key: fakeregistry.Key(name), NoState: true, PacketConn: pc, Name: name,
		})
		if !assert.NoError(c.t, err, name) {
			return
		}
		staying, leave := context.WithTimeout(ctx, stay)
		defer leave()
		if regular {
			c.work(staying, one, turn)
		} else {
			c.look(staying, one)
		}
		if lost {
			c.net.Isolate(place)
			defer c.net.Heal(place, "")
		}
		one.Close()
	})
}

// look is a visit of somebody who leaves nothing behind.
func (c *churn) look(ctx context.Context, one *client.Client) {
	assert.NoError(c.t, one.Join(ctx, "visits.some", "config:pool"))
	assert.NoError(c.t, one.ClearInbox(ctx, 1<<60))
	for _, open := range []func() (client.Stream, error){
		func() (client.Stream, error) { return one.Subscribe(ctx, "visits.*", client.FromAll()) },
		func() (client.Stream, error) { return one.SubscribeInbox(ctx) },
	} {
		sub, err := open()
		if assert.NoError(c.t, err) {
			sub.Next(ctx)
		}
	}
	<-ctx.Done()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	assert.NoError(c.t, one.Leave(leaving, "visits.some", "config:pool", "config:status:pool"))
}

// work is a visit of somebody who takes part in everything.
func (c *churn) work(ctx context.Context, one *client.Client, turn int) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		election.Run(ctx, one, election.Options{Group: fmt.Sprint("group ", turn%churnGroups), Timing: election.WAN},
			func(ctx context.Context, _ *election.Leadership) error {
				<-ctx.Done()
				return nil
			})
	})
	working.Go(func() {
		swarm, err := config.Open(ctx, one, "pool", config.Options{})
		if !assert.NoError(c.t, err) {
			return
		}
		swarm.Follow(ctx, &inMemory{}, config.FollowOptions{})
	})
	for k := 0; ctx.Err() == nil; k++ {
		for _, topic := range []string{"visits.all", fmt.Sprint("visits.", turn)} {
			_, err := one.PublishTo(ctx, topic, fmt.Append(nil, k))
			if ctx.Err() == nil {
				assert.NoError(c.t, err)
			}
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
}

// figures is what there is.
type figures struct {
	Goroutines int
	Heap       uint64
	Info       protocol.InfoState
	Log        registry.LogStats
	Rows       map[string]int // by table
	Fences     int
}

func (c *churn) figures() (f figures) {
	synctest.Wait()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f = figures{Goroutines: runtime.NumGoroutine(), Heap: m.HeapAlloc, Info: c.reg.Info(), Log: c.log.Stats(), Rows: map[string]int{}}
	err := c.log.Load(registry.State{
		Fence: func(registry.FenceEntry) error { f.Fences++; return nil },
		Entry: func(e registry.Entry) error { f.Rows[e.Table]++; return nil },
	})
	assert.NoError(c.t, err)
	return f
}

// Hours of clients who come, take part in everything, and go, with or without a
// goodbye, leave nothing behind but what is said to stay: the nodes up to their
// limit, the fences of the topics that have one, and what retention has not
// taken yet.
func TestHoursOfVisitorsLeaveNothingBehind(t *testing.T) {
	// Virtual hours, of about 5 s each: two, or in a long run five for each minute
	// of its budget.
	hours := max(2, int(5*testenv.Budget(t, time.Second)/time.Minute))
	synctest.Test(t, func(t *testing.T) {
		c := &churn{
			lan: onLAN(t, registry.Retention{Age: churnAge}, registry.Limits{Nodes: churnNodes}),
			rng: rand.New(rand.NewPCG(1, 2)),
		}
		keeper := c.join("keeper")
		swarm, err := config.Open(t.Context(), keeper, "pool", config.Options{})
		require.NoError(t, err)
		quiet := func() figures {
			c.working.Wait()
			// What is too old goes, and the session of who said no goodbye.
			time.Sleep(2 * churnAge)
			for range 50 { // keys are forgotten some at a time, as others come
				_, err := keeper.PublishTo(t.Context(), "quiet", nil)
				require.NoError(t, err)
			}
			time.Sleep(2 * churnAge)
			return c.figures()
		}
		var after []figures
		for hour := range hours {
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(5*time.Second + rand.N(10*time.Second)) {
				c.come(t.Context())
				if c.visits%60 == 0 {
					_, err := swarm.Publish(t.Context(), fmt.Appendf(nil, `{"n":%d}`, c.visits), config.PublishOptions{})
					require.NoError(t, err)
				}
			}
			f := quiet()
			after = append(after, f)
			if hour < 2 || hour == hours-1 {
				t.Logf("after %d h: %d visits, %d of regulars; %+v", hour+1, c.visits, c.regular, f)
			}
			require.EqualValues(t, 1, f.Info.Sessions)
			require.EqualValues(t, 1, f.Info.Online)
			require.LessOrEqual(t, f.Info.Nodes, uint64(churnNodes))
			require.EqualValues(t, f.Info.Nodes, f.Rows["nodes"])
			require.LessOrEqual(t, f.Rows["senders"], churnPlaces+1, "regulars and the keeper")
			require.Zero(t, f.Rows["joins"])
			require.LessOrEqual(t, f.Rows["cursors"], churnNodes)
			require.Equal(t, churnGroups+1, f.Fences)
			require.LessOrEqual(t, f.Log.Keys, 1100, "they go by about a thousand")
			require.Equal(t, after[0].Info.Subscriptions, f.Info.Subscriptions)
			require.Equal(t, after[0].Log.Topics, f.Log.Topics)
			require.LessOrEqual(t, f.Goroutines, after[0].Goroutines+2)
		}
		first, last := after[0], after[len(after)-1]
		require.Less(t, last.Heap, first.Heap+1<<20)
	})
}
