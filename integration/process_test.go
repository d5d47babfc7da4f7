package integration_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// programs are built once for all tests.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pilotgo-programs") // it outlives the test that asks first
	if err != nil {
		return "", err
	}
	programsDir = dir
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/...")
	cmd.Dir = ".."
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), err
	}
	return dir, nil
})

// programsDir is where they are, once they were asked for.
var programsDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if programsDir != "" {
		os.RemoveAll(programsDir)
	}
	os.Exit(code)
}

// program is the path of one of the programs.
func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err, dir)
	return filepath.Join(dir, name)
}

// process is a registry that is a process, at an address that stays the same.
type process struct {
	t    *testing.T
	addr string
	home string
	args []string
	in   []string // words of a command that runs it; nil is none
	path string   // of the program; empty is the one built here

	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// registryProcess starts a registry at a free port of the loopback address.
func registryProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := newProcess(t, args...)
	p.run()
	return p
}

// newProcess is one that is yet to be started.
func newProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{t: t, addr: testenv.Addr(t), home: t.TempDir(), args: args}
}

// run starts the registry, which ends with the test.
func (p *process) run() {
	p.t.Helper()
	p.start()
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Logf("the registry said:\n%s", p.stderr.String())
		}
	})
}

// start returns when the registry takes sessions.
func (p *process) start() {
	p.t.Helper()
	if p.path == "" {
		p.path = program(p.t, "pilotgo-registry")
	}
	words := append(slices.Clone(p.in), p.path, "registry", "serve", "--listen", p.addr, "--print-addr")
	words = append(words, p.args...)
	p.cmd = exec.Command(words[0], words[1:]...)
	p.cmd.Env = append(os.Environ(), "PILOT_HOME="+p.home)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, testenv.Tie(p.cmd).Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.cmd.Wait() // or it may still be saying something
		require.NoError(p.t, err, "the registry ended: %s", p.stderr.String())
	}
	require.Equal(p.t, p.addr+"\n", line)
}

// kill ends the registry as a crash of its machine's power would end a process.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.cmd = nil
}

// dial connects a node with a new identity, which lasts as long as the test.
func (p *process) dial(name string) *client.Client {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), p.addr, client.Options{Home: p.t.TempDir(), Name: name})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	return c
}
