// Command pilotgo coordinates a swarm of agents over a registry host: it publishes
// to topics, subscribes, reads the inbox, and serves a registry. Scripts written for
// pilotctl's publish, subscribe and inbox run with it unchanged.
package main

import (
	"os"

	"github.com/pilotgo/pilotgo/internal/cli"
	"github.com/pilotgo/pilotgo/internal/extras"
)

func main() { os.Exit(cli.Main(extras.Set{})) }
