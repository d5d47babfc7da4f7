package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// load is publishers that go on whatever happens to the registry, and a reader.
type load struct {
	t    *testing.T
	acks atomic.Int64

	mu       sync.Mutex
	acked    map[string]protocol.Seq // by payload
	unknown  map[string]bool
	read     map[string]protocol.Seq
	twice    []string
	backward []protocol.Seq
	epochs   map[protocol.EpochID]bool
	head     protocol.Seq // read last

	// flight has what each publisher may have published and not seen read. It is
	// less than what the log retains of a publisher, so the reader misses nothing.
	flight [publishers]chan struct{}
}

const publishers = 4

func newLoad(t *testing.T) *load {
	l := &load{
		t: t, acked: map[string]protocol.Seq{}, unknown: map[string]bool{}, read: map[string]protocol.Seq{},
		epochs: map[protocol.EpochID]bool{},
	}
	for i := range l.flight {
		l.flight[i] = make(chan struct{}, 200)
	}
	return l
}

// publish keeps some publishes in flight until ctx ends, and returns when each has
// its answer.
func (l *load) publish(ctx context.Context, c *client.Client, who int) {
	var answers sync.WaitGroup
	defer answers.Wait()
	for n := 0; ; n++ {
		select {
		case l.flight[who] <- struct{}{}:
		case <-ctx.Done():
			return
		}
		payload := fmt.Sprintf("%d/%d", who, n)
		// The wait for an answer outlasts ctx: what was sent must be accounted for.
		p := c.Publish(context.WithoutCancel(ctx), client.Publication{Topic: fmt.Sprintf("jobs.%d", who), Payload: []byte(payload)})
		answers.Go(func() {
			ack, err := p.Wait(context.WithoutCancel(ctx))
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case err == nil:
				l.acked[payload] = ack.Seq
				l.epochs[ack.Epoch] = true
				l.acks.Add(1)
			case errors.Is(err, protocol.ErrUnknownOutcome):
				l.unknown[payload] = true
			default:
				l.t.Errorf("publish %s: %v", payload, err)
			}
		})
	}
}

// follow reads until it has seen the message that ends the load.
func (l *load) follow(ctx context.Context, sub client.Stream) error {
	for m, err := range client.Messages(ctx, sub) {
		if err != nil {
			return err
		}
		l.mu.Lock()
		text := string(m.Payload)
		if _, ok := l.read[text]; ok {
			l.twice = append(l.twice, text)
		}
		if m.Seq <= l.head {
			l.backward = append(l.backward, m.Seq)
		}
		l.read[text], l.head = m.Seq, m.Seq
		l.mu.Unlock()
		if who, err := strconv.Atoi(strings.Split(text, "/")[0]); err == nil {
			<-l.flight[who]
		}
		if text == "the end" {
			return nil
		}
	}
	return ctx.Err()
}

// check compares what was acknowledged with what was read.
func (l *load) check() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotEmpty(l.t, l.acked)
	assert.Empty(l.t, l.twice, "read twice")
	assert.Empty(l.t, l.backward, "seqs that do not rise")
	assert.Len(l.t, l.epochs, 1, "one log")
	lost := 0
	for payload, seq := range l.acked {
		if l.read[payload] != seq {
			lost++
		}
	}
	assert.Zero(l.t, lost, "acknowledged and not read where the ack said")
	for payload := range l.read {
		_, acked := l.acked[payload]
		assert.True(l.t, acked || l.unknown[payload] || payload == "the end", "%s was never published", payload)
	}
}

// A registry that is killed again and again under load keeps every promise: what
// was acknowledged is in its log once and stays, places are never given twice, and
// elections and configurations carry on.
func TestKillingTheRegistryLosesNothing(t *testing.T) {
	budget := testenv.Budget(t, 0)
	p := registryProcess(t, "--store", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), max(2*budget, 3*time.Minute))
	defer cancel()
	l := newLoad(t)

	reader := p.dial("reader")
	end := l.readAll(ctx, reader)

	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for i := range publishers {
		c := p.dial(fmt.Sprint("publisher ", i))
		working.Go(func() { l.publish(publishing, c, i) })
	}
	g := carryOn(ctx, t, p.dial)

	began := time.Now()
	kills := 0
	for kills < 10 || time.Since(began) < budget {
		l.waitForAcks(ctx, 200+rand.Int64N(3000))
		p.kill()
		kills++
		p.start()
		g.check(ctx, kills)
	}
	stop()
	working.Wait()
	end()
	t.Logf("%d kills, %d acknowledged, %d of unknown outcome", kills, len(l.acked), len(l.unknown))
}

