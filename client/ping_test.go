package client_test

import (
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

// A client that only reads learns of a restart by its next ping.
func TestIdleReaderIsBackSoonAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reader, writer := join(t, reg, "reader"), join(t, reg, "writer")
		jobs, err := reader.Subscribe(t.Context(), "jobs")
		require.NoError(t, err)
		time.Sleep(time.Minute)

		reg.Restart()
		restarted := time.Now()
		_, err = writer.PublishTo(t.Context(), "jobs", []byte("a"))
		require.NoError(t, err)
		for m, err := range client.Messages(t.Context(), jobs) {
			require.NoError(t, err)
			require.Equal(t, "a", string(m.Payload))
			break
		}
		require.Less(t, time.Since(restarted), 4*time.Second)
	})
}

// A registry that takes packets and says nothing is left within eight seconds,
// also by a client that asks nothing.
func TestMuteRegistryIsLeftByAnIdleClient(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "reader")
		before := c.Stats().Connects
		reg.Mute("reader")
		time.Sleep(9 * time.Second)
		reg.Unmute("reader")
		time.Sleep(6 * time.Second)
		require.Greater(t, c.Stats().Connects, before)
	})
}

// Pings by themselves neither end a session nor pile up.
func TestQuietSessionLasts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "reader")
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, c.Stats().Connects)
		require.Len(t, reg.Sessions(), 1)
	})
}
