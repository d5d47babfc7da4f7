package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
)

// configSwarm is the swarm of all parts.
const configSwarm = "bench"

// configSizes are how much the parts of the config bench do.
type configSizes struct {
	Applies  int `json:"applies"`
	Crowd    int `json:"crowd"`
	Reports  int `json:"reports"`
	Versions int `json:"versions"`
	Bytes    int `json:"bytes"`
}

var configParts = []part[configSizes]{
	{"apply", serveAny[configSizes], configApply},
	{"crowd", serveAny[configSizes], configCrowd},
	{"compliance", serveReports, configCompliance},
	{"history", serveAny[configSizes], configHistory},
}

func serveReports(n configSizes) (*child, error) {
	return spawn("serve-reports", fmt.Sprint(n.Reports))
}

// configs runs the named parts, all when none is named.
func configs(n configSizes, file string, names []string) error {
	return measure(configParts, n, nil, file, names)
}

// joinSwarm is the swarm over a connection of its own.
func joinSwarm(ctx context.Context, addr string) (*client.Client, *config.Swarm, error) {
	c, err := dialMember(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	s, err := config.Open(ctx, c, configSwarm, config.Options{})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, s, nil
}

// configDocument is a document of about so many bytes.
func configDocument(n, size int) []byte {
	b := fmt.Appendf(nil, `{"n":%d,"list":[0`, n)
	for i := 1; len(b) < size; i++ {
		b = fmt.Appendf(b, `,%d`, n+i)
	}
	return append(b, ']', '}')
}

// times are the median, the 90th of 100 and the worst of some times, each with a
// target for the median.
func times(what string, d []time.Duration, target float64) []finding {
	median, p90, worst := spread(d)
	return []finding{
		{Figure: fmt.Sprintf("%s, median of %d", what, len(d)), Value: median, Unit: "ms", Target: target},
		{Figure: "the same, 90 of 100", Value: p90, Unit: "ms"},
		{Figure: "the same, worst", Value: worst, Unit: "ms"},
	}
}

// timed measures something again and again.
func timed(n int, do func(i int) error) ([]time.Duration, error) {
	var d []time.Duration
	for i := range n {
		start := time.Now()
		if err := do(i); err != nil {
			return nil, err
		}
		d = append(d, time.Since(start))
	}
	return d, nil
}

// memory is an applier that remembers.
type memory struct {
	mu  sync.Mutex
	now config.Applied
}

func (m *memory) Current(context.Context) (config.Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, nil
}

func (m *memory) Apply(_ context.Context, d *config.Document) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = config.Applied{Version: d.Version, Digest: d.Digest, Config: d.Config, Highest: d.Version}
	return nil
}
