//go:build unix

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// plainly opens no symlink, and does not wait at a named pipe.
const plainly = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// isBadPath tells of a path at which no file can be.
func isBadPath(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) ||
		errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ELOOP)
}

// isUnsyncable tells of a file system that cannot sync a folder.
func isUnsyncable(err error) bool { return errors.Is(err, syscall.EINVAL) }

// keepOwner gives f the owner and group of the file that it is to replace. Where
// that is not allowed the group must at least not be one that may do more than
// others: who could read the file would be locked out.
func keepOwner(f *os.File, old fs.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if f.Chown(int(was.Uid), int(was.Gid)) == nil {
		return nil
	}
	if is.Gid != was.Gid && f.Chown(-1, int(was.Gid)) != nil && old.Mode()>>3&7&^(old.Mode()&7) != 0 {
		return fmt.Errorf("cannot keep its group %d, which may do more with it than others: %w", was.Gid, fs.ErrPermission)
	}
	return nil
}

// trust refuses a file or symlink that a stranger may have left in a folder for all,
// such as /tmp, as the Linux kernel does. A symlink would choose the file to write;
// a file would keep its owner, who could change it ever after.
func trust(path string, info fs.FileInfo) error {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	d, ok := dir.Sys().(*syscall.Stat_t)
	f, is := info.Sys().(*syscall.Stat_t)
	open := dir.Mode()&fs.ModeSticky != 0 && dir.Mode().Perm()&0o002 != 0
	if ok && is && open && f.Uid != d.Uid && int(f.Uid) != os.Geteuid() {
		return fmt.Errorf("it is of user %d, in a folder for all: %w", f.Uid, fs.ErrPermission)
	}
	return nil
}
