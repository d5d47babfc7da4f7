package integration

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

// cluster is NATS servers in this process that are one JetStream cluster.
type cluster struct {
	servers []*server.Server
	options []*server.Options
}

func newCluster(t testing.TB, size int) *cluster {
	t.Helper()
	c := &cluster{}
	ports := freePorts(t, 2*size)
	var routes []*url.URL
	for i := range size {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", ports[size+i])})
	}
	for i := range size {
		o := &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[i],
			JetStream: true, StoreDir: t.TempDir(),
			NoLog: true, NoSigs: true,
			JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 8 << 30,
		}
		if size > 1 {
			o.Cluster = server.ClusterOpts{Name: "pilotgo", Host: "127.0.0.1", Port: ports[size+i], NoAdvertise: true}
			o.Routes = routes
		}
		c.options = append(c.options, o)
		c.servers = append(c.servers, nil)
	}
	t.Cleanup(c.stop)
	for i := range size {
		c.start(t, i)
	}
	c.ready(t)
	return c
}

func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		ports = append(ports, testenv.Port(t))
	}
	return ports
}

func (c *cluster) start(t testing.TB, i int) {
	t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	require.NoError(t, err)
	c.servers[i] = s
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
}

// ready waits until the cluster has a leader and all servers are in step.
func (c *cluster) ready(t testing.TB) {
	t.Helper()
	if len(c.servers) == 1 {
		return
	}
	require.Eventually(t, func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == len(c.servers)
			}
		}
		return false
	}, 30*time.Second, 20*time.Millisecond)
}

func (c *cluster) stop() {
	for _, s := range c.servers {
		if s != nil {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
}

func (c *cluster) url() string {
	var list []string
	for _, o := range c.options {
		list = append(list, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(list, ",")
}

func itoa(n int) string { return fmt.Sprint(n) }
