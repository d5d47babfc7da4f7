//go:build unix

package config_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

// place fills in paths in a folder.
func place(o config.FileOptions, dir string) config.FileOptions {
	if o.Swarm == "" {
		o.Swarm = "workers"
	}
	if o.Target == "" {
		o.Target = filepath.Join(dir, "app.json")
	}
	if o.State == "" {
		o.State = filepath.Join(dir, "state", "app.json")
	}
	return o
}

// openFile opens a File in a folder of its own.
func openFile(t testing.TB, o config.FileOptions) *config.File {
	t.Helper()
	return openFileIn(t, o, t.TempDir())
}

func openFileIn(t testing.TB, o config.FileOptions, dir string) *config.File {
	t.Helper()
	f, err := config.OpenFile(place(o, dir))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// wantFiles looks at target and version file.
func wantFiles(t testing.TB, dir, content, version string) {
	t.Helper()
	for name, want := range map[string]string{"app.json": content, "app-version.txt": version} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if want == "" {
			require.ErrorIs(t, err, fs.ErrNotExist, name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
}

// wantClean finds temporary files.
func wantClean(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range list {
			if strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".lock") {
				require.Fail(t, "left behind", e.Name())
			}
		}
	}
}

func wantCurrent(t testing.TB, f *config.File, version uint64, content string) config.Applied {
	t.Helper()
	a, err := f.Current(t.Context())
	require.NoError(t, err)
	require.Equal(t, version, a.Version)
	if version != 0 {
		require.Equal(t, content, string(a.Config))
		require.Equal(t, config.DigestOf([]byte(content)), a.Digest)
	}
	return a
}

const (
	one = `{"B":1,"a":9007199254740993,"max":18446744073709551615,"x":1.0,"é":"\u0000"}`
	two = "{ \"two\" : 2 }"
)

func TestApplyWritesBothFiles(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.Zero(t, wantCurrent(t, f, 0, ""))
	require.NoError(t, f.Apply(t.Context(), document(t, 1767225600, one)))
	wantFiles(t, dir, one, "1767225600\n")
	require.NoError(t, f.Apply(t.Context(), document(t, 1767225601, two)))
	wantFiles(t, dir, two, "1767225601\n")
	a := wantCurrent(t, f, 1767225601, two)
	require.Equal(t, uint64(1767225601), a.Highest)
	require.False(t, a.Pinned)
	require.NotZero(t, a.At)

	require.NoError(t, f.Apply(t.Context(), document(t, 1767225600, one))) // the way down is the caller's to decide
	require.Equal(t, uint64(1767225601), wantCurrent(t, f, 1767225600, one).Highest)
	wantFiles(t, dir, one, "1767225600\n")
	require.NoError(t, f.Close())

	again := openFileIn(t, config.FileOptions{}, dir)
	require.Equal(t, uint64(1767225601), wantCurrent(t, again, 1767225600, one).Highest)
	wantClean(t, dir, filepath.Join(dir, "state"))
}

func TestApplyOfTheSameVersionDoesNothing(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	f.SetFault(func(step string) error { return errors.New("not to be reached: " + step) })
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
}

func TestApplyRefusesWhatDoesNotHaveItsDigest(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	d := *document(t, 1, one)
	d.Digest[0]++
	require.ErrorIs(t, f.Apply(t.Context(), &d), protocol.ErrInvalid)
	require.ErrorIs(t, f.Apply(t.Context(), document(t, 0, one)), protocol.ErrInvalid)
	wantFiles(t, dir, "", "")
}

func TestApplyAsksTheValidatorFirst(t *testing.T) {
	dir := t.TempDir()
	no := errors.New("too many workers")
	f := openFileIn(t, config.FileOptions{Validator: config.ValidatorFunc(func(_ context.Context, d *config.Document) error {
		if d.Version == 2 {
			return no
		}
		return nil
	})}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	err := f.Apply(t.Context(), document(t, 2, two))
	require.EqualError(t, err, "document: validator: too many workers")
	require.ErrorIs(t, err, no)
	require.ErrorIs(t, err, protocol.ErrInvalid)
	wantFiles(t, dir, one, "1\n")
	wantCurrent(t, f, 1, one)
}

func TestApplyRunsACommand(t *testing.T) {
	dir := t.TempDir()
	after := sh(`printf '%s %s ' "$PILOTGO_VERSION" "$PILOTGO_SWARM" >>log; cmp -s - "$PILOTGO_FILE" && cat "$PILOTGO_FILE" >>log; echo >>log`)
	after.Dir, after.Swarm = dir, ""
	f := openFileIn(t, config.FileOptions{After: &after}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "1 workers "+one+"\n2 workers "+two+"\n", string(log))
}

func TestFailingCommandPutsTheVersionBeforeBack(t *testing.T) {
	dir := t.TempDir()
	after := sh(`echo "$PILOTGO_VERSION $(cat "$PILOTGO_FILE")" >>log; [ "$PILOTGO_VERSION" != 2 ] || { echo "cannot reload" >&2; exit 1; }`)
	after.Dir = dir
	f := openFileIn(t, config.FileOptions{After: &after}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	err := f.Apply(t.Context(), document(t, 2, two))
	require.EqualError(t, err, "apply version 2: command sh: exit status 1: cannot reload")
	var failed *config.ApplyError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, uint64(1), failed.Back)
	require.NoError(t, failed.Undo)
	require.NotErrorIs(t, err, protocol.ErrInvalid)
	wantFiles(t, dir, one, "1\n")
	require.Equal(t, uint64(1), wantCurrent(t, f, 1, one).Highest)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "1 "+one+"\n2 "+two+"\n1 "+one+"\n", string(log))
	require.NoError(t, f.Apply(t.Context(), document(t, 3, two)))
	wantClean(t, dir, filepath.Join(dir, "state"))
}

func TestFirstVersionThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	after := sh(`echo "$PILOTGO_VERSION" >>log; exit 1`)
	after.Dir = dir
	f := openFileIn(t, config.FileOptions{After: &after}, dir)
	require.Error(t, f.Apply(t.Context(), document(t, 1, one)))
	wantFiles(t, dir, "", "")
	wantCurrent(t, f, 0, "")
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(log))
}

