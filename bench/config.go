package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
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

// configPart measures something against a registry of its own.
type configPart struct {
	name  string
	serve func(n configSizes) (*child, error)
	run   func(registry *child, n configSizes) ([]electionFigure, error)
}

var configParts = []configPart{
	{"apply", serveEmpty, configApply},
	{"crowd", serveEmpty, configCrowd},
	{"compliance", serveReports, configCompliance},
	{"history", serveEmpty, configHistory},
}

func serveEmpty(configSizes) (*child, error) { return spawn("serve-registry") }

func serveReports(n configSizes) (*child, error) {
	return spawn("serve-reports", fmt.Sprint(n.Reports))
}

// configs runs the named parts (all when none is named), each against a fresh
// registry, prints a table, and writes the same as JSON to a file if one is
// named.
func configs(n configSizes, file string, names []string) error {
	var all []electionFigure
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tfigure\t\t\ttarget")
	for _, p := range configParts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		figures, err := configOnce(p, n)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for _, f := range figures {
			fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\t%s\n", f.Part, f.Figure, f.Value, f.Unit, f.met())
		}
		w.Flush()
		all = append(all, figures...)
	}
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "cpus": runtime.NumCPU(), "go": runtime.Version(),
		"sizes": n, "figures": all,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

func configOnce(p configPart, n configSizes) ([]electionFigure, error) {
	registry, err := p.serve(n)
	if err != nil {
		return nil, err
	}
	defer registry.kill()
	figures, err := p.run(registry, n)
	for i := range figures {
		figures[i].Part = p.name
	}
	return figures, err
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
func times(what string, d []time.Duration, target float64) []electionFigure {
	median, p90, worst := spread(d)
	return []electionFigure{
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
