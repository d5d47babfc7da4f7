package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writing is what the commands that publish a version let one say.
type writing struct {
	connection
	validation
	fencing
	reason, who string
	expect      expectation
}

func (o *writing) flags(f *pflag.FlagSet) {
	swarmOptions(f, &o.connection, connectPatience)
	o.validation.flags(f)
	o.fencing.flags(f)
	f.StringVar(&o.reason, "reason", "", "why, for the history")
	f.StringVar(&o.who, "who", "", "who publishes, for the history (default this node's name)")
	f.Var(&o.expect, "expect", "the version this is made from, or none: anything else is a conflict")
}

// options are those of a publish; what is wrong with them is found before the
// registry is asked.
func (o *writing) options(name string) (config.PublishOptions, error) {
	list, err := o.validators(name)
	if err == nil {
		_, err = o.conditions()
	}
	return config.PublishOptions{
		Expect: uint64(o.expect), Reason: o.reason, Who: o.who, Validators: list,
	}, err
}

// document is a flag: where a document comes from.
type document struct{ path string }

func (d *document) flag(f *pflag.FlagSet) {
	f.StringVarP(&d.path, "file", "f", "", "file with the document; - is standard input")
}

// read reads the document, and tells what makes it unfit for every swarm.
func (d *document) read(a *app) ([]byte, error) {
	if d.path == "" {
		e := usagef("the document is missing: -f FILE")
		e.hint = "-f - reads it from standard input"
		return nil, e
	}
	b, err := d.bytes(a.in)
	if err != nil {
		return nil, err
	}
	if _, err := config.NewDocument(0, b); err != nil {
		f := describe(fmt.Errorf("document: %w", err))
		f.hint, f.exit = "a document is one JSON object in UTF-8, with each name once, up to 1 MiB and not above 199 levels deep", exitInvalid
		return nil, f
	}
	return b, nil
}

func (d *document) bytes(in io.Reader) ([]byte, error) {
	if d.path == "-" {
		return readAll(in)
	}
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

type configPublishOptions struct {
	writing
	document
	version uint64
}

func (a *app) configPublishCommand() *cobra.Command {
	var o configPublishOptions
	cmd := &cobra.Command{
		Use:   "publish SWARM -f FILE",
		Short: "Publish a new version of a swarm's configuration",
		Long: `Publish a JSON object as the next version of a swarm's configuration. Its bytes are kept
as they are. Agents of 'pilotgo config follow' and scripts of the recipe apply it.

The version is unix seconds, or one more than the last where that is higher. Of two that
publish one version exactly one succeeds; the other ends with 12, unless both have the
same bytes. With --expect it also ends with 12 when the last version is not the one this
document was made from: so a pipeline does not overwrite what it has not seen. It may be
said again when it ended with 14, the answer being lost: its own version, with the same
bytes and nothing after it, is a success.

The validators are asked first. A document that one of them refuses is not published,
and the exit code is 16.`,
		Example: `  pilotgo config publish worker-pool -f config.json --reason 'more workers'
  jq '.max_workers = 20' config.json | pilotgo config publish worker-pool -f - --schema schema.json
  pilotgo config publish worker-pool -f config.json --expect "$(pilotgo --json config get worker-pool | jq .version)"
  pilotgo election run tasks -- pilotgo config publish worker-pool -f config.json --as-leader`,
		Args: arguments(1, 1, "pilotgo config publish SWARM -f FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.publishConfig(cmd.Context(), o, args[0]) },
	}
	f := cmd.Flags()
	o.document.flag(f)
	f.Uint64Var(&o.version, "version", 0, "the version; 0 is the next")
	o.writing.flags(f)
	return cmd
}

func (a *app) publishConfig(ctx context.Context, o configPublishOptions, name string) error {
	p, err := o.options(name)
	if err != nil {
		return err
	}
	p.Version = o.version
	text, err := o.document.read(a)
	if err != nil {
		return err
	}
	return a.onSwarm(ctx, o.connection, name, func(ctx context.Context, s *swarm) error {
		if p.Leadership, err = o.leadership(s.client); err != nil {
			return err
		}
		done, err := s.Publish(ctx, text, p)
		if err != nil {
			return s.writeError(ctx, err)
		}
		a.adopt(ctx, s, done.Epoch)
		return a.print(publishedFields(s, done), func(w *bufio.Writer) {
			what := "published"
			if done.Duplicate {
				what = "was published before:"
			}
			fmt.Fprintf(w, "%s version %d of %s, %s\n", what, done.Version, name, done.Digest)
		})
	})
}

// writeError makes of an error what is known about the version that was to be
// published.
func (s *swarm) writeError(ctx context.Context, err error) error {
	topic := config.Topic(s.Name())
	if protocol.CodeOf(err) != protocol.ErrLimit {
		return invalidDocument(publishError(topic, err))
	}
	now, asked := s.client.Fence(ctx, topic)
	if asked != nil || now.K < protocol.MaxTerm {
		return err
	}
	f := describe(err)
	f.hint = "somebody has driven the versions up; an operator can set them back: see 'pilotgo config reset --help'"
	return f
}

// publishedFields are those of a version that is in the log.
func publishedFields(s *swarm, p config.Published) *object {
	return new(object).set("swarm", s.Name()).set("version", p.Version).set("digest", p.Digest.String()).
		set("seq", p.Seq).set("epoch", p.Epoch.String()).set("published_at", milliStamp(p.Time)).
		set("duplicate", p.Duplicate).set("best_effort", p.BestEffort).set("target", s.host.addr)
}

type configGetOptions struct {
	connection
	version uint64
}

func (a *app) configGetCommand() *cobra.Command {
	var o configGetOptions
	cmd := &cobra.Command{
		Use:   "get SWARM",
		Short: "Print a swarm's configuration, byte for byte",
		Long: `Print the latest version of a swarm's configuration, or the one of --version: exactly the
bytes that were published, and nothing else. With --json, tell what is known of it; text
has the exact bytes there, and config the same as JSON.`,
		Example: `  pilotgo config get worker-pool >config.json
  pilotgo --json config get worker-pool | jq '{version, digest}'
  pilotgo config get worker-pool --version 1764500000 | jq .max_workers`,
		Args: arguments(1, 1, "pilotgo config get SWARM [--version V]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				d, err := s.version(ctx, o.version)
				if err != nil {
					return err
				}
				return a.print(documentFields(s.Name(), d, true), func(w *bufio.Writer) {
					w.WriteString(shown(string(d.Config), a.terminal))
				})
			})
		},
	}
	swarmOptions(cmd.Flags(), &o.connection, connectPatience)
	cmd.Flags().Uint64Var(&o.version, "version", 0, "the version; 0 is the latest")
	return cmd
}

