package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pilotgo/pilotgo/protocol"
)

// bytesName is the name of a schema that came as bytes. No file can have it.
const bytesName = "\x00"

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// schemaSet is a schema and the files it refers to, as trees of nodes. The library
// validates; this knows what a part of a schema is called, which it does not tell.
type schemaSet struct {
	read    func(name string) ([]byte, error) // nil: no files
	display func(name string) string
	own     []byte // of bytesName

	files []*schemaNode          // the whole of each file
	nodes map[string]*schemaNode // by URI with fragment, as pointer or anchor
	list  []*schemaNode          // each once, in order of reading
}

// schemaNode is one schema: the whole of a file, or a part of it that is a schema.
type schemaNode struct {
	file   string
	ptr    string         // from the file's beginning
	base   *url.URL       // what its references are relative to
	within string         // pointer from where base begins
	raw    map[string]any // nil for true and false
	no     bool           // it is false
	kids   []schemaKid
}

// uri is by what the library finds the node.
func (n *schemaNode) uri() string {
	u := *n.base
	u.Fragment = n.within
	return u.String()
}

// schemaKid is a schema directly inside another, under a keyword and, for lists
// and maps of schemas, a name.
type schemaKid struct {
	keyword, name string
	node          *schemaNode
}

func newSchemaSet() *schemaSet {
	return &schemaSet{nodes: map[string]*schemaNode{}}
}

// compile loads name, all it refers to, and hands it to the library.
func (s *schemaSet) compile(name string) (*compiled, error) {
	uri := &url.URL{Scheme: "file", Path: "/" + name}
	if err := s.load(uri); err != nil {
		return nil, err
	}
	for i := 0; i < len(s.list); i++ { // grows
		if err := s.follow(s.list[i]); err != nil {
			return nil, err
		}
	}
	if err := s.acyclic(); err != nil {
		return nil, err
	}
	root := s.nodes[nodeKey(uri)]
	s.tie()
	main, err := s.resolve(&jsonschema.Schema{Ref: root.uri()})
	if err != nil {
		return nil, root.wrong("", err)
	}
	return &compiled{set: s, root: root, main: main}, nil
}

// tie gives each file an $id and each $ref the URI of the node it leads to, so that
// all are parts of one schema: the library loses its way between several.
func (s *schemaSet) tie() {
	to := map[*schemaNode]*schemaNode{}
	for _, n := range s.list {
		to[n] = s.target(n, "$ref")
	}
	for _, n := range s.list {
		if n.raw != nil && n.within == "" {
			n.raw["$id"] = bare(n.base)
			delete(n.raw, "$schema") // it is checked, and the only one
		}
		if to[n] != nil {
			n.raw["$ref"] = to[n].uri()
		}
	}
}

// resolve adds all files to a schema that refers to nodes, and lets the library
// link them.
func (s *schemaSet) resolve(schema *jsonschema.Schema) (*jsonschema.Resolved, error) {
	schema.Defs = map[string]*jsonschema.Schema{}
	for i, n := range s.files {
		doc, err := unmarshalSchema(n.raw)
		if err != nil {
			return nil, n.blame(n.raw, err)
		}
		schema.Defs[strconv.Itoa(i)] = doc
	}
	var r *jsonschema.Resolved
	err := guard(func() (err error) {
		r, err = schema.Resolve(&jsonschema.ResolveOptions{BaseURI: "file:///%00%00"}) // no file's
		return err
	})
	return r, err
}

// nodeKey is how a node is found by its URI.
func nodeKey(u *url.URL) string {
	return bare(u) + "#" + u.Fragment
}

// bare is the URI without its fragment.
func bare(u *url.URL) string {
	v := *u
	v.Fragment, v.RawFragment = "", ""
	return v.String()
}

// load reads a file into nodes, unless it has been.
func (s *schemaSet) load(uri *url.URL) error {
	if s.nodes[bare(uri)+"#"] != nil {
		return nil
	}
	name, err := s.fileOf(uri)
	if err != nil {
		return err
	}
	if len(s.files) == maxSchemaFiles {
		return protocol.Errorf(protocol.ErrLimit, "more than %d files", maxSchemaFiles)
	}
	b := s.own
	if name != bytesName {
		if b, err = s.read(name); err != nil {
			return &SchemaError{File: s.display(name), Err: err}
		}
	}
	return s.add(uri, name, b)
}

