package config

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const plainly = 0

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// isBadPath tells of a path at which no file can be.
func isBadPath(err error) bool {
	return errors.Is(err, windows.ERROR_DIRECTORY) || errors.Is(err, windows.ERROR_INVALID_NAME)
}

// keepOwner does nothing: here a file has the access of its folder.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

func trust(string, fs.FileInfo) error { return nil }

func isUnsyncable(error) bool { return false }
