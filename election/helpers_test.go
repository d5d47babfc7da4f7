package election_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// latency is one way, to the registry or from it.
const latency = 5 * time.Millisecond

const (
	group = "workers"
	topic = "election:" + group
)

var lan = election.LAN

// bubble lets a test play with a registry in virtual time.
func bubble(t *testing.T, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stuck := time.AfterFunc(24*time.Hour, func() { panic("the test is stuck") })
		defer stuck.Stop()
		test(t, fakeregistry.New(t, fakeregistry.Options{Latency: latency / 2}))
	})
}

func dial(t *testing.T, reg *fakeregistry.Registry, node string) *client.Client {
	t.Helper()
	e := reg.Endpoint(node)
	c, err := client.Dial(t.Context(), e.Addr, client.Options{
		Key: e.Key, NoState: true, Name: node, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey,
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// member joins a group by a connection of its own until the test ends.
func member(t *testing.T, reg *fakeregistry.Registry, node string, more ...func(*election.Options)) *election.Member {
	t.Helper()
	return over(t, dial(t, reg, node), more...)
}

func over(t *testing.T, conn client.Conn, more ...func(*election.Options)) *election.Member {
	t.Helper()
	o := election.Options{Group: group}
	for _, f := range more {
		f(&o)
	}
	m, err := election.Join(t.Context(), conn, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func priority(n int64) func(*election.Options) {
	return func(o *election.Options) { o.Priority = n }
}

// elect campaigns until m leads.
func elect(t *testing.T, m *election.Member) *election.Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := m.Campaign(ctx)
	require.NoError(t, err)
	return l
}

// pool is members that run, and what was seen of them.
type pool struct {
	t   *testing.T
	reg *fakeregistry.Registry

	mu      sync.Mutex
	leads   map[string]*election.Leadership
	story   []string
	twice   int // two led at once
	members map[string]*election.Member
}

func newPool(t *testing.T, reg *fakeregistry.Registry) *pool {
	return &pool{t: t, reg: reg, leads: map[string]*election.Leadership{}, members: map[string]*election.Member{}}
}

// run has a member campaign until the test ends, or stop is called.
func (p *pool) run(node string, more ...func(*election.Options)) (stop func()) {
	p.t.Helper()
	return p.runOver(node, dial(p.t, p.reg, node), more...)
}

func (p *pool) runOver(node string, conn client.Conn, more ...func(*election.Options)) (stop func()) {
	p.t.Helper()
	m := over(p.t, conn, more...)
	p.mu.Lock()
	p.members[node] = m
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := m.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
			p.begin(node, l)
			<-ctx.Done()
			p.end(node, l)
			return nil
		})
		if ctx.Err() == nil {
			p.tell("%s: %v", node, err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	p.t.Cleanup(stop)
	return stop
}

func (p *pool) begin(node string, l *election.Leadership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.leads {
		if o.Valid() && l.Valid() {
			p.twice++
		}
	}
	p.leads[node] = l
	p.story = append(p.story, "+"+node)
}

func (p *pool) end(node string, l *election.Leadership) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leads[node] == l {
		delete(p.leads, node)
	}
	p.story = append(p.story, "-"+node)
}

func (p *pool) tell(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

// leader is who leads now; nobody is "".
func (p *pool) leader() string {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	valid := ""
	for node, l := range p.leads {
		if l.Valid() {
			require.Empty(p.t, valid, "two lead: %s and %s", valid, node)
			valid = node
		}
	}
	require.Zero(p.t, p.twice, "two led at once")
	return valid
}

// pardon forgets that two have led at once, and tells how often.
func (p *pool) pardon() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.twice
	p.twice = 0
	return n
}

// await sleeps until somebody else than before leads, and tells how long.
func (p *pool) await(before string) (string, time.Duration) {
	p.t.Helper()
	start := time.Now()
	for time.Since(start) < time.Minute {
		if l := p.leader(); l != "" && l != before {
			return l, time.Since(start)
		}
		time.Sleep(time.Millisecond)
	}
	require.Fail(p.t, "nobody leads")
	return "", 0
}

func (p *pool) told() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.story...)
}

func id(node string) string { return fakeregistry.NodeID(node).String() }

// said lists the messages of the group as the sender and the kind, with the term.
func said(t *testing.T, reg *fakeregistry.Registry) []string {
	t.Helper()
	var list []string
	for _, m := range reg.Messages(topic) {
		var p struct {
			Type string
			Term uint64
		}
		require.NoError(t, json.Unmarshal(m.Payload, &p))
		list = append(list, fmt.Sprintf("%s %s %d", m.Sender, p.Type, p.Term))
	}
	return list
}
