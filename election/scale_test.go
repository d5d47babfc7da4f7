package election_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/internal/testenv"
)

// published counts what enters the group's topic from now on.
func published(reg *fakeregistry.Registry) *atomic.Int64 {
	var n atomic.Int64
	reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Topic: topic, Times: -1, Do: func(fakeregistry.Hit) error {
		n.Add(1)
		return nil
	}})
	return &n
}

// A group at rest costs one publish in each heartbeat interval, whatever its size.
func TestAGroupAtRestCostsOneHeartbeat(t *testing.T) {
	for _, size := range []int{1, 3, 12} {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			p := newPool(t, reg)
			for i := range size {
				p.run(fmt.Sprint("n", i))
			}
			leader, _ := p.await("")
			time.Sleep(10 * lan.Silence) // followers let the leader know of themselves
			n := published(reg)
			time.Sleep(100 * lan.Heartbeat)
			require.InDelta(t, 100, n.Load(), 1, "with %d members", size)
			require.Equal(t, leader, p.leader())
		})
	}
}

// An election among 300 candidates, at a millisecond from member to member: most
// are silent, as a higher one has spoken.
func TestAnElectionOfManyIsQuiet(t *testing.T) {
	t.Parallel()
	size := testenv.Raced(300, 80)
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.SetLink("", "", fakeregistry.Link{Latency: time.Millisecond / 2})
		conns := make([]client.Conn, size)
		for i := range conns {
			conns[i] = dial(t, reg, fmt.Sprint("n", i))
		}
		n, start := published(reg), time.Now()
		p := newPool(t, reg)
		for i, conn := range conns {
			go p.runOver(fmt.Sprint("n", i), conn)
		}
		first, _ := p.await("")
		t.Logf("%d candidates, nobody before: %v, %d publishes", size, time.Since(start), n.Load())
		require.Less(t, n.Load(), int64(40))

		time.Sleep(2 * lan.Silence) // some let the leader know of themselves
		rest := n.Load()
		time.Sleep(20 * lan.Heartbeat)
		require.InDelta(t, 20, n.Load()-rest, 1)

		reg.Partition(first, fakeregistry.Host)
		rest, start = n.Load(), time.Now()
		next, _ := p.await(first)
		t.Logf("the leader cut off: %v, %d publishes", time.Since(start), n.Load()-rest)
		require.Less(t, n.Load()-rest, int64(40))
		require.NotEqual(t, first, next)
	})
}
