//go:build linux

package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/integration"
	"github.com/pilotgo/pilotgo/protocol"
)

// natsOnDisks is three NATS servers, each a process on a disk of its own.
type natsOnDisks struct {
	t     *testing.T
	disks []*disk
	conf  []integration.Server
	procs []*exec.Cmd
	store string
}

func newNATSOnDisks(t *testing.T) *natsOnDisks {
	t.Helper()
	n := &natsOnDisks{t: t, procs: make([]*exec.Cmd, 3)}
	ports := integration.FreePorts(t, 9)
	var routes, urls []string
	for i := range 3 {
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", ports[i]))
		routes = append(routes, fmt.Sprint("127.0.0.1:", ports[3+i]))
	}
	n.store = strings.Join(urls, ",")
	for i := range 3 {
		n.disks = append(n.disks, mount(t, "-t", "tmpfs", "-o", "size=200m", "pilotgo-test"))
		n.conf = append(n.conf, integration.Server{
			Name: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[i], RouteHost: "127.0.0.1", Route: ports[3+i],
			Monitor: ports[6+i], Routes: routes, Dir: n.disks[i].path("store"),
		})
	}
	n.start(0, 1, 2)
	return n
}

// start starts servers at once, as they wait for each other.
func (n *natsOnDisks) start(which ...int) {
	n.t.Helper()
	var starting sync.WaitGroup
	for _, i := range which {
		starting.Go(func() { n.procs[i] = integration.StartServer(n.t, n.conf[i]) })
	}
	starting.Wait()
}

func (n *natsOnDisks) kill(i int) {
	n.t.Helper()
	require.NoError(n.t, n.procs[i].Process.Kill())
	_ = n.procs[i].Wait()
}

// The disks of NATS servers fill up to the last byte while clients publish. One of
// three is not missed. Without a second nothing is taken, and operators are told what
// to look for; reading goes on. With room, and the servers started again, as they
// have to be, all goes on by itself, and what was acknowledged is there.
func TestDisksOfNATSServersAreFull(t *testing.T) {
	n := newNATSOnDisks(t)
	page := operatorsPage(t)
	p := registryProcess(t, append(page.flags(), "--store", n.store)...)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	l := newLoad(t)
	end := l.readAll(ctx, p.dial("reader"))
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for i := range publishers {
		c := p.dial(fmt.Sprint("publisher ", i))
		working.Go(func() { l.publish(publishing, c, i) })
	}
	l.waitForAcks(ctx, 500)

	n.disks[0].fill(0)
	n.stops(ctx, 0)
	began := time.Now()
	l.waitForAcks(ctx, 5000)
	t.Logf("one disk full: 5000 more after %v", time.Since(began).Round(time.Millisecond))

	n.disks[1].fill(0)
	n.stops(ctx, 1)
	c := p.dial("alone")
	began = time.Now()
	says := n.refuses(ctx, c, page)
	t.Logf("two disks full: told after %v: %s", time.Since(began).Round(time.Millisecond), says)
	late := p.dial("late")
	require.NotEmpty(t, published(t, late, "jobs.*"))

	for i := range 2 {
		n.disks[i].free()
		n.kill(i)
	}
	n.start(0, 1)
	began = time.Now()
	l.waitForAcks(ctx, 5000)
	t.Logf("room again: 5000 more after %v", time.Since(began).Round(time.Millisecond))
	stop()
	working.Wait()
	end()
	ok, says := page.ready()
	require.True(t, ok, "%s", says)
}

// stops waits until a server has switched JetStream off, as it does when it finds that
// its disk is full.
func (n *natsOnDisks) stops(ctx context.Context, i int) {
	n.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/jsz", n.conf[i].Monitor))
		require.NoError(n.t, err)
		var is struct{ Disabled bool }
		err = json.NewDecoder(r.Body).Decode(&is)
		r.Body.Close()
		require.NoError(n.t, err)
		if is.Disabled {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.FailNow(n.t, "the server goes on without a disk")
		}
	}
}

// refuses publishes until that is refused and the registry says that the disks may be
// why, and returns what it says. Before, there may be no answer; while it tries another
// server it has another reason.
func (n *natsOnDisks) refuses(ctx context.Context, c *client.Client, page *page) string {
	n.t.Helper()
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := c.PublishTo(once, "alone", nil)
		cancel()
		require.Error(n.t, err, "acknowledged without a majority")
		ok, says := page.ready()
		if errors.Is(err, protocol.ErrDraining) && !ok && strings.Contains(says, "disk") {
			return says
		}
		require.NoError(n.t, ctx.Err(), "it does not say why: %v, %s", err, says)
	}
}
