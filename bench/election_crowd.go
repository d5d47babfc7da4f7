package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/election"
)

// electionFollowers lets many members in this process follow one leader in
// another, each over a connection of its own. They do not stand, so that the
// figures are of following alone.
func electionFollowers(registry *child, n electionSizes) ([]finding, error) {
	leader, err := spawn("elect-member", registry.addr)
	if err != nil {
		return nil, err
	}
	defer leader.kill()
	ctx := context.Background()
	watch, err := watchElection(registry.addr)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	if _, err := watch.next(5 * time.Second); err != nil {
		return nil, err
	}
	var group standing
	defer group.close()
	if err := group.join(registry.addr, n.Followers); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // all have read the leader
	late := len(watch.claims)
	before, err := watch.c.Info(ctx)
	if err != nil {
		return nil, err
	}
	const span = 15 * time.Second
	own, server, start := ownCPU(), cpu(registry.cmd.Process.Pid), time.Now()
	time.Sleep(span)
	took := time.Since(start)
	own, server = ownCPU()-own, cpu(registry.cmd.Process.Pid)-server
	after, err := watch.c.Info(ctx)
	if err != nil {
		return nil, err
	}
	again := len(watch.claims) - late
	time.Sleep(2 * election.LAN.Heartbeat)
	follow := 0
	for _, m := range group.members {
		if m.Status().Now.View.Leader == leader.addr {
			follow++
		}
	}
	beats := float64(took) / float64(election.LAN.Heartbeat)
	return []finding{
		{Figure: "followers of the leader in the end", Value: float64(follow), Unit: fmt.Sprintf("of %d", n.Followers)},
		{Figure: "times the leader had to claim anew", Value: float64(again)},
		{Figure: "CPU of the followers' process", Value: own.Seconds() / took.Seconds(), Unit: "cores", Target: 1},
		{Figure: "CPU of the registry", Value: server.Seconds() / took.Seconds(), Unit: "cores"},
		{Figure: "publishes per heartbeat", Value: float64(after.Published-before.Published) / beats},
	}, nil
}

// electionCandidates ends the leader of many candidates as a crash does, and
// counts what is published until another leads and all know it.
func electionCandidates(registry *child, n electionSizes) ([]finding, error) {
	const elections = 10
	watch, err := watchElection(registry.addr)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	var group standing
	defer group.close()
	if err := group.stand(registry.addr, n.Candidates, nil); err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Second)
	byNode := map[string]int{}
	for i, c := range group.clients {
		byNode[c.Self().Node.String()] = i
	}
	leader, err := watch.next(30 * time.Second)
	if err != nil {
		return nil, err
	}
	again := 0 // claims while a leader lived: this machine is too busy then
	var took []time.Duration
	var before, after sizes
	for range elections {
		for ; len(watch.claims) > 0; again++ {
			leader = <-watch.claims
		}
		<-watch.read // from here on
		at := time.Now()
		group.clients[byNode[leader.node.String()]].Close()
		if leader, err = watch.next(10 * time.Second); err != nil {
			return nil, err
		}
		for ; leader.at.Before(at); again++ {
			if leader, err = watch.next(10 * time.Second); err != nil {
				return nil, err
			}
		}
		took = append(took, leader.at.Sub(at))
		time.Sleep(3 * election.LAN.Silence)
		before = append(before, leader.publishes)
		after = append(after, <-watch.read-leader.publishes)
	}
	median, _, worst := spread(took)
	return []finding{
		{Figure: fmt.Sprintf("publishes up to the claim of %d, mean of %d", n.Candidates, elections), Value: before.mean()},
		{Figure: "the same, most", Value: before.most(), Target: 40},
		{Figure: "publishes for the succession after it, mean", Value: after.mean()},
		{Figure: "claims while a leader lived", Value: float64(again)},
		{Figure: "crash to claim, median", Value: median, Unit: "ms"},
		{Figure: "the same, worst", Value: worst, Unit: "ms"},
	}, nil
}

type sizes []int

func (s sizes) most() float64 { return float64(slices.Max(s)) }

func (s sizes) mean() float64 {
	sum := 0
	for _, n := range s {
		sum += n
	}
	return float64(sum) / float64(len(s))
}
