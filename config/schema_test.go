package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

func TestSchemaNamesPathAndRule(t *testing.T) {
	const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["max_workers"],
  "properties": {
    "max_workers": {"type": "integer", "minimum": 1, "maximum": 9007199254740992},
    "level": {"enum": ["info", "debug"]},
    "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
    "pools": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"$ref": "#/$defs/pool"}},
    "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": false},
    "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "never": false,
    "map": {"patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}},
    "closed": {"properties": {"a": true, "b": true}, "additionalProperties": false},
    "cond": {"if": {"required": ["tls"]}, "then": {"required": ["cert"]}},
    "dep": {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
    "un": {"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false},
    "names": {"propertyNames": {"pattern": "^[a-z]+$"}},
    "a/b": {"const": 3},
    "tree": {"$ref": "#tree"}
  },
  "$defs": {
    "pool": {"type": "object", "allOf": [{"properties": {"size": {"type": "integer", "exclusiveMaximum": 10}}}], "required": ["size"]},
    "tree": {"$anchor": "tree", "type": "object", "properties": {"kids": {"items": {"$ref": "#tree"}}}}
  }
}`
	for _, test := range []struct{ doc, want string }{
		{`{"max_workers":1}`, ""},
		{`{"max_workers":1.0,"pools":[{"size":1}],"pair":["a",1.5],"either":null,"map":{"x-a":true,"b":1},"a/b":3.0}`, ""},
		{`{"max_workers":9007199254740992}`, ""},
		{`{"max_workers":9007199254740993}`, `/max_workers: maximum: want 9007199254740992`},
		{`{}`, `document: required: missing properties: ["max_workers"]`},
		{`{"max_workers":"hunter2"}`, `/max_workers: type: want "integer", have string`},
		{`{"max_workers":1.5}`, `/max_workers: type: want "integer", have number`},
		{`{"max_workers":0}`, `/max_workers: minimum: want 1`},
		{`{"max_workers":1,"level":"hunter2"}`, `/level: enum: want ["info","debug"]`},
		{`{"max_workers":1,"name":"Hunter2"}`, `/name: maxLength: want 5`},
		{`{"max_workers":1,"name":"Hu"}`, `/name: pattern: want "^[a-z]+$"`},
		{`{"max_workers":1,"pools":[]}`, `/pools: minItems: array length 0 is less than 1`},
		{`{"max_workers":1,"pools":[{"size":1},{"size":1}]}`, `/pools: uniqueItems: two items are equal`},
		{`{"max_workers":1,"pools":[{"size":1},{"size":10}]}`, `/pools/1/size: exclusiveMaximum: want 10`},
		{`{"max_workers":1,"pools":[{"size":1},{}]}`, `/pools/1: required: missing properties: ["size"]`},
		{`{"max_workers":1,"pair":["a","b"]}`, `/pair/1: type: want "number", have string`},
		{`{"max_workers":1,"pair":["a",1,2]}`, `/pair/2: false: nothing is allowed here`},
		{`{"max_workers":1,"either":1}`, `/either: anyOf: none of the schemas accepts it`},
		{`{"max_workers":1,"never":1}`, `/never: false: nothing is allowed here`},
		{`{"max_workers":1,"map":{"x-a":1}}`, `/map/x-a: type: want "boolean", have integer`},
		{`{"max_workers":1,"map":{"y":"a"}}`, `/map/y: type: want "integer", have string`},
		{`{"max_workers":1,"closed":{"c":1,"d":2}}`, `/closed: additionalProperties: only "a" "b", not "c" "d"`},
		{`{"max_workers":1,"cond":{"tls":1}}`, `/cond: then`},
		{`{"max_workers":1,"dep":{"a":1}}`, `/dep: dependentRequired: missing properties ["b"]`},
		{`{"max_workers":1,"dep":{"c":1}}`, `/dep: required: missing properties: ["d"]`},
		{`{"max_workers":1,"un":{"b":1}}`, `/un: unevaluatedProperties`},
		{`{"max_workers":1,"names":{"A":1}}`, `/names: propertyNames`},
		{`{"max_workers":1,"a/b":4}`, `/a~1b: const: want 3`},
		{`{"max_workers":1,"tree":{"kids":[{"kids":[{},{"kids":[7]}]}]}}`, `/tree/kids/0/kids/1/kids/0: type: want "object", have integer`},
	} {
		err := (&config.Schema{JSON: []byte(schema)}).Validate(t.Context(), document(t, 1, test.doc))
		if test.want == "" {
			require.NoError(t, err, test.doc)
			continue
		}
		require.EqualError(t, err, test.want, test.doc)
		require.ErrorIs(t, err, protocol.ErrInvalid)
		require.NotContains(t, strings.ToLower(err.Error()), "hunter2")
	}
}

// Two rules are broken, and maps have no order; the answer must have one.
func TestSchemaErrorsAreTheSameEachTime(t *testing.T) {
	schema := &config.Schema{JSON: []byte(`{"properties":{"b":{"type":"string"},"a":{"type":"string"},"c":{"type":"string"}}}`)}
	for range 50 {
		err := schema.Validate(t.Context(), document(t, 1, `{"c":1,"b":1,"a":1}`))
		require.EqualError(t, err, `/a: type: want "string", have integer`)
	}
}

func TestSchemaNumbers(t *testing.T) {
	for _, test := range []struct{ schema, doc, want string }{
		{`{"minimum":0.1}`, `0.1`, ""},
		{`{"type":"integer"}`, `18446744073709551615`, ""},
		{`{"type":"integer"}`, `1e3`, ""},
		{`{"type":"integer"}`, `123456789012345678901234567890`, ""},
		{`{"const":9007199254740992}`, `9007199254740993`, "/n: const: want 9007199254740992"},
		{`{"enum":[0.1,2]}`, `2.0`, ""},
		{`true`, `1e400`, "document: JSON: number 1e400 is out of range"},
	} {
		schema := &config.Schema{JSON: []byte(`{"properties":{"n":` + test.schema + `}}`)}
		err := schema.Validate(t.Context(), document(t, 1, `{"n":`+test.doc+`}`))
		if test.want == "" {
			require.NoError(t, err, test)
			continue
		}
		require.EqualError(t, err, test.want)
	}
}

func TestSchemaThatCannotBeUsed(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{"", "schema:1:1: EOF"},
		{"{\n  \"type\": \"object\",\n}", "schema:3:1: invalid character '}' looking for beginning of object key string"},
		{"{} {}", "schema:1:3: more than one value"},
		{`[]`, "schema: a schema is an object, true or false"},
		{`{"properties":{"a":{"type":"strng"}}}`, "schema#/properties/a/type: strng is no type; there are null, boolean, object, array, number, string, integer"},
		{`{"properties":{"a":{"minimum":"1"}}}`, "schema#/properties/a: "},
		{`{"properties":{"a":7}}`, "schema#/properties/a: a schema is an object, true or false"},
		{`{"allOf":[{"pattern":"(?=a)"}]}`, "schema#/allOf/0/pattern: error parsing regexp"},
		{`{"patternProperties":{"(":{}}}`, "schema#/patternProperties: error parsing regexp"},
		{`{"items":[{}]}`, "schema#/items: an array is not in draft 2020-12: use prefixItems"},
		{`{"dependencies":{}}`, "schema#/dependencies: not in draft 2020-12: use dependentRequired or dependentSchemas"},
		{`{"Required":["a"]}`, "schema#/Required: the keyword is required"},
		{`{"multipleOf":0}`, "schema#/multipleOf: a number above 0"},
		{`{"allOf":[]}`, "schema#/allOf: a list of at least one schema"},
		{`{"const":{"a":[9007199254740993]}}`, "schema#/const: not supported: 9007199254740993 would be rounded to 9007199254740992"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "schema#/$schema: not supported: only https://json-schema.org/draft/2020-12/schema is"},
		{`{"$ref":"#"}`, "schema: refers to itself without a step into the document"},
		{`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},true]}}}`, "schema#/properties/a: refers to itself without a step into the document"},
		{`{"$dynamicAnchor":"n","not":{"$dynamicRef":"#n"}}`, "schema: refers to itself without a step into the document"},
		{`{"$ref":"#/$defs/none"}`, `schema#/$ref: "#/$defs/none" leads to no schema`},
		{`{"$ref":"https://example.com/a.json"}`, "schema#/$ref: not supported: https://example.com/a.json is not a file of this schema, and nothing is read from the network"},
		{`{"$ref":"file://host/a.json"}`, "schema#/$ref: not supported: file://host/a.json is not a file of this schema, and nothing is read from the network"},
		{`{"$ref":"a.json"}`, "schema#/$ref: not supported: a.json: files need a Root folder"},
	} {
		err := (&config.Schema{JSON: []byte(test.schema)}).Compile()
		require.ErrorContains(t, err, test.want, test.schema)
		var typed *config.SchemaError
		require.ErrorAs(t, err, &typed, test.schema)
		require.NotEqual(t, protocol.ErrInternal, protocol.CodeOf(err), test.schema)
		require.Error(t, (&config.Schema{JSON: []byte(test.schema)}).Validate(t.Context(), document(t, 1, `{}`)))
	}
}

