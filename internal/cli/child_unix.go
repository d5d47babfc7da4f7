//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart puts a guard into a process group of its own, out of the terminal's reach.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// tied makes a command the head of a process group that can be killed as one.
func tied(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieTogether(cmd.SysProcAttr)
}

func killGroup(id int) { unix.Kill(-id, unix.SIGKILL) }

// signalGroup signals a process group, and wakes up those of it that were stopped.
func signalGroup(id int, name string) {
	if s, err := parseSignal(name); err == nil {
		unix.Kill(-id, s)
		unix.Kill(-id, unix.SIGCONT)
	}
}

// parseSignal reads TERM, SIGTERM or 15.
func parseSignal(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
		return syscall.Signal(n), nil
	}
	s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if s == 0 {
		return 0, fmt.Errorf("%q is no signal", name)
	}
	return s, nil
}

// standGuard makes a guard outlast signals that are meant for others. They are
// caught and not ignored: its command would inherit that.
func standGuard() {
	adoptOrphans()
	signal.Reset(syscall.SIGPIPE)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
}

// awaitGroup waits until the command has ended, kills what it left behind in its
// group, and waits for that too: a process that was killed may still have a moment
// to run. Orphans of others that come to this process are laid to rest meanwhile.
func awaitGroup(cmd *exec.Cmd) (code int) {
	pid := cmd.Process.Pid
	for {
		var status unix.WaitStatus
		switch id, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return exitCannotRun // somebody else waited: impossible
		case id == pid:
			killGroup(pid)
			for err == nil || errors.Is(err, unix.EINTR) {
				_, err = unix.Wait4(-pid, nil, 0, nil)
			}
			return statusCode(status)
		}
	}
}

func statusCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return exitSignalled + int(s.Signal())
	}
	return s.ExitStatus()
}

// groupGone reports whether there is no process in a group any more.
func groupGone(id int) bool { return errors.Is(unix.Kill(-id, 0), unix.ESRCH) }

// exitCodeOf is how a command ended, as shells tell it.
func exitCodeOf(cmd *exec.Cmd, err error) int {
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState == nil:
		return exitCannotRun
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return statusCode(unix.WaitStatus(status))
		}
	}
	return cmd.ProcessState.ExitCode()
}

// writeNow writes a line to a pipe whole, or not at all where it would have to wait.
// A deadline would not do: on a busy machine it may be over before the writing begins.
func writeNow(pipe *os.File, line []byte) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Write(func(fd uintptr) bool {
		for {
			if _, err := unix.Write(int(fd), line); !errors.Is(err, unix.EINTR) {
				return true
			}
		}
	})
}

// reportPipe brings the process group of a guard's command.
type reportPipe struct{ read, write *os.File }

// reportFile is what a guard writes to.
const reportFile = 3

func attachReport(guard *exec.Cmd) (r reportPipe, err error) {
	r.read, r.write, err = os.Pipe()
	if err == nil {
		guard.ExtraFiles = []*os.File{r.write}
	}
	return r, err
}

func (r reportPipe) started()                   { r.write.Close() }
func (r reportPipe) Read(b []byte) (int, error) { return r.read.Read(b) }
func (r reportPipe) Close() error {
	if r.read == nil {
		return nil
	}
	r.write.Close() // closed already, once the guard runs
	return r.read.Close()
}

// openReport keeps the command from inheriting the pipe. Where no report is asked
// for, the descriptor is something else.
func openReport(asked bool) func(group int) {
	if !asked {
		return func(int) {}
	}
	syscall.CloseOnExec(reportFile)
	f := os.NewFile(reportFile, "report")
	return func(group int) {
		fmt.Fprintln(f, group)
		f.Close()
	}
}
