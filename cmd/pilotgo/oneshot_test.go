package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// process is the command line in a process of its own.
func process(stdin []byte, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"pilotgo"}, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	return cmd
}
