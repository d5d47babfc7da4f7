package protocol_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is one file of testdata/vectors: lines "key: value", an empty line, hex
// with comments behind '#'.
type vector struct {
	name    string
	comment string
	stream  bool   // with lengths before the frames; else the body of one frame
	expect  string // ok; malformed; too_large; refused and the code
	bytes   []byte
}

func vectors(t testing.TB) []vector {
	t.Helper()
	paths, err := filepath.Glob("testdata/vectors/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "there are no vectors")
	var list []vector
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		v := parseVector(t, strings.TrimSuffix(filepath.Base(path), ".txt"), string(text))
		require.Less(t, len(v.bytes), 1<<10, "%s is too large for a fuzzer's seed", path)
		list = append(list, v)
	}
	return list
}

func parseVector(t testing.TB, name, text string) vector {
	t.Helper()
	head, body, ok := strings.Cut(text, "\n\n")
	require.True(t, ok, "%s: no empty line", name)
	v := vector{name: name}
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, "%s: %q", name, line)
		switch key {
		case "comment":
			v.comment = value
		case "expect":
			v.expect = value
		case "form":
			require.Equal(t, "stream", value, name)
			v.stream = true
		default:
			require.Fail(t, "unknown line", "%s: %q", name, line)
		}
	}
	require.NotEmpty(t, v.comment, name)
	var digits strings.Builder
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err, name)
	v.bytes = b
	return v
}

// frameVectors are the vectors without lengths.
func frameVectors(t testing.TB) []vector {
	t.Helper()
	var list []vector
	for _, v := range vectors(t) {
		if !v.stream {
			list = append(list, v)
		}
	}
	return list
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.name, func(t *testing.T) {
			switch {
			case v.stream:
				checkStream(t, v)
			case v.expect == "ok":
				checkWellFormed(t, v)
			case v.expect == "malformed":
				checkMalformed(t, v)
			default:
				checkRefused(t, v)
			}
		})
	}
}

func checkWellFormed(t *testing.T, v vector) protocol.Frame {
	require.NoError(t, protocol.Validate(v.bytes))
	f, err := protocol.Parse(v.bytes)
	require.NoError(t, err)
	assert.Equal(t, v.bytes, f.Append(nil), "the frame has one encoding")
	assert.Equal(t, flatten(t, v.bytes), flatFrame(t, f), "another decoder reads the same values")
	kind, err := protocol.PeekType(v.bytes)
	require.NoError(t, err)
	assert.Equal(t, f.Type(), kind)
	return f
}

func checkMalformed(t *testing.T, v vector) {
	f, err := protocol.Parse(v.bytes)
	require.ErrorIs(t, err, protocol.ErrMalformed)
	require.Nil(t, f)
	var typed *protocol.Error
	require.ErrorAs(t, err, &typed)
	require.NotEmpty(t, typed.Detail)
}

// checkRefused is for frames that are well-formed and ask for what nobody grants.
func checkRefused(t *testing.T, v vector) {
	f := checkWellFormed(t, v)
	var err error
	switch f := f.(type) {
	case *protocol.Publish:
		err = f.Check(protocol.Limits{})
	case interface{ Check() error }:
		err = f.Check()
	}
	code := protocol.CodeOf(err)
	require.Equal(t, v.expect, "refused "+strconv.FormatUint(uint64(code), 10)+" "+code.Name(), "%v", err)
}

func checkStream(t *testing.T, v vector) {
	frames, err := readAll(bytes.NewReader(v.bytes), protocol.DefaultPayload+protocol.FrameOverhead)
	var again []byte
	for _, body := range frames {
		f, parseErr := protocol.Parse(body)
		if parseErr != nil {
			err = parseErr
			break
		}
		again = protocol.AppendFrame(again, f)
	}
	switch v.expect {
	case "ok":
		require.NoError(t, err)
		require.Equal(t, v.bytes, again)
	case "malformed":
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			require.ErrorIs(t, err, protocol.ErrMalformed)
		}
	default:
		require.Equal(t, v.expect, protocol.CodeOf(err).Name())
	}
}

// readAll reads frames to the end of r. A clean end is no error.
func readAll(r io.Reader, most int) ([][]byte, error) {
	in := protocol.NewReader(r, most)
	var frames [][]byte
	for {
		body, err := in.Next()
		if err == io.EOF { //nolint:errorlint // a clean end is io.EOF itself
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		frames = append(frames, bytes.Clone(body))
	}
}

// Each cut of a frame is malformed, whatever byte it ends with.
func TestVectorsCutAnywhereAreMalformed(t *testing.T) {
	for _, v := range frameVectors(t) {
		if v.expect == "malformed" {
			continue
		}
		for n := range v.bytes {
			_, err := protocol.Parse(v.bytes[:n])
			require.ErrorIs(t, err, protocol.ErrMalformed, "%s cut to %d bytes", v.name, n)
		}
	}
}

func TestEveryFrameHasVectors(t *testing.T) {
	have := make(map[protocol.FrameType]map[string]bool)
	for _, v := range frameVectors(t) {
		if v.expect != "ok" {
			continue
		}
		kind, err := protocol.PeekType(v.bytes)
		require.NoError(t, err, v.name)
		if have[kind] == nil {
			have[kind] = make(map[string]bool)
		}
		have[kind][v.name] = true
	}
	types := frameTypes(t)
	for name, kind := range types {
		base := kebab(name)
		for _, want := range []string{base, base + "-empty", base + "-max", base + "-extra"} {
			assert.True(t, have[kind][want], "%s has no vector %s", name, want)
		}
		assert.Equal(t, name, kind.String())
		assert.Contains(t, meanings, base, "no test says what %s means", base)
	}
	assert.Len(t, have, len(types))
}

// frameTypes reads the constants from the source.
func frameTypes(t testing.TB) map[string]protocol.FrameType {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "frame.go", nil, 0)
	require.NoError(t, err)
	types := make(map[string]protocol.FrameType)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "FrameType" {
			return true
		}
		n64, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 10, 64)
		require.NoError(t, err)
		types[strings.TrimPrefix(spec.Names[0].Name, "Type")] = protocol.FrameType(n64)
		return true
	})
	require.NotEmpty(t, types)
	return types
}

func kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

func TestExtraElementsAreKept(t *testing.T) {
	for name := range frameTypes(t) {
		text, err := os.ReadFile("testdata/vectors/" + kebab(name) + "-extra.txt")
		require.NoError(t, err)
		v := parseVector(t, name, string(text))
		f, err := protocol.Parse(v.bytes)
		require.NoError(t, err, name)
		require.Equal(t, 3, extraOf(f).Len(), name)
		require.Equal(t, v.bytes, f.Append(nil), name)
	}
}