// fileOf tells which file a URI stands for.
func (s *schemaSet) fileOf(uri *url.URL) (string, error) {
	switch name := strings.TrimPrefix(uri.Path, "/"); {
	case uri.Scheme != "file" || uri.Host != "":
		return "", protocol.Errorf(protocol.ErrUnsupported, "%s is not a file of this schema, and nothing is read from the network", bare(uri))
	case name == bytesName && s.own != nil:
		return name, nil
	case s.read == nil:
		return "", protocol.Errorf(protocol.ErrUnsupported, "%s: files need a Root folder", name)
	default:
		return name, nil
	}
}

// add makes nodes of a file.
func (s *schemaSet) add(uri *url.URL, name string, b []byte) error {
	file := ""
	if name != bytesName {
		file = s.display(name)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return syntaxError(file, b, err)
	}
	if rest := bytes.TrimSpace(b[dec.InputOffset():]); len(rest) > 0 {
		return syntaxError(file, b, &json.SyntaxError{Offset: dec.InputOffset() + 1})
	}
	if raw == true || raw == false { // as an object, it can have an $id
		raw = map[string]any{"allOf": []any{raw}}
	}
	at := *uri
	at.Fragment, at.RawFragment = "", ""
	root := &schemaNode{file: file, base: &at}
	s.files = append(s.files, root)
	if err := s.grow(raw, root, bare(uri)); err != nil {
		return err
	}
	if v, ok := root.raw["$schema"]; ok && v != draft2020 && v != draft2020+"#" {
		return root.wrong("/$schema", protocol.Errorf(protocol.ErrUnsupported, "only %s is", draft2020))
	}
	if _, err := unmarshalSchema(raw); err != nil {
		return root.blame(raw, err)
	}
	return nil
}

// unmarshalSchema hands the library what was walked here, and not the bytes of the
// file: in those it would merge the values of a key that is there twice.
func unmarshalSchema(raw any) (*jsonschema.Schema, error) {
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	return schema, guard(func() error { return json.Unmarshal(b, schema) })
}

// syntaxError tells line and column of an error of encoding/json.
func syntaxError(file string, b []byte, err error) error {
	offset := int64(len(b))
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		offset = min(max(syntax.Offset-1, 0), offset)
		if syntax.Error() == "" {
			err = errors.New("more than one value")
		}
	}
	before := b[:offset]
	return &SchemaError{
		File: file, Err: err,
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: 1 + len(before) - (1 + bytes.LastIndexByte(before, '\n')),
	}
}

// grow fills in n from raw and adds it, and all below. from is the URI that its
// file was read by.
func (s *schemaSet) grow(raw any, n *schemaNode, from string) error {
	s.list = append(s.list, n)
	s.nodes[from+"#"+n.ptr] = n
	switch raw := raw.(type) {
	case bool:
		n.no = !raw
	case map[string]any:
		n.raw = raw
	default:
		return n.wrong("", errors.New("a schema is an object, true or false"))
	}
	if err := n.check(); err != nil {
		return err
	}
	if err := s.name(n); err != nil {
		return err
	}
	for keyword, name := range n.parts() {
		sub, ptr := n.raw[keyword], "/"+escape.Replace(keyword)
		k := schemaKid{keyword: keyword}
		if name != nil {
			k.name = *name
			sub, _ = step(sub, k.name)
			ptr += "/" + escape.Replace(k.name)
		}
		k.node = &schemaNode{file: n.file, ptr: n.ptr + ptr, base: n.base, within: n.within + ptr}
		if err := s.grow(sub, k.node, from); err != nil {
			return err
		}
		n.kids = append(n.kids, k)
	}
	return nil
}

