package link_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// write makes a private file and its folders.
func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func ownFile(home string) string {
	return filepath.Join(home, ".pilot", "pilotgo", "identity.json")
}

func pilotFile(home string) string { return filepath.Join(home, ".pilot", "identity.json") }

// pilotJSON is an identity as Pilot writes it.
func pilotJSON(id link.Identity) string {
	return fmt.Sprintf("{\n  \"private_key\": %q,\n  \"public_key\": %q\n}",
		base64.StdEncoding.EncodeToString(id.Key), base64.StdEncoding.EncodeToString(id.Public()))
}

func TestIdentityIsMadeOnce(t *testing.T) {
	home := t.TempDir()
	first, err := link.LoadOrMakeIdentity(home)
	require.NoError(t, err)
	again, err := link.LoadOrMakeIdentity(home)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, protocol.NodeIDOf(first.Public()), first.NodeID())

	content, err := os.ReadFile(ownFile(home))
	require.NoError(t, err)
	require.Equal(t, pilotJSON(first)+"\n", string(content))
	for path, mode := range map[string]os.FileMode{ownFile(home): 0o600, filepath.Dir(ownFile(home)): 0o700 | os.ModeDir} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
}

func TestPilotsIdentityComesFirstAndIsLeftAlone(t *testing.T) {
	home := t.TempDir()
	_, err := link.LoadOrMakeIdentity(home)
	require.NoError(t, err)
	pilots := link.NewIdentity()
	write(t, pilotFile(home), pilotJSON(pilots))
	id, err := link.LoadOrMakeIdentity(home)
	require.NoError(t, err)
	require.Equal(t, pilots, id)
	content, err := os.ReadFile(pilotFile(home))
	require.NoError(t, err)
	require.Equal(t, pilotJSON(pilots), string(content))
}

func TestIdentityThroughASymlink(t *testing.T) {
	home, id := t.TempDir(), link.NewIdentity()
	target := filepath.Join(t.TempDir(), "key.json")
	write(t, target, pilotJSON(id))
	require.NoError(t, os.Mkdir(filepath.Join(home, ".pilot"), 0o700))
	require.NoError(t, os.Symlink(target, pilotFile(home)))
	got, err := link.LoadOrMakeIdentity(home)
	require.NoError(t, err)
	require.Equal(t, id, got)

	require.NoError(t, os.Remove(target))
	_, err = link.LoadOrMakeIdentity(home)
	requireCode(t, protocol.ErrInvalid, err)
	require.NoFileExists(t, ownFile(home), "a lost key is not silently replaced")
}

func TestUnusableIdentityIsAnErrorAndIsKept(t *testing.T) {
	id, other := link.NewIdentity(), link.NewIdentity()
	good := pilotJSON(id)
	encode := base64.StdEncoding.EncodeToString
	swapped := append(ed25519.PrivateKey(nil), id.Key...)
	copy(swapped[32:], other.Public())
	for name, content := range map[string]string{
		"empty":        "",
		"cut":          good[:40],
		"not json":     "-----BEGIN PRIVATE KEY-----",
		"no keys":      "{}",
		"not base64":   `{"private_key":"!","public_key":"!"}`,
		"short":        fmt.Sprintf(`{"private_key":%q,"public_key":%q}`, encode(id.Key[:32]), encode(id.Public())),
		"no public":    fmt.Sprintf(`{"private_key":%q}`, encode(id.Key)),
		"other public": fmt.Sprintf(`{"private_key":%q,"public_key":%q}`, encode(id.Key), encode(other.Public())),
		"other half":   fmt.Sprintf(`{"private_key":%q,"public_key":%q}`, encode(swapped), encode(other.Public())),
		"huge":         strings.Repeat(" ", 2<<20),
	} {
		for _, file := range []func(string) string{pilotFile, ownFile} {
			t.Run(name, func(t *testing.T) {
				home := t.TempDir()
				write(t, file(home), content)
				_, err := link.LoadOrMakeIdentity(home)
				requireCode(t, protocol.ErrInvalid, err)
				require.ErrorContains(t, err, file(home))
				kept, err := os.ReadFile(file(home))
				require.NoError(t, err)
				require.Equal(t, content, string(kept))
			})
		}
	}
}

func TestIdentityThatOthersMayOpenIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		home := t.TempDir()
		write(t, pilotFile(home), pilotJSON(link.NewIdentity()))
		require.NoError(t, os.Chmod(pilotFile(home), mode))
		_, err := link.LoadOrMakeIdentity(home)
		requireCode(t, protocol.ErrInvalid, err)
		require.ErrorContains(t, err, "chmod 600")
	}
}

func TestIdentityThatIsNoFile(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(pilotFile(home), 0o700))
	_, err := link.LoadOrMakeIdentity(home)
	requireCode(t, protocol.ErrInvalid, err)
}

func TestNoRoomForAnIdentity(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, ".pilot"), "a file where a folder should be")
	_, err := link.LoadOrMakeIdentity(home)
	require.Error(t, err)
}

func TestKeyFileAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "registry.key")
	id, err := link.LoadOrMakeKeyFile(path)
	require.NoError(t, err)
	again, err := link.LoadOrMakeKeyFile(path)
	require.NoError(t, err)
	require.Equal(t, id, again)
}

func TestIdentityRaceHasOneWinner(t *testing.T) {
	home := t.TempDir()
	ids := make([]link.Identity, 20)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := link.LoadOrMakeIdentity(home)
			require.NoError(t, err)
			ids[i] = id
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	entries, err := os.ReadDir(filepath.Dir(ownFile(home)))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the key and the lock, no temporary files")
}

// TestIdentityRaceOfProcesses runs this test binary again, as a process that
// makes an identity.
func TestIdentityRaceOfProcesses(t *testing.T) {
	const env = "LINK_TEST_HOME"
	if home := os.Getenv(env); home != "" {
		id, err := link.LoadOrMakeIdentity(home)
		require.NoError(t, err)
		fmt.Println("node", id.NodeID())
		return
	}
	home := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 8 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestIdentityRaceOfProcesses$", "-test.v")
			cmd.Env = append(os.Environ(), env+"="+home)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			_, node, ok := strings.Cut(string(out), "node ")
			require.True(t, ok)
			mu.Lock()
			defer mu.Unlock()
			seen[strings.Fields(node)[0]]++
		})
	}
	wg.Wait()
	require.Len(t, seen, 1, "all have one key: %v", seen)
}

func TestFingerprint(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	fp := link.Fingerprint(key)
	require.Equal(t, "sha256:E545QOZLVJFyIIjZoNdBYo_IJuCUddNBp4Cs3jxLgHA", fp)
	got, err := link.ParseFingerprint(" " + fp + "\n")
	require.NoError(t, err)
	require.Equal(t, fp, got)
	for _, bad := range []string{"", "sha256:", "sha256:AAAA", fp[7:], fp + "A", "SHA256" + fp[6:], fp[:len(fp)-1] + "="} {
		_, err := link.ParseFingerprint(bad)
		requireCode(t, protocol.ErrInvalid, err)
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(pilotJSON(link.NewIdentity())))
	f.Add([]byte(`{"private_key":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := link.ParseKey(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(map[string][]byte{"private_key": id.Key, "public_key": id.Public()})
		require.NoError(t, err)
		same, err := link.ParseKey(again)
		require.NoError(t, err)
		require.Equal(t, id, same)
	})
}

func TestLockHeldElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "identity.json")
		unlock, err := link.Lock(t.Context(), path)
		require.NoError(t, err)
		_, err = link.LoadOrMakeKeyFile(path)
		require.ErrorContains(t, err, "held by another process")
		unlock()
		_, err = link.LoadOrMakeKeyFile(path)
		require.NoError(t, err)
	})
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "key.ticket"), 0o700)) // in the way
	link.FileTickets(dir).Put("key", []byte("ticket"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
