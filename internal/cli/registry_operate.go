package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

// noun is a command that only has others below it.
func (a *app) noun(name, short, example string, cmds ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Example: example,
		Annotations: map[string]string{"exit": newKind["exit"], "group": "only"},
		Args:        needsCommand,
		RunE:        func(*cobra.Command, []string) error { return nil },
	}
	for _, c := range cmds {
		if c.Annotations == nil {
			c.Annotations = newKind
		}
		cmd.AddCommand(c)
	}
	return cmd
}

// operate lets an operator's command talk to its registry.
func (a *app) operate(ctx context.Context, o connection, do func(context.Context, *client.Client) error) error {
	h, err := a.chosen(o.host)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	c, err := a.dial(ctx, h, o)
	if err != nil {
		return err
	}
	defer c.Close()
	return operatorsError(do(ctx, c))
}

// operatorsError says who may do what was denied.
func operatorsError(err error) error {
	if protocol.CodeOf(err) != protocol.ErrDenied {
		return err
	}
	f := describe(err)
	f.hint = "this is for operators: run it as the user who serves the registry, or be named there with --admin FINGERPRINT, by an access rule, or by the label admin"
	return f
}

// operatorsCommand is a command of operators, with the flags of a connection.
func (a *app) operatorsCommand(cmd *cobra.Command, do func(ctx context.Context, c *client.Client, args []string) error) *cobra.Command {
	var o connection
	o.hostFlag(cmd.Flags())
	o.flags(cmd.Flags(), connectPatience)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.operate(cmd.Context(), o, func(ctx context.Context, c *client.Client) error { return do(ctx, c, args) })
	}
	return cmd
}

// consent is the --yes of a command that takes away what nothing brings back.
type consent bool

// required lets the command run with --yes only; what says, of its arguments, what
// it is about to do.
func (y *consent) required(cmd *cobra.Command, what func(args []string) string) *cobra.Command {
	cmd.Flags().BoolVar((*bool)(y), "yes", false, "do it")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error { return y.to(what(args)) }
	return cmd
}

func (y consent) to(what string) error {
	if y {
		return nil
	}
	e := usagef("%s", what)
	e.hint = "say --yes to do it"
	return e
}

func timeText(t protocol.Time) string {
	if t == 0 {
		return ""
	}
	return t.Time().Format(time.RFC3339)
}

// columns prints rows under each other, each column as wide as its widest.
func columns(w *bufio.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(text)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], text)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// or is the text, or what to show in its place.
func or(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
