//go:build unix

package cli

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// unread reports whether nobody reads f any more, waiting for that at most so long.
func unread(f *os.File, wait time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}} // errors and hang-ups are told unasked
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		time.Sleep(wait)
		return false
	}
	return n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
