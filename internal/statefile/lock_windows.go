package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks a file for this handle, reporting false where another has it.
// The system unlocks it when the file is closed or the process ends.
func TryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