// A name that is there twice is one schema for the library too.
func TestSchemaWithNamesTwice(t *testing.T) {
	const schema = `{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}},"properties":{"b":{"type":"string"}}}`
	s := &config.Schema{JSON: []byte(schema)}
	require.NoError(t, s.Validate(t.Context(), document(t, 1, `{"a":1}`)))
	require.Error(t, s.Validate(t.Context(), document(t, 1, `{"b":1}`)))
}

// schemas writes files into a folder.
func schemas(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func TestSchemaFilesReferToEachOther(t *testing.T) {
	dir := schemas(t, map[string]string{
		"main.json":       `{"properties":{"pool":{"$ref":"parts/pool.json"},"n":{"$ref":"parts/defs.json#/$defs/n"}}}`,
		"parts/pool.json": `{"type":"object","properties":{"size":{"$ref":"defs.json#small"},"sub":{"$ref":"pool.json"},"top":{"$ref":"../main.json"}}}`,
		"parts/defs.json": `{"$defs":{"n":{"type":"integer"},"s":{"$anchor":"small","maximum":9}}}`,
	})
	s := &config.Schema{File: filepath.Join(dir, "main.json")}
	require.NoError(t, s.Validate(t.Context(), document(t, 1, `{"pool":{"size":9,"sub":{"size":1}},"n":7}`)))
	for doc, want := range map[string]string{
		`{"n":"a"}`:                            `/n: type: want "integer", have string`,
		`{"pool":{"sub":{"sub":{"size":10}}}}`: `/pool/sub/sub/size: maximum: want 9`,
		`{"pool":{"top":{"pool":3}}}`:          `/pool/top/pool: type: want "object", have integer`,
	} {
		require.EqualError(t, s.Validate(t.Context(), document(t, 1, doc)), want)
	}
}

// With an $id the parts of one file refer to each other by URL, without network.
func TestSchemaWithIDs(t *testing.T) {
	s := &config.Schema{JSON: []byte(`{
  "$id": "https://example.com/main.json",
  "properties": {"a": {"$ref": "https://example.com/a.json"}, "b": {"$ref": "a.json#/$defs/b"}, "c": {"$ref": "a.json#c"}},
  "$defs": {"x": {"$id": "a.json", "type": "string", "$defs": {"b": {"type": "integer"}, "c": {"$anchor": "c", "type": "null"}}}}
}`)}
	require.NoError(t, s.Validate(t.Context(), document(t, 1, `{"a":"x","b":1,"c":null}`)))
	for doc, want := range map[string]string{
		`{"a":1}`:   `/a: type: want "string", have integer`,
		`{"b":"x"}`: `/b: type: want "integer", have string`,
		`{"c":1}`:   `/c: type: want "null", have integer`,
	} {
		require.EqualError(t, s.Validate(t.Context(), document(t, 1, doc)), want)
	}
}

func TestSchemaStaysInItsFolder(t *testing.T) {
	outside := schemas(t, map[string]string{"secret.json": `{}`})
	dir := schemas(t, map[string]string{
		"up.json":      `{"$ref":"../secret.json"}`,
		"abs.json":     `{"$ref":"file://` + filepath.ToSlash(outside) + `/secret.json"}`,
		"link.json":    `{"$ref":"leads/secret.json"}`,
		"missing.json": `{"$ref":"none.json"}`,
		"folder.json":  `{"$ref":"sub"}`,
		"sub/x.json":   `{`,
		"broken.json":  `{"$ref":"sub/x.json"}`,
	})
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "leads")))
	for name, want := range map[string]protocol.Code{
		"up.json": protocol.ErrNotFound, "abs.json": protocol.ErrNotFound, "link.json": protocol.ErrInvalid,
		"missing.json": protocol.ErrNotFound, "folder.json": protocol.ErrInvalid, "broken.json": protocol.ErrInvalid,
		"not-there.json": protocol.ErrNotFound,
	} {
		err := (&config.Schema{File: filepath.Join(dir, name)}).Compile()
		var typed *config.SchemaError
		require.ErrorAs(t, err, &typed, name)
		require.Equal(t, want, protocol.CodeOf(err), "%s: %v", name, err)
		require.Contains(t, err.Error(), dir, name)
		require.NotEqual(t, "not-there.json", typed.File)
	}
	err := (&config.Schema{File: filepath.Join(dir, "broken.json")}).Compile()
	require.EqualError(t, err, filepath.Join(dir, "sub", "x.json")+":1:2: unexpected EOF")

	err = (&config.Schema{File: filepath.Join(outside, "secret.json"), Root: dir}).Compile()
	require.ErrorContains(t, err, "not below the folder")
	require.ErrorContains(t, (&config.Schema{}).Compile(), "File or JSON, one of the two")
}

