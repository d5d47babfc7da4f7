package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

// electionFailover kills the leader's process, again and again, and measures
// until the registry has accepted the successor's claim, by its clock.
func electionFailover(registry *child, n electionSizes) ([]finding, error) {
	const members = 5
	watch, err := watchElection(registry.addr)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	group := map[protocol.NodeID]*child{}
	defer func() {
		for _, c := range group {
			c.kill()
		}
	}()
	join := func() error {
		c, err := spawn("elect-member", registry.addr)
		if err != nil {
			return err
		}
		id, err := protocol.ParseNodeID(c.addr)
		group[id] = c
		return err
	}
	for range members {
		if err := join(); err != nil {
			return nil, err
		}
	}
	leader, err := watch.next(5 * time.Second)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for range n.Kills {
		// Long enough for all to have followed, then anywhere between two heartbeats.
		time.Sleep(3*election.LAN.Silence + rand.N(2*election.LAN.Heartbeat))
		if late := len(watch.claims); late > 0 {
			return nil, fmt.Errorf("%d claims while the leader lived", late)
		}
		c := group[leader.node]
		delete(group, leader.node)
		at := time.Now()
		c.kill()
		if leader, err = watch.next(5 * time.Second); err != nil {
			return nil, err
		}
		took = append(took, leader.at.Sub(at))
		if err := join(); err != nil {
			return nil, err
		}
	}
	median, p90, worst := spread(took)
	return []finding{
		{Figure: fmt.Sprintf("kill -9 to claim, median of %d", n.Kills), Value: median, Unit: "ms", Target: 500},
		{Figure: "the same, 90 of 100", Value: p90, Unit: "ms"},
		{Figure: "the same, worst", Value: worst, Unit: "ms", Target: 800},
	}, nil
}
