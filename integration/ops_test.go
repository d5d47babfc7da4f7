package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// under runs f while publishers load the registry and a reader follows, and then
// makes sure that nothing is missing, doubled or of unknown outcome.
func under(t *testing.T, p *process, f func(ctx context.Context, l *load, all []*client.Client)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.Budget(t, time.Minute))
	defer cancel()
	l := newLoad(t)
	reader := p.dial("reader")
	end := l.readAll(ctx, reader)
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	all := []*client.Client{reader}
	for i := range publishers {
		c := p.dial(fmt.Sprint("publisher ", i))
		all = append(all, c)
		working.Go(func() { l.publish(publishing, c, i) })
	}
	f(ctx, l, all)
	stop()
	working.Wait()
	end()
	t.Logf("%d acknowledged", len(l.acked))
}

// A registry that is told to stop under load answers what it has, tells its
// clients to come back, and exits 0. To them its restart is a pause: no publish is
// lost, doubled, refused or of unknown outcome.
func TestATerminatedRegistryIsAPauseToItsClients(t *testing.T) {
	p := registryProcess(t, "--store", filepath.Join(t.TempDir(), "log"))
	under(t, p, func(ctx context.Context, l *load, all []*client.Client) {
		streams := make([]*client.Events, len(all))
		for i, c := range all {
			streams[i] = c.Events()
		}
		budget, began := testenv.Budget(t, 0), time.Now()
		for n := 0; n < 3 || time.Since(began) < budget; n++ {
			l.waitForAcks(ctx, 200+rand.Int64N(1000))
			p.tell(syscall.SIGTERM)
			code, said := p.ended()
			require.Zero(t, code, "%s", said)
			p.start()
			for _, s := range streams {
				told := false
				for back := false; !back; {
					e, err := s.Next(ctx)
					require.NoError(t, err)
					switch e := e.(type) {
					case client.Draining:
						told = true
						require.Positive(t, e.RetryAfter)
					case client.Disconnected:
						require.ErrorIs(t, e.Err, protocol.ErrDraining)
					case client.Connected:
						back = true
					}
				}
				require.True(t, told, "it was told to come back")
			}
		}
	})
}

