package testenv

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tie has the kernel kill a program that the test starts, once the test is gone;
// outside of Linux it does nothing. Call it before Start.
func Tie(cmd *exec.Cmd) *exec.Cmd {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd
}

// dieWith does not ask the kernel for a signal at the end of the parent, which may
// be a shell that ends long before the test.
func dieWith(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil && err != unix.ESRCH {
		return // no pidfd here
	}
	if err == unix.ESRCH {
		os.Exit(1)
	}
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			switch err {
			case nil:
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			case unix.EINTR:
			default:
				return
			}
		}
	}()
}
