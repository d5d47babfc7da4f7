package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addSwarmCommands puts the commands for swarms below pilotctl's `config`, which
// goes on as it is.
func (a *app) addSwarmCommands(parent *cobra.Command) {
	parent.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd != parent && parent.Flags().Changed("set") {
			return usagef("--set is of 'pilotgo config' alone, not of its %s", cmd.Name())
		}
		return nil
	}
	for _, c := range []*cobra.Command{
		a.configPublishCommand(), a.configGetCommand(), a.configHistoryCommand(), a.configDiffCommand(),
		a.configRollbackCommand(), a.configWatchCommand(), a.configFollowCommand(), a.configValidateCommand(),
		a.configStatusCommand(), a.configWaitCommand(), a.configRolloutCommand(), a.configResetCommand(),
	} {
		if c.Annotations == nil {
			c.Annotations = newKind
		}
		if !c.HasSubCommands() {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		parent.AddCommand(c)
	}
}

// swarmOptions are the flags of a command that asks a registry about a swarm.
func swarmOptions(f *pflag.FlagSet, o *connection, patience time.Duration) {
	o.hostFlag(f)
	o.flags(f, patience)
}

// swarm is a swarm with the connection it is read over.
type swarm struct {
	*config.Swarm
	client *client.Client
	host   host
}

func (s *swarm) close() { s.client.Close() }

// openSwarm connects to the host that o names; ctx bounds that.
func (a *app) openSwarm(ctx context.Context, o connection, name string, tune ...func(*client.Options)) (*swarm, error) {
	if err := config.ValidName(name); err != nil {
		return nil, err
	}
	h, err := a.chosen(o.host)
	if err != nil {
		return nil, err
	}
	c, err := a.dial(ctx, h, o, tune...)
	if err != nil {
		return nil, err
	}
	s, err := config.Open(ctx, c, name, config.Options{Logger: a.logger()})
	if err != nil {
		c.Close()
		return nil, err
	}
	return &swarm{s, c, h}, nil
}

// openStream is openSwarm for commands that go on for long: only the opening has a
// bound.
func (a *app) openStream(ctx context.Context, o connection, name string, tune ...func(*client.Options)) (*swarm, error) {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	s, err := a.openSwarm(ctx, o, name, tune...)
	if err == nil {
		a.tellBarred(s.client)
	}
	return s, err
}

// onSwarm runs a command about a swarm within its --timeout.
func (a *app) onSwarm(ctx context.Context, o connection, name string, do func(context.Context, *swarm) error) error {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	s, err := a.openSwarm(ctx, o, name)
	if err != nil {
		return err
	}
	defer s.close()
	return s.named(ctx, do(ctx, s))
}

// named makes of an error that something was not found one about the swarm's name,
// where it has nothing at all.
func (s *swarm) named(ctx context.Context, err error) error {
	if errors.Is(err, protocol.ErrNotFound) && s.unknown(ctx) {
		return unknownSwarm(ctx, s)
	}
	return err
}

// unknown reports whether nobody has ever published a version, as far as the
// registry knows.
func (s *swarm) unknown(ctx context.Context) bool {
	f, err := s.client.Fence(ctx, config.Topic(s.Name()))
	if err != nil || f.K != 0 {
		return false
	}
	for _, err := range s.History(ctx, config.HistoryOptions{Limit: 1}) {
		return errors.Is(err, protocol.ErrNotFound)
	}
	return true
}

// unknownSwarm is the error of a swarm without any version: its name may be another.
func unknownSwarm(ctx context.Context, s *swarm) error {
	return &failure{
		code: protocol.ErrNotFound.Name(), exit: exitError,
		message: fmt.Sprintf("config %q: no version was published", s.Name()),
		hint:    meant(s.Name(), "swarms", swarmsOf(ctx, s.client), "to publish the first: pilotgo config publish "+s.Name()+" -f FILE"),
	}
}

// adopt puts the swarm's topics into this node's inbox, as the recipe's publish and
// subscribe do: its other commands read them there.
func (a *app) adopt(ctx context.Context, s *swarm, epoch protocol.EpochID) {
	topic := config.Topic(s.Name())
	if err := s.client.Join(ctx, topic); err != nil {
		a.unnoted(s.host, err)
		return
	}
	a.used(ctx, s.client, s.host, epoch, topic)
}

// swarmFailure makes a failure of the errors that package config has beside codes.
func swarmFailure(f *failure, err error) {
	var invalid *config.InvalidError
	var sick *config.UnhealthyError
	var file *config.FileError
	switch {
	case errors.As(err, &invalid):
		f.code, f.exit = protocol.ErrInvalid.Name(), exitInvalid
	case errors.As(err, &sick):
		f.code, f.exit = codeThreshold, exitThreshold
	case errors.As(err, &file) && f.exit == exitRefused:
		f.exit = exitError // a file of this machine, not the registry
	}
}

// codeThreshold is the code of what is below a threshold.
const codeThreshold = "below_threshold"

// invalidDocument is err where it is about a document, and not about the command
// line.
func invalidDocument(err error) error {
	if err == nil || protocol.CodeOf(err) != protocol.ErrInvalid {
		return err
	}
	f := describe(err)
	f.exit = exitInvalid
	return f
}

// validation is what the commands that judge documents let one say.
type validation struct {
	schema   string
	require  []string
	commands []string
}

