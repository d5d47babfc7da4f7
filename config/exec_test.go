//go:build unix

package config_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

// sh is a command of the shell.
func sh(script string) config.Exec {
	return config.Exec{Command: "sh", Args: []string{"-c", script}, Swarm: "workers"}
}

func TestExecGetsTheDocument(t *testing.T) {
	d := document(t, 7, `{"a": 9007199254740993}`)
	out := filepath.Join(t.TempDir(), "out")
	e := sh(`{ cat; echo; echo "$PILOTGO_SWARM $PILOTGO_VERSION $PILOTGO_DIGEST [$PILOTGO_FILE] $EXTRA"; pwd; } >"$OUT"`)
	e.Env, e.Dir = []string{"EXTRA=x", "OUT=" + out}, "/"
	require.NoError(t, e.Validate(t.Context(), d))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "{\"a\": 9007199254740993}\nworkers 7 "+d.Digest.String()+" [] x\n/\n", string(got))
}

func TestExecGetsAFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	e := sh(`{ cat "$PILOTGO_FILE"; ls -l "$PILOTGO_FILE" | cut -c1-10; cat; echo "$PILOTGO_FILE"; } >"$OUT"`)
	e.File, e.Env = true, []string{"OUT=" + out}
	require.NoError(t, e.Validate(t.Context(), document(t, 7, `{"a":1}`)))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	text, found := strings.CutPrefix(string(got), `{"a":1}-rw-------`+"\n")
	require.True(t, found, "%s", got)
	require.NoFileExists(t, strings.TrimSpace(text))
}

func TestExecRefusesWithItsStandardError(t *testing.T) {
	err := sh(`echo "workers: too many" >&2; printf 'line two\t\033[31m\n' >&2; exit 3`).Validate(t.Context(), document(t, 7, `{}`))
	require.EqualError(t, err, "document: command: command sh: exit status 3: workers: too many line two [31m")
	require.ErrorIs(t, err, protocol.ErrInvalid)
	var command *config.CommandError
	require.ErrorAs(t, err, &command)

	err = sh(`i=0; while [ $i -lt 20000 ]; do echo "noise $i"; i=$((i+1)); done >&2; echo last >&2; kill -9 $$`).Validate(t.Context(), document(t, 7, `{}`))
	require.ErrorAs(t, err, &command)
	require.Less(t, len(command.Stderr), 2100)
	require.Regexp(t, `^….* noise 19999 last$`, command.Stderr)
	require.ErrorContains(t, err, "signal: killed")

	err = config.Exec{Command: "/does/not/exist"}.Validate(t.Context(), document(t, 7, `{}`))
	require.ErrorIs(t, err, protocol.ErrNotFound)
	require.ErrorIs(t, err, protocol.ErrInvalid)
	err = config.Exec{Command: "no-such-command-here"}.Validate(t.Context(), document(t, 7, `{}`))
	require.ErrorIs(t, err, protocol.ErrNotFound)
	require.Error(t, config.Exec{}.Validate(t.Context(), document(t, 7, `{}`)))
}

// A command that does not read its input, however long that is, is no error.
func TestExecNeedNotRead(t *testing.T) {
	big := document(t, 7, `{"a":"`+strings.Repeat("x", 500_000)+`"}`)
	require.NoError(t, sh(`exit 0`).Validate(t.Context(), big))
	require.ErrorContains(t, sh(`exit 1`).Validate(t.Context(), big), "exit status 1")
}

// channel is a named pipe. A process that holds its other end can be waited for:
// at first it writes a line there, and when it is gone there is an end.
func channel(t *testing.T) (path string, hello, gone func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0) // so that opening it blocks nobody
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	hello = func() {
		t.Helper()
		_, err := r.Read(make([]byte, 16))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	gone = func() {
		t.Helper()
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Empty(t, rest)
	}
	return path, hello, gone
}

func TestExecIsKilledAfterItsTimeout(t *testing.T) {
	e := sh(`exec sleep 1000`)
	e.Timeout = 100 * time.Millisecond
	err := e.Validate(t.Context(), document(t, 7, `{}`))
	require.EqualError(t, err, "document: command: command sh: timeout: killed after 100ms")
	require.ErrorIs(t, err, protocol.ErrTimeout)
	require.ErrorIs(t, err, protocol.ErrInvalid)
}

// The shell waits for a child that no signal but one can end.
func TestExecEndsWithItsContextAndTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path, hello, gone := channel(t)
	e := sh(`sh -c 'exec 3>"$PIPE"; trap "" TERM INT HUP; echo x >&3; while :; do sleep 1000; done' & wait`)
	e.Env = []string{"PIPE=" + path}
	done := make(chan error, 1)
	go func() { done <- e.Validate(ctx, document(t, 7, `{}`)) }()
	hello()
	begun := time.Now()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Less(t, time.Since(begun), 5*time.Second)
	gone()
}

// What a command leaves behind on purpose keeps standard error open and lives on.
func TestExecLeavesWhatItStarted(t *testing.T) {
	path, hello, gone := channel(t)
	e := sh(`sh -c 'exec 3>"$PIPE"; echo $$ >pid; echo x >&3; exec sleep 1000' & exit 0`)
	e.Env, e.Dir = []string{"PIPE=" + path}, filepath.Dir(path)
	require.NoError(t, e.Validate(t.Context(), document(t, 7, `{}`)))
	hello()
	text, err := os.ReadFile(filepath.Join(e.Dir, "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it is not there any more")
	gone()
}

func TestHealthIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, begun := 0, time.Now()
		f := openFile(t, config.FileOptions{Health: &config.Health{
			Tries: 4, Interval: 2 * time.Second,
			Check: func(context.Context, *config.Document) error {
				if tries++; tries < 4 {
					return errors.New("starting")
				}
				return nil
			},
		}})
		require.NoError(t, f.Apply(t.Context(), document(t, 7, `{}`)))
		require.Equal(t, 4, tries)
		require.Equal(t, 6*time.Second, time.Since(begun))

		tries = -10
		err := f.Apply(t.Context(), document(t, 8, `{}`))
		require.EqualError(t, err, "apply version 8: not healthy after 4 tries: starting")
	})
}

func TestHealthCheckThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		begun := time.Now()
		f := openFile(t, config.FileOptions{Health: &config.Health{
			Tries: 2, Interval: time.Second, Timeout: 3 * time.Second,
			Check: func(context.Context, *config.Document) error { <-release; return nil },
		}})
		err := f.Apply(t.Context(), document(t, 7, `{}`))
		require.ErrorIs(t, err, protocol.ErrTimeout)
		require.Equal(t, 7*time.Second, time.Since(begun))
	})
}

func TestHealthByACommand(t *testing.T) {
	dir := t.TempDir()
	check := sh(`cmp -s - "$PILOTGO_FILE" || exit 9; [ "$PILOTGO_SWARM $PILOTGO_VERSION" = "workers 7" ] || { echo slow >&2; exec sleep 1000; }`)
	check.Swarm = ""
	f := openFileIn(t, config.FileOptions{Health: &config.Health{Exec: &check, Tries: 1, Timeout: 2 * time.Second}}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 7, one)))
	err := f.Apply(t.Context(), document(t, 8, two))
	require.ErrorIs(t, err, protocol.ErrTimeout)
	require.ErrorContains(t, err, "apply version 8: not healthy after 1 tries: command sh: timeout: killed after 2s: slow")
	wantFiles(t, dir, one, "7\n")
}
