package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
)

// configApply measures from the call of Publish until an agent with a file has
// applied the version, and until the registry tells another client that it has.
// Beside them stands what the disk takes for the same files alone.
func configApply(registry *child, n configSizes) ([]finding, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "pilotgo-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ci, publisher, err := joinSwarm(ctx, registry.addr)
	if err != nil {
		return nil, err
	}
	defer ci.Close()
	conn, agent, err := joinSwarm(ctx, registry.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	file, err := config.OpenFile(config.FileOptions{
		Swarm: configSwarm, Target: filepath.Join(dir, "app.json"), State: filepath.Join(dir, "state", "app.json"),
	})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reports, err := ci.Subscribe(ctx, config.StatusTopic(configSwarm))
	if err != nil {
		return nil, err
	}
	applied, over := make(chan uint64, 16), make(chan error, 1)
	go func() {
		over <- agent.Follow(ctx, file, config.FollowOptions{Notify: func(c config.Change) {
			if c.Kind == config.ChangeApplied {
				applied <- c.Version
			}
		}})
	}()
	defer func() {
		cancel()
		<-over
	}()

	var inUse, known, acked []time.Duration
	for i := range n.Applies + 10 {
		start := time.Now()
		p, err := publisher.Publish(ctx, configDocument(i, n.Bytes), config.PublishOptions{})
		if err != nil {
			return nil, err
		}
		ack := time.Since(start)
		if v := <-applied; v != p.Version {
			return nil, fmt.Errorf("version %d was applied, and not %d", v, p.Version)
		}
		use := time.Since(start)
		if err := reported(ctx, reports, p.Version); err != nil {
			return nil, err
		}
		if i >= 10 { // the first are for warming up
			acked, inUse, known = append(acked, ack), append(inUse, use), append(known, time.Since(start))
		}
	}
	disk, err := timed(n.Applies, func(i int) error { return writeSynced(dir, n.Bytes, i) })
	if err != nil {
		return nil, err
	}
	median, _, _ := spread(disk)
	ack, _, _ := spread(acked)
	return slices.Concat([]finding{
		{Figure: "the disk alone: four files written, synced, renamed", Value: median, Unit: "ms"},
		{Figure: "publish to its answer, median", Value: ack, Unit: "ms"},
	}, times("publish to in use", inUse, 0), times("publish to known of by others", known, 10)), nil
}

// reported waits until an agent reports that it runs a version.
func reported(ctx context.Context, s client.Stream, version uint64) error {
	for m, err := range client.Messages(ctx, s) {
		if err != nil {
			return err
		}
		r, err := config.ParseReport(m.Payload)
		if err != nil {
			return err
		}
		if r.AppliedVersion == version {
			return nil
		}
	}
	return fmt.Errorf("version %d was not reported", version)
}

// writeSynced writes as many files as an apply, with nothing around it: target,
// version file, and the state, once before and once after.
func writeSynced(dir string, size, n int) error {
	for _, name := range []string{"a", "b", "c", "c"} {
		f, err := os.Create(filepath.Join(dir, "temp"))
		if err != nil {
			return err
		}
		if _, err := f.Write(configDocument(n, size)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "temp"), filepath.Join(dir, name)); err != nil {
			return err
		}
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		err = d.Sync()
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
