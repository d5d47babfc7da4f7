package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// side runs one row's work on one system; figures are what it measured.
type side func(*child) (figures, error)

type figures map[string]float64

// row is one kind of work on both systems.
type row struct {
	name            string
	relay, registry side
	figures         []figure
}

type figure struct{ key, title string }

var latency = []figure{{"p50", "p50, µs"}, {"p99", "p99, µs"}}

var rows = []row{
	{"push", relayPush, registryPush, latency},
	{"ack-one-by-one", relayAckSerial, registryAckSerial, latency},
	{"ack", relayAckWindow(256), registryAckWindow(256), []figure{{"rate", "window 256, 1/s"}, {"server", "server CPU, ns"}, {"client", "client CPU, ns"}}},
	{"ack-4096", relayAckWindow(4096), registryAckWindow(4096), []figure{{"rate", "window 4096, 1/s"}}},
	{"fan-out", relayFanOut, registryFanOut, []figure{{"rate", "100 readers, deliveries/s"}, {"server", "server CPU, ns"}}},
}

// compare runs the named rows (all when none is named) on both systems in turn
// and prints the medians of the rounds with their ratio, round by round.
func compare(rounds int, names []string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "row\tfigure\tpilotgo\tbare relay\tpilotgo/relay, median [min … max] of %d rounds\n", rounds)
	for _, r := range rows {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		var ours, theirs []figures
		for range rounds {
			a, err := once("serve-registry", r.registry)
			if err != nil {
				return fmt.Errorf("%s on pilotgo: %w", r.name, err)
			}
			b, err := once("serve-relay", r.relay)
			if err != nil {
				return fmt.Errorf("%s on the relay: %w", r.name, err)
			}
			ours, theirs = append(ours, a), append(theirs, b)
		}
		for _, f := range r.figures {
			printRow(w, r.name, f, ours, theirs)
		}
		w.Flush()
	}
	return nil
}

func printRow(w *tabwriter.Writer, name string, f figure, ours, theirs []figures) {
	var a, b, ratio []float64
	for i := range ours {
		x, y := ours[i][f.key], theirs[i][f.key]
		a, b, ratio = append(a, x), append(b, y), append(ratio, x/y)
	}
	slices.Sort(a)
	slices.Sort(b)
	slices.Sort(ratio)
	m := len(a) / 2
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f [%.2f … %.2f]\n",
		name, f.title, round(a[m]), round(b[m]), ratio[m], ratio[0], ratio[len(ratio)-1])
}

func round(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

func once(server string, s side) (figures, error) {
	c, err := spawn(server)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	return s(c)
}

// percentiles sorts d.
func percentiles(d []time.Duration) figures {
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1))].Nanoseconds()) / 1e3 }
	return figures{"p50": at(0.50), "p99": at(0.99)}
}

// work measures a rate and the processor time of both sides per operation.
func work(c *child, operations int, f func() error) (figures, error) {
	server, client, start := cpu(c.cmd.Process.Pid), ownCPU(), time.Now()
	if err := f(); err != nil {
		return nil, err
	}
	n := float64(operations)
	return figures{
		"rate":   n / time.Since(start).Seconds(),
		"server": float64((cpu(c.cmd.Process.Pid) - server).Nanoseconds()) / n,
		"client": float64((ownCPU() - client).Nanoseconds()) / n,
	}, nil
}