// version is a version, 0 the latest.
func (s *swarm) version(ctx context.Context, v uint64) (*config.Document, error) {
	if v == 0 {
		return s.Latest(ctx)
	}
	return s.Get(ctx, v)
}

// documentFields are those of a version, with what it says where that is asked
// for.
func documentFields(name string, d *config.Document, whole bool) *object {
	o := new(object).set("swarm", name).set("version", d.Version).set("digest", d.Digest.String()).
		set("bytes", len(d.Config)).set("staged", d.Staged).set("reason", d.Reason).set("who", d.Who).
		set("sender", d.Sender).set("rolled_back_from", nil).set("rolled_back_to", nil)
	if d.RolledBackTo != 0 {
		o.replace("rolled_back_from", d.RolledBackFrom).replace("rolled_back_to", d.RolledBackTo)
	}
	o.set("published_at", milliStamp(d.Time)).set("seq", d.Seq).set("epoch", d.Epoch.String())
	fault := ""
	if err := d.Fault(); err != nil {
		fault = err.Error()
	}
	o.set("fault", fault)
	if !whole {
		return o
	}
	if text := compactObject(d.Config); text != nil {
		o.setRaw("config", text)
	} else {
		o.set("config", nil)
	}
	return o.set("text", string(d.Config))
}

// replace gives a key another value.
func (o *object) replace(key string, v any) *object {
	o.fields[o.index(key)].raw = marshal(v)
	return o
}

type configHistoryOptions struct {
	connection
	before uint64
	limit  int
}

func (a *app) configHistoryCommand() *cobra.Command {
	var o configHistoryOptions
	cmd := &cobra.Command{
		Use:   "history SWARM",
		Short: "List the versions of a swarm's configuration, newest first",
		Long: `List the versions that the registry keeps, newest first, --limit at a time. For the next
page say --before with the last version of this one, or with next_before of --json, which
is null when there is no more.`,
		Example: `  pilotgo config history worker-pool --limit 5
  pilotgo --json config history worker-pool | jq '.versions[] | {version, who, reason}'`,
		Args: arguments(1, 1, "pilotgo config history SWARM [--limit N] [--before V]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.limit < 1 {
				return usagef("--limit is at least 1")
			}
			return a.onSwarm(cmd.Context(), o.connection, args[0], func(ctx context.Context, s *swarm) error {
				return a.configHistory(ctx, s, o)
			})
		},
	}
	swarmOptions(cmd.Flags(), &o.connection, connectPatience)
	cmd.Flags().IntVar(&o.limit, "limit", 20, "how many at most")
	cmd.Flags().Uint64Var(&o.before, "before", 0, "only versions below this one; 0 is all")
	return cmd
}

