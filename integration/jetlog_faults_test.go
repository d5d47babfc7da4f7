package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// child is set for processes of this binary that are a NATS server each: only a
// process can be killed.
const child = "PILOTGO_TEST_NATS_SERVER"

type childServer struct {
	Name                 string
	Host                 string
	Port, Route, Monitor int
	RouteHost            string
	Routes               []string
	Dir                  string
}

func init() {
	if text := os.Getenv(child); text != "" {
		runServer(text)
		os.Exit(1)
	}
}

func runServer(text string) {
	var c childServer
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	o := &server.Options{
		ServerName: c.Name, Host: c.Host, Port: c.Port, HTTPHost: c.Host, HTTPPort: c.Monitor, JetStream: true, StoreDir: c.Dir, NoLog: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "pilotgo", Host: c.RouteHost, Port: c.Route, NoAdvertise: true},
	}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	s, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	s.Start()
	s.ReadyForConnections(10 * time.Second)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// processes is a cluster of three whose servers can be killed.
type processes struct {
	*cluster
	t     *testing.T
	conf  []childServer
	procs []*exec.Cmd
}

func newProcesses(t *testing.T) *processes {
	p := &processes{cluster: &cluster{}, t: t}
	ports := freePorts(t, 6)
	var routes []string
	for _, port := range ports[3:] {
		routes = append(routes, fmt.Sprint("127.0.0.1:", port))
	}
	for i := range 3 {
		p.conf = append(p.conf, childServer{
			Name: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[i], RouteHost: "127.0.0.1", Route: ports[3+i], Routes: routes, Dir: t.TempDir(),
		})
		p.options = append(p.options, &server.Options{Port: ports[i]})
		p.servers = append(p.servers, nil)
		p.procs = append(p.procs, nil)
	}
	for i := range 3 {
		p.run(i)
	}
	return p
}

func (p *processes) run(i int) {
	p.t.Helper()
	p.procs[i] = startServer(p.t, p.conf[i])
}

// startServer starts a NATS server that is a process, behind the words of a command
// that runs it, and returns once it takes connections.
func startServer(t *testing.T, c childServer, in ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	in = append(in, self)
	cmd := exec.Command(in[0], in[1:]...)
	cmd.Env = append(os.Environ(), child+"="+string(text))
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, testenv.Tie(cmd).Start())
	t.Cleanup(func() {
		life.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}

// kill ends a server as a power cut ends it, but for what the system has written.
func (p *processes) kill(i int) {
	p.t.Helper()
	require.NoError(p.t, p.procs[i].Process.Kill())
	_ = p.procs[i].Wait()
}

// open waits until the cluster is one.
func (p *processes) open(o jetlog.Options) *jetlog.Log {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	for {
		l, err := jetlog.Open(ctx, p.url(), o)
		if err == nil {
			p.t.Cleanup(func() { require.NoError(p.t, l.Close()) })
			return l
		}
		require.NoError(p.t, ctx.Err(), "%v", err)
		time.Sleep(100 * time.Millisecond)
	}
}

// Servers of the cluster are killed one after the other and come back, and a
// client's publishes go on: each is in the log once and in its order.
func TestJetServersAreKilled(t *testing.T) {
	c := newProcesses(t)
	o := jetlog.Options{Stream: newStream(), Replicas: 3}
	ra, rb := serveLog(t, c.open(o), nil), serveLog(t, c.open(o), nil)
	p := dial(t, "publisher", ra.addr, rb.addr)
	r := dial(t, "reader", rb.addr, ra.addr)
	sub, err := r.Subscribe(t.Context(), "jobs", client.FromAll())
	require.NoError(t, err)
	n := 0
	publish := func() time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		n++
		began := time.Now()
		ack, err := p.Publish(ctx, client.Publication{Topic: "jobs", Payload: fmt.Append(nil, n)}).Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, protocol.Seq(n), ack.Seq)
		return time.Since(began)
	}
	for i := range 3 {
		for range 20 {
			publish()
		}
		c.kill(i)
		worst := time.Duration(0)
		for range 20 {
			worst = max(worst, publish())
		}
		t.Logf("server %d killed: the longest publish took %v", i, worst)
		c.run(i)
		// The next is killed only once this one is back in step.
		time.Sleep(5 * time.Second)
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%d %d", i+1, i+1))
	}
	require.Equal(t, want, messages(t, sub, n))
}

// Without a majority publishes are refused or stay without an answer, reading
// goes on, and what was left open is in the log once when the majority is back.
func TestJetWithoutQuorum(t *testing.T) {
	c := newProcesses(t)
	o := jetlog.Options{Stream: newStream(), Replicas: 3, Timeout: time.Second}
	reg := serveLog(t, c.open(o), nil)
	p := dial(t, "publisher", reg.addr)
	for i := range 5 {
		_, err := p.PublishTo(t.Context(), "jobs", fmt.Append(nil, i))
		require.NoError(t, err)
	}
	c.kill(0)
	c.kill(1)
	first := p.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: []byte("open")})
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	_, err := p.PublishTo(ctx, "jobs", []byte("given up"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	code := protocol.CodeOf(err)
	require.True(t, errors.Is(err, protocol.ErrDraining) || errors.Is(err, protocol.ErrNotConnected) || errors.Is(err, protocol.ErrUnknownOutcome), "%v", err)
	t.Logf("%v: %v", code, err)

	r := dial(t, "reader", reg.addr)
	sub, err := r.Subscribe(t.Context(), "jobs", client.FromAll())
	require.NoError(t, err)
	require.Len(t, messages(t, sub, 5), 5)

	c.run(0)
	ctx, cancel = context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	ack, err := first.Wait(ctx)
	require.NoError(t, err)
	_, err = p.PublishTo(ctx, "jobs", []byte("last"))
	require.NoError(t, err)
	rest := messages(t, sub, 1)
	require.Equal(t, fmt.Sprintf("%d open", ack.Seq), rest[0])
}

// Two addresses of one client have to be of one log.
func TestJetAddressOfAnotherLog(t *testing.T) {
	c := newCluster(t, 1)
	rb := serve(t, c, jetlog.Options{}, nil) // the older one
	ra := serve(t, c, jetlog.Options{}, nil)
	p := dial(t, "a", ra.addr, rb.addr)
	_, err := p.PublishTo(t.Context(), "jobs", []byte("1"))
	require.NoError(t, err)
	require.NoError(t, ra.reg.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = p.PublishTo(ctx, "jobs", []byte("2"))
	require.ErrorIs(t, err, protocol.ErrWrongEpoch)
	require.Zero(t, rb.reg.Info().Messages)
}
