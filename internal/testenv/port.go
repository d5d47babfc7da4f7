package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports that Port chooses from: below those that systems give to sockets which
// ask for no certain one, and above what services have.
const (
	firstPort = 20000
	ports     = 12000
)

var given struct {
	sync.Mutex
	ports map[int]bool
}

// Port is a port of the loopback address that nobody listens at, with TCP or UDP,
// for a server that is to be stopped and started again. A port that was asked for
// with :0 may meanwhile become that of a client's socket.
func Port(t testing.TB) int {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = make(map[int]bool)
	}
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		if !given.ports[port] && free(port) {
			given.ports[port] = true
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func free(port int) bool {
	addr := fmt.Sprint("127.0.0.1:", port)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	pc.Close()
	return true
}

// Addr is 127.0.0.1 with such a port.
func Addr(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", Port(t))
}
