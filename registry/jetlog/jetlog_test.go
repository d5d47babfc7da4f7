package jetlog

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// Operators are told where the cluster is that does not answer; what is for clients
// does not say it.
func TestClientsAreNotToldWhereTheClusterIs(t *testing.T) {
	l := &Log{urls: "nats://10.0.0.7:4222", nc: new(nats.Conn), away: true}
	err := l.Ready()
	require.ErrorContains(t, err, "10.0.0.7")
	var told *protocol.Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, protocol.ErrDraining, told.Code)
	require.Positive(t, told.RetryAfter)
	require.NotContains(t, told.Error(), "10.0.0.7")
}
