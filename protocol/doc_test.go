package protocol_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tables of the specification are held against the code here.

// section returns the text behind a heading, up to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut("\n"+docText(t), "\n# "+heading+"\n")
	require.True(t, ok, "no section %q", heading)
	text, _, _ = strings.Cut(text, "\n# ")
	return text
}

// table lists the lines of a section that match, by their submatches.
func table(t *testing.T, heading, line string) [][]string {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\t"+line+"$").FindAllStringSubmatch(section(t, heading), -1)
	require.NotEmpty(t, rows, "no table in %q", heading)
	return rows
}

func TestDocErrors(t *testing.T) {
	rows := table(t, "Errors", ` *(\d+)  (\S+) +(\S+) +(.+)`)
	comments := constants(t, "errors.go")
	codes := protocol.Codes()
	require.Len(t, rows, len(codes))
	for i, c := range codes {
		number, name, sentinel, meaning := rows[i][1], rows[i][2], rows[i][3], rows[i][4]
		require.Equal(t, strconv.FormatUint(uint64(c), 10), number)
		require.Equal(t, c.Name(), name)
		require.Equal(t, number, comments[sentinel].value, sentinel)
		require.True(t, strings.HasPrefix(comments[sentinel].comment, name+": "+meaning), "%s: %q", sentinel, comments[sentinel].comment)
	}
}

func TestDocMaximums(t *testing.T) {
	have := make(map[string]string)
	for _, row := range table(t, "Maximums", `(\S+) +(\d+)  \S.*`) {
		have[row[1]] = row[2]
	}
	for name, want := range map[string]uint64{
		"MaxTopic": protocol.MaxTopic, "MaxName": protocol.MaxName, "MaxTags": protocol.MaxTags,
		"MaxToken": protocol.MaxToken, "MaxKey": protocol.MaxKey, "MaxSlot": protocol.MaxSlot,
		"DefaultPayload": protocol.DefaultPayload, "MaxPayload": protocol.MaxPayload, "MaxPage": protocol.MaxPage,
		"MaxFirstFrame": protocol.MaxFirstFrame, "FrameOverhead": protocol.FrameOverhead, "MaxDepth": protocol.MaxDepth,
		"MaxConditions": protocol.MaxConditions, "MaxTerm": protocol.MaxTerm, "MaxJoin": protocol.MaxJoin,
		"MaxSuccessions": protocol.MaxSuccessions, "MaxLabel": protocol.MaxLabel, "MaxLabels": protocol.MaxLabels,
	} {
		assert.Equal(t, strconv.FormatUint(want, 10), have[name], name)
		delete(have, name)
	}
	require.Empty(t, have)
	for name := range constants(t, "limits.go") {
		assert.Contains(t, section(t, "Maximums"), "\t"+name+" ", "a maximum that the table lacks")
	}
}

// element is a row of a wire table.
type element struct{ name, kind string }

// wireTables reads the tables of frames and records: a line that names one,
// then its elements.
func wireTables(t *testing.T) map[string][]element {
	t.Helper()
	var (
		begin = regexp.MustCompile(`^\t(?:\d+ )?([A-Z]\w+|[a-z ]+?)(?:  +(?:client|registry)\b.*)?$`)
		row   = regexp.MustCompile(`^\t    (\w[\w ]*?)  +(\[\]\w+(?: entry)?|\w+(?: \d+)?)(?:   *.*)?$`)
		list  = make(map[string][]element)
		in    string
	)
	for _, heading := range []string{"Session", "Publishing", "Subscriptions", "Requests", "Operators"} {
		in = ""
		for line := range strings.Lines(section(t, heading)) {
			line = strings.TrimSuffix(line, "\n")
			if m := row.FindStringSubmatch(line); m != nil && in != "" {
				list[in] = append(list[in], element{m[1], m[2]})
			} else if m := begin.FindStringSubmatch(line); m != nil {
				in = m[1]
				require.NotContains(t, list, in)
				list[in] = nil
			} else if strings.HasPrefix(line, "\t") {
				require.Fail(t, "a line that is no row", "%s: %q", heading, line)
			} else {
				in = ""
			}
		}
	}
	return list
}

