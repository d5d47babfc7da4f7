package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/spf13/cobra"
)

type configWatchOptions struct {
	connection
	count int
	limit time.Duration
}

func (a *app) configWatchCommand() *cobra.Command {
	var o configWatchOptions
	cmd := &cobra.Command{
		Use:   "watch SWARM",
		Short: "Print the configuration of a swarm, now and at each change",
		Long: `Print the latest version of a swarm's configuration, then each as it is published, on a
line of its own; with --json as an object with all of it, and new_epoch for new epoch:

  snapshot   the latest version; without one there is none, which takes nothing away
  update     the next version, or one that is staged for a rollout
  gap        versions left the log before they were read; a snapshot follows
  new epoch  the registry's log was lost or replaced; a snapshot follows

It survives lost connections. It ends with 0 at --timeout, after --count lines, and on
SIGINT or SIGTERM.`,
		Example: `  pilotgo config watch worker-pool
  pilotgo --json config watch worker-pool | jq -c 'select(.version) | .config'
  pilotgo --json config watch worker-pool --count 1`,
		Args: arguments(1, 1, "pilotgo config watch SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.watchConfig(cmd.Context(), o, args[0]) },
	}
	o.timeout = connectPatience
	swarmOptions(cmd.Flags(), &o.connection, 0)
	cmd.Flags().IntVar(&o.count, "count", 0, "end after so many lines")
	durationFlag(cmd.Flags(), &o.limit, "timeout", 0, "end after so long; 0 is never")
	return cmd
}

func (a *app) watchConfig(ctx context.Context, o configWatchOptions, name string) error {
	if o.count < 0 {
		return usagef("invalid integer for --count: %d is negative", o.count)
	}
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	s, err := a.openStream(ctx, o.connection, name)
	if err != nil {
		return err
	}
	defer s.close()
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.limit, errTimeUp)
		defer cancel()
	}
	n := 0
	for e, err := range s.Watch(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return streamEnd(ended(ctx))
		case err != nil:
			return err
		}
		if err := a.printWatch(s, e); err != nil {
			return err
		}
		if n++; n == o.count {
			break
		}
	}
	return nil
}

func (a *app) printWatch(s *swarm, e config.WatchEvent) error {
	if a.json {
		writeLine(a.out, watchFields(s.Name(), e))
		return a.flush()
	}
	at := time.Now()
	if e.Document != nil {
		at = e.Document.Time
	}
	fmt.Fprintf(a.out, "%s  %-9s  ", milliStamp(at), e.Kind)
	switch {
	case e.Document != nil:
		d := e.Document
		fmt.Fprintf(a.out, "version %d, %s, by %s", d.Version, shortDigest(d.Digest), or(shown(d.Who, a.terminal), d.Sender.String()))
		if text := remark(d); text != "" {
			fmt.Fprintf(a.out, ": %s", shown(text, a.terminal))
		}
	case e.Kind == config.WatchSnapshot:
		a.out.WriteString("there is no version")
	case e.Kind == config.WatchGap:
		fmt.Fprintf(a.out, "what was published from #%d to #%d may be missing", e.From, e.To)
	case e.Kind == config.WatchEpoch:
		fmt.Fprintf(a.out, "the log is %s now", e.Epoch.ID)
	}
	a.out.WriteByte('\n')
	return a.flush()
}

// eventName is what happened, as one word for programs.
func eventName(kind fmt.Stringer) string { return strings.ReplaceAll(kind.String(), " ", "_") }

// watchFields has the event before all else, and the version where there is one.
func watchFields(name string, e config.WatchEvent) *object {
	o := new(object).set("event", eventName(e.Kind))
	switch {
	case e.Document != nil:
		o.fields = append(o.fields, documentFields(name, e.Document, true).fields...)
		return o
	case e.Kind == config.WatchGap:
		o.set("from", e.From).set("to", e.To)
	}
	return o.set("swarm", name).set("version", nil).set("digest", nil).set("epoch", e.Epoch.ID.String())
}
