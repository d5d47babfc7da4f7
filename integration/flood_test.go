package integration_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// A flood is what one hostile machine sends, again and again.
type flood struct {
	name string
	send func() (stop func())
}

// garbage sends packets as fast as a second has them.
func garbage(name, target string, perSecond int, packet func() []byte) flood {
	return flood{name, func() func() {
		conn, err := net.Dial("udp", target)
		if err != nil {
			panic(err)
		}
		done := make(chan struct{})
		var working sync.WaitGroup
		working.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-done:
					return
				}
				for range perSecond / 100 {
					conn.Write(packet())
				}
			}
		})
		return func() {
			close(done)
			working.Wait()
			conn.Close()
		}
	}}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// initial is the first packet of a QUIC handshake as far as can be seen without
// its keys: each one begins a connection, and none goes on.
func initial(version uint32) func() []byte {
	return func() []byte {
		b := noise(1250)
		b[0] = 0xc0 | b[0]&0x0f
		b[1], b[2], b[3], b[4] = byte(version>>24), byte(version>>16), byte(version>>8), byte(version)
		b[5] = 8                                     // the length of the connection id
		b[14] = 8                                    // and of the sender's
		b[23] = 0                                    // no token
		b[24], b[25] = 0x40|byte(1224>>8), 1224&0xff // the length of the rest
		return b
	}
}

// rss is how much memory a process has, in bytes.
func rss(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	testenv.Need(t, "proc", err == nil, "no /proc")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return n << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// pace publishes for a while and tells how long half and 99 of 100 acks took.
func pace(t *testing.T, c *client.Client, d time.Duration) (half, most time.Duration, n int) {
	t.Helper()
	var took []time.Duration
	for began := time.Now(); time.Since(began) < d; {
		sent := time.Now()
		put(t, c, "jobs", "x")
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], len(took)
}

// webNoise takes connections of the operators' address and says nothing that
// makes sense on them.
func webNoise(target string) (stop func()) {
	var all []net.Conn
	for i := range 600 {
		conn, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			break // the queue of those that wait is full too
		}
		all = append(all, conn)
		switch i % 3 {
		case 0: // nothing
		case 1:
			conn.Write(noise(1000))
		case 2:
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nX: ", target)
		}
	}
	return func() {
		for _, conn := range all {
			conn.Close()
		}
	}
}

// Two clients' worth of garbage, at the port of sessions and at that of
// operators, costs others some time and nothing else: the publisher gets all its
// acks over the session that it had, new clients get in, and what the registry
// takes of memory and files is bounded.
func TestGarbageDoesNotStopARegistry(t *testing.T) {
	page := operatorsPage(t)
	p := registryProcess(t, append(page.flags(), "--store", filepath.Join(t.TempDir(), "log"))...)
	pid := p.cmd.Process.Pid
	c := p.dial("publisher")
	d := testenv.Budget(t, 2*time.Second)
	half, most, n := pace(t, c, time.Second)
	before, files := rss(t, pid), openFiles(t, pid)
	t.Logf("before: half in %v, 99 %% in %v, %d acks; %d MiB, %d files", half, most, n, before>>20, files)
	for _, f := range []flood{
		garbage("noise", p.addr, 20_000, func() []byte { return noise(200) }),
		garbage("unknown versions", p.addr, 5_000, initial(0x1a2a3a4a)),
		garbage("handshakes that go nowhere", p.addr, 2_000, initial(1)),
		{"noise for operators", func() func() { return webNoise(page.addr) }},
	} {
		stop1, stop2 := f.send(), f.send()
		half, most, n := pace(t, c, d)
		put(t, p.dial(f.name), "jobs", "x")
		now, opened := rss(t, pid), openFiles(t, pid)
		stop1()
		stop2()
		t.Logf("%s: half in %v, 99 %% in %v, %d acks; %d MiB, %d files", f.name, half, most, n, now>>20, opened)
		require.Less(t, now, before+200<<20)
		require.Less(t, opened, files+600)
	}
	require.EqualValues(t, 1, c.Stats().Connects)
	ok, says := page.ready()
	require.True(t, ok, "%s", says)
}

// openFiles is how many files a process has open.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(list)
}
