package cli

import (
	"bufio"
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/config"
	"github.com/spf13/cobra"
)

type configRollbackOptions struct {
	writing
	to     uint64
	dryRun bool
}

func (a *app) configRollbackCommand() *cobra.Command {
	var o configRollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback SWARM",
		Short: "Publish an old version of a swarm's configuration anew",
		Long: `Publish a new version with the content of an old one: the one before the current, or that
of --to. Every agent goes there and stays there, and whoever still expects the version
that was given up gets a conflict. While a rollout is going on, a rollback ends it.

To the current version, or one with the same bytes, there is nothing to do, and the
command says so and ends with 0. The validators are asked as for a publish.`,
		Example: `  pilotgo config rollback worker-pool --dry-run
  pilotgo config rollback worker-pool --to 1764500000 --reason 'time-outs'`,
		Args: arguments(1, 1, "pilotgo config rollback SWARM [--to V]"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.rollbackConfig(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	f.Uint64Var(&o.to, "to", config.Previous, "the version to go back to; 0 is the one before the current")
	f.BoolVar(&o.dryRun, "dry-run", false, "only tell what would change")
	o.writing.flags(f)
	return cmd
}

func (a *app) rollbackConfig(ctx context.Context, o configRollbackOptions, name string) error {
	p, err := o.options(name)
	if err != nil {
		return err
	}
	return a.onSwarm(ctx, o.connection, name, func(ctx context.Context, s *swarm) error {
		if p.Leadership, err = o.leadership(s.client); err != nil {
			return err
		}
		back, err := s.Rollback(ctx, o.to, config.RollbackOptions{
			Expect: p.Expect, Reason: p.Reason, Who: p.Who, Validators: p.Validators, Leadership: p.Leadership, DryRun: o.dryRun,
		})
		if err != nil {
			return s.writeError(ctx, err)
		}
		if back.Published.Version != 0 {
			a.adopt(ctx, s, back.Published.Epoch)
		}
		return a.printRollback(s, back, o.dryRun)
	})
}

func (a *app) printRollback(s *swarm, back config.RolledBack, dry bool) error {
	r := new(object)
	if back.Published.Version != 0 {
		r = publishedFields(s, back.Published)
	} else {
		r.set("swarm", s.Name()).set("version", nil).set("digest", nil)
	}
	r.set("from", back.From).set("to", back.To).set("no_op", back.NoOp).set("dry_run", dry).set("changes", back.Changes)
	return a.print(r, func(w *bufio.Writer) {
		switch {
		case back.NoOp:
			fmt.Fprintf(w, "nothing to do: version %d has the content of version %d\n", back.From, back.To)
		case dry:
			fmt.Fprintf(w, "would roll back from version %d to the content of version %d:\n", back.From, back.To)
		default:
			fmt.Fprintf(w, "rolled back from version %d to the content of version %d, as version %d:\n", back.From, back.To, back.Published.Version)
		}
		a.writeChanges(w, back.Changes)
	})
}
