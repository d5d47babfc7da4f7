package link

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Source is what stands for one place of origin of an address: an IPv4 address, or
// the /64 of an IPv6 address, which one machine can fill as it likes. It is zero
// for this machine itself and for what is no IP address: those are not counted.
func Source(addr net.Addr) netip.Prefix {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, ok := netip.AddrFromSlice(udp.IP)
	ip = ip.Unmap()
	if !ok || ip.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

const (
	// sourceBurst is for how many seconds' handshakes come at once.
	sourceBurst = 5

	// manySources is how many are told apart; those beyond share one budget.
	manySources = 4096
)

// sources counts handshakes by where they come from: rate a second each.
type sources struct {
	rate float64 // 0 = no limit

	mu  sync.Mutex
	one map[netip.Prefix]*budget
}

type budget struct {
	left float64
	at   time.Time
}

func newSources(rate int) *sources {
	return &sources{rate: float64(rate), one: make(map[netip.Prefix]*budget)}
}

// take counts a handshake from a source and reports whether it is within its
// rate.
func (s *sources) take(from netip.Prefix, now time.Time) bool {
	if s.rate <= 0 || from == (netip.Prefix{}) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.one[from]
	if b == nil {
		b = s.add(from, now)
	}
	s.fill(b, now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (s *sources) fill(b *budget, now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.left = min(s.rate*sourceBurst, b.left+d.Seconds()*s.rate)
		b.at = now
	}
}

// add makes a budget, in the place of those that have nothing to remember.
func (s *sources) add(from netip.Prefix, now time.Time) *budget {
	if len(s.one) >= manySources {
		for p, b := range s.one {
			if s.fill(b, now); b.left >= s.rate*sourceBurst {
				delete(s.one, p)
			}
		}
	}
	if len(s.one) >= manySources {
		from = netip.Prefix{}
		if b := s.one[from]; b != nil {
			return b
		}
	}
	b := &budget{left: s.rate * sourceBurst, at: now}
	s.one[from] = b
	return b
}
