//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file for this descriptor, reporting false where another has
// it. The system unlocks it when the file is closed or the process ends.
func TryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
