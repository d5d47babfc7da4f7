package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

// electionGroup is the group of all parts.
const electionGroup = "bench"

// electionSizes are how much the parts of the election bench do.
type electionSizes struct {
	Kills      int `json:"kills"`
	Handovers  int `json:"handovers"`
	Followers  int `json:"followers"`
	Candidates int `json:"candidates"`
}

var electionParts = []part[electionSizes]{
	{"failover", serveAny[electionSizes], electionFailover},
	{"handover", serveAny[electionSizes], electionHandover},
	{"followers", serveAny[electionSizes], electionFollowers},
	{"candidates", serveAny[electionSizes], electionCandidates},
}

// elections runs the named parts, all when none is named.
func elections(n electionSizes, file string, names []string) error {
	return measure(electionParts, n, map[string]any{"profile": "LAN"}, file, names)
}

// electMember is a child: a candidate of a node of its own, until it is killed.
func electMember(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: bench elect-member ADDR")
	}
	ctx := context.Background()
	c, err := dialRegistry(ctx, args[0])
	if err != nil {
		return err
	}
	fmt.Println("READY", c.Self().Node)
	return election.Run(ctx, c, election.Options{Group: electionGroup}, lead)
}

// lead is the least that work under a leadership can be.
func lead(ctx context.Context, _ *election.Leadership) error {
	<-ctx.Done()
	return nil
}

// electionWatch reads the group's topic.
type electionWatch struct {
	c      *client.Client
	claims chan electionClaim

	read chan int // how many messages but heartbeats were read since it was read
}

// electionClaim is one that the registry has accepted, at a time by its clock.
type electionClaim struct {
	node protocol.NodeID
	term uint64
	at   time.Time

	// publishes is how many messages there were since the last heartbeat of a
	// leader, this one included.
	publishes int
}

func watchElection(addr string) (*electionWatch, error) {
	ctx := context.Background()
	c, err := dialRegistry(ctx, addr)
	if err != nil {
		return nil, err
	}
	s, err := c.Subscribe(ctx, election.TopicPrefix+electionGroup, client.FromAll())
	if err != nil {
		c.Close()
		return nil, err
	}
	w := &electionWatch{c: c, claims: make(chan electionClaim, 1024), read: make(chan int)}
	messages := make(chan *protocol.Message)
	go func() {
		defer close(messages)
		for m, err := range client.Messages(ctx, s) {
			if err != nil {
				return
			}
			messages <- m
		}
	}()
	go w.count(messages)
	return w, nil
}

func (w *electionWatch) count(messages <-chan *protocol.Message) {
	all, round := 0, 0
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				close(w.claims)
				return
			}
			parsed, err := election.Parse(m.Payload)
			switch {
			case err != nil:
			case parsed.Kind == election.KindHeartbeat:
				round = 0
			case parsed.Kind == election.KindClaim && m.Term() != 0:
				w.claims <- electionClaim{m.Sender, m.Term(), m.Time.Time(), round + 1}
				all++
				round = 0
			default:
				all++
				round++
			}
		case w.read <- all:
			all = 0
		}
	}
}

// next is the next accepted claim.
func (w *electionWatch) next(within time.Duration) (electionClaim, error) {
	select {
	case c, ok := <-w.claims:
		if !ok {
			return c, fmt.Errorf("the watch has ended")
		}
		return c, nil
	case <-time.After(within):
		return electionClaim{}, fmt.Errorf("nobody claims for %v", within)
	}
}

func (w *electionWatch) close() { w.c.Close() }

// standing are members in this process, each with a connection of its own.
type standing struct {
	clients []*client.Client
	members []*election.Member
}

// join lets n more observe.
func (s *standing) join(addr string, n int) error {
	ctx := context.Background()
	for range n {
		c, err := dialMember(ctx, addr)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
		m, err := election.Join(ctx, c, election.Options{Group: electionGroup})
		if err != nil {
			return err
		}
		s.members = append(s.members, m)
	}
	return nil
}

// stand lets n more campaign; elected, if not nil, is told of each leadership.
func (s *standing) stand(addr string, n int, elected func(i int, l *election.Leadership)) error {
	first := len(s.members)
	if err := s.join(addr, n); err != nil {
		return err
	}
	for i, m := range s.members[first:] {
		go func() {
			for {
				l, err := m.Campaign(context.Background())
				if err != nil {
					return
				}
				if elected != nil {
					elected(first+i, l)
				}
				<-l.Done()
			}
		}()
	}
	return nil
}

// dialMember is dialRegistry with the options of an ordinary client, and with
// patience: many connect at once.
func dialMember(ctx context.Context, addr string) (*client.Client, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		c, err := client.Dial(ctx, addr, client.Options{Key: key, NoState: true})
		if err == nil || try == 3 {
			return c, err
		}
	}
}

func (s *standing) close() {
	for i, c := range s.clients {
		c.Close()
		if i < len(s.members) {
			s.members[i].Close()
		}
	}
}

// spread is the median, the 90th of 100 and the worst, in milliseconds.
func spread(d []time.Duration) (median, p90, worst float64) {
	slices.Sort(d)
	ms := func(q float64) float64 { return float64(d[int(q*float64(len(d)-1)+0.5)]) / 1e6 }
	return ms(0.5), ms(0.9), ms(1)
}
