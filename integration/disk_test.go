//go:build linux

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// disk is a file system of the test's own.
type disk struct {
	t   *testing.T
	dir string
}

// mount runs mount(8), which only root may, and returns the folder. It is
// unmounted when the test has ended all that uses it.
func mount(t *testing.T, args ...string) *disk {
	t.Helper()
	d := &disk{t: t, dir: t.TempDir()}
	out, err := exec.Command("mount", append(args, d.dir)...).CombinedOutput()
	testenv.Need(t, "mount", err == nil, fmt.Sprintf("mount %v: %v: %s", args, err, out))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, 0)) })
	return d
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

// left is how many bytes there is room for.
func (d *disk) left() int64 {
	d.t.Helper()
	var s syscall.Statfs_t
	require.NoError(d.t, syscall.Statfs(d.dir, &s))
	return int64(s.Bavail) * s.Bsize
}

// fill takes space until so much is left, and more if others write meanwhile.
func (d *disk) fill(left int64) {
	d.t.Helper()
	file, err := os.OpenFile(d.path("others"), os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(d.t, err)
	defer file.Close()
	at, err := file.Seek(0, 2)
	require.NoError(d.t, err)
	for more := d.left() - left; more > 0; more = d.left() - left {
		err := syscall.Fallocate(int(file.Fd()), 0, at, more)
		if errors.Is(err, syscall.ENOSPC) {
			continue // somebody was faster
		}
		require.NoError(d.t, err)
		at += more
	}
}

// free gives back what fill took.
func (d *disk) free() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(d.path("others")))
}

// A registry whose disk is full says so, goes on serving reads, and takes
// messages again as soon as there is room.
func TestAFullDiskIsToldAndPublishesGoOnOnceThereIsRoom(t *testing.T) {
	d := mount(t, "-t", "tmpfs", "-o", "size=340m", "pilotgo-test")
	page := operatorsPage(t)
	p := registryProcess(t, append(page.flags(), "--store", d.path("log"))...)
	publisher, reader := p.dial("publisher"), p.dial("reader")
	sub, err := reader.Subscribe(t.Context(), "jobs", client.FromAll())
	require.NoError(t, err)
	put(t, publisher, "jobs", "before")

	for _, left := range []int64{200 << 20, 0} {
		d.fill(left)
		_, err := publisher.PublishTo(t.Context(), "jobs", []byte("no room"))
		require.ErrorIs(t, err, protocol.ErrStorageFull)
		refused, ok := errors.AsType[*protocol.Error](err)
		require.True(t, ok)
		require.Positive(t, refused.RetryAfter, "it says when to try again")
		ok, says := page.ready()
		require.False(t, ok, "%s", says)
		require.Contains(t, says, "MiB")

		// Who reads is served, also who comes only now.
		require.Equal(t, "before", string(next(t, sub).Payload))
		late := p.dial(fmt.Sprint("late at ", left))
		require.Equal(t, []string{"before"}, published(t, late, "jobs"))
		_, err = late.Info(t.Context())
		require.NoError(t, err)
		sub, err = late.Subscribe(t.Context(), "jobs", client.FromAll())
		require.NoError(t, err)
	}
	require.Equal(t, "before", string(next(t, sub).Payload))
	d.free()
	put(t, publisher, "jobs", "after")
	require.Equal(t, "after", string(next(t, sub).Payload))
	ok, says := page.ready()
	require.True(t, ok, "%s", says)
}

