package integration

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/jetlog"
	"github.com/pilotgo/pilotgo/registry/logtest"
)

var streams atomic.Int64

// newStream is a name that no other test uses.
func newStream() string { return fmt.Sprint("LOG", streams.Add(1)) }

func openLog(t testing.TB, c *cluster, o jetlog.Options) *jetlog.Log {
	t.Helper()
	if o.Stream == "" {
		o.Stream = newStream()
	}
	if o.Replicas == 0 {
		o.Replicas = len(c.servers)
	}
	return openAt(t, c.url(), o)
}

func openAt(t testing.TB, url string, o jetlog.Options) *jetlog.Log {
	t.Helper()
	l, err := jetlog.Open(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestJetLogConformance(t *testing.T) {
	c := newCluster(t, 3)
	for _, snapshot := range []int64{0, 2000} {
		t.Run(fmt.Sprint("snapshots after ", snapshot), func(t *testing.T) {
			opened := make(map[registry.Log]jetlog.Options)
			open := func(t *testing.T, o jetlog.Options) registry.Log {
				l := openLog(t, c, o)
				opened[l] = o
				return l
			}
			logtest.Run(t, logtest.Suite{
				New: func(t *testing.T, keep registry.Retention) registry.Log {
					return open(t, jetlog.Options{Stream: newStream(), Retention: keep, SnapshotBytes: snapshot})
				},
				Reopen: func(t *testing.T, old registry.Log) registry.Log {
					require.NoError(t, old.Close())
					return open(t, opened[old])
				},
			})
		})
	}
}
