package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/spf13/cobra"
)

// app is one run of the command line.
type app struct {
	in     io.Reader
	stdout io.Writer
	out    *bufio.Writer // to stdout
	err    io.Writer

	terminal bool   // stdout is one
	home     string // the folder with .pilot in it
	compat   compat
	extras   extras.Set
	args     []string // the command line, for another program

	json    bool
	verbose bool
	version bool // --version, without a command
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) (*app, error) {
	a := &app{in: stdin, stdout: stdout, out: bufio.NewWriterSize(stdout, 64<<10), err: stderr, terminal: isTerminal(stdout)}
	var err error
	if a.compat, err = parseCompat(os.Getenv("PILOTGO_COMPAT")); err != nil {
		return a, err
	}
	if a.home = os.Getenv("PILOT_HOME"); a.home == "" {
		if a.home, err = os.UserHomeDir(); err != nil {
			err = &failure{code: codeIO, exit: exitError, message: err.Error(), hint: "say where this node's files are: export PILOT_HOME=FOLDER", cause: err}
		}
	}
	return a, err
}

// The groups of commands, as help shows them.
const (
	groupMessages = "messages"
	groupSwarm    = "swarm"
	groupNode     = "node"
	groupRegistry = "registry"
	groupOther    = "other"
)

// newKind marks a command that pilotctl does not have: it has exit codes of its own.
var newKind = map[string]string{"exit": "own"}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pilotgo",
		Short: "Coordinate a swarm of agents over a registry host",
		Long: `pilotgo coordinates a swarm of agents over a registry host: a server that keeps
topics and their messages in one order. Scripts written for pilotctl's publish,
subscribe and inbox run with it unchanged.`,
		Example: `  pilotgo registry serve & pilotgo registry wait localhost
  pilotgo subscribe localhost jobs
  pilotgo publish localhost jobs --data '{"type":"hello"}'
  pilotgo --json inbox`,
		SilenceErrors: true,
		SilenceUsage:  true,

		Args: cobra.ArbitraryArgs,
		RunE: a.noCommand,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one line of JSON")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "tell on standard error what happens")
	root.Flags().BoolVar(&a.version, "version", false, "show the version")
	root.AddGroup(
		&cobra.Group{ID: groupMessages, Title: "Messages:"},
		&cobra.Group{ID: groupSwarm, Title: "The swarm:"},
		&cobra.Group{ID: groupNode, Title: "This node:"},
		&cobra.Group{ID: groupRegistry, Title: "Registries:"},
		&cobra.Group{ID: groupOther, Title: "Others:"},
	)
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupMessages, a.publishCommand(), a.subscribeCommand(), a.inboxCommand(), a.sendMessageCommand(), a.receivedCommand())
	add(groupSwarm, a.electionCommand())
	add(groupNode, a.infoCommand(), a.initCommand(), a.configCommand())
	add(groupRegistry, a.registryCommand(), a.demoCommand())
	add(groupOther, a.doctorCommand(), a.contextCommand(), a.versionCommand())
	return root
}

// wants tells whether this command line may need the commands below a noun: it
// names the noun, or asks about all of them. To make what it does not need takes
// time at every start.
func (a *app) wants(noun string) bool {
	return a.args == nil || slices.ContainsFunc(a.args, func(word string) bool {
		switch word {
		case noun, "help", "completion", "context", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			return true
		}
		return false
	})
}

// noCommand ends a line without a command that is known, with pilotctl's exit
// codes.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if a.version {
		return a.printVersion()
	}
	if len(args) == 0 {
		fmt.Fprint(a.err, cmd.UsageString())
		return errUsageShown
	}
	e := unknownCommand(cmd, args[0])
	if a.json {
		return e // exit code 1, as pilotctl's
	}
	a.printError(e)
	return errUsageShown
}

// unknownCommand is a word that stands where a command of cmd should.
func unknownCommand(cmd *cobra.Command, word string) *failure {
	e := usagef("unknown command %q", word)
	e.hint = "run 'pilotgo help' for the list of commands"
	if cmd.HasParent() {
		e = usagef("%s has no command %q", strings.TrimPrefix(cmd.CommandPath(), "pilotgo "), word)
		e.hint = "see '" + cmd.CommandPath() + " --help'"
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		e.hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// needsCommand is for commands that do nothing by themselves.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	e := usagef("usage: %s COMMAND", cmd.CommandPath())
	e.hint = "see '" + cmd.CommandPath() + " --help'"
	return e
}

// errUsageShown ends with exit code 2 and nothing more to say.
var errUsageShown = errors.New("usage")

// generic hands the commands that come from cobra over to it as they are: words
// to complete follow no rule of ours.
func (a *app) generic(ctx context.Context, root *cobra.Command, args []string) (handled bool, code int) {
	if !completes(args) {
		line := slices.DeleteFunc(slices.Clone(args), func(word string) bool { return wantsJSON([]string{word}) })
		if len(line) == 0 || line[0] != "help" && line[0] != "completion" {
			return false, 0
		}
		a.json = len(line) < len(args) // for errors: help is text
		args = line
	}
	if completes(args) {
		a.complete(root)
	}
	root.SetArgs(args)
	err := knownTo(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if flushed := a.flush(); err == nil {
		err = flushed
	}
	if err != nil && !errors.Is(err, errReaderGone) {
		a.printError(describe(usagef("%v", err)))
		return true, exitUsage
	}
	return true, exitOK
}

// completes tells whether a shell asks for words to complete.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// knownTo refuses words behind help and completion that are no commands; cobra
// would show a help of its choice instead.
func knownTo(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, words := root, args[1:]
	if args[0] == "completion" {
		cmd, words = subcommand(root, args[0]), words[:min(1, len(words))]
	} else if args[0] != "help" {
		return nil
	}
	for _, word := range words {
		if isFlag(word) {
			continue
		}
		sub := subcommand(cmd, word)
		if sub == nil {
			return fmt.Errorf("%s: there is no command %q", args[0], strings.Join(words, " "))
		}
		cmd = sub
	}
	return nil
}

// fail prints an error and returns the exit code of the command.
func (a *app) fail(cmd *cobra.Command, err error) int {
	var status exitStatus
	switch {
	case errors.Is(err, errUsageShown):
		return exitUsage
	case errors.As(err, &status):
		return int(status)
	}
	f := describe(err)
	a.printError(f)
	if cmd != nil && cmd.Annotations["exit"] == newKind["exit"] {
		return f.exit
	}
	return exitError
}

// logger tells what happens where the user asked for it.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: plainError}))
}

// arguments checks how many words a command got; most below 0 is any number.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		e := usagef("usage: %s", cmd.UseLine())
		e.hint = what
		return e
	}
}
