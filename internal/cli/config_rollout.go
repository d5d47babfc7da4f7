package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) configRolloutCommand() *cobra.Command {
	return a.noun("rollout", "Bring a version to a few agents first, then to all, or back",
		`  pilotgo config rollout start worker-pool -f config.json --drive
  pilotgo config rollout status worker-pool`,
		a.rolloutStartCommand(), a.rolloutDriveCommand(), a.rolloutStatusCommand(),
		a.rolloutSetCommand("pause", "Stop a rollout where it is", `Stop a rollout where it is: agents that it has reached keep the version, nobody new is
reached, and nothing rolls it back, until it is resumed or aborted.`, (*config.Swarm).PauseRollout),
		a.rolloutSetCommand("resume", "Let a paused rollout go on", `Let a paused rollout go on. Its step begins anew, with all of its bake time.`, (*config.Swarm).ResumeRollout),
		a.rolloutAbortCommand())
}

// driving is what lets one say who drives a rollout.
type driving struct {
	members nodes
	group   string
	profile choice
}

func (o *driving) flags(f *pflag.FlagSet) {
	o.profile = choice{value: "lan", of: []string{"lan", "wan", "flaky", "mixed"}}
	f.Var(&o.members, "members", "node ids of those who belong to the swarm (default all who report)")
	f.StringVar(&o.group, "group", "", "stand for election in this group, and drive only while leading it")
	f.Var(&o.profile, "profile", "with --group: timings of the group, as of 'election run'")
}

// tune makes a connection fit for a group.
func (o *driving) tune() func(*client.Options) {
	if o.group == "" {
		return func(*client.Options) {}
	}
	return attentive(profiles[o.profile.value])
}

func (o *driving) check() error {
	if o.group == "" {
		return nil
	}
	if err := protocol.ValidTopic(election.TopicPrefix + o.group); err != nil {
		return fmt.Errorf("group %q: %w", o.group, err)
	}
	return nil
}

type rolloutStartOptions struct {
	writing
	document
	driving
	plan      config.Plan
	canary    share
	steps     shares
	success   share
	maxFailed share
	unhealthy share
	drive     bool
}

func (a *app) rolloutStartCommand() *cobra.Command {
	o := rolloutStartOptions{canary: 0.05, steps: shares{0.25, 0.5, 1}, success: 0.95, unhealthy: 0.1}
	cmd := &cobra.Command{
		Use:   "start SWARM -f FILE",
		Short: "Stage a version, and drive it with --drive",
		Long: `Stage a new version with a plan. It reaches the canary first, those with all of --label
and a --canary share of the others, then the shares of --steps, each for --bake at least
and until a --success share of those reached runs it. When more of them than --max-failed
refuse the version, fail to apply it or fall silent, or too few run it in --step-timeout,
it is rolled back by itself.

Somebody has to drive it: this command with --drive, or 'rollout drive' anywhere. The plan
and the progress stand in the log, so another can go on where one ended. Scripts of the
recipe get the version when it is for all.

There must be a version before, which most agents run. The exit code is 12 while another
rollout is going on, 17 where the swarm is in no state for one or, with --drive, where it
was rolled back.`,
		Example: `  pilotgo config rollout start worker-pool -f config.json --canary 5% --steps 25%,50%,100% --bake 10m --drive
  pilotgo config rollout start worker-pool -f config.json --label canary=yes --bake 1m`,
		Args: arguments(1, 1, "pilotgo config rollout start SWARM -f FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("canary") && len(o.plan.Labels) > 0 {
				o.canary = 0
			}
			return a.startRollout(cmd.Context(), o, args[0])
		},
	}
	f := cmd.Flags()
	o.document.flag(f)
	f.StringToStringVar(&o.plan.Labels, "label", nil, "label of agents that are reached first: NAME=VALUE; of several an agent must have all")
	f.Var(&o.canary, "canary", "share of the agents that are reached first (with --label none, unless given)")
	f.Var(&o.steps, "steps", "shares after that, rising")
	durationFlag(f, &o.plan.Bake, "bake", 10*time.Minute, "how long each step goes on at least")
	f.Var(&o.success, "success", "share of the reached agents that must run it before the next step")
	durationFlag(f, &o.plan.Timeout, "step-timeout", 0, "when a step without that has failed (default 1h, or twice --bake)")
	f.Var(&o.maxFailed, "max-failed", "share of the reached agents that may fail (default none)")
	f.Var(&o.unhealthy, "max-unhealthy", "share of the agents that may not run the version before, at the start")
	f.BoolVar(&o.drive, "drive", false, "drive the rollout to its end, and print how it goes")
	o.driving.flags(f)
	o.writing.flags(f)
	return cmd
}

