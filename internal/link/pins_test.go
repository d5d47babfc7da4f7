package link_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestPins(t *testing.T) {
	for name, pins := range map[string]link.Pins{
		"memory": link.MemoryPins(),
		"file":   link.FilePins(filepath.Join(t.TempDir(), "sub", "known_registries.json")),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := link.NewIdentity().Public(), link.NewIdentity().Public()
			_, ok, err := pins.Lookup("h:1")
			require.NoError(t, err)
			require.False(t, ok)

			require.NoError(t, pins.Remember(t.Context(), "h:1", a))
			require.NoError(t, pins.Remember(t.Context(), "h:1", a))
			requireCode(t, protocol.ErrWrongKey, pins.Remember(t.Context(), "h:1", b))
			fp, ok, err := pins.Lookup("h:1")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, link.Fingerprint(a), fp)

			require.NoError(t, pins.Follow(t.Context(), "h:1", link.Fingerprint(b), b), "it was another one that led on")
			require.NoError(t, pins.Follow(t.Context(), "h:0", link.Fingerprint(a), b), "forgotten meanwhile")
			require.NoError(t, pins.Remember(t.Context(), "g:1", a))
			require.NoError(t, pins.Follow(t.Context(), "h:1", link.Fingerprint(a), b))
			list, err := pins.List()
			require.NoError(t, err)
			require.Equal(t, []link.Pin{{"g:1", link.Fingerprint(a)}, {"h:1", link.Fingerprint(b)}}, list)

			ok, err = pins.Forget("h:1")
			require.NoError(t, err)
			require.True(t, ok)
			ok, err = pins.Forget("h:1")
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, pins.Remember(t.Context(), "h:1", b))
		})
	}
}

func TestPinFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_registries.json")
	pins := link.FilePins(path)
	key := link.NewIdentity().Public()
	ok, err := pins.Forget("h:1")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoFileExists(t, path)
	require.NoError(t, pins.Remember(t.Context(), "h:1", key))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("{\n  \"registries\": {\n    \"h:1\": %q\n  }\n}\n", link.Fingerprint(key)), string(b))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestDamagedPinFileIsAnErrorAndIsKept(t *testing.T) {
	key := link.NewIdentity().Public()
	for name, content := range map[string]string{
		"empty":       "",
		"cut":         `{"registries": {"h:1": "sha256:`,
		"other":       `{"trusted": []}`,
		"fingerprint": `{"registries": {"h:1": "sha256:short"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "known_registries.json")
			write(t, path, content)
			pins := link.FilePins(path)
			_, _, err := pins.Lookup("h:1")
			requireCode(t, protocol.ErrInvalid, err)
			require.ErrorContains(t, err, path)
			_, err = pins.List()
			requireCode(t, protocol.ErrInvalid, err)
			requireCode(t, protocol.ErrInvalid, pins.Remember(t.Context(), "h:1", key))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, string(b))
		})
	}
}

func TestPinFileThatOthersMayChangeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_registries.json")
	write(t, path, `{"registries": {}}`)
	require.NoError(t, os.Chmod(path, 0o666))
	_, _, err := link.FilePins(path).Lookup("h:1")
	requireCode(t, protocol.ErrInvalid, err)
}

func TestPinsOfManyProcessesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_registries.json")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			require.NoError(t, link.FilePins(path).Remember(t.Context(), fmt.Sprintf("h:%d", i), link.NewIdentity().Public()))
		})
	}
	wg.Wait()
	list, err := link.FilePins(path).List()
	require.NoError(t, err)
	require.Len(t, list, 20, "no write was lost")
}

func TestPinFileKeepsItsSymlink(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "real.json"), filepath.Join(dir, "known_registries.json")
	write(t, target, `{"registries": {}}`)
	require.NoError(t, os.Symlink(target, path))
	require.NoError(t, link.FilePins(path).Remember(t.Context(), "h:1", link.NewIdentity().Public()))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	list, err := link.FilePins(target).List()
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// Another process holds the file: a dial waits for it no longer than its caller.
func TestPinFileInUseHoldsUpADialNoLongerThanItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_registries.json")
	unlock, err := link.Lock(t.Context(), path)
	require.NoError(t, err)
	defer unlock()
	bubble(t, func(t *testing.T, n *simnet.Network) {
		serve(listen(t, n, "registry", link.Config{}), nil)
		pc := n.Listen("client")
		defer pc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		took := elapsed(func() {
			_, err := link.Dial(ctx, n.Addr("registry"), link.Config{
				Identity: link.NewIdentity(), PacketConn: pc, Pins: link.FilePins(path),
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		require.Less(t, took, 200*time.Millisecond)
	})
}
