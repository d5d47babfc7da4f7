package election_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// world is a group on the real stack, in a bubble: members of this package over
// real clients over QUIC, a real registry, and simulated packets.
type world struct {
	t     *testing.T
	reg   *fakeregistry.Registry
	judge *judge
	rand  *rand.Rand // of the test's own goroutine
	o     worldOptions

	nodes  []*process // the present process of each
	names  int
	tasks  sync.WaitGroup
	over   context.Context
	finish context.CancelFunc
}

type worldOptions struct {
	seed    uint64
	nodes   int
	timing  election.Timing
	latency time.Duration
	preempt election.Preemption
	mutant  mutant
}

// mutant is what a broken program does.
type mutant struct {
	validLies bool // asks nobody whether its leadership is valid
	unfenced  bool // writes without the token
}

// newWorld has a registry and as many members as o says, with an observer.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	w := &world{
		t: t, o: o, rand: rand.New(rand.NewPCG(o.seed, 2)),
		reg:   fakeregistry.New(t, fakeregistry.Options{Latency: o.latency, Seed: o.seed}),
		judge: newJudge(topic),
	}
	w.over, w.finish = context.WithCancel(context.Background())
	w.judge.attach(w.reg)
	for i := range o.nodes {
		w.nodes = append(w.nodes, w.start(nodeName(i), true))
	}
	w.start("observer", false)
	w.every(o.timing.Heartbeat/4, w.judge.tick)
	w.every(o.timing.Heartbeat, w.readRegister)
	t.Cleanup(func() { _ = w.end() })
	return w
}

// process finds the present process of a name.
func (w *world) process(name string) *process {
	w.t.Helper()
	for _, p := range w.nodes {
		if p.name == name {
			return p
		}
	}
	require.Fail(w.t, "nobody is called that", name)
	return nil
}

func nodeName(i int) string { return fmt.Sprint("n", i) }

// every does something again and again until the world ends.
func (w *world) every(d time.Duration, do func()) {
	w.tasks.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-w.over.Done():
				return
			}
		}
	})
}

// end closes everything, in order, and returns what was found.
func (w *world) end() error {
	w.finish()
	w.tasks.Wait()
	return w.judge.verdict()
}

// readRegister reads the register at the registry itself.
func (w *world) readRegister() {
	w.judge.mu.Lock() // so that nothing is stored between the two
	defer w.judge.mu.Unlock()
	epoch, value := w.reg.Epoch().ID, ""
	if list := w.reg.Messages(registerTopic); len(list) > 0 {
		value = string(list[len(list)-1].Payload)
	}
	if w.reg.Epoch().ID == epoch {
		w.judge.register.read(epoch, value)
	}
}

// process is a program with a connection and a member.
type process struct {
	w      *world
	node   string
	name   string
	number int

	priority int64
	rand     *rand.Rand
	net      *gate
	clock    clock
	wall     atomic.Int64 // how much its wall clock is ahead
	dead     atomic.Bool
	values   atomic.Int64 // written
	stop     context.CancelFunc
	ended    chan struct{}

	mu       sync.Mutex
	campaign func() // ends it
	quit     func() // ends the work
	member   *election.Member
	conn     *client.Client
}

// start starts a process at a node, which campaigns or only looks.
func (w *world) start(node string, stands bool) *process { return w.begin(node, stands, 0) }

// startAt is start with a priority.
func (w *world) startAt(node string, priority int64) *process { return w.begin(node, true, priority) }

func (w *world) begin(node string, stands bool, priority int64) *process {
	w.names++
	p := &process{
		w: w, node: node, number: w.names, priority: priority, name: fmt.Sprintf("%s.%d", node, w.names),
		rand:  rand.New(rand.NewPCG(w.o.seed, uint64(100+w.names))),
		ended: make(chan struct{}),
	}
	p.clock.start = time.Now().Add(-time.Duration(p.rand.Int64N(int64(time.Hour))))
	ctx, stop := context.WithCancel(w.over)
	p.stop = stop
	w.judge.note("%s starts", p.name)
	w.tasks.Go(func() {
		defer close(p.ended)
		p.live(ctx, stands)
	})
	return p
}