// A file that was there before pilotgo came is worth as much as a version.
func TestFirstVersionThatFailsGivesTheFileBack(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app.json"), []byte("made by hand\n"), 0o600))
	after := sh(`echo "[$PILOTGO_VERSION] $(cat "$PILOTGO_FILE")" >>log; [ -z "$PILOTGO_VERSION" ]`)
	after.Dir = dir
	f := openFileIn(t, config.FileOptions{After: &after}, dir)
	err := f.Apply(t.Context(), document(t, 1, two))
	require.EqualError(t, err, "apply version 1: command sh: exit status 1")
	wantFiles(t, dir, "made by hand\n", "")
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "[1] "+two+"\n[] made by hand\n", string(log))
	info, err := os.Stat(filepath.Join(dir, "app.json"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestCommandThatFailsForBothIsTold(t *testing.T) {
	after := sh(`[ "$PILOTGO_VERSION" = 1 ] && [ ! -e once ] && touch once`)
	dir := t.TempDir()
	after.Dir = dir
	f := openFileIn(t, config.FileOptions{After: &after}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	err := f.Apply(t.Context(), document(t, 2, two))
	require.EqualError(t, err, "apply version 2: command sh: exit status 1; putting version 1 back: command sh: exit status 1")
	wantFiles(t, dir, one, "1\n")
	wantCurrent(t, f, 1, one)
}

// The end of a context leaves things as a crash does: the next call goes on.
func TestApplyThatIsInterruptedGoesOnLater(t *testing.T) {
	for _, test := range []struct {
		name, content, version string
		second                 error
		want                   uint64
	}{
		{"and succeeds", two, "2\n", nil, 2},
		{"and fails", one, "1\n", errors.New("bad"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			checks := 0
			o := config.FileOptions{Health: &config.Health{Tries: 1, Check: func(_ context.Context, d *config.Document) error {
				if checks++; checks == 2 {
					cancel()
					return ctx.Err()
				} else if checks > 2 {
					return test.second
				}
				return nil
			}}}
			f := openFileIn(t, o, dir)
			require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
			require.ErrorIs(t, f.Apply(ctx, document(t, 2, two)), context.Canceled)
			wantFiles(t, dir, two, "2\n")
			require.ErrorIs(t, f.Apply(ctx, document(t, 2, two)), context.Canceled)
			require.NoError(t, f.Close())

			f = openFileIn(t, o, dir)
			wantCurrent(t, f, test.want, test.content)
			wantFiles(t, dir, test.content, test.version)
			wantClean(t, dir, filepath.Join(dir, "state"))
		})
	}
}

// Who waits for another call waits no longer than its own context lasts.
func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFile(t, config.FileOptions{Health: &config.Health{Tries: 1, Timeout: time.Hour, Check: func(ctx context.Context, _ *config.Document) error {
			<-ctx.Done()
			return ctx.Err()
		}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Apply(ctx, document(t, 1, one)) }()
		synctest.Wait()
		begun := time.Now()
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := f.Current(ctx); return err },
			func(ctx context.Context) error { return f.Pin(ctx, true) },
			func(ctx context.Context) error { return f.Apply(ctx, document(t, 2, two)) },
		} {
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			require.Equal(t, context.DeadlineExceeded, call(short))
			cancel()
		}
		require.Equal(t, 3*time.Second, time.Since(begun))
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// A check that panics has failed.
func TestAHealthCheckThatPanics(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{Health: &config.Health{Tries: 1, Check: func(_ context.Context, d *config.Document) error {
		if d.Version == 2 {
			panic("unwell")
		}
		return nil
	}}}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.EqualError(t, f.Apply(t.Context(), document(t, 2, two)), "apply version 2: not healthy after 1 tries: panic: unwell")
	wantFiles(t, dir, one, "1\n")
}

func TestApplyAfterClose(t *testing.T) {
	f := openFile(t, config.FileOptions{})
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Apply(t.Context(), document(t, 1, one)), net.ErrClosed)
	require.ErrorIs(t, f.Pin(t.Context(), true), protocol.ErrClosed)
	_, err := f.Current(t.Context())
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestPinnedAgentsStay(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Pin(t.Context(), true))
	require.NoError(t, f.Close())
	f = openFileIn(t, config.FileOptions{}, dir)
	require.True(t, wantCurrent(t, f, 1, one).Pinned)
	err := f.Apply(t.Context(), document(t, 2, two))
	require.EqualError(t, err, "pinned at version 1")
	require.ErrorIs(t, err, protocol.ErrConflict)
	require.NoError(t, f.Pin(t.Context(), false))
	require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
	require.False(t, wantCurrent(t, f, 2, two).Pinned)
}

// At each step of an apply, a failure leaves the version before in both files.
func TestApplyFailsAtEachStep(t *testing.T) {
	after := sh(`exit 0`)
	o := config.FileOptions{After: &after, Health: &config.Health{Check: func(context.Context, *config.Document) error { return nil }}}
	var steps []string
	f := openFile(t, o)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	f.SetFault(func(step string) error { steps = append(steps, step); return nil })
	require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
	require.Equal(t, []string{"begin", "staged", "content", "version", "before after", "after", "activated", "settled"}, steps)

	for _, bad := range steps[:len(steps)-1] { // then it is in use
		t.Run(bad, func(t *testing.T) {
			dir := t.TempDir()
			f := openFileIn(t, o, dir)
			require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
			boom, failed := errors.New("boom"), false
			f.SetFault(func(step string) error {
				if step != bad || failed {
					return nil
				}
				failed = true
				return boom
			})
			err := f.Apply(t.Context(), document(t, 2, two))
			require.ErrorIs(t, err, boom)
			wantFiles(t, dir, one, "1\n")
			wantCurrent(t, f, 1, one)
			wantClean(t, dir, filepath.Join(dir, "state"))
			require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
			wantFiles(t, dir, two, "2\n")
		})
	}
}

// Where putting back fails too, it is told, and tried again at the next call.
func TestUndoThatFailsIsTriedAgain(t *testing.T) {
	for _, bad := range []string{"undo", "content", "version"} {
		t.Run(bad, func(t *testing.T) {
			dir := t.TempDir()
			unwell := errors.New("unwell")
			f := openFileIn(t, config.FileOptions{Health: &config.Health{Tries: 1, Check: func(_ context.Context, d *config.Document) error {
				if d.Version == 2 {
					return unwell
				}
				return nil
			}}}, dir)
			require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
			boom, undoing := errors.New("boom"), false
			f.SetFault(func(step string) error {
				undoing = undoing || step == "undo"
				if undoing && step == bad {
					return boom
				}
				return nil
			})
			err := f.Apply(t.Context(), document(t, 2, two))
			require.ErrorIs(t, err, unwell)
			require.ErrorIs(t, err, boom)
			_, err = f.Current(t.Context())
			require.ErrorIs(t, err, boom)
			f.SetFault(nil)
			require.NoError(t, f.Close())

			f = openFileIn(t, config.FileOptions{}, dir) // it has no check, and must not need it
			wantCurrent(t, f, 1, one)
			wantFiles(t, dir, one, "1\n")
			wantClean(t, dir, filepath.Join(dir, "state"))
		})
	}
}

func TestFilesThatOthersChangedArePutRight(t *testing.T) {
	for _, test := range []struct{ name, content, version string }{
		{"content", "{}", "2\n"},
		{"content spelled anew", `{"two":2}`, "2\n"},
		{"no content", "", "2\n"},
		{"empty content", "\n", "2\n"},
		{"version", two, "7\n"},
		{"no version", two, ""},
		{"nonsense for a version", two, "latest"},
		{"both", "{}", "7\n"},
		{"both gone", "", ""},
		{"the content of another version", "{}", "1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			f := openFileIn(t, config.FileOptions{}, dir)
			require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
			require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
			require.NoError(t, f.Close())
			spoil(t, dir, test.content, test.version)

			f = openFileIn(t, config.FileOptions{}, dir)
			a := wantCurrent(t, f, 2, two)
			require.False(t, a.Pinned)
			wantFiles(t, dir, two, "2\n")
			wantClean(t, dir)
		})
	}
}

// spoil writes both files as a script does, or removes them.
func spoil(t *testing.T, dir, content, version string) {
	t.Helper()
	for name, text := range map[string]string{"app.json": content, "app-version.txt": version} {
		path := filepath.Join(dir, name)
		if text == "" {
			require.NoError(t, os.Remove(path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func TestRepairTellsTheProgram(t *testing.T) {
	dir := t.TempDir()
	after := sh(`cat >>log`)
	after.Dir = dir
	o := config.FileOptions{After: &after}
	f := openFileIn(t, o, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Close())
	spoil(t, dir, "{}", "1\n")
	wantCurrent(t, openFileIn(t, o, dir), 1, one)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, one+one, string(log))
}

// retained is what a registry has.
func retained(docs ...*config.Document) func(context.Context, uint64) (*config.Document, error) {
	return func(_ context.Context, n uint64) (*config.Document, error) {
		for _, d := range docs {
			if d.Version == n {
				return d, nil
			}
		}
		return nil, protocol.Errorf(protocol.ErrNotFound, "version %d", n)
	}
}

// jq has written the older content, as the recipe does: pretty, and rounded.
func TestLocalRollbackPins(t *testing.T) {
	const pretty = "{\n  \"x\": 1.0,\n  \"a\": 9007199254740992\n}\n"
	const original = `{"a":9007199254740993,"x":1}`
	dir := t.TempDir()
	o := config.FileOptions{Retained: retained(document(t, 1, original))}
	f := openFileIn(t, o, dir)
	for n := range uint64(3) {
		require.NoError(t, f.Apply(t.Context(), document(t, n+2, two)))
	}
	spoil(t, dir, pretty, "1\n") // while the agent runs
	var pinned *config.PinnedError
	require.ErrorAs(t, f.Apply(t.Context(), document(t, 5, two)), &pinned)
	require.Equal(t, uint64(1), pinned.Version)
	wantFiles(t, dir, original, "1\n")
	require.NoError(t, f.Close())

	f = openFileIn(t, o, dir)
	a := wantCurrent(t, f, 1, original)
	require.True(t, a.Pinned)
	require.Equal(t, uint64(4), a.Highest)
	require.NoError(t, f.Pin(t.Context(), false))
	require.NoError(t, f.Apply(t.Context(), document(t, 5, two)))
	wantFiles(t, dir, two, "5\n")
}

// The version before is known without a registry.
func TestLocalRollbackToTheVersionBefore(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
	require.NoError(t, f.Close())
	spoil(t, dir, one+"\n", "1\n")
	f = openFileIn(t, config.FileOptions{}, dir)
	require.True(t, wantCurrent(t, f, 1, one).Pinned)
}

// A script that is ahead has not rolled back.
func TestNewerVersionByHandIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	o := config.FileOptions{Retained: retained(document(t, 5, one))}
	f := openFileIn(t, o, dir)
	spoilNew := func(content, version string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "app.json"), []byte(content), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "app-version.txt"), []byte(version), 0o644))
	}
	spoilNew(one, "5") // scripts were here first
	a := wantCurrent(t, f, 5, one)
	require.False(t, a.Pinned)
	require.Equal(t, uint64(5), a.Highest)
}

