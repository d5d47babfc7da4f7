package client

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
)

// parseAddresses reads a list of addresses with commas between them.
func parseAddresses(list string) ([]string, error) {
	var addrs []string
	for text := range strings.SplitSeq(list, ",") {
		addr, err := parseAddress(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// parseAddress makes a host:port of what a user writes. It is also the name
// under which the registry's key is remembered.
func parseAddress(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok:
		rest = text
	case scheme != "quic":
		return "", protocol.Errorf(protocol.ErrUnsupported, "address %q: scheme %s", text, scheme)
	}
	host, port, err := splitAddress(rest)
	if err != nil {
		return "", protocol.Errorf(protocol.ErrInvalid, "address %q: %v", text, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", protocol.Errorf(protocol.ErrInvalid, "address %q: port %q", text, port)
	}
	if host == "" || strings.ContainsAny(host, " /@") {
		return "", protocol.Errorf(protocol.ErrInvalid, "address %q: host %q", text, host)
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

func splitAddress(text string) (host, port string, err error) {
	standard := strconv.Itoa(protocol.DefaultPort)
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if ip, err := netip.ParseAddr(bare); err == nil {
		return ip.String(), standard, nil
	}
	if !strings.Contains(text, ":") {
		return text, standard, nil
	}
	return net.SplitHostPort(text)
}

// simulated are the addresses of simulated networks, such as package
// fakeregistry's. On a real one they are reserved and lead nowhere.
var simulated = netip.MustParsePrefix("240.0.0.0/8")

// checkReal refuses what only the socket of a simulated network can reach: a real
// one would wait for an answer in vain.
func checkReal(addrs []string) error {
	for _, addr := range addrs {
		if at, err := netip.ParseAddrPort(addr); err == nil && simulated.Contains(at.Addr().Unmap()) {
			return protocol.Errorf(protocol.ErrInvalid,
				"%s is in a simulated network: Options.PacketConn must be that of the fake registry's Endpoint", addr)
		}
	}
	return nil
}
