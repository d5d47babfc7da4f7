package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pilotgo/pilotgo/protocol"
)

// Schema is a Validator by a JSON Schema, draft 2020-12. It is read and compiled
// at its first use, or by Compile, and then kept; what could not be compiled is
// tried again at the next use. A document that fails is an *[InvalidError] with the
// place in the document and the keyword that it breaks, and without its values.
//
// A $ref may lead into the schema itself, or to a file below Root, as a relative
// path from the file it stands in; a symlink does not lead out of there. Nothing is
// ever read from the network: where an $id makes a $ref a URL, what it leads to must
// have that $id inside one of the files.
//
// Where it is less or more than the specification:
//
//   - format and the content keywords are notes and check nothing: use pattern.
//   - pattern is a Go regular expression: no look-around, no back-references.
//   - Fractions, and integers outside of int64 and uint64, are float64; multipleOf
//     divides those and so may refuse 0.07 for 0.01. A schema with an integer that
//     float64 cannot hold is an error.
//   - Drafts before 2020-12, custom vocabularies, $recursiveRef, and the words of
//     earlier drafts that would check nothing (items as an array, additionalItems,
//     dependencies) are errors.
//   - A schema that refers to itself without a step into the document is an error.
type Schema struct {
	// File is the path of the schema. Root is the folder that references stay in;
	// empty is the folder of File.
	File, Root string

	// JSON is the schema itself instead of a file. References to files then need a
	// Root.
	JSON []byte

	mu       sync.Mutex
	compiled *compiled
}

// maxSchema bounds each file of a schema, and maxSchemaFiles their number.
const (
	maxSchema      = 4 << 20
	maxSchemaFiles = 256
)

// SchemaError is a schema that cannot be used: where in it, and why. It is
// protocol.ErrInvalid, or another code where a file could not be read.
type SchemaError struct {
	File         string // empty for one that came as bytes
	Line, Column int    // where its JSON ends to make sense; 0 if it is JSON
	Pointer      string // a JSON Pointer to the part of the schema that is wrong
	Err          error
}

func (e *SchemaError) Error() string {
	s := e.File
	if s == "" {
		s = "schema"
	}
	if e.Line != 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Pointer != "" {
		s += "#" + e.Pointer
	}
	return s + ": " + e.Err.Error()
}

// Unwrap gives the code, and what happened.
func (e *SchemaError) Unwrap() []error {
	if protocol.CodeOf(e.Err) != protocol.ErrInternal {
		return []error{e.Err}
	}
	return []error{codeOfFile(e.Err, protocol.ErrInvalid), e.Err}
}

// Hint tells a person what to do.
func (e *SchemaError) Hint() string { return "correct the schema" }

// Compile reads the schema, unless it has been read. Its error is a *[SchemaError].
func (s *Schema) Compile() error {
	_, err := s.get()
	return err
}

// Validate judges the document.
func (s *Schema) Validate(_ context.Context, d *Document) error {
	c, err := s.get()
	if err != nil {
		return err
	}
	v, err := decode(d.Config)
	if err != nil {
		return err
	}
	return c.validate(v)
}

func (s *Schema) get() (*compiled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compiled == nil {
		c, err := s.compile()
		if err != nil {
			return nil, err
		}
		s.compiled = c
	}
	return s.compiled, nil
}

// compile reads and checks everything that the schema refers to.
func (s *Schema) compile() (*compiled, error) {
	if (s.File == "") == (s.JSON == nil) {
		return nil, &SchemaError{Err: protocol.Errorf(protocol.ErrInvalid, "File or JSON, one of the two")}
	}
	root, name := s.Root, ""
	if s.File != "" {
		if root == "" {
			root = filepath.Dir(s.File)
		}
		rel, err := relative(root, s.File)
		if err != nil {
			return nil, &SchemaError{File: s.File, Err: err}
		}
		name = filepath.ToSlash(rel)
	}
	set := newSchemaSet()
	set.display = func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	if root != "" {
		dir, err := os.OpenRoot(root)
		if err != nil {
			return nil, &SchemaError{File: root, Err: err}
		}
		defer dir.Close()
		set.read = func(name string) ([]byte, error) { return readIn(dir, name) }
	}
	if s.JSON != nil {
		name = bytesName
		set.own = s.JSON
	}
	return set.compile(name)
}

// relative is the path of file below root.
func relative(root, file string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", protocol.Errorf(protocol.ErrInvalid, "not below the folder %s", root)
	}
	return rel, nil
}

// readIn reads a file of a schema below dir.
func readIn(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	return readAtMost(f, maxSchema)
}

// compiled is a schema that is ready. It is not changed any more, but for probe.
type compiled struct {
	set  *schemaSet
	root *schemaNode
	main *jsonschema.Resolved

	mu    sync.Mutex
	probe *jsonschema.Resolved // each node as a property; made at the first failure
}

// validate judges a decoded document.
func (c *compiled) validate(v any) error {
	err := guard(func() error { return c.main.Validate(v) })
	if err == nil {
		return nil
	}
	return c.locate(c.root, v, err)
}

// guard makes an error of a panic inside the library: a document from outside
// must not end the process.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("schema library: %v", p)
		}
	}()
	return f()
}

// clip bounds a text that came from outside.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