func TestDocFrames(t *testing.T) {
	tables := wireTables(t)
	all := frameVectors(t)
	text := docText(t)
	for name, kind := range frameTypes(t) {
		require.Contains(t, tables, name)
		assert.Regexp(t, fmt.Sprintf(`(?m)^\t%d %s +(client|registry)`, kind, name), text)
		r := &shapes{t: t, tables: tables}
		for _, v := range all {
			if v.name == kebab(name) || v.name == kebab(name)+"-max" {
				r.frame(v, tables[name])
			}
		}
	}
	require.Equal(t, tables["message"], tables["Deliver"])
}

func docText(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	return file.Doc.Text()
}

// shapes holds a vector against the tables: as many elements as there are rows,
// of the kinds that the rows name.
type shapes struct {
	t      *testing.T
	tables map[string][]element
	*library
}

func (s *shapes) frame(v vector, rows []element) {
	s.library = newLibrary(s.t)
	s.library.read(v.bytes)
	require.Equal(s.t, 1+len(rows), s.library.array(), v.name)
	s.library.uint()
	s.rows(v.name, rows)
}

func (s *shapes) rows(where string, rows []element) {
	for _, row := range rows {
		s.value(where+"."+row.name, row.kind)
	}
}

func (s *shapes) value(where, kind string) {
	c, err := s.dec.PeekCode()
	require.NoError(s.t, err, where)
	isNumber := c < 0x80 || c >= 0xcc && c <= 0xcf
	switch base, size, sized := strings.Cut(kind, " "); {
	case kind == "uint" || kind == "node" || kind == "ms" || kind == "flag":
		require.True(s.t, isNumber, "%s: %x", where, c)
		n := s.library.uint()
		if limit, ok := map[string]uint64{"node": 1<<32 - 1, "ms": 9223372036854, "flag": 1}[kind]; ok {
			require.LessOrEqual(s.t, n, limit, where)
			if strings.Contains(where, "-max.") {
				require.Equal(s.t, limit, n, where)
			}
		}
	case kind == "text":
		require.True(s.t, c >= 0xa0 && c < 0xc0 || c >= 0xd9 && c <= 0xdb, "%s: %x", where, c)
		s.library.text()
	case base == "bytes":
		require.True(s.t, c >= 0xc4 && c <= 0xc6, "%s: %x", where, c)
		b := s.library.bytes()
		if sized {
			require.Equal(s.t, size, strconv.Itoa(len(b)), where)
		}
	case strings.HasPrefix(kind, "[]"):
		for range s.library.array() {
			s.value(where, kind[2:])
		}
	default:
		require.Contains(s.t, s.tables, kind, where)
		require.Equal(s.t, len(s.tables[kind]), s.library.array(), where)
		s.rows(where+"."+kind, s.tables[kind])
	}
}

type constant struct{ value, comment string }

// constants reads the exported constants of a file.
func constants(t *testing.T, name string) map[string]constant {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	require.NoError(t, err)
	list := make(map[string]constant)
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			spec := spec.(*ast.ValueSpec)
			if spec.Names[0].IsExported() {
				value, _ := spec.Values[0].(*ast.BasicLit)
				c := constant{comment: strings.TrimSpace(spec.Comment.Text())}
				if value != nil {
					c.value = value.Value
				}
				list[spec.Names[0].Name] = c
			}
		}
	}
	return list
}

// Whoever reads go doc finds a sentence at every exported name.
func TestEveryNameIsDocumented(t *testing.T) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range goFiles(t) {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, "protocol")
	require.NoError(t, err)
	check := func(name, text string) {
		assert.NotEmpty(t, text, "%s has no doc comment", name)
	}
	for _, f := range pkg.Funcs {
		check(f.Name, f.Doc)
	}
	for _, typ := range pkg.Types {
		check(typ.Name, typ.Doc)
		for _, f := range append(typ.Funcs, typ.Methods...) {
			if f.Name != "Error" {
				check(typ.Name+"."+f.Name, f.Doc)
			}
		}
	}
}

func goFiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.go")
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}
