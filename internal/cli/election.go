package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) electionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "election",
		Short: "Elect one leader of a group, and run a command where it leads",
		Long: `Elect one leader of a group of agents. A group is a topic, election:GROUP, on a
registry host; its members are the agents that campaign there. HOST may be left
out where PILOTGO_REGISTRY, or pilotgo config --set registry=HOST, names one.

All members of a group must use the same --profile.`,
		Example: `  pilotgo election run localhost tasks -- ./coordinator
  pilotgo election watch localhost tasks`,
		Annotations: map[string]string{"exit": newKind["exit"], "group": "only"},
		Args:        needsCommand,
		RunE:        func(*cobra.Command, []string) error { return nil },
	}
	for _, c := range []*cobra.Command{
		a.electionRunCommand(), a.electionCampaignCommand(), a.electionWatchCommand(), a.electionStatusCommand(),
		a.electionResignCommand(), a.electionResetCommand(), a.electionGuardCommand(),
	} {
		if c.Annotations == nil {
			c.Annotations = make(map[string]string)
		}
		c.Annotations["exit"] = newKind["exit"]
		cmd.AddCommand(c)
	}
	return cmd
}

// membership is what the commands that look into a group let one say about it.
type membership struct {
	connection
	profile choice
	plain   choice
}

var profiles = map[string]election.Timing{
	"lan": election.LAN, "wan": election.WAN, "flaky": election.Flaky, "mixed": election.Mixed,
}

var plainPolicies = map[string]election.PlainPolicy{
	"follow": election.PlainFollow, "ignore": election.PlainIgnore, "trust": election.PlainTrust,
}

func (o *membership) flags(f *pflag.FlagSet) {
	o.connection.flags(f, 0)
	o.profile = choice{value: "lan", of: []string{"lan", "wan", "flaky", "mixed"}}
	o.plain = choice{value: "follow", of: []string{"follow", "ignore", "trust"}}
	f.Var(&o.profile, "profile", "timings of the group: lan, wan, flaky, or mixed where scripts take part")
	f.Var(&o.plain, "plain", "what the messages of scripts count for: follow, ignore or trust")
}

func (o *membership) timing() election.Timing { return profiles[o.profile.value] }

// roomOf is how long a publish may take with two heartbeats of a profile late
// already, before work is told to stop.
func roomOf(t election.Timing) time.Duration { return t.Lease - t.Stop - 2*t.Heartbeat }

// warnExpired tells what to do about a lease that ended unrenewed.
func (a *app) warnExpired(o *membership) {
	t := o.timing()
	a.warn("lease_expired", fmt.Sprintf(
		"no heartbeat has passed within %v: the registry cannot be reached, or it, its disk or this machine is too busy for --profile %s, "+
			"which has room for publishes of %v; 'pilotgo registry bench' tells what fits", t.Lease-t.Stop, o.profile.value, roomOf(t)))
}

func (o *membership) options(group string) election.Options {
	return election.Options{Group: group, Timing: o.timing(), Plain: plainPolicies[o.plain.value]}
}

// candidature is what those let one say that stand for election.
type candidature struct {
	membership
	priority int64
	preempt  preemption
	timeout  time.Duration
}

func (o *candidature) flags(f *pflag.FlagSet) {
	o.membership.flags(f)
	f.Int64Var(&o.priority, "priority", 0, "the higher candidate is preferred; 0 is the cksum of the node id, as in the recipe")
	f.Var(&o.preempt, "preempt", "whether a leader gives way to a higher candidate: never, always, or once it has led for a duration")
	durationFlag(f, &o.timeout, "timeout", 0, "give up when not elected for so long; 0 is never")
}

func (o *candidature) options(group string) election.Options {
	e := o.membership.options(group)
	e.Priority, e.Preempt = o.priority, election.Preemption(o.preempt)
	return e
}

// seat is a member in its group, with what it was made of.
type seat struct {
	*election.Member
	client *client.Client
	host   host
	group  string
}

// takeSeat connects to a host and joins a group there.
func (a *app) takeSeat(ctx context.Context, at place, c connection, o election.Options) (*seat, error) {
	o.Logger = a.logger()
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	conn, err := a.dial(ctx, at.host, c, attentive(o.Timing))
	if err != nil {
		return nil, err
	}
	a.tellBarred(conn)
	m, err := election.Join(ctx, conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &seat{m, conn, at.host, at.group}, nil
}

// attentive makes a connection notice sooner that the registry is gone: a group
// can elect nobody meanwhile.
func attentive(t election.Timing) func(*client.Options) {
	return func(o *client.Options) {
		o.KeepAlive = min(max(t.Silence, time.Second), 5*time.Second)
		o.Idle = 3 * o.KeepAlive
	}
}

func (s *seat) close() {
	s.Member.Close()
	s.client.Close()
}

// place is a group on a host.
type place struct {
	host  host
	group string
}

func (p place) topic() string { return election.TopicPrefix + p.group }

// placeOf reads [HOST] GROUP.
func (a *app) placeOf(words []string) (place, error) {
	word, group := "", words[len(words)-1]
	if len(words) > 1 {
		word = words[0]
	}
	p := place{group: group}
	if group == "" {
		return p, usagef("the group has no name")
	}
	if err := protocol.ValidTopic(p.topic()); err != nil {
		return p, fmt.Errorf("group %q: %w", group, err)
	}
	var err error
	p.host, err = a.chosen(word)
	return p, err
}

// choice is a flag that takes one of several words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return usagef("it is one of %s", strings.Join(c.of, ", "))
	}
	c.value = s
	return nil
}

// preemption is a flag: never, always, or after a duration.
type preemption election.Preemption

func (p *preemption) Type() string { return "never, always or duration" }

func (p *preemption) String() string {
	switch {
	case !p.Allowed:
		return "never"
	case p.After == 0:
		return "always"
	}
	return p.After.String()
}

func (p *preemption) Set(s string) error {
	switch s {
	case "never":
		*p = preemption{}
		return nil
	case "always":
		*p = preemption{Allowed: true}
		return nil
	}
	d, err := parseDuration(s)
	*p = preemption{Allowed: true, After: d}
	return err
}

// writeLine writes an object of a stream.
func writeLine(w *bufio.Writer, o *object) {
	writeFields(w, o.fields)
	w.WriteByte('\n')
}