// live connects, however long that takes, and campaigns until ctx ends.
func (p *process) live(ctx context.Context, stands bool) {
	if !p.connect(ctx) {
		return
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { p.observe(ctx) })
	if stands {
		p.stand()
	}
	<-ctx.Done()
	if p.dead.Load() {
		_ = p.conn.Close() // a dead process does not say goodbye
	}
	p.withdraw()
	if err := p.member.Close(); err != nil && !p.dead.Load() {
		p.w.judge.note("%s: close: %v", p.name, err)
	}
	_ = p.conn.Close()
	tasks.Wait()
}

func (p *process) connect(ctx context.Context) bool {
	e := p.w.reg.Endpoint(p.node)
	p.net = &gate{PacketConn: e.PacketConn}
	for ctx.Err() == nil {
		dial, cancel := context.WithTimeout(ctx, 3*time.Second)
		c, err := client.Dial(dial, e.Addr, client.Options{
			Key: e.Key, PacketConn: p.net, RegistryKey: e.RegistryKey, NoState: true,
		})
		cancel()
		if err != nil {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		m, err := p.join(ctx, c)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.conn, p.member = c, m
			return true
		}
		p.w.judge.note("%s: join: %v", p.name, err)
		_ = c.Close()
	}
	return false
}

func (p *process) join(ctx context.Context, c *client.Client) (*election.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return election.Join(ctx, c, election.Options{
		Group: group, Priority: p.priority, Timing: p.w.o.timing, Preempt: p.w.o.preempt, Clock: p.clock.now,
		WallClock: func() time.Time { return time.Now().Add(time.Duration(p.wall.Load())) },
	})
}

// stand campaigns, in the background, until withdraw.
func (p *process) stand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.campaign != nil || p.member == nil || p.dead.Load() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.campaign = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// It returns when the work does: this one has resigned, and stands again.
			if err := p.member.Run(ctx, p.lead); err != nil && ctx.Err() == nil {
				p.w.judge.note("%s: run: %v", p.name, err)
				return
			}
		}
	}()
}

func (p *process) withdraw() {
	p.mu.Lock()
	stop := p.campaign
	p.campaign = nil
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// lead is the work under a leadership: fenced writes, and some that come late.
func (p *process) lead(ctx context.Context, l *election.Leadership) error {
	if p.dead.Load() {
		return nil
	}
	work, quit := context.WithCancel(ctx)
	defer quit()
	p.setQuit(quit)
	defer p.setQuit(nil)
	h := p.w.judge.elected(p.name, &glimpse{l, p}, p.dead.Load)
	over := make(chan struct{})
	defer close(over)
	p.w.tasks.Go(func() {
		<-l.Done()
		<-over
		p.w.judge.lost(h)
	})
	for work.Err() == nil {
		p.write(l)
		select {
		case <-time.After(p.between(p.w.o.timing.Heartbeat/2, 3*p.w.o.timing.Heartbeat)):
		case <-work.Done():
		}
	}
	if ctx.Err() != nil {
		p.writeLate(l)
	}
	if p.w.o.mutant.validLies {
		time.Sleep(3 * p.w.o.timing.Silence)
	}
	time.Sleep(p.between(0, p.w.o.timing.Stop/4)) // until the work has stopped
	return context.Cause(ctx)
}

func (p *process) setQuit(quit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quit = quit
}

// resign ends the work, if there is any, so that the member resigns.
func (p *process) resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quit != nil {
		p.w.judge.note("%s resigns", p.name)
		p.quit()
	}
}

// between is a random time. Only the process's own work calls it.
func (p *process) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rand.Int64N(int64(hi-lo)+1))
}

// glimpse looks at a leadership of a process, even of one that stands still.
type glimpse struct {
	*election.Leadership
	p *process
}

func (g *glimpse) Valid() bool {
	if g.p.w.o.mutant.validLies {
		return true
	}
	g.p.clock.looking.Add(1)
	defer g.p.clock.looking.Add(-1)
	return g.Leadership.Valid()
}

// write publishes the next value under the token, and notes what came of it.
func (p *process) write(l *election.Leadership) {
	p.publish(l.Token(), func(ctx context.Context, pub client.Publication) client.Pending {
		if p.w.o.mutant.unfenced {
			return p.conn.Publish(ctx, pub)
		}
		return l.Publish(ctx, pub)
	})
}

