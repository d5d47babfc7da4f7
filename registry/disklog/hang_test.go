package disklog_test

import (
	"context"
	"crypto/ed25519"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/disklog"
)

// hang makes syncs of the store's log wait, and tells when the first one does.
type hang struct {
	on     atomic.Bool
	first  sync.Once
	hangs  chan struct{}
	mended chan struct{}
}

func (h *hang) String() string { return "hang" }

func (h *hang) MaybeError(op errorfs.Op) error {
	if h.on.Load() && strings.Contains(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
		h.first.Do(func() { close(h.hangs) })
		<-h.mended
	}
	return nil
}

// A purge that the disk does not end holds up nobody but who asked for it: others
// come, look around and go.
func TestAPurgeOnADiskThatHangs(t *testing.T) {
	disk := &hang{hangs: make(chan struct{}), mended: make(chan struct{})}
	l := openLog(t, "log", disklog.Options{FS: breakableFS(vfs.NewMem(), disk)})
	r, err := registry.New(registry.Options{Log: l, Key: keyOf(1)})
	require.NoError(t, err)
	defer r.Close()
	addr, err := r.Listen("127.0.0.1:0")
	require.NoError(t, err)
	dial := func(seed byte) *client.Client {
		c, err := client.Dial(t.Context(), addr.String(), client.Options{Key: keyOf(seed), NoState: true})
		require.NoError(t, err)
		return c
	}
	operator := dial(2)
	defer operator.Close()
	for range 3 {
		_, err := operator.Publish(t.Context(), client.Publication{Topic: "jobs"}).Wait(t.Context())
		require.NoError(t, err)
	}

	disk.on.Store(true)
	purged := make(chan error, 1)
	go func() { purged <- operator.PurgeTopic(context.Background(), "jobs", 2) }()
	<-disk.hangs
	for seed := range byte(4) {
		c := dial(10 + seed)
		_, err := c.Fence(t.Context(), "jobs")
		require.NoError(t, err)
		topics := 0
		for topic, err := range c.Topics(t.Context(), "*") {
			require.NoError(t, err)
			require.Equal(t, uint64(3), topic.Messages, "what is purged is there until that is on the disk")
			topics++
		}
		require.Equal(t, 1, topics)
		require.NoError(t, c.Close())
	}
	require.Empty(t, purged)
	close(disk.mended)
	require.NoError(t, <-purged)
	require.Equal(t, 1, l.Topic("jobs").Messages)
}

func keyOf(seed byte) ed25519.PrivateKey {
	b := make([]byte, ed25519.SeedSize)
	b[0] = seed
	return ed25519.NewKeyFromSeed(b)
}
