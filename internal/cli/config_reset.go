package cli

import (
	"bufio"
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type configResetOptions struct {
	connection
	to    uint64
	purge bool
	yes   consent
}

func (a *app) configResetCommand() *cobra.Command {
	var o configResetOptions
	cmd := &cobra.Command{
		Use:   "reset SWARM --yes",
		Short: "Set the fence of a swarm's configuration, for operators",
		Long: `Set the fence of a swarm to a version, 0 by default, also to a lower one, so that versions
above it can be published again. It needs the admin right. It is for a swarm whose
versions somebody has driven up, say to 2^53-1.

Versions that are kept stay, and the next one is above them: --purge drops them all.
Agents never go back by themselves from a version that they have applied: end those that
have applied one that is too high, remove their state files, and start them again. The
file that they keep stays as it is meanwhile.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo config reset worker-pool --purge --yes
  pilotgo config reset worker-pool --to 1764500000 --yes`,
		Args: arguments(1, 1, "pilotgo config reset SWARM --yes"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.resetConfig(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	swarmOptions(f, &o.connection, connectPatience)
	f.Uint64Var(&o.to, "to", 0, "the version to set the fence to")
	f.BoolVar(&o.purge, "purge", false, "drop all versions that are kept")
	f.BoolVar((*bool)(&o.yes), "yes", false, "do it")
	return cmd
}

func (a *app) resetConfig(ctx context.Context, o configResetOptions, name string) error {
	if o.to > protocol.MaxTerm {
		return usagef("--to is at most %d", uint64(protocol.MaxTerm))
	}
	what := fmt.Sprintf("this sets the fence of swarm %s to %d", name, o.to)
	if o.purge {
		what = fmt.Sprintf("this drops all versions of swarm %s and sets its fence to %d", name, o.to)
	}
	if err := o.yes.to(what); err != nil {
		return err
	}
	return a.onSwarm(ctx, o.connection, name, func(ctx context.Context, s *swarm) error {
		return operatorsError(a.resetFence(ctx, s, o))
	})
}

func (a *app) resetFence(ctx context.Context, s *swarm, o configResetOptions) error {
	topic := config.Topic(s.Name())
	was, err := s.client.Fence(ctx, topic)
	if err != nil {
		return err
	}
	if o.purge {
		if err := s.client.PurgeTopic(ctx, topic, 0); err != nil {
			return unsure(topic+" is purged", err)
		}
	}
	is, err := s.client.SetFence(ctx, topic, was.Epoch.ID, o.to)
	if err != nil {
		return unsure("the fence of swarm "+s.Name()+" is set", err)
	}
	r := new(object).set("swarm", s.Name()).set("epoch", is.Epoch.ID.String()).
		set("before", was.K).set("version", is.K).set("purged", o.purge)
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "the fence of swarm %s was %d and is %d\n", s.Name(), was.K, is.K)
	})
}
