package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type configFollowOptions struct {
	connection
	validation
	file   config.FileOptions
	mode   fileMode
	exec   string
	limit  time.Duration // of exec
	health healthOptions
	follow config.FollowOptions
}

type healthOptions struct {
	command           string
	tries             int
	interval, timeout time.Duration
}

func (a *app) configFollowCommand() *cobra.Command {
	var o configFollowOptions
	cmd := &cobra.Command{
		Use:   "follow SWARM --out FILE",
		Short: "Keep a file at a swarm's configuration, and report",
		Long: `Keep a file at the swarm's configuration until stopped: each version is validated, put in
the place of the one before as a whole, or not at all, and reported. It is the agent of the
swarm-config recipe; --out is the recipe's file by default, and the version stands in a
file beside it.

A version that a validator refuses changes nothing. After the file has changed --exec is
run, then --health until it succeeds; when either fails, the version before is put back,
reported as failed, and the new one is tried again later. Both are shell commands, with
PILOTGO_FILE, PILOTGO_VERSION, PILOTGO_DIGEST and PILOTGO_SWARM, and the document on
standard input. The last they write to standard error is reported: no secrets there.

A registry that cannot be reached, or has lost its log, takes nothing away. The version
is never given up for a lower one, unless somebody rolls back on this machine as the
recipe does, by writing the two files: then the agent stays there, pinned, until it is
started with --unpin.

What happens is printed, a line each: following, announced, applied, rolled back, rejected, failed,
superseded, held (a rollout has not come here), pinned, unpinned, registry behind, new
epoch, gap; with --json as objects, and _ for a space in the event. It ends with 0 on
SIGINT or SIGTERM, with 10 or 11 where the registry is not reached within --timeout at the
start (a service says --timeout 0), and with 12 where another process keeps the file.`,
		Example: `  pilotgo config follow worker-pool --out /etc/worker/config.json --schema schema.json
  pilotgo config follow worker-pool --out config.json --exec 'systemctl reload worker' --health 'curl -fsS localhost:8080/healthz'
  pilotgo --json config follow worker-pool --label zone=a | jq -c 'select(.event == "applied")'`,
		Args: arguments(1, 1, "pilotgo config follow SWARM --out FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.followConfig(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	swarmOptions(f, &o.connection, 0)
	durationFlag(f, &o.timeout, "timeout", connectPatience, "how long to wait for the registry at the start; 0 is for ever")
	f.StringVar(&o.file.Target, "out", config.DefaultTarget(), "the file to keep")
	f.StringVar(&o.file.VersionFile, "version-file", "", "file for the version; - is none (default beside --out: NAME-version.txt)")
	f.StringVar(&o.file.State, "state", "", "the agent's own file, which has the truth (default below $PILOT_HOME)")
	f.Var(&o.mode, "mode", "mode of files that are new, such as 0640 (default 0644)")
	o.validation.flags(f)
	f.StringVar(&o.exec, "exec", "", "shell command to run after the file has changed")
	durationFlag(f, &o.limit, "exec-timeout", 30*time.Second, "how long --exec may take")
	f.StringVar(&o.health.command, "health", "", "shell command that tells whether the version does well")
	f.IntVar(&o.health.tries, "health-tries", 5, "how often --health is tried")
	durationFlag(f, &o.health.interval, "health-interval", time.Second, "time between two tries of --health")
	durationFlag(f, &o.health.timeout, "health-timeout", 5*time.Second, "how long a try of --health may take")
	f.StringVar(&o.follow.Agent, "agent", "", "name in reports (default the node id)")
	f.StringToStringVar(&o.follow.Labels, "label", nil, "label in reports, for rollouts: NAME=VALUE; may be given many times")
	durationFlag(f, &o.follow.ReportEvery, "report-every", time.Minute, "how often to report when nothing changes")
	f.BoolVar(&o.follow.NoReport, "no-report", false, "report nothing")
	f.BoolVar(&o.follow.Unpin, "unpin", false, "end the hold of a local rollback")
	return cmd
}

// complete makes options of the flags; nothing is done yet.
func (o *configFollowOptions) complete(name string) (err error) {
	if o.follow.Validators, err = o.validators(name); err != nil {
		return err
	}
	if o.follow.ReportEvery < time.Second {
		return usagef("--report-every is at least 1s; --no-report reports nothing")
	}
	if o.health.tries < 1 {
		return usagef("--health-tries is at least 1")
	}
	o.file.Swarm, o.file.Mode = name, fs.FileMode(o.mode)
	if o.exec != "" {
		after := shellExec(o.exec, name)
		after.Timeout = o.limit
		o.file.After = &after
	}
	if h := o.health; h.command != "" {
		check := shellExec(h.command, name)
		o.file.Health = &config.Health{Exec: &check, Tries: h.tries, Interval: h.interval, Timeout: h.timeout}
	}
	return nil
}

func (a *app) followConfig(ctx context.Context, o configFollowOptions, name string) error {
	if err := o.complete(name); err != nil {
		return err
	}
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	g := &following{app: a, name: name, end: end, digests: make(map[uint64]config.Digest)}
	o.file.Retained, o.file.Logger = g.retained, a.logger()
	file, err := config.OpenFile(o.file)
	if err != nil {
		return err
	}
	defer file.Close()
	if err = g.run(ctx, file, o); err != nil && ctx.Err() != nil {
		return streamEnd(causeOf(ctx))
	}
	return err
}

// redial is how often a registry is tried that cannot be reached.
const redial = time.Second

// awaitSwarm is openSwarm for an agent, which may be there before its registry is.
func (a *app) awaitSwarm(ctx context.Context, o connection, name string) (*swarm, error) {
	within, cancel := bounded(ctx, o.timeout)
	defer cancel()
	for told := false; ; told = true {
		s, err := a.openSwarm(within, o, name)
		code := protocol.CodeOf(err)
		switch {
		case err == nil, code != protocol.ErrNotConnected && code != protocol.ErrDraining:
			return s, err
		case !told:
			a.warn(code.Name(), "waiting for the registry: "+err.Error())
		}
		if sleep(within, redial) != nil {
			return nil, err
		}
	}
}

// causeOf is why a context has ended: what was given as its cause, or by whom it
// ends.
func causeOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return ended(ctx)
}

// following prints what happens to an agent.
type following struct {
	*app
	name  string
	swarm *swarm // nil before there is a connection
	end   context.CancelCauseFunc

	mu      sync.Mutex // guards digests
	digests map[uint64]config.Digest
}

func (g *following) run(ctx context.Context, file *config.File, o configFollowOptions) error {
	begun, err := g.begin(ctx, file)
	if err != nil {
		return err
	}
	if g.swarm, err = g.awaitSwarm(ctx, o.connection, g.name); err != nil {
		return err
	}
	defer g.swarm.close()
	g.adopt(ctx)
	if !begun {
		if _, err := g.begin(ctx, file); err != nil {
			return err
		}
	}
	o.follow.Validators = append([]config.Validator{config.ValidatorFunc(g.noted)}, o.follow.Validators...)
	o.follow.Notify = func(c config.Change) { g.tell(ctx, c) }
	return g.swarm.Follow(ctx, file, o.follow)
}

// begin finishes what a crash interrupted, and tells what the agent has, before it
// knows what the registry has. It reports false where only the registry can tell
// whether somebody has rolled back here.
func (g *following) begin(ctx context.Context, file *config.File) (bool, error) {
	now, err := file.Current(ctx)
	if errors.Is(err, protocol.ErrNotConnected) && g.swarm == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	g.digests[now.Version] = now.Digest
	reason := ""
	if now.Version == 0 {
		reason = "nothing is applied yet"
	}
	return true, g.print("following", now.Version, reason)
}

func (g *following) retained(ctx context.Context, version uint64) (*config.Document, error) {
	if g.swarm == nil {
		return nil, protocol.ErrNotConnected
	}
	return g.swarm.Get(ctx, version)
}

// adopt puts the swarm into this node's inbox: what the recipe does by hand reads
// it there. A new log has to be told again.
func (g *following) adopt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	f, err := g.swarm.client.Fence(ctx, config.Topic(g.name))
	if err == nil {
		g.app.adopt(ctx, g.swarm, f.Epoch.ID)
	}
}

