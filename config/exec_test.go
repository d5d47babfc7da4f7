//go:build unix

package config_test

import (
	"context"
	"errors"
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

// alive tells whether the process whose id is in the file still runs.
func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(state), ") Z ") {
		return false // ended, and nobody has asked for it yet
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestExecKillsTheWholeGroup(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	e := sh(`sh -c 'echo $$ >"$PID"; trap "" TERM INT; echo stuck >&2; while :; do sleep 1000; done' & wait`)
	e.Env, e.Timeout = []string{"PID=" + pid}, 300*time.Millisecond
	begun := time.Now()
	err := e.Validate(t.Context(), document(t, 7, `{}`))
	require.EqualError(t, err, "document: command: command sh: timeout: killed after 300ms: stuck")
	require.ErrorIs(t, err, protocol.ErrTimeout)
	require.Less(t, time.Since(begun), 5*time.Second)
	require.False(t, alive(t, pid))
}

func TestExecEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready")
	require.NoError(t, syscall.Mkfifo(ready, 0o600))
	e := sh(`echo x >"$READY"; sleep 1000 & wait`)
	e.Env = []string{"READY=" + ready}
	done := make(chan error, 1)
	go func() { done <- e.Validate(ctx, document(t, 7, `{}`)) }()
	_, err := os.ReadFile(ready) // blocks until the command is there
	require.NoError(t, err)
	begun := time.Now()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Less(t, time.Since(begun), time.Second)
}

// What a command leaves behind on purpose keeps standard error open and lives on.
func TestExecLeavesWhatItStarted(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	e := sh(`sleep 1000 & echo $! >"$PID"`)
	e.Env = []string{"PID=" + pid}
	begun := time.Now()
	require.NoError(t, e.Validate(t.Context(), document(t, 7, `{}`)))
	require.Less(t, time.Since(begun), 5*time.Second)
	require.True(t, alive(t, pid))
	text, err := os.ReadFile(pid)
	require.NoError(t, err)
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(id, syscall.SIGKILL))
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