// Whether a version is retained cannot be told: nothing is touched.
func TestNoAnswerAboutAVersionChangesNothing(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{Retained: func(context.Context, uint64) (*config.Document, error) {
		return nil, protocol.ErrNotConnected
	}}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 2, two)))
	spoil(t, dir, "{}", "1\n")
	_, err := f.Current(t.Context())
	require.ErrorIs(t, err, protocol.ErrNotConnected)
	require.ErrorIs(t, f.Apply(t.Context(), document(t, 3, one)), protocol.ErrNotConnected)
	wantFiles(t, dir, "{}", "1\n")
}

// Nobody is asked for a version that cannot be.
func TestAVersionFileThatMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{Retained: func(context.Context, uint64) (*config.Document, error) {
		return nil, protocol.Errorf(protocol.ErrInvalid, "no version")
	}}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	for _, version := range []string{"9007199254740992", "18446744073709551615", "99999999999999999999", "-1", "1e3", "\x00"} {
		spoil(t, dir, "{}", version)
		wantCurrent(t, f, 1, one)
		wantFiles(t, dir, one, "1\n")
	}
}

func TestWithoutAVersionFile(t *testing.T) {
	dir := t.TempDir()
	f := openFileIn(t, config.FileOptions{VersionFile: config.NoVersionFile}, dir)
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	wantFiles(t, dir, one, "")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app.json"), nil, 0o644))
	wantCurrent(t, f, 1, one)
	wantFiles(t, dir, one, "")
}