// name makes n known by its $id, anchors, and place below the $id around it.
func (s *schemaSet) name(n *schemaNode) error {
	if id, ok := n.raw["$id"].(string); ok {
		u, err := url.Parse(id)
		if err != nil || u.Fragment != "" {
			return n.wrong("/$id", errors.New("no URI without a fragment"))
		}
		n.base, n.within = n.base.ResolveReference(u), ""
	}
	names := []string{n.within}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := n.raw[keyword].(string); ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		key := bare(n.base) + "#" + name
		if other := s.nodes[key]; other != nil && other != n {
			return n.wrong("", fmt.Errorf("has the same name as another, %s", key))
		}
		s.nodes[key] = n
	}
	return nil
}

// The keywords that hold a schema, a list of them, or a map.
var (
	oneSchema = []string{
		"items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
	}
	listOfSchemas = []string{"prefixItems", "allOf", "anyOf", "oneOf"}
	mapOfSchemas  = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)

// parts gives the places in n that are schemas, by keyword and, in a list or a
// map, by name.
func (n *schemaNode) parts() iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		for _, k := range oneSchema {
			if _, ok := n.raw[k]; ok && !yield(k, nil) {
				return
			}
		}
		for _, k := range listOfSchemas {
			list, _ := n.raw[k].([]any)
			for i := range list {
				if name := strconv.Itoa(i); !yield(k, &name) {
					return
				}
			}
		}
		for _, k := range mapOfSchemas {
			m, _ := n.raw[k].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if !yield(k, &name) {
					return
				}
			}
		}
	}
}

// wrong is an error at a place inside the node.
func (n *schemaNode) wrong(ptr string, err error) error {
	return &SchemaError{File: n.file, Pointer: n.ptr + ptr, Err: err}
}

// blame finds the innermost part of raw, which is n, that the library does not
// take.
func (n *schemaNode) blame(raw any, err error) error {
	for _, k := range n.kids {
		sub, _ := step(raw, k.keyword)
		if k.name != "" || slices.Contains(mapOfSchemas, k.keyword) {
			sub, _ = step(sub, k.name)
		}
		if _, inner := unmarshalSchema(sub); inner != nil {
			return k.node.blame(sub, inner)
		}
	}
	return n.wrong("", err)
}

var schemaTypes = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// gone are words of earlier drafts, which would check nothing.
var gone = map[string]string{
	"additionalItems": "items, behind prefixItems",
	"dependencies":    "dependentRequired or dependentSchemas",
	"$recursiveRef":   "$dynamicRef",
}

// check finds what the library takes and then does not honour.
func (n *schemaNode) check() error {
	for _, k := range slices.Sorted(maps.Keys(n.raw)) {
		if err := n.checkKeyword(k, n.raw[k]); err != nil {
			return n.wrong("/"+escape.Replace(k), err)
		}
	}
	return nil
}

func (n *schemaNode) checkKeyword(k string, v any) error {
	if instead, ok := gone[k]; ok {
		return fmt.Errorf("not in draft 2020-12: use %s", instead)
	}
	if word := misspelt(k); word != "" {
		return fmt.Errorf("the keyword is %s", word)
	}
	switch k {
	case "type":
		return checkTypes(v)
	case "items":
		if _, ok := v.([]any); ok {
			return errors.New("an array is not in draft 2020-12: use prefixItems")
		}
	case "$vocabulary":
		return protocol.Errorf(protocol.ErrUnsupported, "custom vocabularies")
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return errors.New("a pattern is a string")
		}
		_, err := regexp.Compile(text)
		return err
	case "patternProperties":
		m, _ := v.(map[string]any)
		for _, p := range slices.Sorted(maps.Keys(m)) {
			if _, err := regexp.Compile(p); err != nil {
				return err
			}
		}
	case "prefixItems", "allOf", "anyOf", "oneOf":
		if list, ok := v.([]any); !ok || len(list) == 0 {
			return errors.New("a list of at least one schema")
		}
	case "multipleOf":
		if f, _ := v.(json.Number); !positive(f) {
			return errors.New("a number above 0")
		}
	case "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return checkExact(v)
	}
	return nil
}

// keywords are what the library knows, all of which it takes in any case of
// letters. What is nested under another spelling would not be checked here.
var keywords = sync.OnceValue(func() []string {
	return slices.Concat(oneSchema, listOfSchemas, mapOfSchemas, slices.Collect(maps.Keys(gone)), []string{
		"$id", "$schema", "$ref", "$comment", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary",
		"type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "required", "dependentRequired", "default", "format",
	})
})