// readAll follows what is published from now on. end publishes the last message, and
// checks that what was read is what was acknowledged.
func (l *load) readAll(ctx context.Context, reader *client.Client) (end func()) {
	l.t.Helper()
	sub, err := reader.Subscribe(ctx, "jobs.*", client.FromAll())
	require.NoError(l.t, err)
	reading := make(chan error, 1)
	go func() { reading <- l.follow(ctx, sub) }()
	return func() {
		l.t.Helper()
		_, err := reader.PublishTo(ctx, "jobs.end", []byte("the end"))
		require.NoError(l.t, err)
		require.NoError(l.t, <-reading)
		l.check()
		require.Empty(l.t, l.unknown, "the log knows every key")
	}
}

// waitForAcks returns when so many more publishes were acknowledged.
func (l *load) waitForAcks(ctx context.Context, n int64) {
	l.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for goal := l.acks.Load() + n; l.acks.Load() < goal; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.FailNow(l.t, "no more acks", "%d of %d", l.acks.Load(), goal)
		}
	}
}

// group is two members and a follower of a configuration that must outlive kills.
type group struct {
	t     *testing.T
	watch *election.Member
	swarm *config.Swarm

	mu    sync.Mutex
	terms []uint64
	leads int // members that lead now
}

// carryOn starts the group with clients that dial makes.
func carryOn(ctx context.Context, t *testing.T, dial func(name string) *client.Client) *group {
	t.Helper()
	g := &group{t: t}
	for i := range 2 {
		c := dial(fmt.Sprint("member ", i))
		go election.Run(ctx, c, election.Options{Group: "workers", Timing: patient}, g.lead)
	}
	var err error
	observer := dial("observer")
	g.watch, err = election.Join(ctx, observer, election.Options{Group: "workers", Timing: patient})
	require.NoError(t, err)
	t.Cleanup(func() { g.watch.Close() })
	g.swarm, err = config.Open(ctx, observer, "pool", config.Options{})
	require.NoError(t, err)
	follower, err := config.Open(ctx, dial("agent"), "pool", config.Options{})
	require.NoError(t, err)
	go follower.Follow(ctx, &inMemory{}, config.FollowOptions{})
	return g
}

// patient is for a machine that does much else meanwhile.
var patient = election.Timing{
	Heartbeat: 200 * time.Millisecond, Lease: 2 * time.Second, Silence: 2500 * time.Millisecond,
	Jitter: 50 * time.Millisecond, Window: 150 * time.Millisecond, Rank: 100 * time.Millisecond,
	Stop: 500 * time.Millisecond, OneWay: 50 * time.Millisecond, Pause: time.Second,
}

func (g *group) lead(ctx context.Context, l *election.Leadership) error {
	g.mu.Lock()
	g.leads++
	if g.leads > 1 {
		g.t.Errorf("two lead in term %d", l.Term())
	}
	if n := len(g.terms); n > 0 && g.terms[n-1] >= l.Term() {
		g.t.Errorf("term %d after %d", l.Term(), g.terms[n-1])
	}
	g.terms = append(g.terms, l.Term())
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.leads--
	g.mu.Unlock()
	return nil
}

// check waits for a leader, and for a new version to be applied.
func (g *group) check(ctx context.Context, n int) {
	g.t.Helper()
	for o, err := range g.watch.Observe(ctx) {
		require.NoError(g.t, err)
		if o.Leader != "" {
			break
		}
	}
	published, err := g.swarm.Publish(ctx, fmt.Appendf(nil, `{"n":%d}`, n), config.PublishOptions{})
	require.NoError(g.t, err)
	_, err = g.swarm.WaitFor(ctx, published.Version, 1, config.ComplianceOptions{})
	require.NoError(g.t, err)
}

// inMemory applies to nothing.
type inMemory struct{ applied config.Applied }

func (m *inMemory) Current(context.Context) (config.Applied, error) { return m.applied, nil }

func (m *inMemory) Apply(_ context.Context, d *config.Document) error {
	m.applied.Version, m.applied.Digest = d.Version, d.Digest
	return nil
}
