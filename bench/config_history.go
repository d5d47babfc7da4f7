package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

// configHistory publishes many versions, among as many other messages, and
// measures what is asked of them.
func configHistory(registry *child, n configSizes) ([]finding, error) {
	const rounds = 200
	ctx := context.Background()
	c, s, err := joinSwarm(ctx, registry.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := fillHistory(ctx, c, n); err != nil {
		return nil, err
	}
	anywhere := func() uint64 { return 1 + rand.Uint64N(uint64(n.Versions-1)) }
	get := func(version uint64) ([]byte, error) {
		d, err := s.Get(ctx, version)
		if err != nil {
			return nil, err
		}
		return d.Config, nil
	}
	var figures []finding
	for _, row := range []struct {
		name   string
		target float64
		do     func(i int) error
	}{
		{"latest", 50, func(int) error {
			_, err := s.Latest(ctx)
			return err
		}},
		{"get one of all", 50, func(int) error {
			_, err := get(anywhere())
			return err
		}},
		{"diff of two of all", 50, func(int) error {
			a, err := get(anywhere())
			if err != nil {
				return err
			}
			b, err := get(anywhere())
			if err != nil {
				return err
			}
			_, err = config.Diff(a, b)
			return err
		}},
		{"the newest 50", 50, func(int) error {
			_, err := list(ctx, s, 50)
			return err
		}},
		{"rollback to one of all", 50, func(int) error {
			_, err := s.Rollback(ctx, anywhere(), config.RollbackOptions{})
			return err
		}},
		{"get one of all, when the newest are in seconds", 50, func(int) error {
			_, err := get(anywhere())
			return err
		}},
	} {
		d, err := timed(rounds, row.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.name, err)
		}
		figures = append(figures, times(row.name, d, row.target)...)
	}
	d, err := timed(5, func(int) error {
		found, err := list(ctx, s, 0)
		if err == nil && found < n.Versions {
			err = fmt.Errorf("%d versions of %d", found, n.Versions)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	median, _, _ := spread(d)
	return append(figures, finding{Figure: "all of it, median", Value: median, Unit: "ms"}), nil
}

func list(ctx context.Context, s *config.Swarm, limit int) (n int, err error) {
	for _, err := range s.History(ctx, config.HistoryOptions{Limit: limit}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// fillHistory publishes versions 1 to n.Versions without waiting for each.
func fillHistory(ctx context.Context, c *client.Client, n configSizes) error {
	topic := config.Topic(configSwarm)
	f, err := c.Fence(ctx, topic)
	if err != nil {
		return err
	}
	var last client.Pending
	for v := uint64(1); v <= uint64(n.Versions); v++ {
		d, err := config.NewDocument(v, configDocument(int(v), n.Bytes))
		if err != nil {
			return err
		}
		c.Publish(ctx, publication())
		last = c.Publish(ctx, client.Publication{
			Topic: topic, Payload: d.Append(nil),
			Conditions: []protocol.Condition{{Topic: topic, Epoch: f.Epoch.ID, Term: v, Raise: v}},
		})
	}
	_, err = last.Wait(ctx)
	return err
}