// noted remembers the digest of each version that is looked at, and refuses none.
func (g *following) noted(_ context.Context, d *config.Document) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.digests) > 64 {
		clear(g.digests)
	}
	g.digests[d.Version] = d.Digest
	return nil
}

func (g *following) digest(version uint64) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.digests[version].String()
}

func (g *following) tell(ctx context.Context, c config.Change) {
	if c.Kind == config.ChangeEpoch {
		g.adopt(ctx)
	}
	if err := g.print(eventName(c.Kind), c.Version, c.Reason); err != nil {
		g.end(err)
	}
}

func (g *following) print(event string, version uint64, reason string) error {
	now := milliStamp(time.Now())
	if g.json {
		writeLine(g.out, new(object).set("event", event).set("swarm", g.name).
			set("version", version).set("digest", g.digest(version)).set("reason", reason).set("at", now))
		return g.flush()
	}
	fmt.Fprintf(g.out, "%s  %-15s  version %d", now, strings.ReplaceAll(event, "_", " "), version)
	if reason != "" {
		fmt.Fprintf(g.out, ": %s", shown(reason, g.terminal))
	}
	g.out.WriteByte('\n')
	return g.flush()
}

// fileMode is a flag: permission bits in octal.
type fileMode fs.FileMode

func (m *fileMode) Type() string { return "mode" }

func (m *fileMode) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%#o", uint32(*m))
}

func (m *fileMode) Set(s string) error {
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v == 0 || v > 0o777 {
		return usagef("%q is no mode such as 0640", s)
	}
	*m = fileMode(v)
	return nil
}

// labelText is a set of labels for people.
func labelText(labels map[string]string) string {
	var words []string
	for name, value := range maps.All(labels) {
		words = append(words, name+"="+value)
	}
	return strings.Join(sorted(words), ",")
}