func TestFileOptions(t *testing.T) {
	t.Setenv("PILOT_HOME", t.TempDir())
	for _, o := range []config.FileOptions{
		{},
		{Swarm: "a:b"},
		{Swarm: "a", Mode: fs.ModeSetuid},
		{Swarm: "a", ValidateTimeout: -1},
		{Swarm: "a", After: &config.Exec{}},
		{Swarm: "a", After: &config.Exec{Command: "x", Timeout: -1}},
		{Swarm: "a", Health: &config.Health{}},
		{Swarm: "a", Health: &config.Health{Exec: &config.Exec{}}},
		{Swarm: "a", Health: &config.Health{Exec: &config.Exec{Command: "x"}, Tries: -1}},
	} {
		_, err := config.OpenFile(o)
		require.ErrorIs(t, err, protocol.ErrInvalid, "%+v", o)
	}
	dir := t.TempDir()
	o := place(config.FileOptions{}, dir)
	o.VersionFile = o.Target
	_, err := config.OpenFile(o)
	require.ErrorIs(t, err, protocol.ErrInvalid)

	f, err := config.OpenFile(config.FileOptions{Swarm: "../a/b", Target: filepath.Join(dir, "x")})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Apply(t.Context(), document(t, 1, one)))
	got, err := os.ReadFile(filepath.Join(dir, "x-version.txt"))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(got))
	states, err := filepath.Glob(filepath.Join(os.Getenv("PILOT_HOME"), ".pilot", "pilotgo", "config", "%2Fa%2Fb-*.json"))
	require.NoError(t, err)
	require.Len(t, states, 1)
	info, err := os.Stat(states[0])
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := openFile(b, config.FileOptions{})
			n, text := uint64(0), `{"a":"`+strings.Repeat("x", size)+`"}`
			b.ReportAllocs()
			for b.Loop() {
				n++
				require.NoError(b, f.Apply(b.Context(), document(b, n, text)))
			}
		})
	}
}
