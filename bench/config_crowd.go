package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// configCrowd lets many agents in this process, each over a connection of its own,
// follow versions, and measures until the last of them runs it, and until it is
// known that all do.
func configCrowd(registry *child, n configSizes) ([]finding, error) {
	const versions = 10
	ctx, cancel := context.WithCancel(context.Background())
	ci, publisher, err := joinSwarm(ctx, registry.addr)
	if err != nil {
		cancel()
		return nil, err
	}
	defer ci.Close()
	applied := make(chan uint64, n.Crowd)
	var all sync.WaitGroup
	var conns []*client.Client
	defer func() {
		cancel()
		all.Wait()
		for _, c := range conns {
			c.Close()
		}
	}()
	for range n.Crowd {
		c, s, err := joinSwarm(ctx, registry.addr)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		all.Go(func() {
			_ = s.Follow(ctx, &memory{}, config.FollowOptions{Notify: func(c config.Change) {
				if c.Kind == config.ChangeApplied {
					applied <- c.Version
				}
			}})
		})
	}
	time.Sleep(2 * time.Second) // all have subscribed
	var inUse, known []time.Duration
	own, server, began := ownCPU(), cpu(registry.cmd.Process.Pid), time.Now()
	for i := range versions {
		start := time.Now()
		p, err := publisher.Publish(ctx, configDocument(i, n.Bytes), config.PublishOptions{})
		if err != nil {
			return nil, err
		}
		for range n.Crowd {
			if v := <-applied; v != p.Version {
				return nil, fmt.Errorf("version %d was applied, and not %d", v, p.Version)
			}
		}
		inUse = append(inUse, time.Since(start))
		if _, err := publisher.WaitFor(ctx, p.Version, 1, config.ComplianceOptions{}); err != nil {
			return nil, err
		}
		known = append(known, time.Since(start))
	}
	took := time.Since(began).Seconds()
	figures := append(times(fmt.Sprintf("publish to in use at all %d", n.Crowd), inUse, 2000), times("publish to known that all do", known, 2000)...)
	return append(figures,
		finding{Figure: "CPU of the agents' process meanwhile", Value: (ownCPU() - own).Seconds() / took, Unit: "cores"},
		finding{Figure: "CPU of the registry", Value: (cpu(registry.cmd.Process.Pid) - server).Seconds() / took, Unit: "cores"},
	), nil
}

// configCompliance measures how long it takes to learn how far many agents are.
func configCompliance(registry *child, n configSizes) ([]finding, error) {
	ctx := context.Background()
	c, s, err := joinSwarm(ctx, registry.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d, err := timed(50, func(int) error {
		c, err := s.Compliance(ctx, config.ComplianceOptions{})
		if err == nil && (len(c.Agents) != n.Reports || c.Share != 0.5) {
			err = fmt.Errorf("%d agents, share %v", len(c.Agents), c.Share)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	wait, err := timed(50, func(int) error {
		_, err := s.WaitFor(ctx, 0, 0.5, config.ComplianceOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(times(fmt.Sprintf("compliance of %d agents", n.Reports), d, 100), times("wait for half, which is there", wait, 0)...), nil
}

// serveReportsOf is a child: a registry whose log begins with a version and the
// reports of many agents, each of a node of its own, half of which run it.
func serveReportsOf(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: bench serve-reports AGENTS")
	}
	agents, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	log := memlog.New(memlog.Options{Retention: registry.Retention{TopicBytes: -1}})
	if err := log.Append(reportsBatch(log.Epoch().ID, agents)); err != nil {
		return err
	}
	return serve(log)
}

func reportsBatch(epoch protocol.EpochID, agents int) *registry.Batch {
	var b registry.Batch
	add := func(sender protocol.NodeID, topic, slot string, payload []byte, marks ...protocol.Mark) {
		key := make([]byte, 16)
		_, _ = rand.Read(key)
		r := &registry.Record{
			Message: protocol.Message{
				Seq: protocol.Seq(len(b.Records) + 1), Time: protocol.TimeOf(time.Now()),
				Sender: sender, Topic: topic, Payload: payload, Key: key, Fences: marks,
			},
			Slot: slot, Epoch: epoch,
		}
		r.Seal()
		b.Records = append(b.Records, r)
	}
	const version = 7
	digest := config.DigestOf([]byte(`{}`))
	topic := config.Topic(configSwarm)
	add(1<<31, topic, "", fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":{}}`, version), protocol.Mark{Topic: topic, Term: version})
	b.Fences = []registry.FenceEntry{{Topic: topic, Fence: protocol.Fence{K: version, S: 1}}}
	for i := range agents {
		public, _, _ := ed25519.GenerateKey(rand.Reader)
		node := protocol.NodeIDOf(public)
		report := config.Report{
			Agent: node.String(), AppliedVersion: uint64(version - 1 + i%2), Version: version, State: config.StateApplied,
			Digest: digest, At: time.Now(), Every: time.Hour, Instance: fmt.Sprintf("%032x", i), Number: uint64(1 + i),
		}
		if i%2 == 0 {
			report.State, report.Digest = config.StatePending, config.Digest{}
		}
		add(node, config.StatusTopic(configSwarm), "status", report.Append(nil))
	}
	return &b
}
