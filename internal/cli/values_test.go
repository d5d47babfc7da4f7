package cli

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/registry"
)

func TestLifetimeIsGivenInDaysToo(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "1d": day, "36h": 36 * time.Hour, "90m": 90 * time.Minute, "5": 5 * time.Second, "0": 0, "65535d": 65535 * day,
	} {
		var l, again lifetime
		require.NoError(t, l.Set(text), text)
		require.Equal(t, want, time.Duration(l), text)
		require.NoError(t, again.Set(l.String()), text)
		require.Equal(t, l, again, text)
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "65536d", "-1h", "soon"} {
		require.Error(t, new(lifetime).Set(text), text)
	}
}

// The age that is kept is seven days unless the flag says otherwise, and 0 is no
// bound there.
func TestKeepAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 7 * day, "12h": 12 * time.Hour, "0": registry.Retention{Age: -1}.WithDefaults().Age} {
		var o storeOptions
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.flags(f)
		if text != "" {
			require.NoError(t, f.Set("keep-age", text))
		}
		require.Equal(t, want, o.retention().WithDefaults().Age, text)
	}
}
