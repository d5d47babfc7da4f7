//go:build unix

package disklog

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUser reports whether a file is this process's user's.
func ownedByUser(info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(is.Uid) == os.Geteuid()
}
