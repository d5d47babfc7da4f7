//go:build unix

package config

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts the command at the head of a process group, which is what ends
// when its context does.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
}

// killGroup kills the group that p is the head of; p may have ended.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
