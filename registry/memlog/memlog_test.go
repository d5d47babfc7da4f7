package memlog_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
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

func TestFailedAppendLeavesNothing(t *testing.T) {
	full := protocol.Errorf(protocol.ErrStorageFull, "no space left")
	fail := error(full)
	l := memlog.New(memlog.Options{Fail: func(*registry.Batch) error { return fail }})
	b := &registry.Batch{
		Records: []*registry.Record{{Message: protocol.Message{Seq: 1, Time: 1, Sender: 1, Topic: "a"}}},
		Fences:  []registry.FenceEntry{{Topic: "a", Fence: protocol.Fence{K: 1}}},
	}
	err := l.Append(b)
	require.ErrorIs(t, err, protocol.ErrStorageFull)
	seq, _ := l.Head()
	require.Zero(t, seq)
	require.Zero(t, l.Stats())
	require.NoError(t, l.Load(registry.State{Fence: func(registry.FenceEntry) error { return errors.New("a fence was stored") }}))

	fail = nil
	require.NoError(t, l.Append(b))
	require.Equal(t, 1, l.Stats().Messages)
}
