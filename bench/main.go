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
		return fmt.Errorf("usage: bench compare|conns [flags]")
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
	}
	return fmt.Errorf("unknown command %q", args[0])
}
