package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

const (
	demoGroup  = "demo"
	demoAgents = 5

	// demoPause is for those who watch.
	demoPause = 1200 * time.Millisecond

	// demoTries is how often a hand-over is tried, on a machine that is too busy for
	// leases.
	demoTries = 5

	// demoPatience is how long an election may take, on a machine that is busy too.
	demoPatience = 8 * time.Second
)

// agent is a member of the demonstration's group, in this process but with a
// connection of its own.
type agent struct {
	name   string
	socket *severable
	client *client.Client
	member *election.Member
}

func (g *agent) id() string { return g.client.Self().Node.String() }

// scene is a group at work.
type scene struct {
	*demo
	agents []*agent
	terms  chan term
}

// term is news of a leadership.
type term struct {
	agent *agent
	token election.Token
	at    time.Time
	ended bool
	why   string
}

// electionAct lets five agents elect a leader, cuts it off, and has its successor
// hand over.
func (d *demo) electionAct(ctx context.Context) error {
	d.say("ELECTION. %d agents share one topic, election:%s, on a registry in this process.\n\n  time     agent\n", demoAgents, demoGroup)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &scene{demo: d, terms: make(chan term, 64)}
	if err := s.gather(ctx); err != nil {
		return err
	}
	var campaigns sync.WaitGroup
	defer campaigns.Wait()
	defer cancel()
	began := time.Now()
	for _, g := range s.agents {
		campaigns.Go(func() { s.campaign(ctx, g) })
	}
	s.line("-", "all %d stand for election", demoAgents)
	first, err := s.elected(ctx, began)
	if err != nil {
		return err
	}
	second, failover, err := s.failover(ctx, first)
	if err != nil {
		return err
	}
	third, handover, err := s.handover(ctx, second)
	if err != nil {
		return err
	}
	d.result.set("election", map[string]any{
		"agents":      demoAgents,
		"terms":       []uint64{first.token.Term, second.token.Term, third.token.Term},
		"leaders":     []string{first.agent.id(), second.agent.id(), third.agent.id()},
		"elected_ms":  inMS(first.at.Sub(began)),
		"failover_ms": inMS(failover),
		"handover_ms": inMS(handover),
	})
	d.say("\n  from the cut to the next leader %s; the handover took %s\n", milliseconds(failover), milliseconds(handover))
	return nil
}

// gather brings the agents on the stage.
func (s *scene) gather(ctx context.Context) error {
	for i := range demoAgents {
		g := &agent{name: fmt.Sprintf("agent-%d", i+1)}
		var err error
		if g.socket, err = openSeverable(); err != nil {
			return err
		}
		s.onClose(func() { g.socket.Close() })
		if g.client, err = s.enter(ctx, g.socket); err != nil {
			return err
		}
		if g.member, err = election.Join(ctx, g.client, election.Options{Group: demoGroup}); err != nil {
			return err
		}
		s.onClose(func() { g.member.Close() })
		s.agents = append(s.agents, g)
	}
	return nil
}

// campaign is an agent's part: it leads until it is told to stop, and tells so.
func (s *scene) campaign(ctx context.Context, g *agent) {
	g.member.Run(ctx, func(leads context.Context, l *election.Leadership) error {
		s.terms <- term{agent: g, token: l.Token(), at: time.Now()}
		<-leads.Done()
		var lost *election.LostError
		if ctx.Err() == nil && errors.As(l.Err(), &lost) {
			s.terms <- term{agent: g, token: l.Token(), at: time.Now(), ended: true, why: stopReason(lost.Reason)}
		}
		return nil
	})
}

func stopReason(r election.Reason) string {
	if r == election.ReasonExpired {
		return "no heartbeat of it passed, and its lease is over by its own clock"
	}
	return r.String()
}

// elected waits for the next leader, which may be the one before again.
func (s *scene) elected(ctx context.Context, since time.Time) (term, error) {
	late := time.NewTimer(demoPatience)
	defer late.Stop()
	for {
		select {
		case t := <-s.terms:
			if t.ended {
				s.line(t.agent.name, "stops: %s", t.why)
				continue
			}
			s.line(t.agent.name, "leads, term %d, after %s", t.token.Term, milliseconds(t.at.Sub(since)))
			return t, nil
		case <-late.C:
			return term{}, protocol.Errorf(protocol.ErrTimeout, "no leader within %v", demoPatience)
		case <-ctx.Done():
			return term{}, ctx.Err()
		}
	}
}

// failover cuts the leader off without a goodbye.
func (s *scene) failover(ctx context.Context, leader term) (next term, took time.Duration, err error) {
	if err := sleep(ctx, demoPause); err != nil {
		return next, 0, err
	}
	leader = s.newest(leader)
	cut := time.Now()
	leader.agent.socket.cut()
	s.line(leader.agent.name, "is cut off: not a packet more, no goodbye")
	next, err = s.elected(ctx, cut)
	return next, next.at.Sub(cut), err
}

// newest is the leader by now: on a busy machine another may have been elected.
func (s *scene) newest(t term) term {
	for {
		select {
		case later := <-s.terms:
			if !later.ended {
				t = later
			}
		default:
			return t
		}
	}
}

// handover asks the leader to resign in favour of another agent.
func (s *scene) handover(ctx context.Context, leader term) (next term, took time.Duration, err error) {
	if err := sleep(ctx, demoPause); err != nil {
		return next, 0, err
	}
	leader = s.newest(leader)
	for range demoTries {
		heir := s.heir(leader.agent)
		asked := time.Now()
		s.line(leader.agent.name, "is asked to hand over to %s", heir.name)
		if err := leader.agent.member.Ask(ctx, heir.id()); err != nil {
			return next, 0, err
		}
		next, err = s.elected(ctx, asked)
		if err != nil || next.agent != leader.agent {
			return next, next.at.Sub(asked), err
		}
		// On a busy machine it lost the lease meanwhile, and won the next election.
		leader = next
	}
	return next, 0, protocol.Errorf(protocol.ErrTimeout, "no hand-over within %d tries", demoTries)
}

// heir is an agent that is there and is not the leader.
func (s *scene) heir(leader *agent) *agent {
	for _, g := range s.agents {
		if g != leader && !g.socket.isCut() {
			return g
		}
	}
	return leader
}

// severable is a socket that can be cut like a cable: what is sent is lost, and
// nothing comes in.
type severable struct {
	net.PacketConn
	dead atomic.Bool
}

func openSeverable() (*severable, error) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	return &severable{PacketConn: c}, err
}

func (s *severable) cut()        { s.dead.Store(true) }
func (s *severable) isCut() bool { return s.dead.Load() }

// ReadFrom drops what arrives after the cut.
func (s *severable) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := s.PacketConn.ReadFrom(p)
		if err != nil || !s.isCut() {
			return n, from, err
		}
	}
}

// WriteTo takes what is sent after the cut to nowhere.
func (s *severable) WriteTo(p []byte, to net.Addr) (int, error) {
	if s.isCut() {
		return len(p), nil
	}
	return s.PacketConn.WriteTo(p, to)
}