func misspelt(k string) string {
	for _, word := range keywords() {
		if k != word && strings.EqualFold(k, word) {
			return word
		}
	}
	return ""
}

func positive(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && f > 0
}

func checkTypes(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, t := range list {
		if name, ok := t.(string); !ok || !slices.Contains(schemaTypes, name) {
			return fmt.Errorf("%v is no type; there are %s", t, strings.Join(schemaTypes, ", "))
		}
	}
	return nil
}

// checkExact finds an integer that the library would round.
func checkExact(v any) error {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return fmt.Errorf("%s is out of range", v)
		}
		if i, ok := new(big.Int).SetString(v.String(), 10); ok {
			if back, _ := new(big.Float).SetFloat64(f).Int(nil); back.Cmp(i) != 0 {
				return protocol.Errorf(protocol.ErrUnsupported, "%s would be rounded to %s", v, back)
			}
		}
	case []any:
		for _, e := range v {
			if err := checkExact(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := checkExact(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow loads what n refers to, and finds out whether it is there.
func (s *schemaSet) follow(n *schemaNode) error {
	for _, keyword := range []string{"$ref", "$dynamicRef"} {
		v, ok := n.raw[keyword]
		if !ok {
			continue
		}
		text, _ := v.(string)
		ref, err := url.Parse(text)
		if err != nil || text == "" {
			return n.wrong("/"+keyword, errors.New("no URI reference"))
		}
		to := n.base.ResolveReference(ref)
		if err := s.load(to); err != nil {
			if inner := new(SchemaError); errors.As(err, &inner) && inner.Pointer+inner.File != "" && protocol.CodeOf(inner) == protocol.ErrInvalid {
				return err // it says where by itself
			}
			return n.wrong("/"+keyword, err)
		}
		if s.nodes[nodeKey(to)] == nil {
			return n.wrong("/"+keyword, fmt.Errorf("%q leads to no schema", text))
		}
	}
	return nil
}

// target is the node that a reference of n leads to, or nil. That of a $dynamicRef
// is where it leads unless something else is outside.
func (s *schemaSet) target(n *schemaNode, keyword string) *schemaNode {
	text, ok := n.raw[keyword].(string)
	if !ok {
		return nil
	}
	ref, err := url.Parse(text)
	if err != nil {
		return nil
	}
	return s.nodes[nodeKey(n.base.ResolveReference(ref))]
}

// inPlace are the keywords whose schemas judge the same value.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}

// acyclic finds a schema that leads to itself on the same value: the library
// would never come back.
func (s *schemaSet) acyclic() error {
	const open, done = 1, 2
	state := map[*schemaNode]int{}
	var visit func(n *schemaNode) error
	visit = func(n *schemaNode) error {
		switch state[n] {
		case done:
			return nil
		case open:
			return n.wrong("", errors.New("refers to itself without a step into the document"))
		}
		state[n] = open
		for next := range s.sameValue(n) {
			if err := visit(next); err != nil {
				return err
			}
		}
		state[n] = done
		return nil
	}
	for _, n := range s.list {
		if err := visit(n); err != nil {
			return err
		}
	}
	return nil
}

// sameValue gives the nodes that n may apply to the value it judges.
func (s *schemaSet) sameValue(n *schemaNode) iter.Seq[*schemaNode] {
	return func(yield func(*schemaNode) bool) {
		for _, k := range n.kids {
			if slices.Contains(inPlace, k.keyword) && !yield(k.node) {
				return
			}
		}
		for _, keyword := range []string{"$ref", "$dynamicRef"} {
			if t := s.target(n, keyword); t != nil && !yield(t) {
				return
			}
		}
		ref, _ := n.raw["$dynamicRef"].(string)
		_, anchor, _ := strings.Cut(ref, "#")
		for _, t := range s.list {
			if anchor != "" && t.raw["$dynamicAnchor"] == anchor && !yield(t) {
				return
			}
		}
	}
}
