package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

func (a *app) registryTopicCommand() *cobra.Command {
	return a.noun("topic", "Purge and delete topics, for operators",
		`  pilotgo registry topic purge jobs.created --up-to 1200 --yes`,
		a.topicPurgeCommand(), a.topicDeleteCommand())
}

func (a *app) topicPurgeCommand() *cobra.Command {
	var upTo uint64
	var yes consent
	cmd := &cobra.Command{
		Use:   "purge TOPIC --yes",
		Short: "Drop the messages of a topic",
		Long: `Drop the messages of a topic, all that there are or those up to a seq, as retention
would: readers that are behind see a gap. Its fence stays, and so do the inboxes that
have joined it.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo registry topic purge jobs.created --up-to 1200 --yes`,
		Args:    arguments(1, 1, "pilotgo registry topic purge TOPIC --yes"),
	}
	cmd.Flags().Uint64Var(&upTo, "up-to", 0, "seq of the last message to drop; 0 is all")
	return a.operatorsCommand(yes.required(cmd, func(args []string) string {
		what := "every message"
		if upTo != 0 {
			what = fmt.Sprintf("the messages up to %d", upTo)
		}
		return fmt.Sprintf("this drops %s of %s for good", what, args[0])
	}), func(ctx context.Context, c *client.Client, args []string) error {
		if err := c.PurgeTopic(ctx, args[0], protocol.Seq(upTo)); err != nil {
			return unsure(args[0]+" is purged", err)
		}
		return a.print(new(object).set("topic", args[0]).set("up_to", upTo), func(w *bufio.Writer) {
			fmt.Fprintf(w, "purged %s\n", args[0])
		})
	})
}

func (a *app) topicDeleteCommand() *cobra.Command {
	var yes consent
	cmd := &cobra.Command{
		Use:   "delete TOPIC --yes",
		Short: "Drop all messages of a topic and take it out of every inbox",
		Long: `Drop all messages of a topic and take it out of every inbox. Its fence stays: a term
that was led is never led again. The next publish makes the topic anew.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo registry topic delete jobs.created --yes`,
		Args:    arguments(1, 1, "pilotgo registry topic delete TOPIC --yes"),
	}
	return a.operatorsCommand(yes.required(cmd, func(args []string) string {
		return fmt.Sprintf("this drops every message of %s for good and takes it out of every inbox", args[0])
	}), func(ctx context.Context, c *client.Client, args []string) error {
		if err := c.DeleteTopic(ctx, args[0]); err != nil {
			return unsure(args[0]+" is deleted", err)
		}
		return a.print(new(object).set("topic", args[0]), func(w *bufio.Writer) {
			fmt.Fprintf(w, "deleted %s\n", args[0])
		})
	})
}

func (a *app) registryFenceCommand() *cobra.Command {
	return a.noun("fence", "Show the fence of a topic, or set it",
		`  pilotgo registry fence show election:workers`,
		a.fenceShowCommand(), a.fenceSetCommand())
}

func (a *app) fenceShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show TOPIC",
		Short:   "Show the fence of a topic",
		Example: `  pilotgo --json registry fence show election:workers | jq .k`,
		Args:    arguments(1, 1, "pilotgo registry fence show TOPIC"),
	}
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		is, err := c.Fence(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printFence(args[0], is)
	})
}

func (a *app) fenceSetCommand() *cobra.Command {
	var epoch string
	var yes consent
	cmd := &cobra.Command{
		Use:   "set TOPIC K --yes",
		Short: "Set the value of a topic's fence, also to a lower one",
		Long: `Set the value of a topic's fence, also to a lower one, for operators. Who holds a higher
term is not told, and what was written under it stays: it is for a fence that somebody
has driven up. For an election, 'pilotgo election reset' says more.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo registry fence set config:fleet 1767225601 --yes`,
		Args:    arguments(2, 2, "pilotgo registry fence set TOPIC K --yes"),
	}
	cmd.Flags().StringVar(&epoch, "epoch", "", "epoch that the log must have, 16 hex digits; its own by default")
	return a.operatorsCommand(yes.required(cmd, func(args []string) string {
		return fmt.Sprintf("this sets the fence of %s to %s, whatever was written under another value", args[0], args[1])
	}), func(ctx context.Context, c *client.Client, args []string) error {
		k, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil || k > protocol.MaxTerm {
			return usagef("%q is no fence value: 0 to %d", args[1], uint64(protocol.MaxTerm))
		}
		at, err := epochOf(ctx, c, epoch)
		if err != nil {
			return err
		}
		is, err := c.SetFence(ctx, args[0], at, k)
		if err != nil {
			return unsure("the fence of "+args[0]+" is set", err)
		}
		return a.printFence(args[0], is)
	})
}

func epochOf(ctx context.Context, c *client.Client, text string) (protocol.EpochID, error) {
	if text != "" {
		return protocol.ParseEpochID(text)
	}
	info, err := c.Info(ctx)
	return info.Epoch.ID, err
}

func (a *app) printFence(topic string, is client.FenceState) error {
	o := new(object).set("topic", topic).set("epoch", is.Epoch.ID.String()).set("k", is.K).set("s", is.S)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "%s: K %d, S %d, epoch %v\n", topic, is.K, is.S, is.Epoch.ID)
	})
}
