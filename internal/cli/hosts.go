package cli

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/pilotgo/pilotgo/protocol"
)

// host is a registry host as a word on the command line named it.
type host struct {
	word string // as it was given
	addr string // host:port, or several addresses of one log with commas between
}

// names resolves the words that name registry hosts.
type names struct {
	alias     map[string]string
	preferred string // the default host; "" = none
}

// hosts reads the names from the environment and, below it, from the settings.
func (a *app) hosts() (names, error) {
	s, err := a.settings()
	if err != nil {
		return names{}, err
	}
	n := names{alias: make(map[string]string), preferred: s["registry"]}
	if env := os.Getenv("PILOTGO_REGISTRY"); env != "" {
		n.preferred = env
	}
	for _, list := range []string{s["hosts"], os.Getenv("PILOTGO_HOSTS")} {
		if err := n.addAliases(list); err != nil {
			return names{}, err
		}
	}
	return n, nil
}

// addAliases reads name=addr,name=addr. An address holds no commas here.
func (n names) addAliases(list string) error {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, addr, ok := strings.Cut(entry, "=")
		if !ok || name == "" || addr == "" {
			return usagef("aliases are name=address with commas between, not %q", entry)
		}
		n.alias[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(addr)
	}
	return nil
}

// resolve finds the host that a word names; several with commas between, as
// PILOTGO_REGISTRY may hold and commands are handed on, are those of one log.
func (n names) resolve(word string) (host, error) {
	var addrs []string
	for one := range strings.SplitSeq(word, ",") {
		addr, err := n.address(strings.TrimSpace(one))
		if err != nil {
			return host{}, err
		}
		addrs = append(addrs, addr)
	}
	return host{word: word, addr: strings.Join(addrs, ",")}, nil
}

// address finds that of one word: an alias, else an address.
func (n names) address(word string) (string, error) {
	at := word
	if addr, ok := n.alias[strings.ToLower(word)]; ok {
		at = addr
	}
	return hostAddress(at)
}

// fallback is the default host.
func (n names) fallback() (host, error) {
	if n.preferred == "" {
		e := usagef("no registry host")
		e.hint = "name one, or set a default: export PILOTGO_REGISTRY=host:port, or pilotgo config --set registry=host:port"
		return host{}, e
	}
	return n.resolve(n.preferred)
}

// hostAddress reads quic://, host:port, an IP address, [v6]:port or a DNS name, and
// adds the default port.
func hostAddress(s string) (string, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if ok {
		if err := checkScheme(scheme, s); err != nil {
			return "", err
		}
		s = strings.TrimSuffix(rest, "/")
	}
	name, port := s, strconv.Itoa(protocol.DefaultPort)
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if ip, err := netip.ParseAddr(bare); err == nil {
		return net.JoinHostPort(ip.String(), port), nil
	}
	if strings.Contains(s, ":") {
		var err error
		if name, port, err = net.SplitHostPort(s); err != nil {
			return "", badHost(s)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", badHost(s)
		}
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return net.JoinHostPort(ip.String(), port), nil
	}
	if !hostName(name) {
		return "", badHost(s)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "localhost" {
		name = "127.0.0.1" // where a registry listens unless told otherwise
	}
	return net.JoinHostPort(name, port), nil
}

func checkScheme(scheme, s string) error {
	switch scheme {
	case "quic":
		return nil
	case "tls", "unix", "pilot":
		return &failure{
			code:    protocol.ErrUnsupported.Name(),
			message: "this build speaks quic:// only, not " + scheme + "://",
			hint:    "name the host without a scheme, or as quic://host:port",
			exit:    exitUsage,
			cause:   errors.ErrUnsupported,
		}
	}
	return badHost(s)
}

func badHost(s string) error {
	e := usagef("%q is no registry host", s)
	e.hint = "a host is an alias from PILOTGO_HOSTS, host:port, an IP address, [v6]:port or a DNS name"
	return e
}

// hostName tells a DNS name from other text. A number alone is a node's id.
func hostName(s string) bool {
	letters := false
	for _, r := range s {
		switch {
		case r == '-', r == '_', r == '.', r >= '0' && r <= '9':
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r > 0x7f && r != '\ufffd':
			letters = true
		default:
			return false
		}
	}
	return letters && len(s) <= 253 && s[0] != '-' && s[0] != '.'
}
