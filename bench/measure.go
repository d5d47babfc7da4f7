package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// finding is a line of the table.
type finding struct {
	Part   string  `json:"part"`
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target float64 `json:"target,omitempty"` // below it; 0: none
}

func (f finding) met() string {
	switch {
	case f.Target == 0:
		return ""
	case f.Value < f.Target:
		return fmt.Sprintf("< %g", f.Target)
	}
	return fmt.Sprintf("MISSED < %g", f.Target)
}

// part measures something against a registry of its own; sizes are how much it
// does.
type part[Sizes any] struct {
	name  string
	serve func(Sizes) (*child, error)
	run   func(registry *child, n Sizes) ([]finding, error)
}

// serveAny starts an empty registry, whatever is measured.
func serveAny[Sizes any](Sizes) (*child, error) { return spawn("serve-registry") }

// measure runs the named parts (all when none is named), each against a fresh
// registry, prints a table, and writes the same as JSON to a file if one is
// named, with what there is to say about it.
func measure[Sizes any](parts []part[Sizes], n Sizes, about map[string]any, file string, names []string) error {
	var all []finding
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tfigure\t\t\ttarget")
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		findings, err := p.once(n)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for _, f := range findings {
			fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\t%s\n", f.Part, f.Figure, f.Value, f.Unit, f.met())
		}
		w.Flush()
		all = append(all, findings...)
	}
	if file == "" {
		return nil
	}
	doc := map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "cpus": runtime.NumCPU(), "go": runtime.Version(),
		"sizes": n, "figures": all,
	}
	maps.Copy(doc, about)
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

func (p part[Sizes]) once(n Sizes) ([]finding, error) {
	registry, err := p.serve(n)
	if err != nil {
		return nil, err
	}
	defer registry.kill()
	findings, err := p.run(registry, n)
	for i := range findings {
		findings[i].Part = p.name
	}
	return findings, err
}
