package cli

import (
	"reflect"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Each limit can be set by one flag, but for those that are no operator's concern.
func TestEveryLimitHasAFlag(t *testing.T) {
	var o limitOptions
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(f)
	n := 0
	f.VisitAll(func(flag *pflag.Flag) {
		n++
		require.NoError(t, flag.Value.Set("7"))
	})
	o.InFlight, o.Page = 7, 7
	var count func(v reflect.Value) int
	count = func(v reflect.Value) (fields int) {
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.Struct {
				fields += count(v.Field(i))
				continue
			}
			require.EqualValues(t, 7, v.Field(i).Int(), v.Type().Field(i).Name)
			fields++
		}
		return fields
	}
	require.Equal(t, n+2, count(reflect.ValueOf(o.Limits)))
}
