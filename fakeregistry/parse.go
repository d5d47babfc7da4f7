package fakeregistry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// ParseFaults reads a list of faults in JSON. Each has a time, "at", counted
// from the start and not before that of the one above it; a name, "do"; and the
// fields of that name, as the package documentation lists them.
//
//	[
//	  {"at": "2s",  "do": "partition", "node": "a"},
//	  {"at": "30s", "do": "heal"},
//	  {"at": "31s", "do": "restart", "lose_log": true}
//	]
//
// Errors tell the line and the field.
func ParseFaults(b []byte) (Script, error) {
	p := &parser{text: b, dec: json.NewDecoder(bytes.NewReader(b))}
	script, err := p.script()
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return script, nil
}

// FaultNames lists what "do" can be.
func FaultNames() []string { return slices.Sorted(maps.Keys(actions)) }

type parser struct {
	text []byte
	dec  *json.Decoder
}

// line of the next value.
func (p *parser) line() int {
	at := int(p.dec.InputOffset())
	for at < len(p.text) && strings.IndexByte(" \t\r\n,:", p.text[at]) >= 0 {
		at++
	}
	return 1 + bytes.Count(p.text[:at], []byte("\n"))
}

func (p *parser) fail(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
}

// syntax tells where the JSON itself is broken.
func (p *parser) syntax(err error) error {
	var bad *json.SyntaxError
	switch {
	case errors.As(err, &bad):
		at := min(int(bad.Offset), len(p.text))
		return p.fail(1+bytes.Count(p.text[:at], []byte("\n")), "%w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return p.fail(1+bytes.Count(p.text, []byte("\n")), "the text ends too early")
	}
	return err
}

func (p *parser) script() (Script, error) {
	line := p.line()
	if t, err := p.dec.Token(); err != nil {
		return nil, p.syntax(err)
	} else if t != json.Delim('[') {
		return nil, p.fail(line, "not a list")
	}
	script := Script{}
	for p.dec.More() {
		s, err := p.step()
		if err != nil {
			return nil, err
		}
		if n := len(script); n > 0 && s.At < script[n-1].At {
			return nil, p.fail(s.line, `"at" lies before that of the fault above`)
		}
		script = append(script, s)
	}
	if _, err := p.dec.Token(); err != nil {
		return nil, p.syntax(err)
	}
	line = p.line()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.fail(line, "something follows the list")
	}
	return script, nil
}

func (p *parser) step() (Step, error) {
	f, err := p.object()
	if err != nil {
		return Step{}, err
	}
	s := Step{line: f.line, At: f.duration("at"), Do: f.text("do")}
	if f.err != nil {
		return Step{}, f.err
	}
	parse, ok := actions[s.Do]
	if !ok {
		return Step{}, p.fail(f.lineOf("do"), `"do": no fault is called %q; there are %s`, s.Do, strings.Join(FaultNames(), ", "))
	}
	s.apply = parse(f)
	f.rest(s.Do)
	return s, f.err
}

// object reads one object with the line of each field.
func (p *parser) object() (*fields, error) {
	f := &fields{line: p.line(), all: make(map[string]field)}
	if t, err := p.dec.Token(); err != nil {
		return nil, p.syntax(err)
	} else if t != json.Delim('{') {
		return nil, p.fail(f.line, "not an object")
	}
	for p.dec.More() {
		line := p.line()
		t, err := p.dec.Token()
		if err != nil {
			return nil, p.syntax(err)
		}
		name := t.(string) // the decoder takes nothing else here
		var raw json.RawMessage
		if err := p.dec.Decode(&raw); err != nil {
			return nil, p.syntax(err)
		}
		if _, ok := f.all[name]; ok {
			return nil, p.fail(line, "%q is there twice", name)
		}
		f.all[name] = field{line, raw}
	}
	if _, err := p.dec.Token(); err != nil {
		return nil, p.syntax(err)
	}
	return f, nil
}

// fields are those of one object. The first error sticks.
type fields struct {
	line int
	all  map[string]field
	read []string
	err  error
}

type field struct {
	line  int
	value json.RawMessage
}

func (f *fields) lineOf(name string) int {
	if v, ok := f.all[name]; ok {
		return v.line
	}
	return f.line
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("line %d: %q: %w", f.lineOf(name), name, fmt.Errorf(format, args...))
	}
}

// rest complains about fields that nobody asked for.
func (f *fields) rest(do string) {
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		if !slices.Contains(f.read, name) {
			slices.Sort(f.read)
			f.fail(name, "%s has no such field; it has %s", do, strings.Join(f.read, ", "))
		}
	}
}

func (f *fields) has(name string) bool {
	_, ok := f.all[name]
	return ok
}

// decode reads a field; it reports whether it was there.
func (f *fields) decode(name string, into any, want string) bool {
	f.read = append(f.read, name)
	v, ok := f.all[name]
	if !ok || f.err != nil {
		return false
	}
	if string(v.value) == "null" || json.Unmarshal(v.value, into) != nil {
		f.fail(name, "%s is no %s", v.value, want)
		return false
	}
	return true
}

func (f *fields) need(name string) {
	if !f.has(name) {
		f.fail(name, "missing")
	}
}

func (f *fields) text(name string) string {
	f.need(name)
	return f.textOr(name, "")
}

func (f *fields) textOr(name, missing string) string {
	s := missing
	if f.decode(name, &s, "text") && s == "" {
		f.fail(name, "empty")
	}
	return s
}

func (f *fields) duration(name string) time.Duration {
	f.need(name)
	return f.durationOr(name, 0)
}

func (f *fields) durationOr(name string, missing time.Duration) time.Duration {
	d := f.signed(name, missing)
	if d < 0 {
		f.fail(name, "below 0")
	}
	return d
}

func (f *fields) signed(name string, missing time.Duration) time.Duration {
	var s string
	if !f.decode(name, &s, `duration; write it like "1.5s"`) {
		return missing
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		f.fail(name, `%q is no duration; write it like "1.5s"`, s)
	}
	return d
}

func (f *fields) count(name string) int {
	var n int
	if f.decode(name, &n, "whole number") && (n < 0 || n > math.MaxInt32) {
		f.fail(name, "%d is out of range", n)
	}
	return n
}

func (f *fields) chance(name string) float64 {
	var p float64
	if f.decode(name, &p, "number") && (p < 0 || p > 1) {
		f.fail(name, "%v is not between 0 and 1", p)
	}
	return p
}

func (f *fields) flag(name string, missing bool) bool {
	b := missing
	f.decode(name, &b, "true or false")
	return b
}

// bytes is a field of any JSON, as it stands there.
func (f *fields) bytes(name string) []byte {
	f.need(name)
	f.read = append(f.read, name)
	return slices.Clone(f.all[name].value)
}
