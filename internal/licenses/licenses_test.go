package licenses

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write licenses.txt.gz")

// The texts are those of the modules that go.mod asks for now: `make licenses`
// writes them.
func TestTextIsThatOfWhatIsLinkedIn(t *testing.T) {
	want := collect(t)
	if *update {
		require.NoError(t, os.WriteFile("licenses.txt.gz", pack(t, want), 0o644))
	}
	got, err := Text()
	if !*update { // what is linked into this test is the file of before
		require.NoError(t, err)
		require.Equal(t, heads(want), heads(got), "run `make licenses`")
		require.True(t, want == got, "a text has changed: run `make licenses`") // not all of them in the output
	}
}

func TestModulesAndGoItselfAreThere(t *testing.T) {
	text, err := Text()
	require.NoError(t, err)
	for _, name := range []string{"Go ", "github.com/pilotgo/pilotgo", "github.com/quic-go/quic-go", "Apache License", "MIT License"} {
		require.Contains(t, text, name)
	}
}

// heads are the names above the texts.
func heads(text string) (list []string) {
	for part := range strings.SplitSeq(text, line) {
		names, _, _ := strings.Cut(strings.TrimSpace(part), "\n\n")
		list = append(list, strings.Split(names, "\n")...)
	}
	return list
}

// line stands between texts.
var line = "\n" + strings.Repeat("-", 72) + "\n\n"

type module struct {
	Path, Version, Dir string
	Replace            *module
}

// collect gathers the texts for every system the programs are released for.
func collect(t *testing.T) string {
	t.Helper()
	found := map[string]module{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "../../cmd/...")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *module }
			err := d.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if p.Module != nil {
				found[p.Module.Path] = *p.Module
			}
		}
	}
	return write(t, found)
}

// write puts modules with the same text together, in a fixed order.
func write(t *testing.T, found map[string]module) string {
	t.Helper()
	names := map[string][]string{}
	for _, m := range found {
		text := texts(t, m.Dir)
		require.NotEmpty(t, text, "%s has no licence file", m.Path)
		names[text] = append(names[text], strings.TrimSpace(m.Path+" "+m.Version))
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	goLicense := texts(t, strings.TrimSpace(string(root)))
	names[goLicense] = append(names[goLicense], "Go and its standard library")

	var parts []string
	for text, list := range names {
		slices.Sort(list)
		parts = append(parts, strings.Join(list, "\n")+"\n\n"+text)
	}
	slices.Sort(parts)
	return strings.Join(parts, line)
}

var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

func texts(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	return b.String()
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}