// complete makes a plan of the flags.
func (o *rolloutStartOptions) complete() error {
	if o.group != "" && !o.drive {
		return usagef("--group goes with --drive")
	}
	if o.plan.Bake == 0 {
		o.plan.Bake = time.Nanosecond // 0 means the default there
	}
	o.plan.Canary, o.plan.Steps, o.plan.Success = float64(o.canary), o.steps, float64(o.success)
	o.plan.MaxFailed, o.plan.MaxUnhealthy = float64(o.maxFailed), float64(o.unhealthy)
	return o.driving.check()
}

func (a *app) startRollout(ctx context.Context, o rolloutStartOptions, name string) error {
	if err := o.complete(); err != nil {
		return err
	}
	p, err := o.options(name)
	if err != nil {
		return err
	}
	text, err := o.document.read(a)
	if err != nil {
		return err
	}
	s, err := a.openStream(ctx, o.connection, name, o.driving.tune())
	if err != nil {
		return err
	}
	defer s.close()
	done, err := a.stage(ctx, s, o, text, p)
	if err != nil {
		return s.named(ctx, publishError(config.Topic(name), err))
	}
	if !o.drive {
		return a.print(publishedFields(s, done).set("staged", true), func(w *bufio.Writer) {
			fmt.Fprintf(w, "staged version %d of %s, %s\n", done.Version, name, done.Digest)
			fmt.Fprintf(w, "drive it: pilotgo config rollout drive %s\n", name)
		})
	}
	if err := a.tellStaged(s, done); err != nil {
		return err
	}
	return a.driveRollout(ctx, s, o.driving, o.who)
}

func (a *app) stage(ctx context.Context, s *swarm, o rolloutStartOptions, text []byte, p config.PublishOptions) (config.Published, error) {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	var err error
	if p.Leadership, err = o.leadership(s.client); err != nil {
		return config.Published{}, err
	}
	done, err := s.StartRollout(ctx, text, o.plan, p)
	if err == nil {
		a.adopt(ctx, s, done.Epoch)
	}
	return done, err
}

func (a *app) tellStaged(s *swarm, done config.Published) error {
	if a.json {
		o := new(object).set("event", "staged")
		o.fields = append(o.fields, publishedFields(s, done).fields...)
		writeLine(a.out, o)
	} else {
		fmt.Fprintf(a.out, "%s  staged       version %d, %s\n", milliStamp(done.Time), done.Version, done.Digest)
	}
	return a.flush()
}

func (a *app) rolloutDriveCommand() *cobra.Command {
	var o struct {
		connection
		driving
		who string
	}
	cmd := &cobra.Command{
		Use:   "drive SWARM",
		Short: "Drive the rollout that is going on to its end",
		Long: `Take the rollout that is going on from step to step to its end, and print how it goes, a
line for each change. Any node may drive, and several at once do no harm. With --group
this node stands for election there and drives only while it leads, under the fence of its
term; others that run the same command take over when it dies. All end when the rollout
has ended: with 0 where the version is for all, 17 where it was rolled back, 12 where
another version was published meanwhile.`,
		Example: `  pilotgo config rollout drive worker-pool
  pilotgo config rollout drive worker-pool --group deployers`,
		Args: arguments(1, 1, "pilotgo config rollout drive SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.driving.check(); err != nil {
				return err
			}
			s, err := a.openStream(cmd.Context(), o.connection, args[0], o.driving.tune())
			if err != nil {
				return err
			}
			defer s.close()
			return a.driveRollout(cmd.Context(), s, o.driving, o.who)
		},
	}
	swarmOptions(cmd.Flags(), &o.connection, 0)
	durationFlag(cmd.Flags(), &o.timeout, "timeout", connectPatience, "how long to wait for the registry at the start; 0 is for ever")
	cmd.Flags().StringVar(&o.who, "who", "", "who drives, for the history (default this node's name)")
	o.driving.flags(cmd.Flags())
	return cmd
}

// driveRollout drives to the end, and makes an exit code of that.
func (a *app) driveRollout(ctx context.Context, s *swarm, o driving, who string) error {
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d := config.DriveOptions{Members: o.members, Who: who, Notify: func(st config.RolloutStatus) {
		if err := a.tellRollout(s, st); err != nil {
			end(err)
		}
	}}
	drive := func(ctx context.Context) (config.RolloutStatus, error) { return s.DriveRollout(ctx, d) }
	if o.group != "" {
		drive = func(ctx context.Context) (config.RolloutStatus, error) { return s.driveElected(ctx, o, d) }
	}
	st, err := drive(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return undriven(s, causeOf(ctx))
	case err != nil:
		return err
	}
	return rolloutEnd(st)
}

