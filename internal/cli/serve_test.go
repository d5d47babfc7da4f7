package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/registry"
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

// A service manager hears when the registry answers, and when it goes.
func TestTheServiceManagerIsTold(t *testing.T) {
	t.Chdir(t.TempDir()) // the path of a socket is short
	t.Setenv("PILOT_HOME", t.TempDir())
	t.Setenv("NOTIFY_SOCKET", "manager")
	manager, err := net.ListenPacket("unixgram", "manager")
	require.NoError(t, err)
	defer manager.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		args := []string{"registry", "serve", "--store", "memory", "--listen", "127.0.0.1:0", "--print-addr"}
		ended <- runWith(ctx, extras.Set{}, args, strings.NewReader(""), io.Discard, io.Discard)
	}()
	heard := func() string {
		b := make([]byte, 100)
		n, _, err := manager.ReadFrom(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	require.Equal(t, "READY=1", heard())
	stop()
	require.Equal(t, "STOPPING=1", heard())
	require.Equal(t, exitOK, <-ended)
}

// One that asks to be told and does not listen keeps nobody from serving.
func TestAServiceManagerThatIsGoneIsNoError(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	var said bytes.Buffer
	tellManager(managerReady, slog.New(slog.NewTextHandler(&said, nil)))
	require.Contains(t, said.String(), "the service manager was not told")
	t.Setenv("NOTIFY_SOCKET", "")
	said.Reset()
	tellManager(managerReady, slog.New(slog.NewTextHandler(&said, nil)))
	require.Empty(t, said.String())
}

// A registry whose log is lost for its process ends it, and says why: a
// supervisor starts another.
func TestARegistryEndsWhenItsLogFails(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	require.NoError(t, os.WriteFile(rules, []byte("allow any all *\n"), 0o600))
	const onDisk, onServers = "look at the disk, its mount and its space;", "look at the streams of the log on the NATS servers;"
	for name, is := range map[string]struct {
		hint string
		more []string
	}{
		"":                       {onDisk, nil},
		"while it watches rules": {onDisk, []string{"--access", rules}},
		"on a cluster":           {onServers, []string{"--store", "nats://127.0.0.1:4222"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PILOT_HOME", t.TempDir())
			store := &mortal{&memoryLog{memlog.New(memlog.Options{}), link.NewIdentity()}, make(chan struct{})}
			x := extras.Set{OpenStore: func(context.Context, string, extras.StoreOptions) (extras.Store, error) { return store, nil }}
			out, in := io.Pipe()
			var errs bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				args := append([]string{"registry", "serve", "--listen", "127.0.0.1:0", "--print-addr"}, is.more...)
				ended <- runWith(t.Context(), x, args, strings.NewReader(""), in, &errs)
			}()
			_, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			close(store.failed)
			require.Equal(t, exitError, <-ended)
			require.Contains(t, errs.String(), "the disk is gone")
			require.Contains(t, errs.String(), is.hint)
			require.Contains(t, errs.String(), "supervisor")
		})
	}
}

// An error is a line of the log, also one that can show where it was made.
func TestLogLinesAreWithoutStackTraces(t *testing.T) {
	var errs bytes.Buffer
	a := &app{err: &errs}
	logger, err := a.serveLogger("warn")
	require.NoError(t, err)
	logger.Warn("log is damaged", "error", tracedError{})
	require.Contains(t, errs.String(), `error="a block is damaged"`)
	require.NotContains(t, errs.String(), "stack trace")
}

// tracedError prints as those of Pebble do.
type tracedError struct{}

func (tracedError) Error() string { return "a block is damaged" }

func (e tracedError) Format(f fmt.State, _ rune) {
	io.WriteString(f, e.Error())
	if f.Flag('+') {
		io.WriteString(f, "\nstack trace:")
	}
}

// Only a registry answers 'registry info': the operators' address is none.
func TestAnAddressThatIsTaken(t *testing.T) {
	for flag, asks := range map[string]bool{"--listen": true, "--http": false} {
		f := describe(listenError(flag, "127.0.0.1:9003", syscall.EADDRINUSE))
		require.Equal(t, asks, strings.Contains(f.hint, "registry info"), flag)
		require.Contains(t, f.hint, "with "+flag)
	}
}

// Where there is no home there is a way to say one.
func TestNoHome(t *testing.T) {
	testenv.Need(t, "home", runtime.GOOS != "windows", "the home is another variable there")
	t.Setenv("PILOT_HOME", "")
	t.Setenv("HOME", "")
	_, err := newApp(nil, io.Discard, io.Discard)
	require.Contains(t, describe(err).hint, "PILOT_HOME")
}

// What a registry says to do next works as it stands, also where it listens at all
// addresses.
func TestARegistryTellsHowToMakeTokens(t *testing.T) {
	for at, host := range map[string]string{"10.0.0.7:9002": "10.0.0.7:9002", "0.0.0.0:9003": "127.0.0.1:9003", "[::]:9004": "127.0.0.1:9004"} {
		var errs bytes.Buffer
		a := &app{out: bufio.NewWriter(io.Discard), err: &errs}
		require.NoError(t, a.announce(false, whereabouts{Address: at, Admit: registry.AdmitToken}))
		require.Contains(t, errs.String(), "pilotgo registry token create --host "+host+"\n")
	}
}