// Rules that change under load count from the signal on, one set after the
// other; rules that are no rules change nothing; and those whom they do not
// concern notice nothing.
func TestRulesAreReadAgainUnderLoad(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	write := func(text string) {
		require.NoError(t, os.WriteFile(rules+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(rules+".new", rules))
	}
	const open, closed = "allow any all *\n", "deny any publish secret\nallow any all *\n"
	write(open)
	p := registryProcess(t, "--store", filepath.Join(t.TempDir(), "log"), "--access", rules)
	under(t, p, func(ctx context.Context, l *load, _ []*client.Client) {
		c := p.dial("one whom they concern")
		until := func(want error) {
			for {
				switch _, err := c.PublishTo(ctx, "secret", nil); {
				case want == nil && err == nil, want != nil && errors.Is(err, want):
					return
				case err != nil:
					require.ErrorIs(t, err, protocol.ErrDenied)
				}
			}
		}
		for range 5 {
			write(closed)
			p.tell(syscall.SIGHUP)
			until(protocol.ErrDenied)
			write("allow everything to everybody\n")
			p.tell(syscall.SIGHUP)
			l.waitForAcks(ctx, 100)
			_, err := c.PublishTo(ctx, "secret", nil)
			require.ErrorIs(t, err, protocol.ErrDenied)
			write(open)
			p.tell(syscall.SIGHUP)
			until(nil)
		}
	})
	p.tell(syscall.SIGTERM)
	code, said := p.ended()
	require.Zero(t, code)
	require.Contains(t, said, "access rules stay as they were")
}

// holds is what a check of a folder tells.
func holds(t *testing.T, folder string) (messages int, epoch string) {
	t.Helper()
	code, out, errs := invoke(t, t.TempDir(), "--json", "registry", "check", folder)
	require.Zero(t, code, "%s", errs)
	var r struct {
		Messages int
		Epoch    string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return r.Messages, r.Epoch
}

// fillLog publishes some KiB to each of some topics.
func fillLog(t *testing.T, c *client.Client, topics, each int) {
	t.Helper()
	var sent []client.Pending
	for i := range topics * each {
		pub := client.Publication{Topic: fmt.Sprint("filling.", i%topics), Payload: fmt.Appendf(nil, "%01024d", rand.Uint64())}
		sent = append(sent, c.Publish(t.Context(), pub))
	}
	for _, s := range sent {
		_, err := s.Wait(t.Context())
		require.NoError(t, err)
	}
}

// A registry that is killed while it makes a backup leaves a whole backup or none,
// and the next one can take the same name.
func TestAKillInTheMiddleOfABackup(t *testing.T) {
	page := operatorsPage(t)
	p := registryProcess(t, append(page.flags(), "--store", filepath.Join(t.TempDir(), "log"))...)
	c := p.dial("client")
	fillLog(t, c, 10, 500)
	backups := t.TempDir()
	backup := func(name string) (code int, errs string) {
		code, _, errs = invoke(t, p.home, append([]string{"registry", "backup", filepath.Join(backups, name), "--http", page.addr}, page.flags()[2:]...)...)
		return code, errs
	}
	whole := 0
	budget, began := testenv.Budget(t, 0), time.Now()
	for n := 0; n < 8 || time.Since(began) < budget; n++ {
		before := put(t, c, fmt.Sprint("round.", n), "")
		name := fmt.Sprint(n)
		ended := make(chan int, 1)
		go func() {
			code, _ := backup(name)
			ended <- code
		}()
		// Once it has begun, and a little later each time.
		for began := false; !began; {
			_, partial := os.Stat(filepath.Join(backups, name+".partial"))
			_, all := os.Stat(filepath.Join(backups, name))
			began = partial == nil || all == nil
		}
		<-time.After(time.Duration(n%8) * time.Millisecond)
		p.kill()
		code := <-ended
		_, err := os.Stat(filepath.Join(backups, name))
		if err == nil {
			whole++
			messages, _ := holds(t, filepath.Join(backups, name))
			require.EqualValues(t, before, messages)
		} else {
			require.Contains(t, []int{1, 10}, code, "what is not there was not made")
		}
		p.start()
		if err != nil {
			code, errs := backup(name)
			require.Zero(t, code, "%s", errs)
			messages, _ := holds(t, filepath.Join(backups, name))
			require.EqualValues(t, before, messages)
		}
	}
	left, err := filepath.Glob(filepath.Join(backups, "*.partial"))
	require.NoError(t, err)
	require.Empty(t, left)
	t.Logf("%d of the backups were whole when the registry was killed", whole)
}

// An import that is killed leaves no log behind that could be taken for a whole
// one, and can be begun anew.
func TestAKillInTheMiddleOfAnImport(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	p := registryProcess(t, "--store", folder)
	fillLog(t, p.dial("client"), 10, 800)
	p.kill()
	want, epoch := holds(t, folder)
	export := filepath.Join(t.TempDir(), "export")
	code, out, errs := invoke(t, t.TempDir(), "registry", "export", folder)
	require.Zero(t, code, "%s", errs)
	require.NoError(t, os.WriteFile(export, []byte(out), 0o600))

	into := filepath.Join(t.TempDir(), "log")
	for n := 1; n < 5; n++ {
		cmd := exec.Command(program(t, "pilotgo-registry"), "registry", "import", into, "-")
		cmd.Env = append(os.Environ(), "PILOT_HOME="+t.TempDir())
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, testenv.Tie(cmd).Start())
		// A pipe holds little: nearly all of what is written has been read.
		_, err = in.Write([]byte(out[:len(out)*n/5]))
		require.NoError(t, err)
		cmd.Process.Kill()
		require.Error(t, cmd.Wait())
		require.DirExists(t, into+".partial")
		require.NoDirExists(t, into)
	}
	code, _, errs = invoke(t, t.TempDir(), "registry", "import", into, export)
	require.Zero(t, code, "%s", errs)
	got, another := holds(t, into)
	require.Equal(t, want, got)
	require.NotEqual(t, epoch, another)
	left, err := filepath.Glob(into + ".*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// An export takes nothing from the folder, however much its registry was to keep.
func TestAnExportHasAllThatTheRegistryKept(t *testing.T) {
	const n = 1100 // above what is kept by default
	folder := filepath.Join(t.TempDir(), "log")
	p := registryProcess(t, "--store", folder, "--keep-messages", "-1")
	fillLog(t, p.dial("client"), 1, n)
	p.kill()
	code, out, errs := invoke(t, t.TempDir(), "registry", "export", folder)
	require.Zero(t, code, "%s", errs)
	require.True(t, strings.HasSuffix(out, fmt.Sprintf("{\"end\":{\"messages\":%d}}\n", n)), "%s", out[max(0, len(out)-100):])
	left, _ := holds(t, folder)
	require.Equal(t, n, left)
}

// A folder has one registry. Others that want it end and name the one that has
// it, which notices nothing; a kill leaves no lock behind.
func TestOneFolderHasOneRegistry(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	p := registryProcess(t, "--store", folder)
	under(t, p, func(ctx context.Context, l *load, _ []*client.Client) {
		var others sync.WaitGroup
		for _, command := range [][]string{
			{"registry", "serve", "--listen", "127.0.0.1:0", "--store", folder},
			{"registry", "serve", "--listen", "127.0.0.1:0", "--store", folder, "--rotate-key"},
			{"registry", "export", folder},
			{"registry", "check", folder},
		} {
			others.Go(func() {
				code, out, errs := invoke(t, p.home, command...)
				assert.Equal(t, 1, code, "%v", command)
				assert.Empty(t, out)
				assert.Contains(t, errs, fmt.Sprintf("in use by process %d", p.cmd.Process.Pid))
			})
		}
		code, _, errs := invoke(t, p.home, "registry", "import", folder, os.DevNull)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "there is a log already")
		others.Wait()
		l.waitForAcks(ctx, 100)
		p.kill()
		p.start()
	})
}

// A log of a later version is left as it is, whatever is asked for.
func TestALogOfALaterVersionIsLeftAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	p := registryProcess(t, "--store", folder)
	put(t, p.dial("client"), "jobs", "one")
	p.kill()
	format := filepath.Join(folder, "format")
	now, err := os.ReadFile(format)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(format, []byte("pilotgo registry log, format 99\n"), 0o600))
	before := tree(t, folder)
	for _, command := range [][]string{
		{"registry", "serve", "--listen", "127.0.0.1:0", "--store", folder},
		{"registry", "serve", "--listen", "127.0.0.1:0", "--store", folder, "--rotate-key"},
		{"registry", "check", folder},
		{"registry", "export", folder},
		{"registry", "import", folder, os.DevNull},
	} {
		code, _, errs := invoke(t, p.home, command...)
		require.Equal(t, 1, code, "%v", command)
		if command[1] != "import" {
			require.Contains(t, errs, "has format 99", "%v", command)
			require.Contains(t, errs, "upgrade it", "%v", command)
		}
		require.Equal(t, before, tree(t, folder), "%v", command)
	}
	require.NoError(t, os.WriteFile(format, now, 0o600))
	p.start()
	require.Equal(t, []string{"one"}, published(t, p.dial("reader"), "jobs"))
}

