package integration_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// page is the operators' address of a registry that is a process.
type page struct {
	t     *testing.T
	addr  string
	token string // file
}

const pageToken = "a token of the operators"

// operatorsPage chooses an address; flags tell it to a registry.
func operatorsPage(t *testing.T) *page {
	t.Helper()
	o := &page{t: t, addr: testenv.Addr(t), token: filepath.Join(t.TempDir(), "token")}
	require.NoError(t, os.WriteFile(o.token, []byte(pageToken+"\n"), 0o600))
	return o
}

func (o *page) flags() []string { return []string{"--http", o.addr, "--http-token-file", o.token} }

// ready asks whether the registry takes messages, and tells what it says.
func (o *page) ready() (ok bool, says string) {
	o.t.Helper()
	ask, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "http://"+o.addr+"/readyz", nil)
	require.NoError(o.t, err)
	ask.Header.Set("Authorization", "Bearer "+pageToken)
	r, err := http.DefaultClient.Do(ask)
	require.NoError(o.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(o.t, err)
	return r.StatusCode == http.StatusOK, string(text)
}

// tell sends the registry a signal.
func (p *process) tell(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// ended waits until the registry has ended by itself, and returns its exit code
// and what it said.
func (p *process) ended() (code int, said string) {
	p.t.Helper()
	stuck := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill() })
	defer stuck.Stop()
	p.cmd.Wait()
	code = p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code, p.stderr.String()
}

// invoke runs one command to its end, which pilotgo may hand to the larger program.
func invoke(t *testing.T, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "pilotgo"), args...)
	cmd.Env = append(os.Environ(), "PILOT_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	testenv.Tie(cmd).Run()
	require.NoError(t, ctx.Err(), "it does not end: %v", args)
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// published lists what is retained on a topic, read anew.
func published(t *testing.T, c *client.Client, topic string) (payloads []string) {
	t.Helper()
	sub, err := c.Subscribe(t.Context(), topic, client.FromAll())
	require.NoError(t, err)
	defer sub.Close()
	for {
		item, err := sub.Next(t.Context())
		require.NoError(t, err)
		if item.Kind == client.ItemCaughtUp {
			return payloads
		}
		if item.Kind == client.ItemMessage {
			payloads = append(payloads, string(item.Message.Payload))
		}
	}
}

// put publishes one message and waits for its ack.
func put(t *testing.T, c *client.Client, topic, payload string) protocol.Seq {
	t.Helper()
	ack, err := c.PublishTo(t.Context(), topic, []byte(payload))
	require.NoError(t, err)
	return ack.Seq
}

// next is the next message of a stream.
func next(t *testing.T, s client.Stream) *protocol.Message {
	t.Helper()
	for m, err := range client.Messages(t.Context(), s) {
		require.NoError(t, err)
		return m
	}
	t.Fatal("the stream has ended")
	return nil
}
