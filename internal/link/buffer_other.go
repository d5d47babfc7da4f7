//go:build !unix

package link

import "net"

// receiveBuffer is the size the system granted, 0 where it cannot be told.
func receiveBuffer(*net.UDPConn) int { return 0 }
