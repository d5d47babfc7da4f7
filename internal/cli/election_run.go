package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type runOptions struct {
	candidature
	elected, lost string
	signal        string
	grace         time.Duration
	restart       choice
	quiet         bool
}

func (a *app) electionRunCommand() *cobra.Command {
	o := runOptions{restart: choice{value: "never", of: []string{"never", "on-failure", "always"}}}
	cmd := &cobra.Command{
		Use:                   "run [HOST] GROUP [flags] -- COMMAND [ARG…]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command while this node leads a group",
		Long: `Stand for election in a group, run a command each time this node is elected, and stop
it when the leadership ends: the command's process group gets --signal, then is killed,
and nothing of it is left when the lease ends. A process beside it, the guard, sees to
that also when pilotgo is killed, stopped or hangs. Then pilotgo stands again.

When the command ends by itself, pilotgo resigns and ends with its exit code, 128 and
the signal's number where a signal ended it, unless --restart says to start it again.
SIGTERM and SIGINT stop the command, resign, and end with its exit code, or 0 where
none ran. Failures of pilotgo itself have the codes of 'pilotgo context' and a message
on standard error.

The command's environment has PILOTGO_GROUP, PILOTGO_TERM, PILOTGO_EPOCH (the last two
are the fencing token), PILOTGO_NODE_ID and PILOTGO_REGISTRY, so that 'pilotgo publish
$PILOTGO_REGISTRY TOPIC --as-leader' goes to the same registry, which refuses it with
exit code 13 once another term has begun. Its standard input is empty.

--on-elected is a shell command that is run, to its end and under the same lease, before
the command; when it fails, the command is not run and has failed. --on-lost is run
after the command has stopped, with PILOTGO_REASON, and for 10 s at most.

What happens is told on standard error, with --json as objects on lines of their own.`,
		Example: `  pilotgo election run registry.example.com tasks -- ./coordinator
  pilotgo election run tasks --profile wan --signal INT --grace 500ms -- python3 lead.py
  pilotgo election run tasks --restart on-failure --on-lost 'logger "lost: $PILOTGO_REASON"' -- ./lead.sh`,
		Annotations: map[string]string{"dash": "kept"},
		Args: func(_ *cobra.Command, args []string) error {
			if dash := slices.Index(args, "--"); dash >= 1 && dash <= 2 && len(args) > dash+1 {
				return nil
			}
			e := usagef("usage: pilotgo election run [HOST] GROUP -- COMMAND [ARG…]")
			e.hint = "the command to run stands behind --, with its flags"
			return e
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := slices.Index(args, "--")
			return a.runElection(cmd.Context(), o, args[:dash], args[dash+1:])
		},
	}
	f := cmd.Flags()
	o.candidature.flags(f)
	f.StringVar(&o.elected, "on-elected", "", "shell command to run before the command")
	f.StringVar(&o.lost, "on-lost", "", "shell command to run after the command has stopped")
	f.StringVar(&o.signal, "signal", "TERM", "signal that asks the command to stop")
	durationFlag(f, &o.grace, "grace", 0, "time for the command to stop before it is killed (default all that the profile has)")
	f.Var(&o.restart, "restart", "start the command again while leading: never, on-failure or always")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not tell what happens")
	return cmd
}

// terms are what the guards of this run are told.
func (o *runOptions) terms() (terms, error) {
	t := terms{Signal: o.signal, Stop: o.timing().Stop, Margin: o.timing().Stop / 5}
	most := t.Stop - t.Margin
	t.Grace = cmp.Or(o.grace, most)
	if _, err := parseSignal(o.signal); err != nil {
		return t, usagef("--signal: %v", err)
	}
	if t.Grace > most {
		e := usagef("--grace %v is more than the profile %s has: %v", o.grace, o.profile.value, most)
		e.hint = "a command must be gone when the lease ends: choose a slower --profile"
		return t, e
	}
	return t, nil
}

