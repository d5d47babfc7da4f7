package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/pilotgo/pilotgo/config"
	"github.com/spf13/cobra"
)

type configDiffOptions struct {
	connection
	document
}

func (a *app) configDiffCommand() *cobra.Command {
	var o configDiffOptions
	cmd := &cobra.Command{
		Use:   "diff SWARM [A [B]]",
		Short: "Show how two versions of a configuration differ",
		Long: `Show how version B differs from version A. B is the latest by default, and A the one
before it; with -f, B is a file, and A the latest by default. Names are compared by case,
numbers by their spelling, space not at all; paths are JSON Pointers. In colour on a
terminal only, and not with NO_COLOR. It ends with 0 whether or not there is a
difference: --json has "equal".`,
		Example: `  pilotgo config diff worker-pool
  pilotgo config diff worker-pool 1764500000 1764500060
  pilotgo config diff worker-pool -f config.json`,
		Args: arguments(1, 3, "pilotgo config diff SWARM [A [B]], or SWARM [A] -f FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.diffConfig(cmd.Context(), o, args) },
	}
	o.document.flag(cmd.Flags())
	swarmOptions(cmd.Flags(), &o.connection, connectPatience)
	return cmd
}

// side is one of the two that are compared.
type side struct {
	version uint64 // 0: a file
	text    []byte
}

func (s side) name() string {
	if s.version == 0 {
		return "the file"
	}
	return fmt.Sprintf("version %d", s.version)
}

func (a *app) diffConfig(ctx context.Context, o configDiffOptions, args []string) error {
	var want [2]uint64
	for i, word := range args[1:] {
		var err error
		if want[i], err = versionArgument(word); err != nil {
			return err
		}
	}
	if o.path != "" && want[1] != 0 {
		return usagef("B is given twice: %d and -f", want[1])
	}
	var file []byte
	var err error
	if o.path != "" {
		if file, err = o.document.read(a); err != nil {
			return err
		}
	}
	return a.onSwarm(ctx, o.connection, args[0], func(ctx context.Context, s *swarm) error {
		was, is, err := s.sides(ctx, want[0], want[1], file)
		if err != nil {
			return err
		}
		changes, err := config.Diff(was.text, is.text)
		if err != nil {
			return invalidDocument(err)
		}
		r := new(object).set("swarm", s.Name()).set("from", was.version).set("to", is.version).
			set("equal", len(changes) == 0).set("changes", changes)
		return a.print(r, func(w *bufio.Writer) {
			if len(changes) == 0 {
				fmt.Fprintf(w, "%s and %s say the same\n", was.name(), is.name())
			}
			a.writeChanges(w, changes)
		})
	})
}

// sides finds what to compare. A file stands in the place of B.
func (s *swarm) sides(ctx context.Context, a, b uint64, file []byte) (was, is side, err error) {
	var older, newer *config.Document
	if file == nil {
		if newer, err = s.version(ctx, b); err != nil {
			return was, is, err
		}
		is = side{newer.Version, newer.Config}
	} else {
		is.text = file
	}
	if a == 0 && file == nil {
		older, err = s.before(ctx, newer.Version)
	} else {
		older, err = s.version(ctx, a)
	}
	if err != nil {
		return was, is, err
	}
	return side{older.Version, older.Config}, is, nil
}

// before is the version before another one.
func (s *swarm) before(ctx context.Context, version uint64) (*config.Document, error) {
	for d, err := range s.History(ctx, config.HistoryOptions{Before: version, Limit: 1}) {
		return d, err
	}
	return nil, s.none(version)
}

func (s *swarm) none(version uint64) error {
	return &failure{
		code: "not_found", exit: exitError,
		message: fmt.Sprintf("config %q: no version before %d is retained", s.Name(), version),
		hint:    "see 'pilotgo config history " + s.Name() + "'",
	}
}

// The colours of changes.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// colours tells whether text may be coloured.
func (a *app) colours() bool {
	return a.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// writeChanges writes differences for people, a line each.
func (a *app) writeChanges(w *bufio.Writer, changes []config.Difference) {
	for _, d := range changes {
		colour, line := yellow, ""
		path := cmp.Or(d.Path, "(all)")
		switch d.Kind {
		case config.Added:
			colour, line = green, fmt.Sprintf("+ %s: %s", path, d.New)
		case config.Removed:
			colour, line = red, fmt.Sprintf("- %s: %s", path, d.Old)
		case config.Changed:
			line = fmt.Sprintf("~ %s: %s -> %s", path, d.Old, d.New)
		case config.Moved:
			line = fmt.Sprintf("~ %s: the same in another order", path)
		}
		line = shown(line, a.terminal)
		if a.colours() {
			line = colour + line + plain
		}
		fmt.Fprintln(w, line)
	}
}
