package registry

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetentionDefaults(t *testing.T) {
	require.Equal(t, Retention{
		Messages: 1000, Age: 7 * 24 * time.Hour, Versions: 1000, TopicBytes: 64 << 20, TotalBytes: 8 << 30,
	}, Retention{}.WithDefaults())
	unbounded := reflect.ValueOf(Retention{-1, -1, -1, -1, -1}.WithDefaults())
	for i := range unbounded.NumField() {
		require.Greater(t, unbounded.Field(i).Int(), int64(1)<<40, unbounded.Type().Field(i).Name)
	}
}

// Each limit is checked, so none can be forgotten in withDefaults.
func TestEachLimitIsChecked(t *testing.T) {
	var fields func(v reflect.Value, check func(reflect.Value, string))
	fields = func(v reflect.Value, check func(reflect.Value, string)) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Struct {
				fields(f, check)
			} else {
				check(f, v.Type().Field(i).Name)
			}
		}
	}
	var l Limits
	fields(reflect.ValueOf(&l).Elem(), func(f reflect.Value, name string) {
		f.SetInt(-1)
		_, err := l.withDefaults()
		require.ErrorContains(t, err, name)
		f.SetInt(0)
	})
}
