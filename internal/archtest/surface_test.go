package archtest

import (
	"flag"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/api")

// The surface of each public package is written down, so that a change to it
// shows as a diff in review. `make api` rewrites it.
func TestAPI(t *testing.T) {
	recorded := map[string]bool{}
	for dir, files := range packages(t) {
		if !files[0].public() {
			continue
		}
		file := filepath.Join("testdata", "api", filepath.FromSlash(dir)+".txt")
		recorded[file] = true
		t.Run(dir, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "doc", "-all", "./"+dir)
			cmd.Dir = root
			got, err := cmd.Output()
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
				require.NoError(t, os.WriteFile(file, got, 0o666))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "write it with make api")
			require.Equal(t, string(want), string(got), "make api rewrites it")
		})
	}
	require.NotEmpty(t, recorded)
	require.NoError(t, filepath.WalkDir(filepath.Join("testdata", "api"), func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			require.True(t, recorded[name], "%s is of no public package", name)
		}
		return err
	}))
}

func TestEachPublicPackageHasAnExample(t *testing.T) {
	examples := map[string]bool{}
	for _, s := range tree(t) {
		for _, decl := range s.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test() && strings.HasPrefix(f.Name.Name, "Example") {
				examples[s.dir()] = true
			}
		}
	}
	for dir, files := range packages(t) {
		// A conformance suite is shown by the logs that run it: it needs a *testing.T,
		// which an Example does not have.
		if files[0].public() && dir != "registry/logtest" {
			assert.True(t, examples[dir], "%s has no Example", dir)
		}
	}
}
