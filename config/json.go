package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
)

// MaxDepth is how deep the objects and arrays of a message may nest, the message
// itself included: some versions of jq read no deeper than 256, and print what
// they read inside some levels of their own.
const MaxDepth = 200

// scanner reads JSON text without changing it. It is strict: RFC 8259 and UTF-8,
// no half of a surrogate pair, and no name twice in one object unless lax.
type scanner struct {
	b     []byte
	at    int
	depth int  // levels that may still open
	lax   bool // names may come twice
}

// field is a member of an object: its name as it reads, and its value as it is
// spelled.
type field struct {
	name  string
	value []byte
}

// scanFields reads an object. An error says what is wrong and where; it repeats
// nothing of the values, which may be secret.
func scanFields(b []byte, depth int, lax bool) ([]field, error) {
	s := scanner{b: b, depth: depth, lax: lax}
	s.space()
	if s.peek() != '{' {
		return nil, s.fault("not an object")
	}
	var list []field
	err := s.object(func(name string, value []byte) { list = append(list, field{name, value}) })
	if err != nil {
		return nil, err
	}
	if s.space(); s.at < len(b) {
		return nil, s.fault("more text behind the object")
	}
	return list, nil
}

// scanItems reads an array.
func scanItems(b []byte, depth int) (items [][]byte, err error) {
	s := scanner{b: b, depth: depth}
	s.space()
	if s.peek() != '[' {
		return nil, s.fault("not an array")
	}
	err = s.array(func(value []byte) { items = append(items, value) })
	return items, err
}

// isValue reports whether b is one value, strictly, with no space around it.
func isValue(b []byte) bool {
	s := scanner{b: b, depth: MaxDepth - 1}
	return s.value() == nil && s.at == len(b)
}

func (s *scanner) fault(format string, args ...any) error {
	return protocol.Errorf(protocol.ErrInvalid, "%s at byte %d", fmt.Sprintf(format, args...), s.at)
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\t' || s.b[s.at] == '\r') {
		s.at++
	}
}

// value passes over one value.
func (s *scanner) value() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func(string, []byte) {})
	case c == '[':
		return s.array(func([]byte) {})
	case c == '"':
		_, err := s.quoted()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(string(s.b[s.at:min(s.at+len(word), len(s.b))]), word) {
			s.at += len(word)
			return nil
		}
	}
	if s.at == len(s.b) {
		return s.fault("the text ends too early")
	}
	return s.fault("no JSON value")
}

// open enters an object or array and reports whether it is empty.
func (s *scanner) open(end byte) (empty bool, err error) {
	if s.depth == 0 {
		return false, s.fault("nested too deep")
	}
	s.depth--
	s.at++
	s.space()
	if s.peek() != end {
		return false, nil
	}
	s.close()
	return true, nil
}

func (s *scanner) close() {
	s.at++
	s.depth++
}

// next goes on to the next element and reports whether there is one.
func (s *scanner) next(end byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.at++
		s.space()
		return true, nil
	case end:
		s.close()
		return false, nil
	}
	return false, s.fault("no ',' or '%c'", end)
}

func (s *scanner) object(each func(name string, value []byte)) error {
	empty, err := s.open('}')
	var names names
	for more := !empty; more && err == nil; {
		more, err = s.member(&names, each)
	}
	return err
}

func (s *scanner) member(names *names, each func(string, []byte)) (more bool, err error) {
	if s.peek() != '"' {
		return false, s.fault("no name in quotes")
	}
	begin := s.at
	name, err := s.text()
	if err != nil {
		return false, err
	}
	if !s.lax && !names.add(name) {
		s.at = begin
		return false, s.fault("the name %s comes twice", strconv.Quote(name))
	}
	if s.space(); s.peek() != ':' {
		return false, s.fault("no ':' behind a name")
	}
	s.at++
	s.space()
	begin = s.at
	if err := s.value(); err != nil {
		return false, err
	}
	each(name, s.b[begin:s.at:s.at])
	return s.next('}')
}

func (s *scanner) array(each func(value []byte)) error {
	empty, err := s.open(']')
	for more := !empty; more && err == nil; {
		begin := s.at
		if err = s.value(); err == nil {
			each(s.b[begin:s.at:s.at])
			more, err = s.next(']')
		}
	}
	return err
}

// number passes over -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func (s *scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	zero := s.peek() == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return s.fault("no JSON number")
	}
	if s.peek() == '.' {
		s.at++
		if s.digits() == 0 {
			return s.fault("no digit behind the point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if s.digits() == 0 {
			return s.fault("no digit in the exponent")
		}
	}
	return nil
}

func (s *scanner) digits() int {
	begin := s.at
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at - begin
}

// text reads a string, at its first quote.
func (s *scanner) text() (string, error) {
	begin := s.at
	escaped, err := s.quoted()
	switch {
	case err != nil:
		return "", err
	case !escaped:
		return string(s.b[begin+1 : s.at-1]), nil
	}
	var text string
	err = json.Unmarshal(s.b[begin:s.at], &text)
	return text, err
}

// quoted passes over a string, at its first quote.
func (s *scanner) quoted() (escaped bool, err error) {
	s.at++
	for {
		switch c := s.peek(); {
		case s.at == len(s.b):
			return false, s.fault("the text ends inside a string")
		case c == '"':
			s.at++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, s.fault("a control character in a string")
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, n := utf8.DecodeRune(s.b[s.at:])
			if r == utf8.RuneError && n == 1 {
				return false, s.fault("not UTF-8")
			}
			s.at += n
		}
	}
}

// escape passes over an escape, and over both halves of a surrogate pair.
func (s *scanner) escape() error {
	s.at++
	c := s.peek()
	if c != 'u' {
		if c == 0 || !strings.ContainsRune(`"\/bfnrt`, rune(c)) {
			return s.fault("no JSON escape")
		}
		s.at++
		return nil
	}
	r, ok := s.hex()
	if ok && utf16.IsSurrogate(r) {
		low := rune(-1)
		if s.peek() == '\\' && s.at+1 < len(s.b) && s.b[s.at+1] == 'u' {
			s.at++
			low, ok = s.hex()
		}
		ok = ok && utf16.DecodeRune(r, low) != utf8.RuneError
	}
	if !ok {
		return s.fault(`no JSON \u escape, or half of a pair`)
	}
	return nil
}

// hex reads uXXXX.
func (s *scanner) hex() (rune, bool) {
	if s.at+5 > len(s.b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.b[s.at+1:s.at+5]), 16, 16)
	s.at += 5
	return rune(n), err == nil
}

// names are those met in one object.
type names struct {
	few  []string
	many map[string]struct{}
}

// add reports whether the name is new.
func (n *names) add(name string) bool {
	if n.many != nil {
		_, old := n.many[name]
		n.many[name] = struct{}{}
		return !old
	}
	if slices.Contains(n.few, name) {
		return false
	}
	if n.few = append(n.few, name); len(n.few) > 16 {
		n.many = make(map[string]struct{}, 2*len(n.few))
		for _, old := range n.few {
			n.many[old] = struct{}{}
		}
	}
	return true
}
