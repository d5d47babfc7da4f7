package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/integration"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// The networks of a divided cluster: clients reach registries over q, those the
// NATS servers over n, and these each other over r.
const (
	quicNet  = "q"
	natsNet  = "n"
	routeNet = "r"
)

// divided is three NATS servers and two registries, each a process on a machine of
// its own.
type divided struct {
	*networks
	regs  []*process
	store string
	js    jetstream.JetStream
}

const (
	natsPort  = 4222
	routePort = 6222
	monitor   = 8222
	regPort   = 9002
)

func newDivided(t *testing.T) *divided {
	t.Helper()
	d := &divided{networks: newNetworks(t, quicNet, natsNet, routeNet)}
	var routes, urls []string
	for i := range 3 {
		routes = append(routes, fmt.Sprint(d.addr(routeNet, 10+i), ":", routePort))
		urls = append(urls, fmt.Sprint("nats://", d.addr(natsNet, 10+i), ":", natsPort))
	}
	d.store = strings.Join(urls, ",")
	var starting sync.WaitGroup
	for i := range 3 {
		in := d.machine(fmt.Sprint("n", i), 10+i, natsNet, routeNet)
		starting.Go(func() {
			integration.StartServer(t, integration.Server{
				Name: fmt.Sprint("n", i), Host: d.addr(natsNet, 10+i), Port: natsPort, Monitor: monitor,
				RouteHost: d.addr(routeNet, 10+i), Route: routePort, Routes: routes, Dir: t.TempDir(),
			}, in...)
		})
	}
	starting.Wait()
	rules := filepath.Join(t.TempDir(), "rules")
	require.NoError(t, os.WriteFile(rules, []byte("allow any publish,subscribe *\n"), 0o600))
	for i := range 2 {
		p := &process{
			t: t, addr: fmt.Sprint(d.addr(quicNet, 20+i), ":", regPort), home: t.TempDir(),
			in:   d.machine(fmt.Sprint("g", i), 20+i, quicNet, natsNet),
			args: []string{"--store", d.store, "--admit", "open", "--access", rules, "--log", "info"},
		}
		p.run()
		d.regs = append(d.regs, p)
	}
	nc, err := nats.Connect(d.store, nats.MaxReconnects(-1))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	d.js, err = jetstream.New(nc)
	require.NoError(t, err)
	t.Cleanup(d.views)
	return d
}

// dial connects a new node, to the registry i first.
func (d *divided) dial(i int, others bool) *client.Client {
	d.t.Helper()
	addr := d.regs[i].addr
	if others {
		addr += "," + d.regs[1-i].addr
	}
	c, err := client.Dial(d.t.Context(), addr, client.Options{Home: d.t.TempDir()})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { c.Close() })
	return c
}

// serverOf is the NATS server that the registry i uses.
func (d *divided) serverOf(i int) string {
	d.t.Helper()
	for server := range 3 {
		r, err := http.Get(fmt.Sprintf("http://%s:%d/connz", d.addr(natsNet, 10+server), monitor))
		require.NoError(d.t, err)
		var all struct {
			Connections []struct {
				IP string `json:"ip"`
			} `json:"connections"`
		}
		err = json.NewDecoder(r.Body).Decode(&all)
		r.Body.Close()
		require.NoError(d.t, err)
		for _, c := range all.Connections {
			if c.IP == d.addr(natsNet, 20+i) {
				return fmt.Sprint("n", server)
			}
		}
	}
	require.FailNow(d.t, "no server has the registry")
	return ""
}

// views tells of a test that failed what each server says of the streams.
func (d *divided) views() {
	if !d.t.Failed() {
		return
	}
	for server := range 3 {
		r, err := http.Get(fmt.Sprintf("http://%s:%d/jsz?streams=1", d.addr(natsNet, 10+server), monitor))
		if err != nil {
			d.t.Logf("n%d: %v", server, err)
			continue
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		d.t.Logf("n%d: %v %s", server, err, text)
	}
}

// leader is the NATS server that leads the log's stream.
func (d *divided) leader(ctx context.Context) string {
	d.t.Helper()
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		s, err := d.js.Stream(once, "PILOTGO")
		if err == nil && s.CachedInfo().Cluster.Leader != "" {
			cancel()
			return s.CachedInfo().Cluster.Leader
		}
		<-once.Done()
		cancel()
		require.NoError(d.t, ctx.Err(), "the stream has no leader: %v", err)
	}
}

// refuses asks a registry that cannot store anything to store something.
func (d *divided) refuses(ctx context.Context, c *client.Client) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ack, err := c.PublishTo(ctx, "alone", []byte("refused"))
	require.Error(d.t, err, "acknowledged as %d", ack.Seq)
	d.t.Logf("it says: %v", err)
	code := protocol.CodeOf(err)
	require.Contains(d.t, []protocol.Code{protocol.ErrDraining, protocol.ErrNotConnected, protocol.ErrUnknownOutcome}, code, "%v", err)
}

