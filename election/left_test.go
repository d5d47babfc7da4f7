package election_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/fakeregistry"
)

func TestLeftIsTheTimeToTheEndOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		l, err := member(t, reg, "a").Campaign(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * lan.Lease) // renewed meanwhile
		require.LessOrEqual(t, l.Left(), lan.Lease)
		require.Greater(t, l.Left(), lan.Lease-2*lan.Heartbeat)

		reg.Partition("a", fakeregistry.Host)
		<-l.Done()
		require.Equal(t, lan.Stop, l.Left().Round(time.Millisecond))
		time.Sleep(lan.Stop)
		require.Zero(t, l.Left())
		time.Sleep(time.Hour)
		require.Zero(t, l.Left())
		reg.HealAll()
	})
}