func (a *app) configHistory(ctx context.Context, s *swarm, o configHistoryOptions) error {
	var list []*config.Document
	more := false
	for d, err := range s.History(ctx, config.HistoryOptions{Before: o.before, Limit: o.limit + 1}) {
		if err != nil {
			return err
		}
		if more = len(list) == o.limit; !more {
			list = append(list, d)
		}
	}
	raw := []byte{'['}
	for i, d := range list {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, documentFields(s.Name(), d, false).appendTo(nil)...)
	}
	r := new(object).set("swarm", s.Name()).setRaw("versions", append(raw, ']')).set("next_before", nil).listing("versions")
	if more {
		r.replace("next_before", list[len(list)-1].Version)
	}
	return a.print(r, func(w *bufio.Writer) {
		rows := [][]string{{"VERSION", "PUBLISHED", "DIGEST", "WHO", "WHAT"}}
		for _, d := range list {
			rows = append(rows, []string{
				fmt.Sprint(d.Version), d.Time.UTC().Format(time.RFC3339), shortDigest(d.Digest),
				or(shown(d.Who, a.terminal), d.Sender.String()), shown(remark(d), a.terminal),
			})
		}
		if len(list) == 0 {
			fmt.Fprintf(w, "no versions of %s are kept\n", s.Name())
			return
		}
		columns(w, rows)
		if more {
			fmt.Fprintf(w, "more: --before %d\n", list[len(list)-1].Version)
		}
	})
}

// appendTo appends the object as JSON.
func (o *object) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, f := range o.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(appendQuotedString(b, f.key), ':'), f.raw...)
	}
	return append(b, '}')
}

// remark is what there is to say of a version for people.
func remark(d *config.Document) string {
	text := ""
	add := func(more string) {
		if text != "" {
			text += "; "
		}
		text += more
	}
	if d.Staged {
		add("staged")
	}
	if d.RolledBackTo != 0 {
		add(fmt.Sprintf("rolled back from %d to %d", d.RolledBackFrom, d.RolledBackTo))
	}
	if err := d.Fault(); err != nil {
		add("unfit: " + err.Error())
	}
	if d.Reason != "" {
		add(d.Reason)
	}
	return text
}

// shortDigest is enough of a digest to tell versions apart.
func shortDigest(d config.Digest) string {
	text := d.String()
	return text[:min(len(text), len("sha256:")+12)]
}

type configValidateOptions struct {
	validation
	document
}

func (a *app) configValidateCommand() *cobra.Command {
	var o configValidateOptions
	cmd := &cobra.Command{
		Use:   "validate [SWARM] -f FILE",
		Short: "Judge a document as publishers and agents do, without a registry",
		Long: `Judge a document by the same rules as 'publish' and 'follow'. No registry is asked; SWARM
is told to the commands of --validate. The exit code is 16 where the document is refused,
and 2 where a rule itself is wrong.`,
		Example: `  pilotgo config validate -f config.json --schema schema.json --require /max_workers
  pilotgo config validate worker-pool -f - --validate 'jq -e ".max_workers > 0"' <config.json`,
		Args: arguments(0, 1, "pilotgo config validate [SWARM] -f FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.validateConfig(cmd.Context(), o, append(args, "")[0])
		},
	}
	o.document.flag(cmd.Flags())
	o.validation.flags(cmd.Flags())
	return cmd
}

func (a *app) validateConfig(ctx context.Context, o configValidateOptions, name string) error {
	if name != "" {
		if err := config.ValidName(name); err != nil {
			return err
		}
	}
	list, err := o.validators(name)
	if err != nil {
		return err
	}
	text, err := o.document.read(a)
	if err != nil {
		return err
	}
	d, err := config.NewDocument(0, text)
	if err == nil {
		err = config.All(list...).Validate(ctx, d)
	}
	var schema *config.SchemaError
	if err != nil && !errors.As(err, &schema) {
		return invalidDocument(err)
	} else if err != nil {
		return err
	}
	r := new(object).set("valid", true).set("digest", d.Digest.String()).set("bytes", len(d.Config)).set("rules", len(list))
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "valid by %d rules: %d bytes, %s\n", len(list), len(d.Config), d.Digest)
	})
}
