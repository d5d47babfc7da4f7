package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachPackageHasOneDocComment(t *testing.T) {
	for dir, files := range packages(t) {
		var docs []string
		for _, s := range files {
			if text := s.Doc.Text(); text != "" {
				docs = append(docs, text)
			}
		}
		if !assert.Len(t, docs, 1, "package comments of %s", dir) || files[0].main() {
			continue
		}
		if want := "Package " + files[0].Name.Name + " "; !strings.HasPrefix(docs[0], want) {
			t.Errorf("the package comment of %s does not begin with %q", dir, want)
		}
	}
}

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	link    = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
)

// The README shows code that compiles: each Go block stands, line for line, in
// some Go file here, best in an Example.
func TestReadmeCodeIsCopiedFromGoFiles(t *testing.T) {
	readme := read(t, "README.md")
	var code []string
	for _, s := range tree(t) {
		code = append(code, flat(read(t, s.path)))
	}
	all := strings.Join(code, "\x00")
	for _, block := range goBlock.FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(all, flat(block[1])) {
			t.Errorf("no Go file has this code of the README:\n%s", block[1])
		}
	}
}

// flat drops indentation and empty lines.
func flat(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	pages = append(pages, more...)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
			assert.NoError(t, err, "a link in %s", filepath.Base(page))
		}
	}
}

// read returns a file by its path from the root; a missing one is empty.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}
