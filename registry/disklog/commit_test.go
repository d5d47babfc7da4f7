package disklog

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who closes a log whose disk has failed finds everybody told of that.
func TestCloseWaitsUntilAllAreTold(t *testing.T) {
	alarm := newAlarm(t.TempDir(), slog.New(slog.DiscardHandler))
	c := newCommitter(nil, alarm, func(*change) {})
	waiting := make([]*change, 10_000)
	for i := range waiting {
		waiting[i] = &change{done: make(chan error, 1)}
	}
	c.mu.Lock()
	c.begun = waiting
	c.mu.Unlock()
	alarm.fail(errors.New("the disk is gone"))
	require.Error(t, c.close())
	require.Len(t, waiting[len(waiting)-1].done, 1)
}
