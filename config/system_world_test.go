package config_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// stormWorld is a swarm on the real stack, in a bubble: this package over real
// clients over QUIC, a real registry, and simulated packets. Half of the agents
// keep files on the real disk.
type stormWorld struct {
	t      *testing.T
	reg    *fakeregistry.Registry
	judge  *stormJudge
	files  *tornReader // nil: no agent has files
	rand   *rand.Rand  // of the test's own goroutine
	agents []*stormAgent
	docs   int
	tasks  sync.WaitGroup
	over   context.Context
	finish context.CancelFunc

	publishers []*stormProcess
	driving    context.CancelFunc
}

const (
	stormAgents = 5
	stormReport = 10 * time.Second
	stormRetry  = 20 * time.Second // at most
)

func newStormWorld(t *testing.T, seed uint64, files *tornReader) *stormWorld {
	w := &stormWorld{
		t: t, files: files, rand: rand.New(rand.NewPCG(seed, 2)), driving: func() {},
		reg: fakeregistry.New(t, fakeregistry.Options{Latency: 5 * time.Millisecond, Seed: seed}),
	}
	w.judge = newStormJudge(w.reg)
	w.over, w.finish = context.WithCancel(context.Background())
	for i := range stormAgents {
		a := &stormAgent{stormProcess: stormProcess{w: w, name: fmt.Sprint("n", i)}}
		if files != nil && i < len(files.dirs) {
			a.dir = files.dirs[i]
		} else {
			a.memory = &memory{}
			a.memory.fail = a.trouble
		}
		if i == 0 {
			a.labels = map[string]string{"canary": "yes"}
		}
		w.agents = append(w.agents, a)
		a.start(false)
	}
	for i := range 3 {
		p := &stormProcess{w: w, name: fmt.Sprint("writer", i)}
		w.publishers = append(w.publishers, p)
		ctx, cancel := context.WithCancel(w.over)
		w.tasks.Go(func() {
			defer cancel()
			if p.connect(ctx) {
				<-ctx.Done()
				_ = p.c.Close()
			}
		})
	}
	t.Cleanup(w.end)
	return w
}

// end closes everything.
func (w *stormWorld) end() {
	w.finish()
	w.tasks.Wait()
}

// stormProcess is a program with a connection.
type stormProcess struct {
	w    *stormWorld
	name string
	net  *stormGate

	mu sync.Mutex
	c  *client.Client
	s  *config.Swarm
}

func (p *stormProcess) swarm() *config.Swarm {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s
}

