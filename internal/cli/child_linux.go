package cli

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reading is a time on a clock that all processes of this machine share and that
// goes on while it is suspended.
type reading int64

func clock() reading {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // there since Linux 2.6.39
	}
	return reading(t.Nano())
}

// dieTogether has the kernel kill a command whose parent died.
func dieTogether(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// selfPath is this program, also after its file was replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of those its command leaves behind,
// so that it can wait for their end.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
