package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// mortal is a store that the test lets fail.
type mortal struct {
	*memoryLog
	failed chan struct{}
}

func (m *mortal) Failed() <-chan struct{} { return m.failed }

func (m *mortal) Ready() error {
	select {
	case <-m.failed:
		return errors.New("the disk is gone")
	default:
		return nil
	}
}

// A registry whose log is lost for its process ends it, and says why: a
// supervisor starts another.
func TestARegistryEndsWhenItsLogFails(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	require.NoError(t, os.WriteFile(rules, []byte("allow any all *\n"), 0o600))
	for name, more := range map[string][]string{"": nil, "while it watches rules": {"--access", rules}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PILOT_HOME", t.TempDir())
			store := &mortal{&memoryLog{memlog.New(memlog.Options{}), link.NewIdentity()}, make(chan struct{})}
			x := extras.Set{OpenStore: func(context.Context, string, extras.StoreOptions) (extras.Store, error) { return store, nil }}
			out, in := io.Pipe()
			var errs bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				args := append([]string{"registry", "serve", "--listen", "127.0.0.1:0", "--print-addr"}, more...)
				ended <- runWith(t.Context(), x, args, strings.NewReader(""), in, &errs)
			}()
			_, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			close(store.failed)
			require.Equal(t, exitError, <-ended)
			require.Contains(t, errs.String(), "the disk is gone")
			require.Contains(t, errs.String(), "supervisor")
		})
	}
}