// connect dials, however long that takes.
func (p *stormProcess) connect(ctx context.Context) bool {
	e := p.w.reg.Endpoint(p.name)
	gate := &stormGate{PacketConn: e.PacketConn}
	for ctx.Err() == nil {
		c, s, err := p.dial(ctx, e, gate)
		if err == nil {
			p.mu.Lock()
			p.c, p.s, p.net = c, s, gate
			p.mu.Unlock()
			return true
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}

func (p *stormProcess) dial(ctx context.Context, e fakeregistry.Endpoint, gate *stormGate) (*client.Client, *config.Swarm, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr, client.Options{
		Key: e.Key, PacketConn: gate, RegistryKey: e.RegistryKey, NoState: true, Name: p.name,
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := config.Open(ctx, c, swarm, config.Options{})
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, s, nil
}

// stormGate is a socket that can be shut.
type stormGate struct {
	net.PacketConn
	shut atomic.Bool
}

func (g *stormGate) WriteTo(b []byte, to net.Addr) (int, error) {
	if g.shut.Load() {
		return len(b), nil
	}
	return g.PacketConn.WriteTo(b, to)
}

func (g *stormGate) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := g.PacketConn.ReadFrom(b)
		if err != nil || !g.shut.Load() {
			return n, from, err
		}
	}
}

// stormAgent is an agent that keeps a file in dir, or its configuration in memory.
type stormAgent struct {
	stormProcess
	dir    string
	memory *memory
	labels map[string]string
	calm   atomic.Bool
	tries  atomic.Int64

	stop  context.CancelFunc
	ended chan struct{} // nil: it is not up
}

func (a *stormAgent) target() string { return filepath.Join(a.dir, "app.json") }

// trouble lets some applies fail.
func (a *stormAgent) trouble(d *config.Document) error {
	pinned := a.memory != nil && a.memory.now.Pinned
	switch {
	case pinned:
		return &config.PinnedError{Version: a.memory.now.Version}
	case !a.calm.Load() && a.tries.Add(1)%4 == 0:
		return errors.New("it does not come up")
	}
	return nil
}

// start begins a process.
func (a *stormAgent) start(unpin bool) {
	if a.ended != nil {
		return
	}
	ctx, stop := context.WithCancel(a.w.over)
	ended := make(chan struct{})
	a.stop, a.ended = stop, ended
	a.w.tasks.Go(func() {
		defer close(ended)
		a.live(ctx, unpin)
	})
}

// kill ends it, as far as others see without a word.
func (a *stormAgent) kill() {
	if a.ended == nil {
		return
	}
	a.mu.Lock()
	if a.net != nil {
		a.net.shut.Store(true)
	}
	a.mu.Unlock()
	a.stop()
	<-a.ended
	a.ended = nil
}

func (a *stormAgent) live(ctx context.Context, unpin bool) {
	if !a.connect(ctx) {
		return
	}
	defer a.c.Close()
	applier, closing, err := a.applier()
	if err != nil {
		a.w.judge.wrong("%s: %v", a.name, err)
		return
	}
	defer closing()
	for ctx.Err() == nil {
		err := a.s.Follow(ctx, applier, config.FollowOptions{
			Labels: a.labels, ReportEvery: stormReport, MaxRetry: stormRetry, Unpin: unpin,
			Validators: []config.Validator{config.ValidatorFunc(refuseBad)},
		})
		if ctx.Err() == nil { // its subscription was refused, or what is applied cannot be read now
			a.w.judge.note("%s: %v", a.name, err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func refuseBad(_ context.Context, d *config.Document) error {
	if s, err := whole(d.Config); err != nil || s.Bad {
		return protocol.Errorf(protocol.ErrInvalid, "it is bad: %v", err)
	}
	return nil
}

func (a *stormAgent) applier() (config.Applier, func(), error) {
	if a.dir == "" {
		return &watched{a.memory, a}, func() {}, nil
	}
	var f *config.File
	var err error
	a.w.files.during(func() {
		f, err = config.OpenFile(config.FileOptions{
			Swarm: swarm, Target: a.target(), State: filepath.Join(a.dir, "state", "app.json"), Retained: a.s.Get,
		})
	})
	if err != nil {
		return nil, nil, err
	}
	return &watched{f, a}, func() { _ = f.Close() }, nil
}

// watched lets the judge see what an applier does.
type watched struct {
	config.Applier
	a *stormAgent
}

func (x *watched) Current(ctx context.Context) (now config.Applied, err error) {
	x.write(func() {
		now, err = x.Applier.Current(ctx)
	})
	if err == nil {
		x.a.w.judge.found(x.a, now)
	}
	return now, err
}

func (x *watched) Apply(ctx context.Context, d *config.Document) error {
	if x.a.dir != "" {
		if err := x.a.trouble(d); err != nil {
			return err
		}
	}
	var err error
	x.write(func() {
		err = x.Applier.Apply(ctx, d)
	})
	if err == nil {
		x.a.w.judge.ran(x.a, d)
	}
	return err
}

// write does what may write files.
func (x *watched) write(do func()) {
	if x.a.dir == "" {
		do()
		return
	}
	x.a.w.files.during(do)
}

func (x *watched) Pin(ctx context.Context, pinned bool) error {
	return x.Applier.(config.Pinner).Pin(ctx, pinned)
}

// rollBackHere puts an older version back by hand, as the recipe does; only its
// way to write a file is not taken, since who reads meanwhile reads half of it.
func (a *stormAgent) rollBackHere(version uint64, content string) {
	a.w.judge.note("%s is rolled back to %d by hand", a.name, version)
	if a.dir == "" {
		a.memory.mu.Lock()
		defer a.memory.mu.Unlock()
		now := &a.memory.now
		now.Version, now.Config, now.Digest, now.Pinned = version, []byte(content), config.DigestOf([]byte(content)), true
		return
	}
	for name, text := range map[string]string{"app.json": content + "\n", "app-version.txt": fmt.Sprintln(version)} {
		temp := filepath.Join(a.dir, "by-hand")
		require.NoError(a.w.t, os.WriteFile(temp, []byte(text), 0o644))
		require.NoError(a.w.t, os.Rename(temp, filepath.Join(a.dir, name)))
	}
}

// inUse is what a reader of the agent's configuration gets.
func (a *stormAgent) inUse() string {
	if a.dir == "" {
		return a.memory.content()
	}
	b, err := os.ReadFile(a.target())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// tornReader reads agents' files as fast as it can while they are written, in real
// time beside the bubble, and tells what was torn.
type tornReader struct {
	dirs    []string
	writers atomic.Int64
	wake    chan struct{} // a token when there is a writer
	all     sync.WaitGroup

	// Owned by run:
	reads int
	torn  error
}

// newTornReader is called outside of the bubble, so that nobody there waits for it.
func newTornReader(dirs ...string) *tornReader {
	r := &tornReader{dirs: dirs, wake: make(chan struct{}, 1)}
	r.all.Go(r.run)
	return r
}

func (r *tornReader) run() {
	for range r.wake {
		for more := true; more; {
			more = r.writers.Load() > 0
			r.read() // once more, when all have written
		}
	}
}

func (r *tornReader) read() {
	for _, dir := range r.dirs {
		b, err := os.ReadFile(filepath.Join(dir, "app.json"))
		if err != nil {
			continue
		}
		r.reads++
		if _, err = whole(b); err != nil {
			r.torn = fmt.Errorf("%d bytes of a file: %w", len(b), err)
		}
	}
}

// during reads while write runs.
func (r *tornReader) during(write func()) {
	r.writers.Add(1)
	defer r.writers.Add(-1)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	write()
}

// stop ends the reading, and tells how much was read.
func (r *tornReader) stop() (reads int, torn error) {
	close(r.wake)
	r.all.Wait()
	return r.reads, r.torn
}