// Machines of a cluster are cut off from each other in all ways, without that
// anybody is told, while clients publish and race for a fence. Nothing that was
// acknowledged is lost or twice, and all goes on by itself.
func TestPartitionedCluster(t *testing.T) {
	d := newDivided(t)
	hold := testenv.Budget(t, 4*time.Second) // how long each cut is
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+8*hold)
	defer cancel()

	l := newLoad(t)
	reader := d.dial(1, true)
	end := l.readAll(ctx, reader)
	info, err := reader.Info(ctx)
	require.NoError(t, err)
	race := integration.NewFenceRace(info.Epoch.ID)

	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for i := range publishers {
		c := d.dial(i%2, true)
		working.Go(func() { l.publish(publishing, c, i) })
	}
	for i := range 4 {
		c := d.dial(i%2, true)
		working.Go(func() { raceOn(publishing, race, c, i) })
	}
	alone := []*client.Client{d.dial(0, false), d.dial(1, false)}

	phase := func(name string, cut, during, heal func()) {
		l.waitForAcks(ctx, 500)
		began := time.Now()
		cut()
		during()
		if left := hold - time.Since(began); left > 0 {
			time.Sleep(left)
		}
		acked := l.acks.Load()
		heal()
		healed := time.Now()
		l.waitForAcks(ctx, 500)
		for _, c := range alone { // both registries
			_, err := c.PublishTo(ctx, "alone", fmt.Appendf(nil, "alone %s %p", name, c))
			require.NoError(t, err)
		}
		t.Logf("%s: cut for %v, %d acknowledged by its end; both registries again %v after",
			name, healed.Sub(began).Round(time.Millisecond), acked, time.Since(healed).Round(time.Millisecond))
	}
	goesOn := func() {
		began := time.Now()
		l.waitForAcks(ctx, 1000) // more than could be on their way
		t.Logf("went on: 1000 more after %v", time.Since(began).Round(time.Millisecond))
	}

	server := d.serverOf(0)
	phase("a server from the others, not from its registry",
		func() { d.cut(server, routeNet) },
		func() {
			goesOn()
			ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
			defer cancel()
			_, err := alone[0].PublishTo(ctx, "alone", []byte("alone, through another server"))
			require.NoError(t, err, "its registry finds another server")
		},
		func() { d.heal(server, routeNet) })

	leader := d.leader(ctx)
	phase("the leader from everybody",
		func() { d.cut(leader, routeNet); d.cut(leader, natsNet) },
		goesOn,
		func() { d.heal(leader, routeNet); d.heal(leader, natsNet) })

	phase("a registry from all of NATS",
		func() { d.cut("g0", natsNet) },
		func() { goesOn(); d.refuses(ctx, alone[0]) },
		func() { d.heal("g0", natsNet) })

	phase("all servers from each other",
		func() {
			for i := range 3 {
				d.cut(fmt.Sprint("n", i), routeNet)
			}
		},
		func() {
			d.refuses(ctx, alone[0]) // what was committed is told by then
			before := l.acks.Load()
			d.refuses(ctx, alone[1])
			require.Equal(t, before, l.acks.Load(), "acknowledged without a majority")
		},
		func() {
			for i := range 3 {
				d.heal(fmt.Sprint("n", i), routeNet)
			}
		})

	stop()
	working.Wait()
	end()
	t.Logf("%d acknowledged", len(l.acked))

	var fenced map[string]protocol.Seq
	for i := range alone {
		got := placed(t, alone[i], integration.FenceTopic)
		require.True(t, i == 0 || fmt.Sprint(got) == fmt.Sprint(fenced), "the registries differ")
		fenced = got
	}
	race.Check(t, fenced)
}

// raceOn races for a fence until ctx ends. Not to have an answer in time is no
// failure here: what came of it is looked up.
func raceOn(ctx context.Context, race *integration.FenceRace, c *client.Client, who int) {
	rng := rand.New(rand.NewPCG(uint64(who), 11))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(80+rng.IntN(80)) * time.Millisecond):
		}
		each, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		err := race.Step(each, c, who, rng)
		cancel()
		if err != nil && errors.Is(err, protocol.ErrClosed) {
			return
		}
	}
}

// placed is where what is retained on a topic stands, by payload.
func placed(t *testing.T, c *client.Client, topic string) map[string]protocol.Seq {
	t.Helper()
	sub, err := c.Subscribe(t.Context(), topic, client.FromAll())
	require.NoError(t, err)
	defer sub.Close()
	list := make(map[string]protocol.Seq)
	for {
		item, err := sub.Next(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, client.ItemGap, item.Kind)
		switch item.Kind {
		case client.ItemCaughtUp:
			return list
		case client.ItemMessage:
			_, twice := list[string(item.Message.Payload)]
			require.False(t, twice, "%s is there twice", item.Message.Payload)
			list[string(item.Message.Payload)] = item.Message.Seq
		case client.ItemGap, client.ItemEpoch, client.ItemDisconnected:
		}
	}
}
