package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// measuring is what the commands that count agents let one say.
type measuring struct {
	members    nodes
	relays     nodes
	staleAfter time.Duration
	version    uint64
}

func (o *measuring) flags(f *pflag.FlagSet) {
	f.Uint64Var(&o.version, "version", 0, "the version; 0 is the latest")
	f.Var(&o.members, "members", "node ids of those who should run it (default all who report)")
	f.Var(&o.relays, "relays", "node ids of those who may report for others")
	durationFlag(f, &o.staleAfter, "stale-after", 0, "how old a report may be (default three times as old as the agent says it reports)")
}

func (o *measuring) options() config.ComplianceOptions {
	return config.ComplianceOptions{Version: o.version, Members: o.members, Relays: o.relays, StaleAfter: o.staleAfter}
}

type configStatusOptions struct {
	connection
	measuring
	min share
}

func (a *app) configStatusCommand() *cobra.Command {
	var o configStatusOptions
	cmd := &cobra.Command{
		Use:   "status SWARM",
		Short: "Show how far the agents of a swarm are with a version",
		Long: `Show of each agent how far it is with the latest version, or the one of --version:

  applied   it runs the version
  rejected  it refused the version, and why; it runs what it ran before
  failed    it could not apply the version, and why; it will try again
  pending   nothing is known of the version there yet, or the agent is pinned or held
  stale     it has not reported for long: it may run anything, or not run at all

An agent is who the registry proved to have sent the report; its name is only a label.
Of several reports the newest counts. Scripts of the recipe count too; they report once
for each version, so they are stale only with --stale-after. With --min the exit code
is 17 when a smaller share of the agents runs the version. A swarm without any version
that no agent reports in is "not_found", with exit code 1.`,
		Example: `  pilotgo config status worker-pool
  pilotgo config status worker-pool --min 95%
  pilotgo --json config status worker-pool | jq '.agents[] | select(.state != "applied")'`,
		Args: arguments(1, 1, "pilotgo config status SWARM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				c, err := s.Compliance(ctx, o.measuring.options())
				if err != nil {
					return err
				}
				if c.Version == 0 && len(c.Agents)+len(c.Unknown) == 0 && s.unknown(ctx) {
					return unknownSwarm(ctx, s)
				}
				if err := a.printCompliance(s.Name(), c); err != nil {
					return err
				}
				if o.min > 0 && c.Share < float64(o.min) {
					return below(c, float64(o.min), "")
				}
				return nil
			})
		},
	}
	swarmOptions(cmd.Flags(), &o.connection, connectPatience)
	o.measuring.flags(cmd.Flags())
	cmd.Flags().Var(&o.min, "min", "exit with 17 when a smaller share runs it, such as 95%")
	return cmd
}

// below is the error of too small a share.
func below(c config.Compliance, least float64, after string) *failure {
	return &failure{
		code: codeThreshold, exit: exitThreshold,
		message: fmt.Sprintf("%s run version %d%s, not %s", shareText(c), c.Version, after, percent(least)),
		hint:    "see which agents do not, and why: pilotgo config status",
	}
}

func shareText(c config.Compliance) string {
	return fmt.Sprintf("%d of %d agents (%s)", c.Counts[config.StateApplied], len(c.Agents), percentOf(c.Share, len(c.Agents)))
}

// agentShown is an agent in machine output.
type agentShown struct {
	Node           protocol.NodeID   `json:"node_id"`
	Address        string            `json:"address"`
	Agent          string            `json:"agent"`
	State          string            `json:"state"`
	AppliedVersion uint64            `json:"applied_version"`
	Digest         string            `json:"digest"`
	Version        uint64            `json:"version"`
	Error          string            `json:"error"`
	Pinned         bool              `json:"pinned"`
	Held           bool              `json:"held"`
	Behind         bool              `json:"behind"`
	Labels         map[string]string `json:"labels"`
	Script         bool              `json:"script"`
	ReportedAt     *string           `json:"reported_at"` // null: never
	AgeMS          *int64            `json:"age_ms"`
}

func showAgent(s config.AgentStatus) agentShown {
	shown := agentShown{
		Node: s.Node, Address: s.Node.Address(), Agent: s.Agent, State: string(s.State), AppliedVersion: s.AppliedVersion,
		Digest: s.Digest.String(), Version: s.Version, Error: s.Error, Pinned: s.Pinned, Held: s.Held, Behind: s.Behind,
		Labels: s.Labels, Script: s.Script,
	}
	if shown.Labels == nil {
		shown.Labels = map[string]string{}
	}
	if !s.ReportedAt.IsZero() {
		at, age := milliStamp(s.ReportedAt), s.Age.Milliseconds()
		shown.ReportedAt, shown.AgeMS = &at, &age
	}
	return shown
}

func complianceFields(name string, c config.Compliance) *object {
	list := func(agents []config.AgentStatus) []agentShown {
		rows := []agentShown{}
		for _, s := range agents {
			rows = append(rows, showAgent(s))
		}
		return rows
	}
	counts := make(map[config.AgentState]int)
	for _, state := range states {
		counts[state] = c.Counts[state]
	}
	return new(object).set("swarm", name).set("version", c.Version).set("digest", c.Digest.String()).
		set("share", c.Share).set("counts", counts).set("agents", list(c.Agents)).set("unknown", list(c.Unknown)).
		set("void", c.Void).listing("agents")
}

// states of agents, the worst first.
var states = []config.AgentState{
	config.StateRejected, config.StateFailed, config.StateStale, config.StatePending, config.StateApplied,
}

