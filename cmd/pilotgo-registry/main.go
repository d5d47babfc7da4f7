// Command pilotgo-registry is pilotgo with all that a registry in production needs:
// logs on disk and on a NATS cluster, metrics, and the operators' page. pilotgo
// runs it for `pilotgo registry serve`.
package main

import (
	"os"

	"github.com/pilotgo/pilotgo/internal/cli"
	"github.com/pilotgo/pilotgo/internal/stores"
)

func main() { os.Exit(cli.Main(stores.Extras())) }
