//go:build !windows

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/integration"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// Clients that know several registries of one log leave one that was killed, or
// stands still, long before its silence ends their session: who waits for an answer
// at once, who only reads with its next ping. Nothing is lost or doubled by it, and
// nothing changes when the registry goes on after all.
func TestRegistryThatIsGoneIsLeftSoon(t *testing.T) {
	f := newSites(t, 3)
	stop := func(p *process) { p.tell(syscall.SIGSTOP) }
	goOn := func(p *process) { p.tell(syscall.SIGCONT) }
	for name, way := range map[string]struct {
		leave, back func(*process)
	}{
		"killed":  {(*process).kill, (*process).start},
		"stopped": {stop, goOn},
	} {
		t.Run(name, func(t *testing.T) {
			budget, began := testenv.Budget(t, 0), time.Now()
			var published, read []time.Duration
			for len(read) < 3 || time.Since(began) < budget {
				p, r := f.round(t, way.leave, way.back)
				published, read = append(published, p), append(read, r)
			}
			require.Less(t, median(t, "published", published), sessionSilence)
			require.Less(t, median(t, "read", read), sessionSilence)
		})
	}
}

// sessionSilence is after how much of it QUIC ends a session.
const sessionSilence = 15 * time.Second

// sites is registries of one log.
type sites struct {
	t       *testing.T
	addrs   []string
	byAddr  map[string]*process
	subject int
}

func newSites(t *testing.T, n int) *sites {
	store := "--store=" + integration.NewCluster(t, 3)
	f := &sites{t: t, byAddr: map[string]*process{}}
	for range n {
		p := registryProcess(t, store)
		f.addrs = append(f.addrs, p.addr)
		f.byAddr[p.addr] = p
	}
	return f
}

func (f *sites) dial(t *testing.T) *client.Client {
	c, err := client.Dial(t.Context(), strings.Join(f.addrs, ","), client.Options{Home: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// of is the registries of clients.
func (f *sites) of(t *testing.T, clients ...*client.Client) (list []*process) {
	for _, c := range clients {
		info, err := c.Info(t.Context())
		require.NoError(t, err)
		if p := f.byAddr[info.Address]; !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// round makes the registries of a publisher and of a reader leave and come back. It
// returns how long it took until a publish was acknowledged and until it was read.
func (f *sites) round(t *testing.T, leave, back func(*process)) (published, read time.Duration) {
	writer, reader := f.dial(t), f.dial(t)
	defer writer.Close()
	defer reader.Close()
	f.subject++
	topic := fmt.Sprint("jobs.", f.subject)
	sub, err := reader.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	publish := func(text string) client.Pending {
		return writer.Publish(t.Context(), client.Publication{Topic: topic, Payload: []byte(text)})
	}
	_, err = publish("before").Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "before", string(next(t, sub).Payload))

	gone := f.of(t, writer, reader)
	require.Less(t, len(gone), len(f.addrs))
	for _, p := range gone {
		leave(p)
	}
	start := time.Now()
	acked := make(chan error, 1)
	meanwhile := publish("meanwhile")
	go func() {
		_, err := meanwhile.Wait(t.Context())
		published = time.Since(start)
		acked <- err
	}()
	require.Equal(t, "meanwhile", string(next(t, sub).Payload))
	read = time.Since(start)
	require.NoError(t, <-acked)

	for _, p := range gone {
		back(p)
	}
	_, err = publish("after").Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "after", string(next(t, sub).Payload))
	return published, read
}

func median(t *testing.T, what string, list []time.Duration) time.Duration {
	slices.Sort(list)
	n := len(list)
	t.Logf("%s %d times after %v to %v, median %v", what, n, list[0], list[n-1], list[n/2])
	return list[n/2]
}

// A leader whose registry is killed leads on at another: with a lease that is longer
// than its clients take to leave it.
func TestLeaderOutlastsItsRegistry(t *testing.T) {
	f := newSites(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var campaigns sync.WaitGroup
	defer campaigns.Wait()
	defer cancel()
	var members []*client.Client
	for range 2 {
		c := f.dial(t)
		members = append(members, c)
		campaigns.Go(func() {
			election.Run(ctx, c, election.Options{Group: "workers", Timing: election.WAN}, lead)
		})
	}
	killed := f.of(t, members...)
	require.Len(t, killed, 1)
	sub, err := f.at(t, killed).Subscribe(t.Context(), election.TopicPrefix+"workers")
	require.NoError(t, err)

	var began time.Time
	var term uint64
	for began.IsZero() || time.Since(began) < 2*election.WAN.Silence {
		var m struct {
			Type string
			Term uint64
		}
		require.NoError(t, json.Unmarshal(next(t, sub).Payload, &m))
		if m.Type != "heartbeat" {
			continue
		}
		if began.IsZero() {
			killed[0].kill()
			term, began = m.Term, time.Now()
		}
		require.Equal(t, term, m.Term)
	}
}

// lead does so until it has to stop.
func lead(ctx context.Context, _ *election.Leadership) error {
	<-ctx.Done()
	return nil
}

// at dials a registry that is none of some.
func (f *sites) at(t *testing.T, not []*process) *client.Client {
	for _, p := range f.byAddr {
		if !slices.Contains(not, p) {
			c, err := client.Dial(t.Context(), p.addr, client.Options{Home: t.TempDir()})
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		}
	}
	return nil
}
