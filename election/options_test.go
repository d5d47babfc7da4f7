package election

import (
	"io"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

const someNode = protocol.NodeID(1<<31 + 7)

// Each option has a default, or is required, or is right when it is zero.
func TestEachOptionHasADefault(t *testing.T) {
	o, err := Options{Group: "g"}.validate(someNode)
	require.NoError(t, err)
	zero := map[string]bool{"Plain": true, "Preempt": true}
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		require.Equal(t, zero[name], v.Field(i).IsZero(), "%s", name)
	}
	require.Equal(t, DefaultPriority("2147483655"), o.Priority)
	require.Equal(t, LAN, o.Timing)
}

// What is given stays, each field of it.
func TestEachOptionStays(t *testing.T) {
	given := Options{
		Group: "g", Priority: -3, Timing: WAN, Plain: PlainIgnore,
		Preempt:   Preemption{Allowed: true, After: time.Minute},
		WallClock: func() time.Time { return time.Unix(5, 0) },
		Clock:     func() time.Duration { return 6 },
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	got, err := given.validate(someNode)
	require.NoError(t, err)
	v, w := reflect.ValueOf(given), reflect.ValueOf(got)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		require.False(t, v.Field(i).IsZero(), "this test says nothing about %s", field.Name)
		if field.Type.Kind() != reflect.Func {
			require.Equal(t, v.Field(i).Interface(), w.Field(i).Interface(), "%s", field.Name)
		}
	}
	require.Equal(t, time.Unix(5, 0), got.WallClock())
	require.Equal(t, time.Duration(6), got.Clock())
}
