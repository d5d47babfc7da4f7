//go:build unix

package config_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// child is what a copy of this test program does instead of tests: it opens a
// File and applies versions from First on until somebody kills it, itself at the
// Nth time that it comes to Step.
type child struct {
	Dir   string
	First uint64
	Count int

	Step string
	Nth  int

	FileSize uint64 // a limit on the size of each file it writes; 0 = none
	User     int    // whose rights to take; 0 = keep
}

const childEnv = "PILOTGO_TEST_CONFIG_CHILD"

func init() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	os.Exit(c.main())
}

// command makes a process that is c.
func (c child) command(t testing.TB) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// main prints "ok VERSION" for each version in use, and "error CODE TEXT".
func (c child) main() int {
	if err := c.confine(); err != nil {
		fmt.Println("confine:", err)
		return 1
	}
	f, err := config.OpenFile(killed(c.Dir))
	if err != nil {
		fmt.Println("error", protocol.CodeOf(err).Name(), err)
		return 1
	}
	f.SetFault(func(step string) error {
		if step == c.Step {
			if c.Nth--; c.Nth == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return nil
	})
	for n := c.First; n < c.First+uint64(c.Count); n++ {
		d, err := config.NewDocument(n, content(n))
		if err == nil {
			err = f.Apply(context.Background(), d)
		}
		if err != nil && !errors.Is(err, errUnwell) {
			fmt.Println("error", protocol.CodeOf(err).Name(), err)
			return 1
		}
		if err == nil {
			fmt.Println("ok", n)
		}
	}
	return 0
}

func (c child) confine() error {
	if c.FileSize != 0 {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: c.FileSize, Max: c.FileSize}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
	}
	if c.User == 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(c.User), syscall.Setuid(c.User))
}

var errUnwell = errors.New("unwell")

// killed are the options of those who get killed: one version in four fails its
// health check and is put back.
func killed(dir string) config.FileOptions {
	return place(config.FileOptions{Health: &config.Health{
		Tries: 1,
		Check: func(_ context.Context, d *config.Document) error {
			if d.Version%4 == 3 {
				return errUnwell
			}
			return nil
		},
	}}, dir)
}

// content is the document of a version, of a length that differs between them.
func content(n uint64) []byte {
	return fmt.Appendf(nil, `{"version":%d,"pad":"%s"}`, n, strings.Repeat(strconv.FormatUint(n%10, 10), int(n*7919%60_000)))
}

// versionOf is the version whose content b is, byte for byte.
func versionOf(b []byte) (uint64, error) {
	digits, ok := bytes.CutPrefix(b, []byte(`{"version":`))
	end := bytes.IndexByte(digits, ',')
	if !ok || end < 0 {
		return 0, fmt.Errorf("no document: %.60q", b)
	}
	n, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	if err == nil && !bytes.Equal(b, content(n)) {
		err = fmt.Errorf("%d bytes that are not version %d", len(b), n)
	}
	return n, err
}

// H13: an agent is killed at any point, again and again, while others read its
// files. What they see is always one whole document, and a version file that is
// not ahead of it; who opens the files next finds them as they should be.
func TestKilledAtAnyPoint(t *testing.T) {
	dir := fastDir(t)
	var readers sync.WaitGroup
	stop, reads := make(chan struct{}), [2]int{}
	for i := range reads {
		readers.Go(func() {
			tick := time.NewTicker(50 * time.Microsecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if err := look(dir); err != nil {
					t.Error(err)
					return
				}
				reads[i]++
			}
		})
	}
	defer func() {
		close(stop)
		readers.Wait()
		t.Logf("%d reads", reads[0]+reads[1])
		require.NotZero(t, reads[0]+reads[1])
	}()

	steps := []string{"begin", "staged", "content", "version", "after", "activated", "settled", "undo", ""}
	rounds, acked, met := 0, uint64(0), map[string]int{}
	for deadline := time.Now().Add(testenv.Budget(t, 4*time.Second)); time.Now().Before(deadline) || len(met) < len(steps); rounds++ {
		c := child{Dir: dir, First: uint64(rounds)*100 + 1, Count: 50, Step: steps[rounds%len(steps)], Nth: 1 + rand.IntN(8)}
		last, died := runAndKill(t, c)
		acked = max(acked, last)
		if died {
			met[c.Step]++
		}

		f, err := config.OpenFile(killed(dir))
		require.NoError(t, err)
		a, err := f.Current(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.False(t, a.Pinned)
		require.GreaterOrEqual(t, a.Version, acked, "a version that was in use is lost")
		acked = a.Version
		if a.Version != 0 {
			require.Equal(t, content(a.Version), a.Config)
			wantFiles(t, dir, string(a.Config), strconv.FormatUint(a.Version, 10)+"\n")
		}
		wantClean(t, dir, filepath.Join(dir, "state"))
	}
	t.Logf("%d children, killed at %v, up to version %d", rounds, met, acked)
}

// fastDir is a folder in memory where there is one: the kernel loses nothing when
// a process dies, so that a disk would only make the test slow.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pilotgo-test-") //nolint:usetesting // t.TempDir is elsewhere
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// runAndKill runs the child to its death and tells the last version that it had
// in use. Without a step of its own it is killed at any time.
func runAndKill(t *testing.T, c child) (last uint64, died bool) {
	t.Helper()
	cmd := c.command(t)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if c.Step == "" {
		killer := time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		_, err := fmt.Sscanf(lines.Text(), "ok %d", &last)
		require.NoError(t, err, lines.Text())
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
		died = exit.Sys().(syscall.WaitStatus).Signaled()
		require.True(t, died, "%v", err)
	}
	return last, died
}

// look reads as a script does: the version, then the content, and the version
// again, since a version that fails is taken back in between.
func look(dir string) error {
	before, err := os.ReadFile(filepath.Join(dir, "app-version.txt"))
	if errors.Is(err, os.ErrNotExist) {
		before = []byte("0\n")
	} else if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(dir, "app.json"))
	if errors.Is(err, os.ErrNotExist) && string(before) == "0\n" {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := versionOf(b)
	if err != nil {
		return err
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(before)), 10, 64)
	if err != nil {
		return err
	}
	after, err := os.ReadFile(filepath.Join(dir, "app-version.txt"))
	if err == nil && bytes.Equal(before, after) && v > n {
		return fmt.Errorf("version file has %d, content is of %d", v, n)
	}
	return nil
}
