package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/access"
	"github.com/spf13/cobra"
)

func (a *app) registryAccessCommand() *cobra.Command {
	return a.noun("access", "Try out access rules",
		`  pilotgo registry access check rules.txt`, a.accessCheckCommand())
}

type checkOptions struct {
	as     []string
	topic  string
	right  string
	direct bool
}

func (a *app) accessCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a file of access rules, and what it says of a case",
		Long: `Check a file of access rules. With --topic it is asked what it says of a case: the
command ends with 0 where that is allowed, and with 15 where it is not, and names the
line that decides. No registry is asked.

A rule is one line: allow or deny, who, which rights, and where. The first that applies
decides; what no rule applies to is denied.

  # Guests read what is public, and nothing else.
  allow  label:guest    subscribe          public.*
  deny   label:guest    all                *
  allow  label:release  publish            config:*
  deny   any            publish            config:*
  allow  any            publish,subscribe  *

Who is any, label:NAME or a fingerprint; rights are publish, subscribe, admin, relay or
all; where are topics, patterns, "*" for everything and "$direct" for direct messages.`,
		Example: `  pilotgo registry access check rules.txt
  pilotgo registry access check rules.txt --as label:guest --topic jobs.created --right publish`,
		Args: arguments(1, 1, "pilotgo registry access check FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return a.checkAccess(args[0], o) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.as, "as", nil, "fingerprint, or label:NAME, of who asks; may be given many times; by default a stranger")
	f.StringVar(&o.topic, "topic", "", "topic, or with subscribe a pattern, that is asked for")
	f.StringVar(&o.right, "right", "publish", "right that is asked for: publish, subscribe, admin or relay")
	f.BoolVar(&o.direct, "direct", false, "ask for a direct message in place of a topic")
	return cmd
}

func (a *app) checkAccess(path string, o checkOptions) error {
	file, err := access.Open(path)
	if err != nil {
		return rulesError(err)
	}
	rules := file.Rules()
	if o.topic == "" && !o.direct {
		return a.print(new(object).set("file", path).set("rules", rules.Len()), func(w *bufio.Writer) {
			fmt.Fprintf(w, "%s: %d rules\n", path, rules.Len())
		})
	}
	q, err := o.question()
	if err != nil {
		return err
	}
	v := rules.Decide(&q)
	if !v.Allowed {
		return &failure{code: protocol.ErrDenied.Name(), message: verdict(v), exit: exitRefused}
	}
	out := new(object).set("allowed", true).set("line", v.Line).set("rule", v.Rule)
	return a.print(out, func(w *bufio.Writer) { fmt.Fprintln(w, verdict(v)) })
}

func verdict(v access.Verdict) string {
	word := "denied"
	switch {
	case v.Allowed:
		word = "allowed"
	case v.Partly:
		word = "not allowed as a whole but in part, topic by topic"
	}
	if v.Line == 0 {
		return word + ": no rule applies"
	}
	return fmt.Sprintf("%s by line %d: %s", word, v.Line, v.Rule)
}

func (o *checkOptions) question() (q registry.Request, err error) {
	if q.Right, err = access.ParseRight(o.right); err != nil {
		return q, err
	}
	if o.direct && o.topic != "" {
		return q, usagef("--direct and --topic exclude each other")
	}
	if o.direct {
		q.To = 1
	} else if err := protocol.ValidPattern(o.topic); err != nil {
		return q, err
	}
	if !protocol.IsExact(o.topic) && q.Right != registry.RightSubscribe {
		return q, usagef("a pattern is asked for with --right subscribe only")
	}
	q.Topic = o.topic
	for _, who := range o.as {
		if label, ok := strings.CutPrefix(who, "label:"); ok {
			q.Labels = append(q.Labels, label)
			continue
		}
		if q.Hash, err = protocol.ParseKeyHash(who); err != nil {
			return q, usagef("--as %s: label:NAME or a fingerprint (sha256:…); without it a stranger asks", who)
		}
	}
	q.Labels = sorted(q.Labels)
	return q, nil
}
