package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

// networks are bridges, and network namespaces that are machines on them. A
// machine's port on a bridge can be cut: packets are dropped then, and nobody is
// told.
type networks struct {
	t       *testing.T
	bridges []string
	id      int // in the names, and in the addresses: 198.18.0.0/15 is for tests of networks
}

// newNetworks makes bridges by these names of one letter, on each of which this
// process has the address of host 1.
func newNetworks(t *testing.T, bridges ...string) *networks {
	t.Helper()
	_, err := exec.LookPath("ip")
	testenv.Need(t, "netns", err == nil, "no ip on the path")
	testenv.Need(t, "netns", os.Geteuid() == 0, "network namespaces are for root")
	n := &networks{t: t, bridges: bridges, id: os.Getpid() % 60}
	out, err := exec.Command("ip", "link", "add", n.bridge(bridges[0]), "type", "bridge").CombinedOutput()
	testenv.Need(t, "netns", err == nil, fmt.Sprintf("cannot make a bridge: %s", out))
	t.Cleanup(func() { n.ip("link", "del", n.bridge(bridges[0])) })
	for i, b := range bridges {
		if i > 0 {
			n.ip("link", "add", n.bridge(b), "type", "bridge")
			t.Cleanup(func() { n.ip("link", "del", n.bridge(b)) })
		}
		n.ip("addr", "add", n.addr(b, 1)+"/24", "dev", n.bridge(b))
		n.ip("link", "set", n.bridge(b), "up")
	}
	return n
}

func (n *networks) ip(args ...string) {
	n.t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(n.t, err, "ip %v: %s", args, bytes.TrimSpace(out))
}

func (n *networks) bridge(name string) string   { return fmt.Sprintf("pgt%d%s", n.id, name) }
func (n *networks) space(machine string) string { return fmt.Sprintf("pgt%d-%s", n.id, machine) }
func (n *networks) port(machine, name string) string {
	return fmt.Sprintf("pgt%d%s%s", n.id, machine, name)
}

// addr is the address of a host on a bridge.
func (n *networks) addr(bridge string, host int) string {
	return fmt.Sprintf("198.18.%d.%d", 4*n.id+slices.Index(n.bridges, bridge), host)
}

// machine makes a machine that has the address of a host on some bridges, and
// returns the words that run a command on it.
func (n *networks) machine(name string, host int, bridges ...string) []string {
	n.t.Helper()
	space := n.space(name)
	n.ip("netns", "add", space)
	n.t.Cleanup(func() { n.ip("netns", "del", space) })
	n.ip("-n", space, "link", "set", "dev", "lo", "up")
	for _, b := range bridges {
		port := n.port(name, b)
		n.ip("link", "add", port, "type", "veth", "peer", "name", b, "netns", space)
		n.ip("link", "set", "dev", port, "master", n.bridge(b), "up")
		n.ip("-n", space, "addr", "add", n.addr(b, host)+"/24", "dev", b)
		n.ip("-n", space, "link", "set", "dev", b, "up")
	}
	return []string{"ip", "netns", "exec", space}
}

// cut takes a machine's port off a bridge, which drops all that it sends and
// should get there; the link stays up, so nobody is told. heal ends that.
func (n *networks) cut(machine, bridge string) {
	n.t.Helper()
	n.ip("link", "set", "dev", n.port(machine, bridge), "nomaster")
}

func (n *networks) heal(machine, bridge string) {
	n.t.Helper()
	n.ip("link", "set", "dev", n.port(machine, bridge), "master", n.bridge(bridge))
}
