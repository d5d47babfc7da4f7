package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// locate finds out where in v the library's error is from, which tells the place
// in the schema only. It goes down while a part of the schema refuses a part of
// the value, always the first that does, so that the same document has the same
// error. Where it cannot go on (anyOf, oneOf, not), the error is of that keyword.
func (c *compiled) locate(n *schemaNode, v any, err error) error {
	var path []string
down:
	for {
		for next := range c.set.applies(n, v) {
			if inner := c.judge(next.node, next.value); inner != nil {
				n, v, err = next.node, next.value, inner
				path = append(path, next.path...)
				continue down
			}
		}
		rule, detail := n.explain(v, err)
		return &InvalidError{Path: joinPointer(path), Rule: rule, Detail: detail}
	}
}

// judge lets the library say what it thinks of v by one node.
func (c *compiled) judge(n *schemaNode, v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe == nil {
		all := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}}
		for _, n := range c.set.list {
			all.Properties[n.uri()] = &jsonschema.Schema{Ref: n.uri()}
		}
		probe, err := c.set.resolve(all)
		if err != nil {
			return nil // the caller has an error already, if a less exact one
		}
		c.probe = probe
	}
	return guard(func() error { return c.probe.Validate(map[string]any{n.uri(): v}) })
}

// application is a node that judges a value at a path further down, or at none.
type application struct {
	node  *schemaNode
	path  []string
	value any
}

// applies gives what must accept v, or a part of it, for n to accept v. The parts
// of the document come first, and a condition last.
func (s *schemaSet) applies(n *schemaNode, v any) iter.Seq[application] {
	return func(yield func(application) bool) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				for kid := range n.forProperty(name) {
					if !yield(application{kid, []string{name}, v[name]}) {
						return
					}
				}
			}
		case []any:
			for i := range v {
				if kid := n.forItem(i); kid != nil && !yield(application{kid, []string{strconv.Itoa(i)}, v[i]}) {
					return
				}
			}
		}
		for kid := range s.alongside(n, v) {
			if !yield(application{kid, nil, v}) {
				return
			}
		}
	}
}

// forProperty gives the schemas for the value of a property.
func (n *schemaNode) forProperty(name string) iter.Seq[*schemaNode] {
	return func(yield func(*schemaNode) bool) {
		known := false
		for _, k := range n.kids {
			re := (*regexp.Regexp)(nil)
			if k.keyword == "patternProperties" {
				re, _ = regexp.Compile(k.name) // checked before
			}
			if k.keyword == "properties" && k.name == name || re != nil && re.MatchString(name) {
				known = true
				if !yield(k.node) {
					return
				}
			}
		}
		// False there is better told as the object's: which properties are too many.
		if other := n.kid("additionalProperties"); !known && other != nil && !other.no {
			yield(other)
		}
	}
}

// forItem is the schema for an item, or nil.
func (n *schemaNode) forItem(i int) *schemaNode {
	prefix := 0
	for _, k := range n.kids {
		if k.keyword == "prefixItems" {
			if prefix == i {
				return k.node
			}
			prefix++
		}
	}
	return n.kid("items")
}

func (n *schemaNode) kid(keyword string) *schemaNode {
	for _, k := range n.kids {
		if k.keyword == keyword {
			return k.node
		}
	}
	return nil
}

// alongside gives the schemas that must accept the same value.
func (s *schemaSet) alongside(n *schemaNode, v any) iter.Seq[*schemaNode] {
	return func(yield func(*schemaNode) bool) {
		if t := s.target(n, "$ref"); t != nil && !yield(t) {
			return
		}
		object, _ := v.(map[string]any)
		for _, k := range n.kids {
			_, has := object[k.name]
			must := k.keyword == "allOf" || k.keyword == "dependentSchemas" && has
			if must && !yield(k.node) {
				return
			}
		}
	}
}

// explain makes rule and detail of the library's error at n. The values of the
// document stay out of it: they may be secret, and reasons are published.
func (n *schemaNode) explain(v any, err error) (rule, detail string) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	text := err.Error()
	if n.no {
		return "false", "nothing is allowed here"
	}
	rule, rest, _ := strings.Cut(text, ":")
	if strings.HasPrefix(text, "unexpected additional properties") {
		return "additionalProperties", clip("only " + n.knownProperties() + ", not " + n.unexpected(v))
	}
	rule, _, _ = strings.Cut(rule, "[")
	if _, ok := n.raw[rule]; !ok {
		return n.other(v), ""
	}
	switch rule {
	case "type":
		return rule, fmt.Sprintf("want %s, have %s", n.asJSON(rule), typeOf(v))
	case "uniqueItems":
		return rule, "two items are equal"
	case "required", "dependentRequired", "minItems", "maxItems", "minProperties", "maxProperties",
		"minContains", "maxContains":
		return rule, clip(strings.TrimSpace(rest)) // names and numbers only
	case "anyOf", "oneOf", "not", "contains":
		return rule, map[string]string{
			"anyOf":    "none of the schemas accepts it",
			"oneOf":    "not exactly one of the schemas accepts it",
			"not":      "the schema that must not accept it does",
			"contains": "no item is as one must be",
		}[rule]
	}
	return rule, "want " + clip(n.asJSON(rule))
}

// other names the keyword that an error without one is most likely of: one whose
// schemas locate does not go into.
func (n *schemaNode) other(v any) string {
	for _, k := range []string{"then", "else", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$ref"} {
		if _, ok := n.raw[k]; ok {
			return k
		}
	}
	return "schema for " + typeOf(v)
}

func (n *schemaNode) asJSON(keyword string) string {
	b, err := json.Marshal(n.raw[keyword])
	if err != nil {
		return "another"
	}
	return string(b)
}

func (n *schemaNode) knownProperties() string {
	var names []string
	for _, k := range n.kids {
		if k.keyword == "properties" || k.keyword == "patternProperties" {
			names = append(names, strconv.Quote(k.name))
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " ")
}

// unexpected names the properties of v that n has no schema for.
func (n *schemaNode) unexpected(v any) string {
	object, _ := v.(map[string]any)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		known := false
		for range n.forProperty(name) {
			known = true
		}
		if !known {
			names = append(names, strconv.Quote(name))
		}
	}
	return strings.Join(names, " ")
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v != float64(int64(v)) {
			return "number"
		}
	}
	return "integer"
}