// Others fill the disk to the last byte while messages stream in, again and
// again: each publish is acknowledged or refused, and what was acknowledged is
// there after a crash.
func TestADiskThatOthersFillUnderLoad(t *testing.T) {
	d := mount(t, "-t", "tmpfs", "-o", "size=340m", "pilotgo-test")
	p := registryProcess(t, "--store", d.path("log"))
	c := p.dial("publisher")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	var acked, refused atomic.Int64
	var mu sync.Mutex
	kept := map[string]bool{}
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for who := range publishers {
		working.Go(func() {
			for n := 0; publishing.Err() == nil; n++ {
				// A topic of 500 each, so that retention takes none.
				topic, payload := fmt.Sprintf("jobs.%d.%d", who, n/500), fmt.Sprintf("%d/%d", who, n)
				_, err := c.PublishTo(ctx, topic, []byte(payload))
				switch {
				case err == nil:
					mu.Lock()
					kept[payload] = true
					mu.Unlock()
					acked.Add(1)
				case errors.Is(err, protocol.ErrStorageFull):
					refused.Add(1)
				default:
					t.Errorf("publish %s: %v", payload, err)
					return
				}
			}
		})
	}
	more := func(n *atomic.Int64) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for goal := n.Load() + 100; n.Load() < goal; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				require.FailNow(t, "no more answers of this kind", "%d acked, %d refused", acked.Load(), refused.Load())
			}
		}
	}
	began, rounds := time.Now(), 0
	for budget := testenv.Budget(t, 0); rounds < 3 || time.Since(began) < budget; rounds++ {
		more(&acked)
		d.fill(0)
		more(&refused)
		d.free()
	}
	more(&acked)
	stop()
	working.Wait()
	p.kill()
	p.start()
	there := map[string]bool{}
	for _, payload := range published(t, p.dial("reader"), "jobs.*") {
		there[payload] = true
	}
	lost := 0
	for payload := range kept {
		if !there[payload] {
			lost++
		}
	}
	require.Zero(t, lost, "acknowledged and not there, of %d", len(kept))
	t.Logf("%d times full: %d acknowledged, %d refused", rounds, acked.Load(), refused.Load())
}

// A disk that refuses a write leaves nobody knowing what it holds: the registry
// ends, says why, and the one that a supervisor starts next has all that was
// acknowledged. Clients notice no more than a pause.
func TestADiskThatRefusesAWriteEndsTheRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T) failing
		says    string
	}{
		"no file may grow":                 {noFileMayGrow, "file too large"},
		"the system has made it read-only": {madeReadOnly, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := test.prepare(t)
			p := registryProcess(t, "--store", disk.store)
			c := p.dial("client")
			sub, err := c.Subscribe(t.Context(), "jobs", client.FromAll())
			require.NoError(t, err)
			for n := range 20 {
				put(t, c, "jobs", fmt.Sprint(n))
			}
			disk.refuse(p.cmd.Process.Pid)
			waiting := c.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: []byte("in between")})
			code, said := p.ended()
			require.Equal(t, 1, code)
			require.Contains(t, said, "log "+disk.store+" failed")
			require.Contains(t, said, test.says)
			require.Contains(t, said, "what was acknowledged is safe")

			disk.mend()
			p.start()
			_, err = waiting.Wait(t.Context())
			require.NoError(t, err, "it was sent again")
			put(t, c, "jobs", "after")
			want := make([]string, 0, 22)
			for n := range 20 {
				want = append(want, fmt.Sprint(n))
			}
			want = append(want, "in between", "after")
			require.Equal(t, want, published(t, c, "jobs"))
			for _, payload := range want {
				require.Equal(t, payload, string(next(t, sub).Payload))
			}
			p.kill()
		})
	}
}

// failing is a disk that a test makes refuse what a process writes.
type failing struct {
	store  string
	refuse func(pid int)
	mend   func() // once the process has ended
}

// A disk that fails under load, and again, costs nobody more than a pause: what
// was on its way is sent again, and nothing is refused for good.
//
// It is not one whose file system aborts its journal: ext4 tells of syncs that go
// on just then that they are done though they are not, and messages are lost.
func TestLanesKeepTheirOrderWhenTheDiskFails(t *testing.T) {
	disk := noFileMayGrow(t)
	registryEnds(t, disk.store, func(p *process) {
		disk.refuse(p.cmd.Process.Pid)
		code, said := p.ended()
		require.Equal(t, 1, code, "%s", said)
		require.Contains(t, said, "what was acknowledged is safe")
	})
}

func noFileMayGrow(t *testing.T) failing {
	return failing{
		store: filepath.Join(t.TempDir(), "log"),
		refuse: func(pid int) {
			limit := syscall.Rlimit{Cur: 1, Max: 1}
			_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
			require.Zero(t, errno)
		},
		mend: func() {},
	}
}

// madeReadOnly is what ext4 does by itself when it finds its disk failing.
func madeReadOnly(t *testing.T) failing {
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 512<<20))
	out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput()
	testenv.Need(t, "mount", err == nil, fmt.Sprintf("mkfs.ext4: %v: %s", err, out))
	d := mount(t, "-o", "loop", image)
	run := func(args ...string) {
		out, err := exec.Command("mount", append(args, d.dir)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return failing{
		store:  d.path("log"),
		refuse: func(int) { run("-o", "remount,abort") },
		mend: func() {
			require.NoError(t, syscall.Unmount(d.dir, 0))
			run("-o", "loop", image)
		},
	}
}
