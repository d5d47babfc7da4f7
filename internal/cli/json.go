package cli

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendQuoted(b, s []byte) []byte {
	b = append(b, '"')
	kept := 0 // s[kept:i] needs no change
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' {
				b = appendEscape(append(b, s[kept:i]...), c)
				kept = i + 1
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = append(append(b, s[kept:i]...), "\ufffd"...)
			kept = i + 1
		}
		i += n
	}
	b = append(b, s[kept:]...)
	return append(b, '"')
}

func appendQuotedString(b []byte, s string) []byte { return appendQuoted(b, []byte(s)) }

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// maxDepth is how deep a payload may nest to be shown as JSON. Some versions of
// jq give up at 256, and with it on everything around the payload.
const maxDepth = 200

// compactObject is data on one line if it is one JSON object in UTF-8, no deeper
// than maxDepth; else nil.
func compactObject(data []byte) []byte {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' || !utf8.Valid(data) || tooDeep(data) {
		return nil
	}
	var buf bytes.Buffer
	buf.Grow(len(data))
	if json.Compact(&buf, data) != nil {
		return nil
	}
	return buf.Bytes()
}

// tooDeep counts brackets outside strings.
func tooDeep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// member is a key of a JSON object with its value as it stands.
type member struct {
	key string
	raw []byte
}

// members lists what a compact, valid object holds, up to most members; of
// equal keys the last counts, as it does for jq.
func members(object []byte, most int) []member {
	var list []member
	for i := 1; i < len(object) && object[i] != '}'; {
		start := i
		i = skipValue(object, i)
		key := unquote(object[start:i])
		i++ // the colon
		start = i
		i = skipValue(object, i)
		list = put(list, member{key, object[start:i]})
		if len(list) > most {
			return nil
		}
		if object[i] == ',' {
			i++
		}
	}
	return list
}

func put(list []member, m member) []member {
	for i := range list {
		if list[i].key == m.key {
			list[i].raw = m.raw
			return list
		}
	}
	return append(list, m)
}

// skipValue is the end of the value at b[i] of compact, valid JSON.
func skipValue(b []byte, i int) int {
	depth, quoted := 0, false
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case (c == ',' || c == ':') && depth == 0:
			return i
		}
	}
	return i
}

func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}
