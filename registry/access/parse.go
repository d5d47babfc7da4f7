package access

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Bounds of a file.
const (
	MaxSize  = 1 << 20 // bytes
	MaxRules = 10_000
)

// maxFaults is how many faults of a file are told at once.
const maxFaults = 20

// SyntaxError is a fault in a line of a file. It is a protocol.ErrInvalid.
type SyntaxError struct {
	File   string
	Line   int // from 1 on
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Unwrap is protocol.ErrInvalid.
func (e *SyntaxError) Unwrap() error { return protocol.ErrInvalid }

// Parse reads rules; name is what errors call them. The error joins a SyntaxError
// for each line that is wrong, of the first of them.
func Parse(name string, text []byte) (*Rules, error) {
	fault := func(line int, format string, args ...any) error {
		return &SyntaxError{File: name, Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	if len(text) > MaxSize {
		return nil, fault(1, "%d bytes, maximum %d", len(text), MaxSize)
	}
	var (
		r      Rules
		faults []error
		n      int
	)
	for line := range strings.Lines(string(text)) {
		n++
		one, err := parseLine(strings.TrimRight(line, "\r\n"))
		switch {
		case err != nil:
			faults = append(faults, fault(n, "%v", err))
		case one == nil:
		case len(r.list) == MaxRules:
			return nil, fault(n, "more than %d rules", MaxRules)
		default:
			one.line = n
			r.list = append(r.list, *one)
		}
		if len(faults) == maxFaults {
			break
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &r, nil
}

// parseLine reads one line; nil is a line without a rule.
func parseLine(line string) (*rule, error) {
	words, err := split(line)
	switch {
	case err != nil:
		return nil, err
	case len(words) == 0:
		return nil, nil
	case len(words) < 4:
		return nil, errors.New("a rule is: allow|deny WHO RIGHTS WHERE…")
	}
	r := &rule{text: strings.TrimSpace(line), allow: words[0].text == "allow"}
	if words[0].text != "allow" && words[0].text != "deny" {
		return nil, fmt.Errorf("a rule begins with allow or deny, not %q", words[0].text)
	}
	if r.who, err = parseWho(words[1].text); err != nil {
		return nil, err
	}
	if r.rights, err = parseRights(words[2].text); err != nil {
		return nil, err
	}
	for _, w := range words[3:] {
		if w.text != direct || w.quoted {
			if err := protocol.ValidPattern(w.text); err != nil {
				return nil, fmt.Errorf("%q: %w", w.text, err)
			}
		}
		r.where = append(r.where, w.text)
	}
	return r, nil
}

// word is a part of a line.
type word struct {
	text   string
	quoted bool
}

// split cuts a line at space, up to a comment.
func split(line string) (words []word, err error) {
	if !utf8.ValidString(line) {
		return nil, errors.New("not UTF-8")
	}
	for {
		line = strings.TrimLeft(line, " \t")
		switch {
		case line == "" || line[0] == '#':
			return words, nil
		case line[0] == '"':
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, errors.New("a '\"' that does not end")
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", quoted, err)
			}
			line = line[len(quoted):]
			if line != "" && line[0] != ' ' && line[0] != '\t' {
				return nil, errors.New("space is missing behind '\"'")
			}
			words = append(words, word{text, true})
		default:
			end := strings.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			words = append(words, word{text: line[:end]})
			line = line[end:]
		}
	}
}

func parseWho(text string) (who []subject, err error) {
	for one := range strings.SplitSeq(text, ",") {
		label, labelled := strings.CutPrefix(one, "label:")
		var s subject
		switch {
		case one == "any":
			s.everybody = true
		case labelled:
			if err := protocol.ValidLabel(label); err != nil {
				return nil, err
			}
			s.label = label
		default:
			if s.key, err = protocol.ParseKeyHash(one); err != nil {
				return nil, fmt.Errorf("%q is neither any, label:NAME nor a fingerprint (sha256:…)", one)
			}
		}
		who = append(who, s)
	}
	return who, nil
}

var rightNames = map[registry.Right]string{
	registry.RightPublish:   "publish",
	registry.RightSubscribe: "subscribe",
	registry.RightAdmin:     "admin",
	registry.RightRelay:     "relay",
}

// ParseRight reads publish, subscribe, admin or relay. The error is ErrInvalid.
func ParseRight(name string) (registry.Right, error) {
	for right, n := range rightNames {
		if n == name {
			return right, nil
		}
	}
	return 0, protocol.Errorf(protocol.ErrInvalid, "%q is no right: publish, subscribe, admin or relay", name)
}

func parseRights(text string) (set rightSet, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one == "all" {
			for right := range rightNames {
				set |= 1 << right
			}
			continue
		}
		right, err := ParseRight(one)
		if err != nil {
			return 0, fmt.Errorf("%q is no right: publish, subscribe, admin, relay or all", one)
		}
		set |= 1 << right
	}
	return set, nil
}
