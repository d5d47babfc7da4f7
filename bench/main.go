package main

import (
	"flag"
	"fmt"
	"os"
)

const payloadSize = 128

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: bench compare|conns|election|config [flags]")
	}
	switch args[0] {
	case "serve-relay":
		return serveRelay()
	case "serve-registry":
		return serveRegistry()
	case "compare":
		f := flag.NewFlagSet("compare", flag.ContinueOnError)
		rounds := f.Int("rounds", 5, "rounds, each side in turn")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return compare(*rounds, f.Args())
	case "conns":
		f := flag.NewFlagSet("conns", flag.ContinueOnError)
		n := f.Int("n", 5000, "connections")
		runs := f.Int("runs", 8, "runs, each against a fresh registry")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return conns(*n, *runs)
	case "serve-reports":
		return serveReportsOf(args[1:])
	case "config":
		f := flag.NewFlagSet("config", flag.ContinueOnError)
		var n configSizes
		f.IntVar(&n.Applies, "applies", 200, "versions that an agent with a file applies")
		f.IntVar(&n.Crowd, "crowd", 1000, "agents in one process")
		f.IntVar(&n.Reports, "reports", 10_000, "agents whose reports are summed up")
		f.IntVar(&n.Versions, "versions", 10_000, "versions of a history")
		f.IntVar(&n.Bytes, "bytes", 1024, "of a document")
		file := f.String("json", "", "a file for the figures as JSON")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return configs(n, *file, f.Args())
	case "elect-member":
		return electMember(args[1:])
	case "election":
		f := flag.NewFlagSet("election", flag.ContinueOnError)
		var n electionSizes
		f.IntVar(&n.Kills, "kills", 50, "leaders to kill")
		f.IntVar(&n.Handovers, "handovers", 30, "leaders to resign")
		f.IntVar(&n.Followers, "followers", 1000, "followers of one leader")
		f.IntVar(&n.Candidates, "candidates", 300, "candidates at once")
		file := f.String("json", "", "a file for the figures as JSON")
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		return elections(n, *file, f.Args())
	}
	return fmt.Errorf("unknown command %q", args[0])
}
