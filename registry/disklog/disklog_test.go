package disklog_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/logtest"
)

// suite runs over logs made with these options.
func suite(dir func(*testing.T) string, opts func(*testing.T) disklog.Options) logtest.Suite {
	type place struct {
		dir  string
		opts disklog.Options
	}
	places := make(map[registry.Log]place)
	open := func(t *testing.T, p place) registry.Log {
		l, err := disklog.Open(p.dir, p.opts)
		require.NoError(t, err)
		places[l] = p
		return l
	}
	return logtest.Suite{
		Seeds: testenv.Raced[uint64](8, 2),
		New: func(t *testing.T, keep registry.Retention) registry.Log {
			p := place{dir(t), opts(t)}
			p.opts.Retention = keep
			return open(t, p)
		},
		Reopen: func(t *testing.T, l registry.Log) registry.Log {
			require.NoError(t, l.Close())
			p := places[l]
			delete(places, l)
			return open(t, p)
		},
	}
}

func TestLog(t *testing.T) {
	logtest.Run(t, suite((*testing.T).TempDir, func(*testing.T) disklog.Options { return disklog.Options{} }))
}

// Every read goes to the disk, which syncs when a test lets it.
func TestLogWithoutMemory(t *testing.T) {
	var disk *breaker
	s := suite(
		func(*testing.T) string { return "log" },
		func(*testing.T) disklog.Options {
			disk = &breaker{name: ".log", kinds: syncs}
			return disklog.Options{FS: breakableFS(vfs.NewMem(), disk), Recent: -1}
		},
	)
	s.Hold = func(*testing.T, registry.Log) func() { return disk.hold() }
	logtest.Run(t, s)
}
