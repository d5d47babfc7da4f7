package jetlog

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func TestOptions(t *testing.T) {
	o, err := Options{}.withDefaults()
	require.NoError(t, err)
	empty := map[string]bool{"MaxBytes": true, "Creds": true, "NKey": true, "TLS": true} // mean nothing
	for i, v := 0, reflect.ValueOf(o); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		require.Equal(t, empty[name], v.Field(i).IsZero(), name)
	}
	again, err := o.withDefaults()
	require.NoError(t, err)
	require.Equal(t, o, again)

	for name, o := range map[string]Options{
		"stream":   {Stream: "a b"},
		"subject":  {Stream: "a.>"},
		"replicas": {Replicas: 2},
		"bytes":    {MaxBytes: -1},
		"timeout":  {Timeout: -time.Second},
		"snapshot": {SnapshotBytes: -1},
	} {
		_, err := o.withDefaults()
		require.ErrorIs(t, err, protocol.ErrInvalid, name)
	}
}
