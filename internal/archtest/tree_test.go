package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/pilotgo/pilotgo"
)

// A source is one Go file of the main module.
type source struct {
	path string // from the root, with slashes: client/dial.go
	fset *token.FileSet
	*ast.File
}

func (s *source) dir() string  { return path.Dir(s.path) }
func (s *source) test() bool   { return strings.HasSuffix(s.path, "_test.go") }
func (s *source) main() bool   { return s.Name.Name == "main" }
func (s *source) public() bool { return !s.main() && !strings.HasPrefix(s.path, "internal/") }

// at tells where a node stands: client/dial.go:12.
func (s *source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// imported returns the paths of the file's imports.
func (s *source) imported() []string {
	var paths []string
	for _, spec := range s.Imports {
		paths = append(paths, importPath(spec))
	}
	return paths
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser has read it already
	}
	return p
}

// selects takes a selector on an imported package apart: time.Sleep is "time"
// and "Sleep", under whatever name the file imports time.
func (s *source) selects(n ast.Node) (pkg, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	for _, spec := range s.Imports {
		p := importPath(spec)
		local := path.Base(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == x.Name {
			return p, sel.Sel.Name
		}
	}
	return "", ""
}

func parse(name string, text any) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(root, name), text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{path: name, fset: fset, File: file}, err
}

// snippet parses a made-up file, to show that a check finds what it looks for.
func snippet(t *testing.T, name, text string) *source {
	t.Helper()
	s, err := parse(name, text)
	require.NoError(t, err)
	return s
}

var readTree = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, rel)
		}
		if filepath.Ext(name) != ".go" || strings.HasPrefix(entry.Name(), "_") {
			return nil
		}
		s, err := parse(filepath.ToSlash(rel), nil)
		all = append(all, s)
		return err
	})
	return all, err
})

// enter skips the folders that the go command would skip.
func enter(name, rel string) error {
	base := filepath.Base(rel)
	if rel == "." {
		return nil
	}
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// tree returns every Go file of the main module, for every system.
func tree(t *testing.T) []*source {
	t.Helper()
	all, err := readTree()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// packages returns the files that are no tests, by folder.
func packages(t *testing.T) map[string][]*source {
	t.Helper()
	byDir := map[string][]*source{}
	for _, s := range tree(t) {
		if !s.test() {
			byDir[s.dir()] = append(byDir[s.dir()], s)
		}
	}
	return byDir
}

// under tells whether path is one of roots or inside one.
func under(p string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return p == r || strings.HasPrefix(p, r+"/")
	})
}

// check runs find over files and reports what it found.
func check(t *testing.T, files []*source, find func(*source) []string) {
	t.Helper()
	for _, s := range files {
		for _, complaint := range find(s) {
			t.Error(complaint)
		}
	}
}
