package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/spf13/cobra"
)

type fakeOptions struct {
	listen    string
	faults    string
	latency   time.Duration
	seed      uint64
	printAddr bool
}

func (a *app) registryFakeCommand() *cobra.Command {
	var o fakeOptions
	cmd := &cobra.Command{
		Use:   "fake",
		Short: "Serve a registry for tests, with faults",
		Long: `Serve a registry for the tests of programs in any language, until the command is
stopped. It is a real one behind a network that can be cut; with --faults it suffers,
by a script, partitions, crashes, refusals, lost answers and the like:

  [
    {"at": "2s",  "do": "partition", "node": "worker"},
    {"at": "20s", "do": "heal"},
    {"at": "30s", "do": "restart_empty"}
  ]

All faults and their fields are in the documentation of package fakeregistry. Its
keys are no secret: it serves this machine only and keeps nothing.`,
		Example: `  pilotgo registry fake --print-addr
  pilotgo registry fake --faults faults.json --latency 20ms`,
		Args: arguments(0, 0, "pilotgo registry fake has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.fake(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback address to listen at; port 0 is any free one")
	f.StringVar(&o.faults, "faults", "", "file with faults; - is standard input")
	durationFlag(f, &o.latency, "latency", 0, "time a packet takes, one way")
	f.Uint64Var(&o.seed, "seed", 0, "decides what is left to chance")
	f.BoolVar(&o.printAddr, "print-addr", false, "print the address on standard output, and nothing else")
	return cmd
}

func (a *app) fake(ctx context.Context, o fakeOptions) error {
	script, err := a.readFaults(o.faults)
	if err != nil {
		return err
	}
	r, err := fakeregistry.Start(fakeregistry.Options{Addr: o.listen, Latency: o.latency, Seed: o.seed})
	if err != nil {
		return listenError("--listen", o.listen, err)
	}
	defer r.Close()
	where := whereabouts{Address: r.Addr(), Fingerprint: r.Fingerprint(), Store: "fake"}
	if err := a.announce(o.printAddr, where); err != nil && !errors.Is(err, errReaderGone) {
		return err
	}
	if err := fakeregistry.RunScript(ctx, r, script); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	for _, node := range r.Strangers() {
		a.warn("unknown_node", fmt.Sprintf("the faults name node %q, which never came", node))
	}
	return nil
}

func (a *app) readFaults(path string) (fakeregistry.Script, error) {
	var text []byte
	var err error
	switch path {
	case "":
		return nil, nil
	case "-":
		text, err = io.ReadAll(a.in)
	default:
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	script, err := fakeregistry.ParseFaults(text)
	if err != nil {
		return nil, &failure{code: codeUsage, message: fmt.Sprintf("faults: %v", err), exit: exitInvalid, cause: err}
	}
	return script, nil
}
