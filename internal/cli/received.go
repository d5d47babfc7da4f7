package cli

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) receivedCommand() *cobra.Command {
	var o inboxOptions
	cmd := &cobra.Command{
		Use:   "received",
		Short: "Print what was sent to this node itself",
		Long: `Print what was sent to this node itself: the direct messages of its inbox. Files there
are none, since pilotgo sends none; --json has an empty list of them besides.`,
		Example: `  pilotgo received
  pilotgo --json received | jq '.messages[] | .payload'`,
		Args: arguments(0, 0, "pilotgo received has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.received(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.clear, "clear", false, "remove the files")
	f.BoolVar(&o.partial, "partial", false, "print what the hosts that answer have")
	f.IntVar(&o.limit, "limit", 0, "the newest so many messages")
	o.connection.flags(f, inboxPatience)
	return cmd
}

func (a *app) received(ctx context.Context, o inboxOptions) error {
	if o.clear {
		return a.print(new(object).as("cleared").set("cleared", 0), func(w *bufio.Writer) {
			fmt.Fprintln(w, "no files to clear")
		})
	}
	r := new(object).as("files", "total").listing("files").set("files", []string{}).set("total", 0)
	if a.compat.pilotctl || a.compat.arrays {
		return a.print(r, func(w *bufio.Writer) { fmt.Fprintln(w, "no files received") })
	}
	if err := o.check(); err != nil {
		return err
	}
	o.direct = true
	boxes, err := a.mailboxes(ctx, &o)
	if err != nil {
		return err
	}
	defer boxes.close()
	list, cut := o.choose(boxes.merged())
	if !a.json {
		return a.printInboxText(boxes, list, cut || boxes.truncated(), "no messages and no files received")
	}
	r.alias("received", "files").
		setMessages("messages", list, (*message).appendJSON).
		set("truncated", cut || boxes.truncated())
	return a.print(r, nil)
}
