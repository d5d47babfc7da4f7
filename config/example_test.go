package config_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
)

// local runs a registry and connects to it.
func local() (c *client.Client, stop func()) {
	reg, err := fakeregistry.Start(fakeregistry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	at := reg.Endpoint("agent-7")
	c, err = client.Dial(context.Background(), at.Addr, client.Options{
		Name: "agent-7", Key: at.Key, NoState: true, RegistryKey: at.RegistryKey,
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		reg.Close()
	}
}

// workers is a pool whose size changes while it works.
type workers struct {
	mu   sync.Mutex
	stop []chan struct{}
	all  sync.WaitGroup
	jobs chan func()
}

func (w *workers) resize(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.stop) < n {
		stop := make(chan struct{})
		w.stop = append(w.stop, stop)
		w.all.Go(func() { w.work(stop) })
	}
	for len(w.stop) > n {
		close(w.stop[len(w.stop)-1])
		w.stop = w.stop[:len(w.stop)-1]
	}
}

func (w *workers) work(stop <-chan struct{}) {
	for {
		select {
		case job := <-w.jobs:
			job()
		case <-stop:
			return
		}
	}
}

// A pool of workers that follows its swarm's configuration without a restart.
func Example() {
	ctx := context.Background()
	c, stop := local()
	defer stop()
	swarm, err := config.Open(ctx, c, "worker-pool", config.Options{})
	if err != nil {
		log.Fatal(err)
	}

	type Config struct {
		MaxWorkers int    `json:"max_workers"`
		LogLevel   string `json:"log_level"`
	}
	pool := &workers{jobs: make(chan func())}
	live, err := config.Subscribe(ctx, swarm, config.LiveOptions[Config]{
		Default: &Config{MaxWorkers: 1},
		Validate: func(c *Config) error {
			if c.MaxWorkers < 1 {
				return errors.New("max_workers: at least 1")
			}
			return nil
		},
		OnChange: func(_, now *Config) { pool.resize(now.MaxWorkers) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer live.Close()
	pool.resize(live.Load().MaxWorkers)
	fmt.Println("workers:", live.Load().MaxWorkers)

	changed := live.Changed()
	if _, err := swarm.Publish(ctx, []byte(`{"max_workers":10,"log_level":"info"}`), config.PublishOptions{}); err != nil {
		log.Fatal(err)
	}
	<-changed
	fmt.Println("workers:", live.Load().MaxWorkers, live.Load().LogLevel)
	pool.resize(0)
	pool.all.Wait()
	// Output:
	// workers: 1
	// workers: 10 info
}

// A pipeline publishes what it has tested against one version, and learns when
// somebody else was faster.
func ExampleSwarm_Publish() {
	ctx := context.Background()
	c, stop := local()
	defer stop()
	swarm, err := config.Open(ctx, c, "worker-pool", config.Options{Who: "pipeline 42"})
	if err != nil {
		log.Fatal(err)
	}
	first, err := swarm.Publish(ctx, []byte(`{"max_workers":10}`), config.PublishOptions{Version: 7, Expect: config.None})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("published", first.Version)

	// An operator changes something meanwhile.
	if _, err := swarm.Publish(ctx, []byte(`{"max_workers":11}`), config.PublishOptions{Version: 8}); err != nil {
		log.Fatal(err)
	}

	_, err = swarm.Publish(ctx, []byte(`{"max_workers":20}`), config.PublishOptions{
		Expect: first.Version, Reason: "load test passed",
	})
	var conflict *config.ConflictError
	if errors.As(err, &conflict) {
		now, err := swarm.Get(ctx, conflict.Current)
		if err != nil {
			log.Fatal(err)
		}
		changes, err := config.Diff([]byte(`{"max_workers":10}`), now.Config)
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range changes {
			fmt.Printf("version %d by %s: %s %s from %s to %s\n", now.Version, now.Who, d.Kind, d.Path, d.Old, d.New)
		}
	}
	// Output:
	// published 7
	// version 8 by pipeline 42: changed /max_workers from 10 to 11
}

// The agent of the swarm-config recipe: the file, the version beside it, the
// report, and what the recipe leaves out.
func ExampleSwarm_Follow() {
	ctx, cancel := context.WithCancel(context.Background())
	c, stop := local()
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	target, state := filepath.Join(dir, "swarm-config.json"), filepath.Join(dir, "state")
	coordinator, err := config.Open(ctx, c, "worker-pool", config.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := coordinator.Publish(ctx, []byte(`{"max_workers":10,"timeout_ms":5000}`), config.PublishOptions{Version: 7}); err != nil {
		log.Fatal(err)
	}
	show := func(change config.Change) {
		fmt.Println(change.Kind, change.Version)
		if change.Kind == config.ChangeApplied {
			cancel() // enough for an example
		}
	}

	agent := func() error {
		swarm, err := config.Open(ctx, c, "worker-pool", config.Options{})
		if err != nil {
			return err
		}
		file, err := config.OpenFile(config.FileOptions{Swarm: "worker-pool", Target: target, State: state})
		if err != nil {
			return err
		}
		defer file.Close()
		return swarm.Follow(ctx, file, config.FollowOptions{Notify: show})
	}
	if err := agent(); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	text, err := os.ReadFile(target)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// announced 7
	// applied 7
	// {"max_workers":10,"timeout_ms":5000}
}

// A new version reaches a few agents first. Any node may drive the rollout; when
// agents fail it is rolled back by itself.
func ExampleSwarm_DriveRollout() {
	_ = func(ctx context.Context, swarm *config.Swarm, doc []byte) error {
		_, err := swarm.StartRollout(ctx, doc, config.Plan{Canary: 0.1, Steps: []float64{0.5, 1}}, config.PublishOptions{})
		if err != nil {
			return err
		}
		end, err := swarm.DriveRollout(ctx, config.DriveOptions{})
		if err == nil && end.State != config.RolloutComplete {
			err = errors.New(end.Reason)
		}
		return err
	}
}
