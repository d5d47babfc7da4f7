package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/stretchr/testify/require"
)

// A line that takes half a minute for a message is slow, not dead.
func TestSlowUploadIsNotTakenForADeadRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := join(t, reg, "a")
		slow := fakeregistry.Link{Latency: 100 * time.Millisecond, Bandwidth: 32 << 10}
		reg.SetLink("a", fakeregistry.Host, slow)
		reg.SetLink(fakeregistry.Host, "a", slow)
		start := time.Now()
		big := strings.Repeat("x", 1<<20)
		for _, p := range publish(t, c, big, big, big) {
			acked(t, p)
		}
		require.Greater(t, time.Since(start), time.Minute)
		require.Zero(t, c.Stats().Disconnects)
	})
}
