// Package cli is the command line: one file per command, run by the programs under
// cmd. They differ in what is linked in, not in what they say.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pilotgo/pilotgo/internal/extras"
)

// Main runs the command line of this process and returns its exit code.
func Main(x extras.Set) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A write to a closed pipe is then an error like others, and ends quietly.
	signal.Ignore(syscall.SIGPIPE)
	return runWith(ctx, x, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// run executes one command line and returns its exit code. It may be called many
// times in a process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runWith(ctx, extras.Set{}, args, stdin, stdout, stderr)
}

func runWith(ctx context.Context, x extras.Set, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a, err := newApp(stdin, stdout, stderr)
	a.extras, a.args = x, args
	if err != nil {
		a.json = wantsJSON(args)
		return a.fail(nil, err)
	}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	if handled, code := a.generic(ctx, root, args); handled {
		return code
	}
	cmd, words, err := parseArgs(root, args, a.compat.pilotctl)
	a.json = a.json || wantsJSON(args) && err != nil
	if err != nil {
		return a.fail(cmd, err)
	}
	root.SetArgs(words)
	cmd, err = root.ExecuteContextC(ctx)
	if err == nil {
		err = a.flush()
	}
	if errors.Is(err, errReaderGone) {
		return exitOK // whoever read has what it wanted
	}
	if err != nil {
		return a.fail(cmd, err)
	}
	return exitOK
}
