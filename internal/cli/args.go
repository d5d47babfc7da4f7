package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parseArgs reads a command line by pilotctl's rules, which are not cobra's:
//
//   - one dash is as good as two, and --k=v as good as --k v;
//   - a flag that takes a value takes the next word, whatever it looks like, so
//     `--data --json` sends "--json";
//   - a word beginning with a dash is a flag only when a letter follows, so -5
//     and - are arguments;
//   - flags may stand anywhere behind the command, and --json anywhere at all;
//   - after -- every word is an argument; a command marked with "dash" also gets
//     the -- itself, to see what stands before it.
//
// It sets the flags of the command it finds, and returns that command, also with
// an error, and the words that are left for cobra: the command's path, then the
// arguments behind "--".
func parseArgs(root *cobra.Command, args []string, lenient bool) (*cobra.Command, []string, error) {
	p := parser{cmd: root, lenient: lenient}
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case p.literal:
			p.rest = append(p.rest, word)
		case word == "--":
			p.literal = true
			if p.cmd.Annotations["dash"] != "" {
				p.rest = append(p.rest, word)
			}
		case isFlag(word):
			taken, err := p.flag(word, args[i+1:])
			if err != nil {
				return p.cmd, nil, p.undashed(args, err)
			}
			i += taken
		default:
			p.word(word)
		}
	}
	if p.help {
		return p.cmd, append(p.path, "--help"), nil
	}
	return p.cmd, append(append(p.path, "--"), p.rest...), nil
}

type parser struct {
	cmd     *cobra.Command // as far as the words have told
	path    []string
	rest    []string
	literal bool // behind --
	help    bool
	lenient bool // flags that nobody knows are passed over, as pilotctl does
}

func (p *parser) word(word string) {
	if len(p.rest) == 0 {
		if sub := subcommand(p.cmd, word); sub != nil {
			p.cmd, p.path = sub, append(p.path, sub.Name())
			return
		}
	}
	p.rest = append(p.rest, word)
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// flag sets a flag and reports how many of the following words it took.
func (p *parser) flag(word string, next []string) (taken int, err error) {
	name, value, attached := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if name == "help" || name == "h" {
		p.help = true
		return 0, nil
	}
	f := p.lookup(name)
	if f == nil {
		if p.lenient {
			return unknownTakes(attached, next), nil
		}
		return 0, p.unknown(name)
	}
	if !attached {
		switch {
		case f.NoOptDefVal != "":
			value = f.NoOptDefVal
		case len(next) == 0:
			return 0, usagef("--%s needs a value", f.Name)
		default:
			value, taken = next[0], 1
		}
	}
	if err := f.Value.Set(value); err != nil {
		return 0, badValue(f, value, err)
	}
	f.Changed = true
	return taken, nil
}

// undashed tells who gave a command to run with its flags, and no -- before it,
// that these were taken for flags of pilotgo.
func (p *parser) undashed(args []string, err error) error {
	if p.cmd.Annotations["dash"] == "" || len(p.rest) < 2 || slices.Contains(args, "--") {
		return err
	}
	f := *describe(err)
	f.hint = "the command to run stands behind --, with its flags: " + p.cmd.CommandPath() + " [HOST] GROUP -- " + p.rest[len(p.rest)-1] + " …"
	return &f
}

func (p *parser) lookup(name string) *pflag.Flag {
	for _, set := range []*pflag.FlagSet{p.cmd.Flags(), p.cmd.InheritedFlags(), p.cmd.PersistentFlags()} {
		if f := set.Lookup(name); f != nil {
			return f
		}
		if len(name) == 1 {
			if f := set.ShorthandLookup(name); f != nil {
				return f
			}
		}
	}
	return nil
}

func (p *parser) unknown(name string) error {
	if len(p.rest) > 0 && p.cmd.HasSubCommands() {
		return unknownCommand(p.cmd, p.rest[0]) // a flag of a command that is misspelt
	}
	if !p.cmd.HasParent() {
		return usagef("unknown flag --%s before a command", name)
	}
	e := usagef("%s has no flag --%s", p.cmd.Name(), name)
	e.hint = "see '" + p.cmd.CommandPath() + " --help'; text that begins with a dash goes into --data, or behind --"
	return e
}

// unknownTakes is whether pilotctl takes the next word for the value of a flag
// that it does not know.
func unknownTakes(attached bool, next []string) int {
	if attached || len(next) == 0 || isFlag(next[0]) {
		return 0
	}
	return 1
}

func badValue(f *pflag.Flag, value string, why error) error {
	if c, ok := f.Value.(*choice); ok {
		return usagef("--%s is %s, not %q", f.Name, strings.Join(c.of, " or "), value)
	}
	kind := f.Value.Type()
	switch kind {
	case "int", "uint64":
		kind = "integer"
	}
	e := usagef("invalid %s for --%s: %q", kind, f.Name, value)
	if own := new(failure); errors.As(why, &own) {
		e.hint = own.hint
	}
	return e
}

// isFlag tells a flag from an argument.
func isFlag(word string) bool {
	bare := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	if bare == word || bare == "" {
		return false
	}
	c := bare[0] | 0x20
	return c >= 'a' && c <= 'z'
}

// wantsJSON looks for --json where the line could not be read to its end, so
// that the error itself comes in the form that was asked for.
func wantsJSON(args []string) bool {
	for _, a := range args {
		if a == "--json" || a == "-json" || a == "--json=true" {
			return true
		}
	}
	return false
}
