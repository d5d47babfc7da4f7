package link

import "net"

// Socket is a socket that several sessions of one client use at a time, as the
// PacketConn of their Config.
type Socket struct {
	net.PacketConn

	use chan use // holds one
}

// use is what a socket is in use for.
type use struct {
	tr       transport
	sessions int // and dials
}

// NewSocket makes one of pc, which stays the caller's.
func NewSocket(pc net.PacketConn) *Socket {
	s := &Socket{PacketConn: pc, use: make(chan use, 1)}
	s.use <- use{}
	return s
}

func (s *Socket) take() transport {
	u := <-s.use
	if u.sessions == 0 {
		u.tr = newTransport(s.PacketConn, false)
	}
	u.sessions++
	s.use <- u
	tr := u.tr
	tr.shared = s
	return tr
}

// giveBack is close of what take gave: the socket is not read once nobody uses it.
func (s *Socket) giveBack() {
	u := <-s.use
	if u.sessions--; u.sessions == 0 {
		u.tr.close()
		u.tr = transport{}
	}
	s.use <- u
}
