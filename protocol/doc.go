// Package protocol is the wire contract of pilotgo: frames, their one encoding,
// names, limits and errors. It starts no goroutine, reads no clock and opens no
// socket.
package protocol