// tree is every file of a folder with its size and when it changed.
func tree(t *testing.T, folder string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil && !d.IsDir() {
			list = append(list, fmt.Sprint(path, " ", i.Size(), " ", i.ModTime()))
		}
		return err
	}))
	return list
}

// A folder that was copied with other tools while it was in use is refused, or
// has all that was acknowledged before the copy, or has another epoch, which
// tells clients that something is missing.
func TestACopyOfAFolderInUse(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	p := registryProcess(t, "--store", folder)
	outcomes := map[string]int{}
	under(t, p, func(ctx context.Context, l *load, _ []*client.Client) {
		info, err := p.dial("who asks").Info(ctx)
		require.NoError(t, err)
		epoch := info.Epoch.ID.String()
		budget, began := testenv.Budget(t, 0), time.Now()
		for n := 0; n < 6 || time.Since(began) < budget; n++ {
			l.waitForAcks(ctx, 500)
			l.mu.Lock()
			head := l.head
			l.mu.Unlock()
			copied := filepath.Join(t.TempDir(), "copy")
			order := [][]string{{"format", "head", "store"}, {"format", "store", "head"}}[n%2]
			require.NoError(t, os.Mkdir(copied, 0o700))
			for _, part := range order {
				// Files go while it copies, which it complains about.
				exec.CommandContext(ctx, "cp", "-r", filepath.Join(folder, part), copied).Run()
			}
			outcomes[tried(t, copied, epoch, head)]++
		}
	})
	t.Logf("%v", outcomes)
	require.NotEmpty(t, outcomes)
}

// tried serves from a copy and tells what came of it.
func tried(t *testing.T, folder, epoch string, head protocol.Seq) string {
	t.Helper()
	cmd := exec.Command(program(t, "pilotgo-registry"), "registry", "serve", "--listen", "127.0.0.1:0", "--print-addr", "--store", folder)
	cmd.Env = append(os.Environ(), "PILOT_HOME="+t.TempDir())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, testenv.Tie(cmd).Start())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	addr := make([]byte, 64)
	n, _ := out.Read(addr)
	if n == 0 {
		cmd.Wait()
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		require.Contains(t, errs.String(), "damaged")
		return "refused"
	}
	c, err := client.Dial(t.Context(), strings.TrimSpace(string(addr[:n])), client.Options{Home: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	info, err := c.Info(t.Context())
	require.NoError(t, err)
	if info.Epoch.ID.String() != epoch {
		return "another epoch"
	}
	require.GreaterOrEqual(t, info.Head, head)
	return "whole"
}
