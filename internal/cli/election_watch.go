package cli

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/spf13/cobra"
)

type watchOptions struct {
	membership
	count   int
	timeout time.Duration
}

func (a *app) electionWatchCommand() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [HOST] GROUP",
		Short: "Print who leads a group, now and at each change",
		Long: `Print who leads a group, and then each change, on a line of its own:

  leader   there is one now
  changed  there is another, or the same with a new term
  lost     there is none any more, and why
  none     there is none, and why

A slow reader misses what was over by then, and always comes to see what is true. It
ends with 0 at --timeout, after --count lines, and on SIGINT or SIGTERM.`,
		Example: `  pilotgo election watch registry.example.com tasks
  pilotgo --json election watch tasks | jq -r 'select(.leader) | .leader'
  pilotgo --json election watch tasks --count 1   # who leads now`,
		Args: arguments(1, 2, "pilotgo election watch [HOST] GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.watchElection(cmd.Context(), o, args) },
	}
	o.membership.flags(cmd.Flags())
	cmd.Flags().IntVar(&o.count, "count", 0, "end after so many lines")
	durationFlag(cmd.Flags(), &o.timeout, "timeout", 0, "end after so long; 0 is never")
	return cmd
}

func (a *app) watchElection(ctx context.Context, o watchOptions, words []string) error {
	if o.count < 0 {
		return usagef("invalid integer for --count: %d is negative", o.count)
	}
	at, err := a.placeOf(words)
	if err != nil {
		return err
	}
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	s, err := a.takeSeat(ctx, at, o.connection, o.options(at.group))
	if err != nil {
		return err
	}
	defer s.close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeUp)
		defer cancel()
	}
	n := 0
	for seen, err := range s.Observe(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return streamEnd(ended(ctx))
		case err != nil:
			return err
		case n == 0 && unknown(seen.View):
			continue // nothing has been read yet
		}
		if err := a.printObservation(seen); err != nil {
			return err
		}
		if n++; n == o.count {
			break
		}
	}
	return nil
}

// unknown is the view of who has not read enough to have one.
func unknown(v election.View) bool { return v.Leader == "" && v.Reason == election.ReasonUnknown }

func (a *app) printObservation(seen election.Observation) error {
	if a.json {
		o := new(object).set("event", seen.Change.String())
		o.fields = append(o.fields, observed(seen).fields...)
		writeLine(a.out, o)
		return a.flush()
	}
	fmt.Fprintf(a.out, "%s  %-7s  ", milliStamp(seen.At), seen.Change)
	a.writeView(a.out, seen.View)
	a.out.WriteByte('\n')
	return a.flush()
}

// observed has the fields of an observation.
func observed(seen election.Observation) *object {
	o := new(object).set("leader", nil).set("term", nil).set("epoch", nil)
	if v := seen.View; v.Leader != "" {
		o = new(object).set("leader", v.Leader).set("term", v.Token.Term).set("epoch", v.Token.Epoch.String())
	}
	return o.set("reason", reasonText(seen.View)).set("script", seen.Plain).set("at", milliStamp(seen.At))
}

// reasonText is why there is no leader.
func reasonText(v election.View) string {
	if v.Leader != "" {
		return ""
	}
	return v.Reason.String()
}

func (a *app) writeView(w *bufio.Writer, v election.View) {
	switch {
	case v.Leader == "":
		fmt.Fprintf(w, "nobody leads: %s", v.Reason)
	case v.Plain:
		fmt.Fprintf(w, "%s leads, term %d, a script", shown(v.Leader, a.terminal), v.Token.Term)
	default:
		fmt.Fprintf(w, "%s leads, term %d", shown(v.Leader, a.terminal), v.Token.Term)
	}
}

// stampOf is a time in machine output.
func milliStamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
