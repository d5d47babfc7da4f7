package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/stretchr/testify/require"
)

// A pilotgo that was put in place of pilotgo-registry would become itself for
// ever.
func TestAProgramDoesNotBecomeItself(t *testing.T) {
	self := os.Args[0]
	t.Cleanup(func() { os.Args[0] = self })
	os.Args[0] = "/usr/local/bin/" + largerName
	var out, errs bytes.Buffer
	code := runWith(t.Context(), extras.Set{}, []string{"registry", "check"}, strings.NewReader(""), &out, &errs)
	require.Equal(t, exitError, code)
	require.Contains(t, errs.String(), "/usr/local/bin/pilotgo-registry has the name of pilotgo-registry and is pilotgo")
}
