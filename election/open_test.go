package election_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// air is a medium without a registry: what is said arrives at each listener in
// its own time, without acks, order, history or fences.
type air struct {
	delay func(from, to protocol.NodeID) time.Duration

	mu        sync.Mutex
	listeners map[*radio]bool
}

func (a *air) join(node protocol.NodeID) *radio {
	return &radio{air: a, node: node, items: make(chan client.Item, 1000), closed: make(chan struct{})}
}

// radio is one node's Conn and the one Stream on it.
type radio struct {
	air    *air
	node   protocol.NodeID
	items  chan client.Item
	closed chan struct{}
}

func (r *radio) Self() client.Self                 { return client.Self{Node: r.node} }
func (r *radio) Capabilities() client.Capabilities { return client.Capabilities{} }

func (r *radio) Fence(context.Context, string) (client.FenceState, error) {
	return client.FenceState{}, errors.ErrUnsupported
}

func (r *radio) Subscribe(context.Context, string, ...client.SubscribeOption) (client.Stream, error) {
	r.air.mu.Lock()
	defer r.air.mu.Unlock()
	r.air.listeners[r] = true
	return r, nil
}

func (r *radio) Publish(_ context.Context, p client.Publication) client.Pending {
	if len(p.Conditions) > 0 {
		return uttered{errors.ErrUnsupported}
	}
	r.air.mu.Lock()
	defer r.air.mu.Unlock()
	for to := range r.air.listeners {
		m := &protocol.Message{Topic: p.Topic, Payload: p.Payload, Sender: r.node}
		time.AfterFunc(r.air.delay(r.node, to.node), func() {
			r.air.mu.Lock()
			defer r.air.mu.Unlock()
			if r.air.listeners[to] {
				to.items <- client.Item{Kind: client.ItemMessage, Message: m}
			}
		})
	}
	return uttered{}
}

func (r *radio) Next(ctx context.Context) (client.Item, error) {
	select {
	case item := <-r.items:
		return item, nil
	default:
	}
	select {
	case item := <-r.items:
		return item, nil
	case <-r.closed:
		return client.Item{}, net.ErrClosed
	case <-ctx.Done():
		return client.Item{}, ctx.Err()
	}
}

func (r *radio) Close() error {
	r.air.mu.Lock()
	defer r.air.mu.Unlock()
	if r.air.listeners[r] {
		delete(r.air.listeners, r)
		close(r.closed)
	}
	return nil
}

// uttered is a publish of which nothing more is known.
type uttered struct{ err error }

func (s uttered) Wait(context.Context) (client.Ack, error) { return client.Ack{}, s.err }
func (s uttered) Result() (client.Ack, bool, error)        { return client.Ack{}, true, s.err }
func (s uttered) Key() []byte                              { return nil }
func (s uttered) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func inTheAir(t *testing.T, delay func(from, to protocol.NodeID) time.Duration, test func(t *testing.T, a *air)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &air{delay: delay, listeners: map[*radio]bool{}})
	})
}

// Over a link without fences members elect as well as they can, and say so.
func TestBestEffort(t *testing.T) {
	inTheAir(t, func(_, _ protocol.NodeID) time.Duration { return latency }, func(t *testing.T, a *air) {
		p := newPool(t, nil)
		stop := map[string]func(){}
		for _, node := range []string{"a", "b", "c"} {
			stop[node] = p.runOver(node, a.join(fakeregistry.NodeID(node)))
		}
		leader, took := p.await("")
		require.Less(t, took, 2*lan.Silence)
		time.Sleep(time.Minute)
		require.Equal(t, leader, p.leader())
		require.Equal(t, []string{"+" + leader}, p.told())
		for node, m := range p.members {
			s := m.Status()
			require.True(t, s.BestEffort)
			require.True(t, s.Connected)
			require.Equal(t, node == leader, s.Leads)
			require.Equal(t, id(leader), s.Now.Leader)
			require.LessOrEqual(t, s.Heard, 2*lan.Heartbeat)
		}
		_, err := p.leads[leader].Publish(t.Context(), client.Publication{Topic: "config:fleet"}).Wait(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)

		stop[leader]()
		next, took := p.await(leader)
		require.Less(t, took, lan.Silence, "it has resigned")
		require.NotEqual(t, leader, next)
	})
}

// A leader that does not listen to this node: that is not for the registry's
// operator to change.
func TestAskingAnotherNodeHasAHint(t *testing.T) {
	inTheAir(t, func(_, _ protocol.NodeID) time.Duration { return latency }, func(t *testing.T, a *air) {
		p := newPool(t, nil)
		p.runOver("a", a.join(fakeregistry.NodeID("a")))
		p.await("")
		err := over(t, a.join(fakeregistry.NodeID("b"))).Ask(t.Context(), "")
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.EqualError(t, err, `ask the leader of "workers" to resign: permission denied: `+id("a")+` resigns only when its own key asks`)
		var hint interface{ Hint() string }
		require.ErrorAs(t, err, &hint)
		require.Equal(t, "ask on the leader's own node", hint.Hint())
	})
}