func (v *validation) flags(f *pflag.FlagSet) {
	f.StringVar(&v.schema, "schema", "", "JSON Schema (2020-12) that the document must match")
	f.StringArrayVar(&v.require, "require", nil, "JSON Pointer that must lead to a value, such as /max_workers; may be given many times")
	f.StringArrayVar(&v.commands, "validate", nil, "shell command that gets the document on standard input and refuses it by its exit code; may be given many times")
}

// validators are ready for use: what is wrong with them is found before anything
// is done. The cheap ones come first.
func (v *validation) validators(swarm string) ([]config.Validator, error) {
	var list []config.Validator
	if len(v.require) > 0 {
		r, err := config.RequirePaths(v.require...)
		if err != nil {
			return nil, fmt.Errorf("--require: %w", err)
		}
		list = append(list, r)
	}
	if v.schema != "" {
		s := &config.Schema{File: v.schema}
		if err := s.Compile(); err != nil {
			return nil, fmt.Errorf("--schema: %w", err)
		}
		list = append(list, s)
	}
	for _, line := range v.commands {
		list = append(list, shellExec(line, swarm))
	}
	return list, nil
}

// shellExec is a line for the shell.
func shellExec(line, swarm string) config.Exec {
	words := shell(line)
	return config.Exec{Command: words[0], Args: words[1:], Swarm: swarm}
}

// fencedConn lends the fence of a term that another process leads in.
type fencedConn struct {
	client.Conn
	fences []protocol.Condition
}

// Publish adds the fence.
func (f fencedConn) Publish(ctx context.Context, p client.Publication) client.Pending {
	p.Conditions = append(slices.Clone(p.Conditions), f.fences...)
	return f.Conn.Publish(ctx, p)
}

// Done is never closed: only the registry knows when the term is over.
func (fencedConn) Done() <-chan struct{} { return nil }

// leadership is nil where no fence was asked for.
func (o *fencing) leadership(c client.Conn) (config.Leadership, error) {
	fences, err := o.conditions()
	if err != nil || len(fences) == 0 {
		return nil, err
	}
	return fencedConn{c, fences}, nil
}

// expectation is a flag: a version, or none.
type expectation uint64

func (e *expectation) Type() string { return "version or none" }

func (e *expectation) String() string {
	switch uint64(*e) {
	case 0:
		return ""
	case config.None:
		return "none"
	}
	return strconv.FormatUint(uint64(*e), 10)
}

// Set takes 0 for none: it is what scripts have that found no version.
func (e *expectation) Set(s string) error {
	if s == "none" || s == "0" {
		*e = expectation(config.None)
		return nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v > protocol.MaxTerm {
		return usagef("%q is no version", s)
	}
	*e = expectation(v)
	return nil
}

// share is a flag: 95% or 0.95.
type share float64

func (s *share) Type() string { return "share" }

func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return percent(float64(*s))
}

func (s *share) Set(text string) error {
	v, err := parseShare(text)
	*s = share(v)
	return err
}

func parseShare(text string) (float64, error) {
	number, hundredths := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if hundredths {
		v /= 100
	}
	if err == nil && v >= 0 && v <= 1 {
		return v, nil
	}
	e := usagef("%q is no share", text)
	e.hint = "a share is written as 95% or as 0.95"
	if err == nil && !hundredths && v <= 100 {
		// Not taken for it: 1 is all of them, so 2 must not be two of a hundred.
		e.hint = fmt.Sprintf("did you mean %s%%? %s", number, e.hint)
	}
	return 0, e
}

// percent is a share for people, rounded down: what is not all never shows as 100%.
func percent(v float64) string { return percentOf(v, 1000) }

// percentOf is percent with no more digits than a count among so many has.
func percentOf(v float64, among int) string {
	digits := 0
	for steps := 100; steps < among && digits < 2; steps *= 10 {
		digits++
	}
	scale := math.Pow10(digits)
	return strconv.FormatFloat(math.Floor(v*100*scale+1e-7)/scale, 'f', -1, 64) + "%"
}

// shares is a flag: shares with commas between.
type shares []float64

func (s *shares) Type() string { return "shares" }

func (s *shares) String() string {
	var words []string
	for _, v := range *s {
		words = append(words, percent(v))
	}
	return strings.Join(words, ",")
}

func (s *shares) Set(text string) error {
	*s = nil
	for word := range strings.SplitSeq(text, ",") {
		v, err := parseShare(word)
		if err != nil {
			return err
		}
		*s = append(*s, v)
	}
	return nil
}

// nodes is a flag: node ids with commas between, or given many times.
type nodes []protocol.NodeID

func (n *nodes) Type() string { return "node ids" }

func (n *nodes) String() string {
	var words []string
	for _, id := range *n {
		words = append(words, id.String())
	}
	return strings.Join(words, ",")
}

func (n *nodes) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		id, err := protocol.ParseNodeID(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		*n = append(*n, id)
	}
	return nil
}

// versionArgument reads a version as an argument.
func versionArgument(word string) (uint64, error) {
	v, err := strconv.ParseUint(word, 10, 64)
	if err != nil || v < 1 || v > protocol.MaxTerm {
		return 0, usagef("%q is no version: an integer from 1 to %d", word, uint64(protocol.MaxTerm))
	}
	return v, nil
}