// undriven is the error of who was stopped, while the rollout was not.
func undriven(s *swarm, err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	f := describe(err)
	f.hint = "the rollout stands where it is: to go on, 'pilotgo config rollout drive " + s.Name() + "'"
	return f
}

// driveElected drives while this node leads its group, and ends when the rollout
// has, whoever drove it.
func (s *swarm) driveElected(ctx context.Context, o driving, d config.DriveOptions) (st config.RolloutStatus, err error) {
	if st, err = s.Rollout(ctx, d.Members...); err != nil {
		return st, err
	}
	within, over := context.WithCancel(ctx)
	defer over()
	watched := make(chan config.RolloutStatus, 1)
	go func() {
		defer over()
		watched <- s.rolloutOver(within, st.Version)
	}()
	err = election.Run(within, s.client, election.Options{Group: o.group, Timing: profiles[o.profile.value]},
		func(ctx context.Context, l *election.Leadership) error {
			led := d
			led.Leadership = l
			end, err := s.DriveRollout(ctx, led)
			if err == nil {
				st = end
			}
			return err
		})
	over()
	seen := <-watched
	switch {
	case st.State.Over():
		return st, nil
	case seen.State.Over():
		d.Notify(seen)
		return seen, nil
	case err == nil:
		err = context.Cause(within)
	}
	return st, err
}

// standbyLook is how often one that does not drive looks whether it is over.
const standbyLook = time.Second

// rolloutOver returns the end of a rollout, or the last that was seen of it when
// ctx ends.
func (s *swarm) rolloutOver(ctx context.Context, version uint64) (st config.RolloutStatus) {
	for {
		now, err := s.Rollout(ctx)
		if err == nil {
			st = now
		}
		if st.Version != 0 && st.Version != version {
			st.Version, st.State, st.Reason = version, config.RolloutSuperseded, "another version is rolled out"
		}
		if st.State.Over() && st.Version != 0 || sleep(ctx, standbyLook) != nil {
			return st
		}
	}
}

// rolloutEnd makes an error of an end that is not a success.
func rolloutEnd(st config.RolloutStatus) error {
	f := &failure{message: fmt.Sprintf("version %d: %s", st.Version, stateText(st.State))}
	if st.Reason != "" {
		f.message += ": " + st.Reason
	}
	switch st.State {
	case config.RolloutRolledBack:
		f.code, f.exit, f.hint = codeThreshold, exitThreshold, "see what the agents say: pilotgo config status SWARM --version "+fmt.Sprint(st.Version)
	case config.RolloutSuperseded:
		f.code, f.exit, f.hint = protocol.ErrConflict.Name(), exitConflict, protocol.ErrConflict.Hint()
	case config.RolloutComplete, config.RolloutRunning, config.RolloutPaused:
		return nil
	}
	return f
}

func stateText(s config.RolloutState) string {
	if s == config.RolloutRolledBack {
		return "rolled back"
	}
	return string(s)
}

func (a *app) tellRollout(s *swarm, st config.RolloutStatus) error {
	now := milliStamp(time.Now())
	if a.json {
		o := new(object).set("event", "progress")
		o.fields = append(o.fields, rolloutFields(s.Name(), st).fields...)
		writeLine(a.out, o.set("at", now))
		return a.flush()
	}
	text := rolloutText(st)
	if !begun(st) {
		text = fmt.Sprintf("version %d, begins", st.Version)
	}
	fmt.Fprintf(a.out, "%s  %-11s  %s\n", now, stateText(st.State), shown(text, a.terminal))
	return a.flush()
}

// begun reports whether somebody has driven a rollout yet.
func begun(st config.RolloutStatus) bool { return !st.Since.IsZero() || st.State.Over() }

// rolloutText is how a rollout is going, on a line.
func rolloutText(st config.RolloutStatus) string {
	text := fmt.Sprintf("version %d", st.Version)
	switch {
	case !begun(st):
		text += ", not begun: nobody drives it yet"
	case !st.State.Over():
		text += fmt.Sprintf(", %s, %s: %d reached, %d run it, %d failed, %d to come", stepText(st), percent(st.Share),
			st.Reached.All, st.Reached.Running, st.Reached.Failed, st.Reached.Waiting)
	}
	if st.Ending != "" {
		text += ", about to end as " + stateText(st.Ending)
	}
	if st.Reason != "" {
		text += ": " + st.Reason
	} else if st.Reached.Error != "" {
		text += ": " + st.Reached.Error
	}
	return text
}

func stepText(st config.RolloutStatus) string {
	if st.Step == 0 {
		return "canary"
	}
	return fmt.Sprintf("step %d of %d", st.Step, len(st.Plan.Steps))
}

