package memlog_test

import (
	"testing"

	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/logtest"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func TestLog(t *testing.T) {
	logtest.Run(t, logtest.Suite{
		New: func(_ *testing.T, keep registry.Retention) registry.Log {
			return memlog.New(memlog.Options{Retention: keep})
		},
	})
}