func (a *app) printCompliance(name string, c config.Compliance) error {
	return a.print(complianceFields(name, c), func(w *bufio.Writer) { a.writeCompliance(w, name, c) })
}

func (a *app) writeCompliance(w *bufio.Writer, name string, c config.Compliance) {
	if c.Version == 0 {
		fmt.Fprintf(w, "swarm %s has no version\n", name)
	} else {
		fmt.Fprintf(w, "%s run version %d of %s\n", shareText(c), c.Version, name)
	}
	if len(c.Agents) > 0 {
		columns(w, a.agentRows(c.Agents))
	}
	if len(c.Unknown) > 0 {
		fmt.Fprintln(w, "\nothers that report:")
		columns(w, a.agentRows(c.Unknown))
	}
	if c.Void > 0 {
		fmt.Fprintf(w, "\n%d messages were no reports\n", c.Void)
	}
}

func (a *app) agentRows(list []config.AgentStatus) [][]string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b config.AgentStatus) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	})
	rows := [][]string{{"NODE", "AGENT", "STATE", "APPLIED", "AGE", "LABELS", "REMARK"}}
	for _, s := range list {
		age, applied := "never", "none"
		if !s.ReportedAt.IsZero() {
			age = s.Age.Round(time.Second).String()
		}
		if s.AppliedVersion != 0 {
			applied = fmt.Sprint(s.AppliedVersion)
		}
		name := s.Agent
		if name == s.Node.String() {
			name = ""
		}
		rows = append(rows, []string{
			s.Node.String(), or(shown(name, a.terminal), "-"), string(s.State), applied, age,
			or(shown(labelText(s.Labels), a.terminal), "-"), shown(agentRemark(s), a.terminal),
		})
	}
	return rows
}

func agentRemark(s config.AgentStatus) string {
	var words []string
	for word, is := range maps.All(map[string]bool{"pinned": s.Pinned, "held": s.Held, "registry behind": s.Behind, "script": s.Script}) {
		if is {
			words = append(words, word)
		}
	}
	words = sorted(words)
	if s.Error != "" {
		words = append(words, s.Error)
	}
	return joined(words)
}

func joined(words []string) string { return strings.Join(words, ", ") }

type configWaitOptions struct {
	connection
	measuring
	share share
}

func (a *app) configWaitCommand() *cobra.Command {
	o := configWaitOptions{share: 1}
	cmd := &cobra.Command{
		Use:   "wait SWARM",
		Short: "Wait until enough agents of a swarm run a version",
		Long: `Wait until a share of the agents runs the latest version, or the one of --version. At
--timeout the exit code is 17, and 11 where the registry gave no answer at all; it is 12
when a higher version is published meanwhile.`,
		Example: `  pilotgo config publish worker-pool -f config.json && pilotgo config wait worker-pool --share 95% --timeout 2m
  pilotgo --json config wait worker-pool --version 1764500000 | jq .counts`,
		Args: arguments(1, 1, "pilotgo config wait SWARM [--version V] [--share 95%]"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.waitConfig(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	swarmOptions(f, &o.connection, 0)
	durationFlag(f, &o.timeout, "timeout", 5*time.Minute, "how long to wait; 0 is for ever")
	o.measuring.flags(f)
	f.Var(&o.share, "share", "the share of the agents that is enough")
	return cmd
}

func (a *app) waitConfig(ctx context.Context, o configWaitOptions, name string) error {
	if o.share == 0 {
		return usagef("--share is above 0")
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	at := o.connection
	at.timeout = connectPatience // an hour of waiting is for agents
	s, err := a.openStream(ctx, at, name)
	if err != nil {
		return err
	}
	defer s.close()
	clear := a.showProgress(ctx, s, o)
	c, err := s.WaitFor(ctx, o.version, float64(o.share), o.measuring.options())
	clear()
	if errors.Is(err, context.DeadlineExceeded) && c.Version != 0 {
		return below(c, float64(o.share), fmt.Sprintf(" after %v", o.timeout))
	}
	if err != nil {
		return s.named(ctx, err)
	}
	return a.print(complianceFields(name, c), func(w *bufio.Writer) {
		fmt.Fprintf(w, "%s run version %d of %s\n", shareText(c), c.Version, name)
	})
}

// progressEvery is how often the bar is drawn.
const progressEvery = 500 * time.Millisecond

// showProgress draws a bar for people who wait, until it is called back.
func (a *app) showProgress(ctx context.Context, s *swarm, o configWaitOptions) (clear func()) {
	if a.json || !isTerminal(a.err) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, progressEvery) == nil {
			if c, err := s.Compliance(ctx, o.measuring.options()); err == nil {
				fmt.Fprint(a.err, "\r"+bar(c, float64(o.share))+"\x1b[K")
			}
		}
	}()
	return func() {
		cancel()
		<-done
		io.WriteString(a.err, "\r\x1b[K")
	}
}

// barWidth is how many characters all agents are.
const barWidth = 30

// bar shows who runs the version, with a mark at the share that is enough.
func bar(c config.Compliance, enough float64) string {
	b := []byte(strings.Repeat("#", int(c.Share*barWidth)) + strings.Repeat(".", barWidth-int(c.Share*barWidth)))
	if at := int(enough * barWidth); at < barWidth && b[at] == '.' {
		b[at] = '|'
	}
	text := fmt.Sprintf("[%s] %s run version %d", b, shareText(c), c.Version)
	if n := c.Counts[config.StateRejected] + c.Counts[config.StateFailed]; n > 0 {
		text += fmt.Sprintf(", %d do not get it applied", n)
	}
	return text
}