func (a *app) runElection(ctx context.Context, o runOptions, where, words []string) error {
	t, err := o.terms()
	if err != nil {
		return err
	}
	at, err := a.placeOf(where)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return &failure{code: protocol.ErrNotFound.Name(), message: err.Error(), exit: startFailure(err), cause: err}
	}
	if err := a.secrets(at.host, &o.connection); err != nil {
		return err
	}
	s, err := a.takeSeat(ctx, at, o.connection, o.options(at.group))
	if err != nil {
		return err
	}
	defer s.close()
	r := &runner{app: a, runOptions: o, seat: s, terms: t, words: words}
	return r.run(ctx)
}

// runner runs a command while its member leads. All but run is on the goroutine of
// the member's Run.
type runner struct {
	*app
	runOptions
	seat  *seat
	terms terms
	words []string

	waiting *time.Timer // for the first election; may be nil
	finish  func()      // ends the run soon, whatever the member does

	hook     *child // --on-lost of the term before, if there was one
	code     int    // how the command ended last
	finished bool   // by itself, and for good
}

func (r *runner) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if r.timeout > 0 {
		r.waiting = time.AfterFunc(r.timeout, func() { end(errNotElected(r.timeout)) })
		defer r.waiting.Stop()
	}
	// A member whose leadership is lost just when the command ends stands again.
	r.finish = func() { time.AfterFunc(r.timing().Lease, func() { end(nil) }) }
	err := r.seat.Run(ctx, func(term context.Context, l *election.Leadership) error {
		err := r.lead(term, l)
		if !r.finished && ctx.Err() == nil {
			r.code = 0 // it was stopped, and will run again
		}
		return err
	})
	if r.hook != nil {
		<-r.hook.exited
	}
	var never *failure
	switch {
	case errors.As(context.Cause(ctx), &never):
		return never
	case r.finished, ctx.Err() != nil: // by a signal
		return exitAs(r.code)
	}
	return err
}

func errNotElected(after time.Duration) *failure {
	return &failure{
		code: "never_elected", exit: exitNotElected, message: fmt.Sprintf("not elected within %v", after),
		hint: "see who leads: pilotgo election status",
	}
}

// lead is one leadership. When it returns, nothing runs any more that it started,
// but --on-lost.
func (r *runner) lead(ctx context.Context, l *election.Leadership) error {
	if r.finished {
		return nil
	}
	if r.waiting != nil {
		r.waiting.Stop()
	}
	if r.hook != nil {
		r.hook.stop(0)
	}
	r.tell(l, "elected", fmt.Sprintf("leads %s, term %d", r.seat.group, l.Term()))
	env := r.environment(l.Token())
	var err error
	if r.finished, err = r.work(ctx, l, env); err != nil {
		return err
	}
	why := r.whyEnded(ctx)
	r.tell(l, "ended", fmt.Sprintf("term %d is over: %s", l.Term(), why), field{key: "reason", raw: marshal(why)})
	if why == election.ReasonExpired.String() && !r.quiet {
		r.warnExpired(&r.membership)
	}
	r.startHook(append(env, "PILOTGO_REASON="+why))
	if r.finished {
		r.finish()
	}
	return nil
}

// whyEnded names the end of a leadership as far as it is known when the command
// has stopped.
func (r *runner) whyEnded(ctx context.Context) string {
	var lost *election.LostError
	switch {
	case r.finished:
		return "command ended"
	case errors.As(context.Cause(ctx), &lost):
		return lost.Reason.String()
	case ctx.Err() != nil:
		return election.ReasonWithdrawn.String()
	}
	return election.ReasonExpired.String() // the guard noticed first
}

const (
	firstRestart = 100 * time.Millisecond // doubled each time
	lastRestart  = 10 * time.Second
)

