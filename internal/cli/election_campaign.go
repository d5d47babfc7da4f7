package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/spf13/cobra"
)

type campaignOptions struct {
	candidature
	once   bool
	export bool
}

func (a *app) electionCampaignCommand() *cobra.Command {
	var o campaignOptions
	cmd := &cobra.Command{
		Use:   "campaign [HOST] GROUP",
		Short: "Stand for election without a command, for ever or once",
		Long: `Stand for election in a group, and print a line when this node is elected and when
its leadership ends. It leads, with heartbeats, until SIGTERM or SIGINT: then it
resigns and ends with 0.

With --once, stand until elected, print the fencing token and end with 0 at once, or
with 18 when not elected within --timeout. The leadership is left as it is: it is
neither resigned nor renewed. Until another member claims, which the profile's silence
keeps it from for a while, the token passes the registry's fence:

  eval "$(pilotgo election campaign localhost tasks --once --timeout 10s --export)" || exit
  pilotgo publish localhost jobs --as-leader --data '{"type":"job"}'

For work that takes longer there is 'pilotgo election run'.`,
		Example: `  pilotgo election campaign registry.example.com tasks
  pilotgo --json election campaign tasks --once --timeout 5s | jq .term`,
		Args: arguments(1, 2, "pilotgo election campaign [HOST] GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.campaign(cmd.Context(), o, args) },
	}
	o.candidature.flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.once, "once", false, "end when elected")
	cmd.Flags().BoolVar(&o.export, "export", false, "with --once: print the token as shell variables")
	return cmd
}

func (a *app) campaign(ctx context.Context, o campaignOptions, words []string) error {
	if o.export && (!o.once || a.json) {
		return usagef("--export goes with --once, and not with --json")
	}
	at, err := a.placeOf(words)
	if err != nil {
		return err
	}
	s, err := a.takeSeat(ctx, at, o.connection, o.options(at.group))
	if err != nil {
		return err
	}
	defer s.close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if o.timeout > 0 {
		late := time.AfterFunc(o.timeout, func() { end(errNotElected(o.timeout)) })
		defer late.Stop()
	}
	stand := func(ctx context.Context, s *seat) error { return a.standOn(ctx, s, &o.membership) }
	if o.once {
		stand = func(ctx context.Context, s *seat) error { return a.standOnce(ctx, s, o.export) }
	}
	err = stand(ctx, s)
	var never *failure
	if errors.As(context.Cause(ctx), &never) {
		return never
	}
	return err
}

// standOnce leaves without a word once elected, as a leader does that dies.
func (a *app) standOnce(ctx context.Context, s *seat, export bool) error {
	l, err := s.Campaign(ctx)
	if err != nil {
		return err
	}
	s.client.Close()
	t := l.Token()
	if export {
		fmt.Fprintf(a.out, "export PILOTGO_GROUP=%s PILOTGO_TERM=%d PILOTGO_EPOCH=%s\n", shellQuoted(s.group), t.Term, t.Epoch)
		return a.flush()
	}
	o := new(object).set("group", s.group).set("leader", s.client.Self().Node.String()).
		set("term", t.Term).set("epoch", t.Epoch.String())
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "elected to lead %s, term %d; the fence of a publish: --fence %s:%d@%s\n", s.group, t.Term, s.group, t.Term, t.Epoch)
	})
}

// standOn stands again and again, and leads in between.
func (a *app) standOn(ctx context.Context, s *seat, o *membership) error {
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	var unsaid error
	err := s.Run(ctx, func(term context.Context, l *election.Leadership) error {
		if unsaid = a.printTerm(s, l, "elected", nil); unsaid == nil {
			<-term.Done()
			unsaid = a.printTerm(s, l, "ended", l.Err())
			var lost *election.LostError
			if errors.As(l.Err(), &lost) && lost.Reason == election.ReasonExpired {
				a.warnExpired(o)
			}
		}
		return unsaid
	})
	switch {
	case unsaid != nil:
		return unsaid
	case ctx.Err() != nil:
		return nil
	}
	return err
}

func (a *app) printTerm(s *seat, l *election.Leadership, event string, why error) error {
	reason := ""
	var lost *election.LostError
	switch {
	case errors.As(why, &lost):
		reason = lost.Reason.String()
	case why != nil: // stopped by a signal
		reason = election.ReasonWithdrawn.String()
	}
	now := milliStamp(time.Now())
	if a.json {
		writeLine(a.out, new(object).set("event", event).set("group", s.group).set("leader", s.client.Self().Node.String()).
			set("term", l.Term()).set("epoch", l.Token().Epoch.String()).set("reason", reason).set("at", now))
		return a.flush()
	}
	fmt.Fprintf(a.out, "%s  %-7s  term %d", now, event, l.Term())
	if reason != "" {
		fmt.Fprintf(a.out, ": %s", reason)
	}
	a.out.WriteByte('\n')
	return a.flush()
}