// H05, where readers see different orders: the order of (term, priority, node)
// decides, and all come to agree.
func TestBestEffortAgreesInWhateverOrder(t *testing.T) {
	slow := func(from, to protocol.NodeID) time.Duration {
		if from != to {
			return 100*time.Millisecond + time.Duration(from%7+to%5)*5*time.Millisecond
		}
		return time.Millisecond
	}
	inTheAir(t, slow, func(t *testing.T, a *air) {
		p := newPool(t, nil)
		for _, node := range []string{"a", "b", "c", "d"} {
			p.runOver(node, a.join(fakeregistry.NodeID(node)), priority(7))
		}
		time.Sleep(lan.Silence + time.Second)
		require.NotZero(t, p.pardon(), "more than one led for a while")
		leader := p.leader()
		require.NotEmpty(t, leader)
		for _, m := range p.members {
			require.Equal(t, id(leader), m.Status().Now.Leader)
		}
		time.Sleep(time.Minute)
		require.Equal(t, leader, p.leader())
	})
}

// A link that was lost is back with the next message, where nothing else says so.
func TestBestEffortComesBack(t *testing.T) {
	inTheAir(t, func(_, _ protocol.NodeID) time.Duration { return latency }, func(t *testing.T, a *air) {
		p := newPool(t, nil)
		p.runOver("a", a.join(fakeregistry.NodeID("a")))
		require.Equal(t, "a", first(p.await("")))
		b := a.join(fakeregistry.NodeID("b"))
		p.runOver("b", b)
		time.Sleep(time.Second)
		b.items <- client.Item{Kind: client.ItemDisconnected}
		synctest.Wait()
		require.False(t, p.members["b"].Status().Connected)
		time.Sleep(time.Second)
		require.True(t, p.members["b"].Status().Connected)
		require.Equal(t, "a", p.leader())
		require.Equal(t, []string{"+a"}, p.told())
	})
}

// The recipe's shell agent, which knows nothing of fences: it is followed while it
// heartbeats, taken over from when it stops, and does not dethrone a member.
func TestAShellLeader(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		shell := dial(t, reg, "shell")
		say := func(payload string) {
			_, err := shell.PublishTo(t.Context(), topic, []byte(payload))
			require.NoError(t, err)
		}
		me := id("shell")
		p := newPool(t, reg)
		p.run("a")
		p.run("b")
		say(`{"type":"election","candidate":"` + me + `","priority":4294967295,"term":2000000000}`)
		say(`{"type":"leader","leader":"` + me + `","term":2000000000,"elected_at":"` + stamp(-1) + `"}`)
		for n := range 40 {
			say(`{"type":"heartbeat","leader":"` + me + `","term":2000000000,"timestamp":"` + stamp(n) + `"}`)
			time.Sleep(lan.Heartbeat)
			require.Empty(t, p.leader())
		}
		for _, m := range p.members {
			now := m.Status().Now
			require.Equal(t, me, now.Leader)
			require.True(t, now.Plain)
		}
		leader, took := p.await("")
		require.Less(t, took, 2*lan.Silence)
		require.EqualValues(t, 2000000001, p.members[leader].Status().Now.Token.Term)

		// It wakes up and believes itself to lead.
		for n := range 40 {
			say(`{"type":"heartbeat","leader":"` + me + `","term":2000000000,"timestamp":"` + stamp(100+n) + `"}`)
			say(`{"type":"leader","leader":"` + me + `","term":3000000000}`)
			time.Sleep(lan.Heartbeat)
			require.Equal(t, leader, p.leader())
		}
		require.Equal(t, []string{"+" + leader}, p.told())
	})
}

func stamp(n int) string { return time.Unix(1764500000+int64(n), 0).UTC().Format(time.RFC3339) }

// A group that does not follow scripts is not held up by one.
func TestAGroupThatIgnoresScripts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		shell := dial(t, reg, "shell")
		p := newPool(t, reg)
		p.run("a", func(o *election.Options) { o.Plain = election.PlainIgnore })
		start := time.Now()
		for n := 0; p.leader() == ""; n++ {
			_, err := shell.PublishTo(t.Context(), topic, []byte(`{"type":"heartbeat","leader":"`+id("shell")+`","term":2000000000,"timestamp":"`+stamp(n)+`"}`))
			require.NoError(t, err)
			time.Sleep(lan.Heartbeat)
		}
		require.Less(t, time.Since(start), 2*lan.Silence)
		require.NotZero(t, p.members["a"].Status().Voids[election.VoidIgnored])
	})
}
