package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	hostA = host{word: "a", addr: "a:9002"}
	hostB = host{word: "b", addr: "b:9002"}
)

func TestSettingsOfTwoAtOnceAreBothKept(t *testing.T) {
	a := testApp(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { assert.NoError(t, a.set(settings{fmt.Sprint("k", i): "v"})) })
	}
	wg.Wait()
	s, err := a.settings()
	require.NoError(t, err)
	require.Len(t, s, 20)
	require.NoError(t, a.set(settings{"k0": ""}))
	s, err = a.settings()
	require.NoError(t, err)
	require.Len(t, s, 19)
}

// Pilot's own file is read for the name, and never written.
func TestPilotsConfigIsLeftAlone(t *testing.T) {
	a := testApp(t)
	path := filepath.Join(a.pilotDir(), "config.json")
	const text = `{"hostname":"agent-a","registry":"10.0.0.1:9000","n":5}`
	require.NoError(t, os.MkdirAll(a.pilotDir(), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	name, err := a.hostname()
	require.NoError(t, err)
	require.Equal(t, "agent-a", name)
	require.NoError(t, a.set(settings{"hostname": "mine"}))
	name, err = a.hostname()
	require.NoError(t, err)
	require.Equal(t, "mine", name)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestDamagedStateIsAnErrorAndIsKept(t *testing.T) {
	a := testApp(t)
	require.NoError(t, os.MkdirAll(a.dir(), 0o700))
	for _, path := range []string{a.configFile(), a.bookFile()} {
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	for _, err := range []error{
		a.set(settings{"k": "v"}),
		a.intend(hostA, "t"),
		func() error { _, err := a.joined(hostA, 1, "t"); return err }(),
	} {
		require.ErrorContains(t, err, "is damaged")
		require.Equal(t, "invalid_state", describe(err).code)
		require.NotEmpty(t, describe(err).hint)
	}
	b, err := os.ReadFile(a.bookFile())
	require.NoError(t, err)
	require.Equal(t, "{", string(b))
}

func TestStateThatCannotBeWrittenIsSaidBefore(t *testing.T) {
	a := testApp(t)
	require.NoError(t, os.WriteFile(a.pilotDir(), nil, 0o600)) // a file where the folder should be
	err := a.intend(hostA, "t")
	require.Error(t, err)
	require.Equal(t, codeIO, describe(err).code)
}

func TestBook(t *testing.T) {
	a := testApp(t)
	count := func() string {
		b, err := a.book()
		require.NoError(t, err)
		return strings.Join(b.counting(time.Now()), " ")
	}
	require.NoError(t, a.intend(hostA, "t"))
	require.Empty(t, count(), "a host counts from the first ack")

	again, err := a.joined(hostA, 1, "t")
	require.NoError(t, err)
	require.Empty(t, again)
	require.Equal(t, "a:9002", count())
	_, err = a.joined(hostB, 7)
	require.NoError(t, err)
	require.Equal(t, "a:9002 b:9002", count())

	again, err = a.joined(hostA, 1, "u")
	require.NoError(t, err)
	require.Empty(t, again)
	again, err = a.joined(hostA, 2, "v")
	require.NoError(t, err)
	require.Equal(t, []string{"t", "u"}, again, "a new log must be told")
	again, err = a.joined(hostA, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"t", "u", "v"}, again, "and is not believed to know before it was")
	require.NoError(t, a.rejoined(hostA, 2))
	again, err = a.joined(hostA, 2)
	require.NoError(t, err)
	require.Empty(t, again)

	b, err := a.book()
	require.NoError(t, err)
	require.Empty(t, b.counting(time.Now().Add(idleAfter)), "idle hosts do not count")
}

func TestWhatIsKnownIsNotWrittenAgain(t *testing.T) {
	a := testApp(t)
	join := func() {
		require.NoError(t, a.intend(hostA, "t"))
		_, err := a.joined(hostA, protocol.EpochID(1), "t")
		require.NoError(t, err)
	}
	join()
	before, err := os.Stat(a.bookFile())
	require.NoError(t, err)
	join()
	after, err := os.Stat(a.bookFile())
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
}
