package disklog

import "golang.org/x/sys/unix"

// extend makes a file longer, with zeros in space that is set aside for them.
func extend(fd uintptr, offset, length int64) error {
	return unix.Fallocate(int(fd), 0, offset, length)
}
