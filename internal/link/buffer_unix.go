//go:build unix

package link

import (
	"net"

	"golang.org/x/sys/unix"
)

// receiveBuffer is the size the system granted, 0 where it cannot be told.
func receiveBuffer(c *net.UDPConn) (size int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
	})
	if err != nil {
		return 0
	}
	return size
}
