package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type resignOptions struct {
	membership
	successor string
	timeout   time.Duration
}

func (a *app) electionResignCommand() *cobra.Command {
	var o resignOptions
	cmd := &cobra.Command{
		Use:   "resign [HOST] GROUP",
		Short: "Ask this node's leadership of a group to end",
		Long: `Ask the leader of a group to resign, which it does once its work has stopped, and wait
until it has. The leader listens to its own node only: the command is for the machine,
and the PILOT_HOME, of the leader. It stands again later; to keep it from that, stop it.

Without --successor the leader names the best candidate it knows. The exit code is 13
where another node leads or nobody does, and 11 when it has not resigned within
--timeout.`,
		Example: `  pilotgo election resign registry.example.com tasks
  pilotgo election resign tasks --successor 2147483701 --timeout 5s`,
		Args: arguments(1, 2, "pilotgo election resign [HOST] GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := bounded(cmd.Context(), o.timeout)
			defer cancel()
			return a.resign(ctx, o, args)
		},
	}
	o.membership.flags(cmd.Flags())
	cmd.Flags().StringVar(&o.successor, "successor", "", "node id of who is to lead next")
	durationFlag(cmd.Flags(), &o.timeout, "timeout", 2*connectPatience, "how long to wait; 0 is for ever")
	return cmd
}

func (a *app) resign(ctx context.Context, o resignOptions, words []string) error {
	at, err := a.placeOf(words)
	if err != nil {
		return err
	}
	s, err := a.takeSeat(ctx, at, o.connection, o.options(at.group))
	if err != nil {
		return err
	}
	defer s.close()
	var led election.View
	for seen, err := range s.Observe(ctx) {
		switch {
		case err != nil:
			return a.noResign(led, err)
		case led.Leader == "":
			if led, err = a.askIfOwn(ctx, s, seen.View, o.successor); err != nil {
				return err
			}
		case gaveWay(led, seen.View):
			return a.resigned(s, led, o.successor)
		case seen.Leader == "":
			return notLeading("the leader was lost before it resigned: " + seen.Reason.String())
		}
	}
	return nil
}

// askIfOwn asks the leader if it is this node, and returns whom it asked: nobody
// while nothing is known.
func (a *app) askIfOwn(ctx context.Context, s *seat, v election.View, successor string) (election.View, error) {
	self := s.client.Self().Node.String()
	switch {
	case unknown(v):
		return v, nil
	case v.Leader == "":
		return v, notLeading("nobody leads: " + v.Reason.String())
	case v.Leader != self:
		e := notLeading(fmt.Sprintf("%s leads, not this node, %s", v.Leader, self))
		e.hint = "a leader listens to its own node only: ask there"
		return v, e
	}
	return v, s.Ask(ctx, successor)
}

func notLeading(text string) *failure {
	return &failure{
		code: protocol.ErrStaleTerm.Name(), message: text, exit: exitStale,
		hint: "see who leads: pilotgo election status",
	}
}

// gaveWay tells whether a leader is one no more, of its own will or because
// another leads.
func gaveWay(was, is election.View) bool {
	if is.Leader != "" {
		return is.Token != was.Token
	}
	return is.Reason == election.ReasonResigned || is.Reason == election.ReasonWithdrawn || is.Reason == election.ReasonPreempted
}

// noResign is the error of a wait that ended early.
func (a *app) noResign(led election.View, err error) error {
	if led.Leader != "" && errors.Is(err, context.DeadlineExceeded) {
		return &failure{
			code: protocol.ErrTimeout.Name(), message: "it was asked, and has not resigned yet", exit: exitTimeout,
			hint: "its work may take longer to stop: see 'pilotgo election status', or wait longer with --timeout",
		}
	}
	return err
}

func (a *app) resigned(s *seat, led election.View, successor string) error {
	o := new(object).set("group", s.group).set("leader", led.Leader).set("term", led.Token.Term).
		set("epoch", led.Token.Epoch.String()).set("resigned", true).set("successor", successor)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "%s has resigned from leading %s, term %d\n", led.Leader, s.group, led.Token.Term)
	})
}
