package config_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
)

// BenchmarkSchema judges documents of 500 properties.
func BenchmarkSchema(b *testing.B) {
	schema, good := []byte(`{"properties":{`), []byte(`{`)
	for i := range 500 {
		schema = fmt.Appendf(schema, `"p%03d":{"type":"integer","minimum":0},`, i)
		good = fmt.Appendf(good, `"p%03d":%d,`, i, i)
	}
	schema, good = append(schema, `"end":true}}`...), append(good, `"end":0}`...)
	bad := bytes.Replace(good, []byte(`"p499":499`), []byte(`"p499":-1`), 1)
	s := &config.Schema{JSON: schema}
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, (&config.Schema{JSON: schema}).Compile())
		}
	})
	b.Run("accepted", func(b *testing.B) {
		d := document(b, 1, string(good))
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, s.Validate(b.Context(), d))
		}
	})
	b.Run("refused", func(b *testing.B) {
		d := document(b, 1, string(bad))
		b.ReportAllocs()
		for b.Loop() {
			require.EqualError(b, s.Validate(b.Context(), d), "/p499: minimum: want 0")
		}
	})
}
