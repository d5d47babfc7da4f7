package cli

import (
	"bufio"
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type resetOptions struct {
	connection
	to  uint64
	yes consent
}

func (a *app) electionResetCommand() *cobra.Command {
	var o resetOptions
	cmd := &cobra.Command{
		Use:   "reset [HOST] GROUP --yes",
		Short: "Set the fence of a group, for operators",
		Long: `Set the fence of a group to a term, 0 by default, also a lower one. It needs the admin
right. A leader of another term loses at once what it writes, and its leadership with
its next heartbeat. Members keep the highest term they have seen: the next one is above
that again. It is for a group whose terms somebody has driven up, say by a claim of
2^53-1, and for one that is to be emptied.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo election reset registry.example.com tasks --yes
  pilotgo election reset tasks --to 1764500000 --yes`,
		Args: arguments(1, 2, "pilotgo election reset [HOST] GROUP --yes"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.resetElection(cmd.Context(), o, args) },
	}
	o.connection.flags(cmd.Flags(), connectPatience)
	cmd.Flags().Uint64Var(&o.to, "to", 0, "the term to set the fence to")
	cmd.Flags().BoolVar((*bool)(&o.yes), "yes", false, "do it")
	return cmd
}

func (a *app) resetElection(ctx context.Context, o resetOptions, words []string) error {
	at, err := a.placeOf(words)
	switch {
	case err != nil:
		return err
	case o.to > protocol.MaxTerm:
		return usagef("--to is at most %d", uint64(protocol.MaxTerm))
	}
	if err := o.yes.to(fmt.Sprintf("this sets the fence of %s to %d and may end a leadership", at.group, o.to)); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	c, err := a.dial(ctx, at.host, o.connection)
	if err != nil {
		return err
	}
	defer c.Close()
	was, err := c.Fence(ctx, at.topic())
	if err != nil {
		return err
	}
	is, err := c.SetFence(ctx, at.topic(), was.Epoch.ID, o.to)
	if err != nil {
		return unsure("the fence of "+at.group+" is set", err)
	}
	r := new(object).set("group", at.group).set("epoch", is.Epoch.ID.String()).set("before", was.K).set("term", is.K)
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "the fence of %s was %d and is %d\n", at.group, was.K, is.K)
	})
}
