package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pilotgo/pilotgo/protocol"
)

// Exec is a command that gets a document: as a Validator, after each apply, or as
// a health check. The document is on its standard input; its environment is that
// of this process, Env, and
//
//	PILOTGO_SWARM    the swarm, where it is known
//	PILOTGO_VERSION  the version, where it has one
//	PILOTGO_DIGEST   "sha256:…" of the document's bytes
//	PILOTGO_FILE     a file with the document: the target of a [File], or a
//	                 temporary one that only this user can read, if File is set
//
// Exit status 0 is success. Of anything else the last 2 KiB of standard error are
// the reason, which others read: a command writes no secrets there. Standard
// output is dropped.
//
// When Timeout is over, or the context, the command is killed with all processes
// of its group; on Windows only the command itself is. A process that it leaves
// behind after exit status 0 lives on.
type Exec struct {
	Command string // a path, or a name on PATH; no shell
	Args    []string
	Env     []string // as "NAME=value"
	Dir     string   // where it runs; empty: where this process does
	Swarm   string   // for PILOTGO_SWARM

	// File hands the document over as a file, and nothing on standard input.
	File bool

	Timeout time.Duration // 30 s by default
}

const (
	execTimeout = 30 * time.Second
	execTail    = 2 << 10

	// execDrain is how long output is awaited from processes that outlive the
	// command, or were not killed with it.
	execDrain = 75 * time.Millisecond
)

// CommandError is a command that did not succeed. It is protocol.ErrTimeout
// where Timeout was over, and protocol.ErrNotFound where there is no such command.
type CommandError struct {
	Command string
	Stderr  string // its end, 2 KiB at most, printable
	Err     error  // what happened, such as "exit status 3"
}

func (e *CommandError) Error() string {
	s := fmt.Sprintf("command %s: %v", filepath.Base(e.Command), e.Err)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

// Unwrap gives what happened.
func (e *CommandError) Unwrap() error { return e.Err }

// Validate runs the command; any failure refuses the document.
func (e Exec) Validate(ctx context.Context, d *Document) error {
	err := e.run(ctx, d, "")
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &InvalidError{Rule: "command", Err: err}
}

func (e Exec) validate() error {
	switch {
	case e.Command == "":
		return protocol.Errorf(protocol.ErrInvalid, "exec: no Command")
	case e.Timeout < 0:
		return protocol.Errorf(protocol.ErrInvalid, "exec: Timeout is not negative")
	}
	return nil
}

// run runs the command for d, which is in file if that is not empty. The error is
// a *CommandError, but ctx's own when that has ended.
func (e Exec) run(ctx context.Context, d *Document, file string) error {
	if err := e.validate(); err != nil {
		return err
	}
	if e.File && file == "" {
		temp, remove, err := spill(d.Config)
		if err != nil {
			return &CommandError{Command: e.Command, Err: err}
		}
		defer remove()
		file = temp
	}
	timeout := e.Timeout
	if timeout == 0 {
		timeout = execTimeout
	}
	within, cancel := context.WithTimeoutCause(ctx, timeout, protocol.Errorf(protocol.ErrTimeout, "killed after %v", timeout))
	defer cancel()

	var stderr tail
	cmd := exec.CommandContext(within, e.Command, e.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = e.Dir, e.environ(d, file), &stderr
	cmd.WaitDelay = execDrain
	if !e.File {
		cmd.Stdin = bytes.NewReader(d.Config)
	}
	ownGroup(cmd)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		return nil
	}
	if cmd.Process != nil {
		_ = killGroup(cmd.Process)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("command %s: %w", filepath.Base(e.Command), ctx.Err())
	case within.Err() != nil:
		err = context.Cause(within)
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		err = fmt.Errorf("%w: %w", protocol.ErrNotFound, err)
	}
	return &CommandError{Command: e.Command, Stderr: stderr.String(), Err: err}
}

func (e Exec) environ(d *Document, file string) []string {
	env := append(os.Environ(), e.Env...)
	if e.Swarm != "" {
		env = append(env, "PILOTGO_SWARM="+e.Swarm)
	}
	if d.Version != 0 {
		env = append(env, "PILOTGO_VERSION="+strconv.FormatUint(d.Version, 10))
	}
	env = append(env, "PILOTGO_DIGEST="+DigestOf(d.Config).String())
	if file != "" {
		env = append(env, "PILOTGO_FILE="+file)
	}
	return env
}

// spill puts b into a temporary file.
func spill(b []byte) (path string, remove func(), err error) {
	f, err := os.CreateTemp("", "pilotgo-config-*.json") // mode 0600
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.Remove(f.Name()) }
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	b   []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - execTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is one line of printable text.
func (t *tail) String() string {
	clean := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	s := strings.Join(strings.Fields(strings.Map(clean, strings.ToValidUTF8(string(t.b), "�"))), " ")
	if t.cut {
		s = "…" + s
	}
	return s
}
