package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// There are no process groups to kill here: only the command itself is stopped.

func apart(*exec.Cmd) {}
func tied(*exec.Cmd)  {}

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func signalGroup(pid int, _ string) { killGroup(pid) }

func parseSignal(name string) (os.Signal, error) {
	if strings.TrimPrefix(strings.ToUpper(name), "SIG") != "TERM" {
		return nil, errors.New("a command can only be killed here")
	}
	return os.Kill, nil
}

func standGuard() {}

func awaitGroup(cmd *exec.Cmd) int { return exitCodeOf(cmd, cmd.Wait()) }

func groupGone(int) bool { return true }

func exitCodeOf(cmd *exec.Cmd, _ error) int {
	if cmd.ProcessState == nil {
		return exitCannotRun
	}
	return cmd.ProcessState.ExitCode()
}

// writeNow waits here where there is no room.
func writeNow(pipe *os.File, line []byte) { _, _ = pipe.Write(line) }

// reportPipe: a guard has nothing to report here.
type reportPipe struct{}

func attachReport(*exec.Cmd) (reportPipe, error) { return reportPipe{}, nil }
func (reportPipe) started()                      {}
func (reportPipe) Read([]byte) (int, error)      { return 0, io.EOF }
func (reportPipe) Close() error                  { return nil }
func openReport(bool) func(int)                  { return func(int) {} }