// work runs --on-elected, then the command, again if need be, and reports whether
// it has come to its own end.
func (r *runner) work(ctx context.Context, l *election.Leadership, env []string) (finished bool, err error) {
	if r.elected != "" {
		stopped, err := r.under(ctx, l, shell(r.elected), env, r.err)
		if stopped || err != nil || r.code != 0 {
			return !stopped, err
		}
	}
	for delay := firstRestart; ; delay = min(2*delay, lastRestart) {
		began := time.Now()
		stopped, err := r.under(ctx, l, r.words, env, r.stdout)
		if stopped || err != nil || !r.again() {
			return !stopped, err
		}
		if time.Since(began) > lastRestart {
			delay = firstRestart
		}
		r.tell(l, "restarting", fmt.Sprintf("the command ended with %d and is started again in %v", r.code, delay),
			field{key: "exit_code", raw: marshal(r.code)}, field{key: "after_ms", raw: marshal(delay.Milliseconds())})
		if sleep(ctx, delay) != nil {
			return false, nil
		}
	}
}

func (r *runner) again() bool {
	return r.restart.value == "always" || r.restart.value == "on-failure" && r.code != 0
}

// under runs words to their end, or stops them when the leadership ends.
func (r *runner) under(ctx context.Context, l *election.Leadership, words, env []string, stdout io.Writer) (stopped bool, err error) {
	if !l.Valid() {
		return true, nil
	}
	c, err := r.startChild(words, env, stdout, r.terms, endOf(l))
	if err != nil {
		return false, err
	}
	renewed := time.NewTicker(r.timing().Heartbeat / 2)
	defer renewed.Stop()
	for {
		select {
		case <-c.exited:
			r.code = c.code
			return !l.Valid(), nil // the guard may have noticed first
		case <-ctx.Done():
			c.stop(r.terms.Margin)
			r.code = c.code
			return true, nil
		case <-renewed.C:
			c.extend(endOf(l))
		}
	}
}

// environment is that of commands under a leadership. A token is for its own
// registry only, which is the children's default one.
func (r *runner) environment(t election.Token) []string {
	return append(os.Environ(), // of two values the last one counts
		"PILOTGO_GROUP="+r.seat.group,
		fmt.Sprintf("PILOTGO_TERM=%d", t.Term),
		"PILOTGO_EPOCH="+t.Epoch.String(),
		fmt.Sprintf("PILOTGO_NODE_ID=%d", r.seat.client.Self().Node),
		"PILOTGO_REGISTRY="+r.seat.host.addr,
		"PILOTGO_TOKEN="+r.token,
		"PILOTGO_REGISTRY_KEY="+r.key,
	)
}

func shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/C", line}
	}
	return []string{"/bin/sh", "-c", line}
}

// hookPatience is how long --on-lost may take.
const hookPatience = 10 * time.Second

// startHook starts --on-lost, which needs no lease but has an end all the same.
func (r *runner) startHook(env []string) {
	if r.lost == "" {
		return
	}
	t := terms{Signal: "TERM", Stop: time.Second, Grace: time.Second}
	c, err := r.startChild(shell(r.lost), env, r.err, t, clock()+reading(hookPatience))
	if err != nil {
		r.warn("hook_failed", "--on-lost: "+err.Error())
		return
	}
	r.hook = c
}

// exitStatus ends this process as a command ended.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func exitAs(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}

// tell says what happens, on standard error: standard output is the command's.
func (r *runner) tell(l *election.Leadership, event, text string, more ...field) {
	switch {
	case r.quiet:
	case r.json:
		o := new(object).set("event", event).set("group", r.seat.group).set("node_id", r.seat.client.Self().Node).
			set("term", l.Term()).set("epoch", l.Token().Epoch.String())
		o.fields = append(o.fields, more...)
		w := bufio.NewWriter(r.err)
		writeLine(w, o.set("at", milliStamp(time.Now())))
		w.Flush()
	default:
		fmt.Fprintf(r.err, "pilotgo: %s\n", text)
	}
}
