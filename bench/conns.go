package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pilotgo/pilotgo/client"
)

// conns opens n connections, one after the other, and asks each for its first
// reply; all stay open. It does so runs times, each against a fresh registry.
func conns(n, runs int) error {
	for run := range runs {
		if err := connsOnce(run+1, n); err != nil {
			return err
		}
	}
	return nil
}

func connsOnce(run, n int) error {
	server, err := spawn("serve-registry")
	if err != nil {
		return err
	}
	defer server.kill()
	open := make([]*client.Client, 0, n)
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	if err := server.rest(); err != nil {
		return err
	}
	empty, start := resident(server.cmd.Process.Pid), time.Now()
	own := resident(os.Getpid())
	var worst time.Duration
	late := 0
	for range n {
		d, c, err := firstReply(server.addr)
		if err != nil {
			return err
		}
		open = append(open, c)
		worst = max(worst, d)
		if d > 5*time.Second {
			late++
		}
	}
	took := time.Since(start)
	kib := func(b int) int { return b / n / 1024 }
	peak := resident(server.cmd.Process.Pid) - empty
	if err := server.rest(); err != nil {
		return err
	}
	fmt.Printf("run %d: %d connections in %v, first reply at worst %v, later than 5s: %d, KiB a connection: server %d, idle and collected %d, client %d\n",
		run, n, took.Round(time.Millisecond), worst.Round(time.Microsecond), late,
		kib(peak), kib(resident(server.cmd.Process.Pid)-empty), kib(resident(os.Getpid())-own))
	return nil
}

// firstReply is the time from dialling until a request has been answered.
func firstReply(addr string) (time.Duration, *client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	start := time.Now()
	c, err := dialRegistry(ctx, addr)
	if err != nil {
		return 0, nil, err
	}
	if _, err := c.Info(ctx); err != nil {
		c.Close()
		return 0, nil, err
	}
	return time.Since(start), c, nil
}