// What was wrong may be put right without a new start.
func TestSchemaIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schema.json")
	s := &config.Schema{File: path}
	require.ErrorIs(t, s.Compile(), protocol.ErrNotFound)
	require.NoError(t, os.WriteFile(path, []byte(`{"type":"object"}`), 0o644))
	require.NoError(t, s.Compile())
}

func TestSchemaServesManyAtOnce(t *testing.T) {
	s := &config.Schema{JSON: []byte(`{"properties":{"a":{"type":"string"}}}`)}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if s.Validate(t.Context(), document(t, 1, `{"a":"x"}`)) != nil {
					t.Error("refused what is valid")
				}
				if s.Validate(t.Context(), document(t, 1, `{"a":1}`)) == nil {
					t.Error("accepted what is not")
				}
			}
		})
	}
	all.Wait()
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`{}`))
	f.Add([]byte(`{"$dynamicAnchor":"n","items":{"$dynamicRef":"#n"}}`), []byte(`{"a":[[]]}`))
	f.Add([]byte(`{"oneOf":[{"minimum":1},{"contains":{}}],"unevaluatedProperties":{"not":{}}}`), []byte(`{"a":1e2}`))
	f.Add([]byte(`{"$id":"a.json","$defs":{"b":{"$id":"b","$anchor":"x"}},"$ref":"b#x"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, schema, doc []byte) {
		s := &config.Schema{JSON: schema}
		if err := s.Compile(); err != nil {
			var typed *config.SchemaError
			require.ErrorAs(t, err, &typed)
			return
		}
		d, err := config.NewDocument(1, doc)
		if err != nil {
			return
		}
		if err := s.Validate(t.Context(), d); err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
	})
}