// writeLate is what a leader writes who has not noticed that it is none any more.
func (p *process) writeLate(l *election.Leadership) {
	for range 3 {
		after := p.between(0, 2*p.w.o.timing.Silence)
		p.w.tasks.Go(func() {
			time.Sleep(after)
			p.publish(l.Token(), func(ctx context.Context, pub client.Publication) client.Pending {
				if !p.w.o.mutant.unfenced {
					pub.Conditions = append(pub.Conditions, l.Condition())
				}
				return p.conn.Publish(ctx, pub)
			})
		})
	}
}

func (p *process) publish(t election.Token, publish func(context.Context, client.Publication) client.Pending) {
	value := fmt.Sprintf("%s:%d", p.name, p.values.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), 2*p.w.o.timing.Silence)
	call := time.Now()
	answer := publish(ctx, client.Publication{Topic: registerTopic, Payload: []byte(value)})
	p.w.tasks.Go(func() {
		defer cancel()
		_, err := answer.Wait(context.Background())
		j := p.w.judge
		j.mu.Lock()
		defer j.mu.Unlock()
		j.count.writes++
		out := outcomeOf(err)
		if out == stale {
			j.count.stale++
		}
		if !p.w.o.mutant.unfenced || out == accepted {
			j.register.wrote(p.number, t, value, out, call)
		}
	})
}

func (p *process) observe(ctx context.Context) {
	o := p.w.judge.observer(p.name)
	defer o.close()
	for seen, err := range p.member.Observe(ctx) {
		if err != nil {
			return
		}
		o.sees(seen.View)
	}
}

// kill ends the process as kill -9 does: nothing of it is heard any more.
func (p *process) kill() {
	p.w.judge.note("%s dies", p.name)
	p.dead.Store(true)
	if p.net != nil {
		p.net.shut.Store(true)
	}
	p.clock.wake()
	p.w.judge.buried(p.name)
	p.stop()
}

// pause stops the process's member and its network for a while.
func (p *process) pause(d time.Duration) {
	if p.dead.Load() {
		return
	}
	p.w.judge.note("%s pauses for %v", p.name, d)
	p.clock.pause(d)
}

// gate is a socket that can be shut.
type gate struct {
	net.PacketConn
	shut atomic.Bool
}

func (g *gate) WriteTo(b []byte, to net.Addr) (int, error) {
	if g.shut.Load() {
		return len(b), nil
	}
	return g.PacketConn.WriteTo(b, to)
}

func (g *gate) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := g.PacketConn.ReadFrom(b)
		if err != nil || !g.shut.Load() {
			return n, from, err
		}
	}
}

// clock is a process's monotonic clock. While the process pauses, whoever reads
// it stands still until the pause is over: that is how the member's goroutine
// stops, at the worst moment, just where it asks what time it is.
type clock struct {
	start   time.Time
	looking atomic.Int32 // the judge is: it does not wait
	until   atomic.Int64 // of the pause, since start
}

func (c *clock) elapsed() time.Duration { return time.Since(c.start) }

func (c *clock) pause(d time.Duration) { c.until.Store(int64(c.elapsed() + d)) }

func (c *clock) wake() { c.until.Store(0) }

func (c *clock) now() time.Duration {
	for c.looking.Load() == 0 && c.elapsed() < time.Duration(c.until.Load()) {
		time.Sleep(min(20*time.Millisecond, time.Duration(c.until.Load())-c.elapsed()))
	}
	return c.elapsed()
}

// led waits for somebody to lead, and returns who.
func (w *world) led(within time.Duration) (leader string) {
	w.t.Helper()
	for from := time.Now(); time.Since(from) < within; time.Sleep(w.o.timing.Heartbeat / 8) {
		if h, _ := w.judge.leader(); h != nil {
			return h.who
		}
	}
	require.Fail(w.t, "nobody leads", "seed %d: for %v", w.o.seed, within)
	return ""
}

// settled waits for as long as a group may take, and returns who leads then, and
// how long it really took until somebody always did.
func (w *world) settled(within time.Duration) (leader string, took time.Duration) {
	w.t.Helper()
	from := time.Now()
	time.Sleep(within)
	h, since := w.judge.leader()
	require.NotNil(w.t, h, "seed %d: nobody leads %v after the last fault", w.o.seed, within)
	return h.who, max(0, since.Sub(from))
}
