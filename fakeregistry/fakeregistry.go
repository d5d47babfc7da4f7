package fakeregistry

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// TB is the part of *testing.T that New and Listen use.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Options of a Registry. The zero value is a registry that admits everybody,
// without latency and with the defaults of a real one.
type Options struct {
	// Latency is the time a packet takes, one way, unless SetLink says otherwise.
	Latency time.Duration

	// Seed decides what is left to chance in the network, and the ids of epochs.
	Seed uint64

	// Born is the birth of the first epoch; by default the present time.
	Born time.Time

	// Clock is how much the registry's clock is ahead; see SetClock.
	Clock time.Duration

	Retention Retention
	Limits    registry.Limits
	Access    registry.AccessFunc // nil lets everybody do everything

	// Admission says who has a session. With a mode that does not let in everybody,
	// a nil Access is registry.AccessByLabel.
	Admission registry.Admission

	// Addr is where Listen and Start listen: a loopback address, by default
	// 127.0.0.1 and any free port.
	Addr string

	// History is about how many messages of each epoch checkers remember, 100,000
	// by default.
	History int
}

// Retention says what the log keeps.
type Retention = registry.Retention

// Registry is a real registry on a log in memory, with a network in front of it
// that loses what it is told to lose. Its methods may be called from any
// goroutine, unless they say otherwise.
type Registry struct {
	o       Options
	t       TB // nil after Start
	wires   *wires
	front   *front // nil after New
	events  eventLog
	history history
	people  *people

	mentions mentions

	failures   rules[Failure]
	failpoints rules[Failpoint]
	acks       rules[ackRule]
	muted      held
	stalled    held
	injections injections
	full       atomic.Bool
	clock      atomic.Int64 // how much it is ahead

	work    sync.WaitGroup // of CrashFor
	closing sync.Once

	mu       sync.Mutex
	log      *faultyLog
	epochs   int
	keys     []link.Identity // the last one counts
	chain    []protocol.Succession
	limits   registry.Limits
	keep     Retention
	up       server          // nil while nothing runs
	ending   <-chan struct{} // of what ran before
	ackRules map[string]func()
	closed   bool
	over     chan struct{} // closed by Close
}

// server is what runs at the registry's node.
type server interface {
	crash() // at once and silently; does not wait
	done() <-chan struct{}
}

// New makes a running registry in a simulated network for one test, which must
// be in a testing/synctest bubble for its time to be virtual. Clients live at
// named nodes, see Endpoint. Everything ends with the test; when the test has
// failed, its log then shows the events.
func New(t TB, o Options) *Registry {
	t.Helper()
	r := newRegistry(t, o)
	if err := r.Start(); err != nil {
		t.Fatalf("fakeregistry: %v", err)
	}
	t.Cleanup(r.finish)
	return r
}

// Listen makes a running registry on a loopback socket for one test, to be used
// by other processes, in real time.
func Listen(t TB, o Options) *Registry {
	t.Helper()
	r, err := start(t, o)
	if err != nil {
		t.Fatalf("fakeregistry: %v", err)
	}
	t.Cleanup(r.finish)
	return r
}

// Start is Listen without a test. The caller closes the registry.
func Start(o Options) (*Registry, error) { return start(nil, o) }

func start(t TB, o Options) (*Registry, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	r := newRegistry(t, o)
	to, err := net.ResolveUDPAddr("udp", r.inside())
	if err == nil {
		r.front, err = newFront(r.wires, o.Addr, to)
	}
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func newRegistry(t TB, o Options) *Registry {
	if o.History <= 0 {
		o.History = 100_000
	}
	r := &Registry{
		o:        o,
		t:        t,
		keys:     []link.Identity{{Key: Key("\x00registry")}},
		wires:    newWires(o),
		events:   eventLog{born: time.Now()},
		history:  history{max: o.History},
		limits:   o.Limits,
		keep:     o.Retention,
		ackRules: make(map[string]func()),
		over:     make(chan struct{}),
	}
	r.people = newPeople(r.wires)
	r.clock.Store(int64(o.Clock))
	r.wires.net.SetLink(injectorNode, Host, simnet.Link{})
	r.wires.net.SetLink(Host, injectorNode, simnet.Link{})
	r.newLog()
	return r
}

// newLog begins another epoch.
func (r *Registry) newLog() {
	r.epochs++
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, [2]uint64{r.o.Seed, uint64(r.epochs)})
	epoch := protocol.Epoch{ID: protocol.EpochID(h.Sum64() | 1), Born: uint64(r.now().Unix())}
	if r.epochs == 1 && !r.o.Born.IsZero() {
		epoch.Born = uint64(r.o.Born.Unix())
	}
	r.log = newFaultyLog(memlog.New(memlog.Options{Epoch: epoch, Retention: r.keep}), &r.history, &r.full)
}

func (r *Registry) now() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) }

// finish ends the registry with its test.
func (r *Registry) finish() {
	r.Close()
	r.reportStrangers()
	if t, ok := r.t.(interface{ Failed() bool }); ok && t.Failed() {
		r.logEvents()
	}
}

// shown is how many events the log of a failed test has.
const shown = 100

func (r *Registry) logEvents() {
	r.t.Helper()
	list := r.Events()
	var b strings.Builder
	if over := len(list) - shown; over > 0 {
		fmt.Fprintf(&b, "\n%d more before", over)
		list = list[over:]
	}
	for _, e := range list {
		fmt.Fprintf(&b, "\n%v", e)
	}
	r.t.Logf("events of the fake registry:%s", b.String())
}

// failed also tells the test.
func (r *Registry) failed(err error) error {
	if err != nil && r.t != nil {
		r.t.Helper()
		r.t.Errorf("fakeregistry: %v", err)
	}
	return err
}

// Addr is the address to dial: in the simulated network after New, else on
// loopback.
func (r *Registry) Addr() string {
	if r.front != nil {
		return r.front.main.addr()
	}
	return r.inside()
}

func (r *Registry) inside() string { return r.wires.net.Addr(Host) }

// Fingerprint is that of the registry's key, which stays the same over all
// starts unless NewKey changes it.
func (r *Registry) Fingerprint() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return link.Fingerprint(r.key().Public())
}

// key is called under mu.
func (r *Registry) key() link.Identity { return r.keys[len(r.keys)-1] }

// Close ends the registry and its network, and waits until nothing is left.
// After New and Listen the test does it. It may be called again.
func (r *Registry) Close() {
	r.closing.Do(func() {
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		close(r.over)
		r.ClearFaults()
		r.stop("close")
		r.work.Wait()
		if r.front != nil {
			r.front.close()
		}
		r.wires.net.Close()
	})
}

// ClearFaults takes back all faults but that of a registry that is stopped:
// partitions, links, refusals, failpoints, what is muted, stalled, delayed or
// dropped, the full disk, the clock. Limits and retention stay.
func (r *Registry) ClearFaults() {
	r.wires.healAll()
	r.wires.resetLinks(r.o.Latency)
	r.failures.clear()
	r.failpoints.clear()
	r.acks.clear()
	r.muted.releaseAll()
	r.stalled.releaseAll()
	r.full.Store(false)
	r.clock.Store(int64(r.o.Clock))
}

// Shutdown ends the registry as an operator does: clients are told to come back
// later and what was received is answered. The log stays for Start.
func (r *Registry) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	x, ok := r.up.(*run)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	r.events.fault("shutdown", "")
	err := x.server.Shutdown(ctx)
	r.stop("stop")
	return err
}
