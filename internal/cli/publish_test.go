package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A publish that ends with 0 is in the log, however late its answer came and
// whatever its size, though its process ended at once.
func TestOneShotPublishesAllArrive(t *testing.T) {
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0", hooks: registry.Hooks{
		BeforeAck: func(protocol.NodeID, protocol.Ack) (time.Duration, bool) {
			return rand.N(50 * time.Millisecond), false
		},
	}}
	require.NoError(t, s.start())
	t.Cleanup(s.stop)
	t.Setenv("PILOT_HOME", t.TempDir())
	t.Setenv("GORACE", raceOptions)
	end := time.Now().Add(testenv.Budget(t, time.Second))
	payload := bytes.Repeat([]byte{'x'}, 1<<20)

	var sent atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(end) {
				n := sent.Add(1)
				topic := fmt.Sprint("one-shot.", n)
				out, err := process(payload[:1+int(n)%3*(len(payload)-1)/2], "publish", s.addr, topic, "--data", "-").CombinedOutput()
				if !assert.NoError(t, err, string(out)) {
					return
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, sent.Load(), s.r.Info().Messages)
	t.Logf("%d publishes", sent.Load())
}

// A node that has joined as many topics as a registry lets it can still publish.
func TestFullInboxKeepsNobodyFromPublishing(t *testing.T) {
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0", hooks: registry.Hooks{
		Before: func(o registry.Operation) error {
			if o.Op == registry.OpPublish && o.Publish.Flags&protocol.FlagJoin != 0 {
				return protocol.ErrLimit
			}
			return nil
		},
	}}
	require.NoError(t, s.start())
	t.Cleanup(s.stop)
	t.Setenv("PILOT_HOME", t.TempDir())
	code, stdout, stderr := runLine(t, "--json", "publish", s.addr, "t", "--data", "x")
	require.Zero(t, code, stderr)
	require.Equal(t, "ok", decode(t, []byte(stdout))["status"])
	require.Equal(t, "not_joined", decode(t, []byte(stderr))["code"])
}

// A log of a new epoch is told all topics but those it refuses.
func TestRejoiningPassesOverRefusedTopics(t *testing.T) {
	denied := false
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0", hooks: registry.Hooks{
		Before: func(o registry.Operation) error {
			if denied && o.Op == registry.OpJoin && o.Topic == "a" {
				return protocol.ErrDenied
			}
			return nil
		},
	}}
	require.NoError(t, s.start())
	t.Cleanup(func() { s.stop() })
	t.Setenv("PILOT_HOME", t.TempDir())
	for _, topic := range []string{"a", "b", "c"} {
		code, _, stderr := runLine(t, "subscribe", s.addr, topic)
		require.Zero(t, code, stderr)
	}
	s.stop()
	denied = true
	require.NoError(t, s.start())
	code, _, stderr := runLine(t, "publish", s.addr, "other", "--data", "x")
	require.Zero(t, code, stderr)
	c, err := client.Dial(t.Context(), s.addr, client.Options{})
	require.NoError(t, err)
	defer c.Close()
	var topics []string
	for topic, err := range c.Joined(t.Context()) {
		require.NoError(t, err)
		topics = append(topics, topic)
	}
	require.Equal(t, []string{"b", "c", "other"}, topics)
}

// Only what may have left is of unknown outcome.
func TestPublishErrorsTellWhatIsKnown(t *testing.T) {
	for _, test := range []struct {
		err  error
		code protocol.Code
	}{
		{fmt.Errorf("%w: %w", protocol.ErrUnknownOutcome, context.DeadlineExceeded), protocol.ErrUnknownOutcome},
		{fmt.Errorf("%w: %w", protocol.ErrUnknownOutcome, context.Canceled), protocol.ErrUnknownOutcome},
		{fmt.Errorf("%w: %w", protocol.ErrNotConnected, context.DeadlineExceeded), protocol.ErrNotConnected},
		{fmt.Errorf("%w: %w", protocol.ErrDraining, context.DeadlineExceeded), protocol.ErrDraining},
		{fmt.Errorf("publish: %w", context.DeadlineExceeded), protocol.ErrTimeout},
	} {
		require.Equal(t, test.code.Name(), describe(publishError("t", test.err)).code, test.err)
	}
	require.Equal(t, codeInterrupted, describe(publishError("t", context.Canceled)).code)
}

// A pattern that matches more than this node may read says so, once.
func TestNarrowedSubscriptionWarns(t *testing.T) {
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0"}
	s.access = func(_ context.Context, r registry.Request) error {
		if r.Right == registry.RightSubscribe && (r.Topic == "secret" || r.Topic == "*") {
			return protocol.ErrDenied
		}
		return nil
	}
	require.NoError(t, s.start())
	t.Cleanup(s.stop)
	t.Setenv("PILOT_HOME", t.TempDir())
	for _, topic := range []string{"secret", "open"} {
		code, _, stderr := runLine(t, "publish", s.addr, topic, "--data", topic)
		require.Zero(t, code, stderr)
	}
	code, stdout, stderr := runLine(t, "--json", "subscribe", s.addr, "*", "--follow", "--from", "all", "--count", "1")
	require.Zero(t, code, stderr)
	require.Equal(t, "open", decode(t, []byte(stdout))["topic"])
	require.Equal(t, "narrowed", decode(t, []byte(stderr))["code"])
}

// process is the command line in a process of its own.
func process(stdin []byte, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"pilotgo"}, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	return cmd
}