func rolloutFields(name string, st config.RolloutStatus) *object {
	o := new(object).set("swarm", name).set("version", st.Version).set("state", st.State).set("step", st.Step).
		set("steps", len(st.Plan.Steps)).set("begun", begun(st)).set("share", st.Share).set("base", st.Base).
		set("reached", map[string]any{
			"all": st.Reached.All, "running": st.Reached.Running, "failed": st.Reached.Failed,
			"waiting": st.Reached.Waiting, "error": st.Reached.Error,
		}).
		set("since", nil).set("ending", st.Ending).set("reason", st.Reason).set("who", st.Who).
		set("plan", map[string]any{
			"canary": st.Plan.Canary, "labels": st.Plan.Labels, "steps": append([]float64{}, st.Plan.Steps...),
			"bake_ms": st.Plan.Bake.Milliseconds(), "timeout_ms": st.Plan.Timeout.Milliseconds(), "success": st.Plan.Success,
			"max_failed": st.Plan.MaxFailed, "max_unhealthy": st.Plan.MaxUnhealthy,
		})
	if !st.Since.IsZero() {
		o.replace("since", milliStamp(st.Since))
	}
	return o
}

func (a *app) rolloutStatusCommand() *cobra.Command {
	var o struct {
		connection
		members nodes
	}
	cmd := &cobra.Command{
		Use:   "status SWARM",
		Short: "Show how the newest rollout is going, or how it ended",
		Example: `  pilotgo config rollout status worker-pool
  pilotgo --json config rollout status worker-pool | jq '{state, step, reached}'`,
		Args: arguments(1, 1, "pilotgo config rollout status SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				st, err := s.Rollout(ctx, o.members...)
				if err != nil {
					return err
				}
				return a.print(rolloutFields(s.Name(), st), func(w *bufio.Writer) {
					fmt.Fprintf(w, "%s: %s\n", stateText(st.State), shown(rolloutText(st), a.terminal))
				})
			})
		},
	}
	swarmOptions(cmd.Flags(), &o.connection, connectPatience)
	cmd.Flags().Var(&o.members, "members", "node ids of those who belong to the swarm (default all who report)")
	return cmd
}

// steering is what lets one say why a rollout is stopped or goes on.
type steering struct {
	connection
	fencing
	reason, who string
}

func (o *steering) flags(f *pflag.FlagSet) {
	swarmOptions(f, &o.connection, connectPatience)
	o.fencing.flags(f)
	f.StringVar(&o.reason, "reason", "", "why")
	f.StringVar(&o.who, "who", "", "who does it (default this node's name)")
}

func (o *steering) options(s *swarm) (config.RolloutOptions, error) {
	l, err := o.leadership(s.client)
	return config.RolloutOptions{Reason: o.reason, Who: o.who, Leadership: l}, err
}

func (a *app) rolloutSetCommand(name, short, long string, set func(*config.Swarm, context.Context, config.RolloutOptions) error) *cobra.Command {
	var o steering
	cmd := &cobra.Command{
		Use: name + " SWARM", Short: short, Long: long,
		Example: "  pilotgo config rollout " + name + " worker-pool --reason 'looking at the logs'",
		Args:    arguments(1, 1, "pilotgo config rollout "+name+" SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				how, err := o.options(s)
				if err == nil {
					err = set(s.Swarm, ctx, how)
				}
				if err != nil {
					return publishError(config.RolloutTopic(s.Name()), err)
				}
				st, err := s.Rollout(ctx)
				if err != nil {
					return err
				}
				return a.print(rolloutFields(s.Name(), st), func(w *bufio.Writer) {
					fmt.Fprintf(w, "%s: %s\n", stateText(st.State), shown(rolloutText(st), a.terminal))
				})
			})
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (a *app) rolloutAbortCommand() *cobra.Command {
	var o steering
	cmd := &cobra.Command{
		Use:   "abort SWARM",
		Short: "Roll a rollout back",
		Long: `Roll a rollout back, whether or not somebody drives it: the version before is published
anew, and the agents that were reached go back to it.`,
		Example: `  pilotgo config rollout abort worker-pool --reason 'time-outs in zone a'`,
		Args:    arguments(1, 1, "pilotgo config rollout abort SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				how, err := o.options(s)
				if err != nil {
					return err
				}
				done, err := s.AbortRollout(ctx, how)
				if err != nil {
					return publishError(config.Topic(s.Name()), err)
				}
				a.adopt(ctx, s, done.Epoch)
				return a.print(publishedFields(s, done), func(w *bufio.Writer) {
					fmt.Fprintf(w, "aborted: what was before is version %d\n", done.Version)
				})
			})
		},
	}
	o.flags(cmd.Flags())
	return cmd
}
