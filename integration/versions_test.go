package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/integration"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// otherVersion is the pilotgo of another version, which has its pilotgo-registry
// beside it: PILOTGO_OTHER names it.
func otherVersion(t *testing.T) (pilotgo, registry string) {
	t.Helper()
	path := os.Getenv("PILOTGO_OTHER")
	testenv.Need(t, "other", path != "", "PILOTGO_OTHER is not the path of another version's pilotgo")
	return path, filepath.Join(filepath.Dir(path), "pilotgo-registry")
}

// Registries of two versions share one log while clients publish, elect and
// configure through both, and each of the two is killed and comes back: nothing is
// lost, and all goes on, also for the other version's program as a client.
func TestTwoVersionsSideBySide(t *testing.T) {
	pilotgo, registry := otherVersion(t)
	store := "--store=" + integration.NewCluster(t, 3)
	other := newProcess(t, store)
	other.path = registry
	other.run() // its log, for the newer one to go on with
	both := []*process{other, registryProcess(t, store)}
	budget := testenv.Budget(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), max(2*budget, 3*time.Minute))
	defer cancel()
	clients := 0
	dial := func(name string) *client.Client {
		first, second := both[clients%2], both[1-clients%2]
		clients++
		c, err := client.Dial(ctx, first.addr+","+second.addr, client.Options{Home: t.TempDir(), Name: name})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}

	l := newLoad(t)
	end := l.readAll(ctx, dial("reader"))
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var working sync.WaitGroup
	for i := range publishers {
		c := dial(fmt.Sprint("publisher ", i))
		working.Go(func() { l.publish(publishing, c, i) })
	}
	g := carryOn(ctx, t, dial)
	home := t.TempDir()
	kills := 0
	for began := time.Now(); kills < 6 || time.Since(began) < budget; kills++ {
		l.waitForAcks(ctx, 200+rand.Int64N(1000))
		both[kills%2].kill()
		g.check(ctx, 2*kills)
		both[kills%2].start()
		l.waitForAcks(ctx, 200)
		g.check(ctx, 2*kills+1)
		cmd := exec.CommandContext(ctx, pilotgo, "publish", both[kills%2].addr, "notes", "--data", fmt.Sprint(kills))
		cmd.Env = append(os.Environ(), "PILOT_HOME="+home)
		out, err := testenv.Tie(cmd).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	stop()
	working.Wait()
	end()
	var want []string
	for n := range kills {
		want = append(want, fmt.Sprint(n))
	}
	for _, p := range both {
		require.Equal(t, want, published(t, p.dial("late"), "notes"))
	}
	t.Logf("%d kills, %d acknowledged", kills, len(l.acked))
}

// A log on disk that another version has written is there for this one.
func TestALogOfAnotherVersion(t *testing.T) {
	_, registry := otherVersion(t)
	dir := t.TempDir()
	p := newProcess(t, "--store", dir)
	p.path = registry
	p.run()
	c := p.dial("client")
	info, err := c.Info(t.Context())
	require.NoError(t, err)
	var want []string
	for n := range 100 {
		want = append(want, fmt.Sprint(n))
		put(t, c, "jobs", fmt.Sprint(n))
	}
	p.kill()
	p.path = "" // the one built here
	p.start()
	require.Equal(t, want, published(t, c, "jobs"))
	now, err := c.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, info.Epoch, now.Epoch, "the same log")
	put(t, c, "jobs", "after")
}
