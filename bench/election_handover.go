package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
)

// electionHandover lets the leader resign, and measures until its successor
// leads, beside the round trip of an acked publish in the same run. What rests
// wakes up slowly: a handover always does, as does a publish after a rest.
func electionHandover(registry *child, n electionSizes) ([]finding, error) {
	type led struct {
		i  int
		l  *election.Leadership
		at time.Time
	}
	elected := make(chan led, 16)
	var group standing
	defer group.close()
	if err := group.stand(registry.addr, 3, func(i int, l *election.Leadership) { elected <- led{i, l, time.Now()} }); err != nil {
		return nil, err
	}
	next := func() (led, error) {
		select {
		case l := <-elected:
			return l, nil
		case <-time.After(5 * time.Second):
			return led{}, fmt.Errorf("nobody leads")
		}
	}
	leader, err := next()
	if err != nil {
		return nil, err
	}
	var took, rested, busy []time.Duration
	expired := 0
	for len(took) < n.Handovers && expired < 10+n.Handovers {
		time.Sleep(3 * election.LAN.Silence) // the others have let it know of them
		if rested, err = trips(rested, group.clients[leader.i], 1); err != nil {
			return nil, err
		}
		time.Sleep(election.LAN.Silence)
		at := time.Now()
		orderly := leader.l.Resign(context.Background()) == nil
		for !leader.l.Valid() {
			if leader, err = next(); err != nil {
				return nil, err
			}
		}
		if !orderly { // it had ended by itself: this machine was too busy for the profile
			expired++
			continue
		}
		took = append(took, leader.at.Sub(at))
		if busy, err = trips(busy, group.clients[leader.i], 50); err != nil {
			return nil, err
		}
	}
	if len(took) == 0 {
		return nil, fmt.Errorf("every leadership expired before it could be handed over")
	}
	median, p90, worst := spread(took)
	trip, _, _ := spread(rested)
	fast, _, _ := spread(busy)
	return []finding{
		{Figure: "acked publish after a rest, median", Value: trip, Unit: "ms"},
		{Figure: "acked publish, one after the other, median", Value: fast, Unit: "ms"},
		{Figure: fmt.Sprintf("resign to the next lead, median of %d", len(took)), Value: median, Unit: "ms"},
		{Figure: "the same, 90 of 100", Value: p90, Unit: "ms"},
		{Figure: "the same, worst", Value: worst, Unit: "ms"},
		{Figure: "leaderships that expired first", Value: float64(expired)},
		{Figure: "median in round trips after a rest", Value: median / trip, Target: 5},
		{Figure: "median in round trips, one after the other", Value: median / fast, Target: 5},
	}, nil
}

// trips adds the times of n acked publishes, one after the other.
func trips(d []time.Duration, c *client.Client, n int) ([]time.Duration, error) {
	ctx := context.Background()
	for range n {
		start := time.Now()
		if _, err := c.Publish(ctx, publication()).Wait(ctx); err != nil {
			return d, err
		}
		d = append(d, time.Since(start))
	}
	return d, nil
}
