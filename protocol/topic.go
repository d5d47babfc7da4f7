package protocol

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidTopic checks a topic: 1 to 1024 bytes of UTF-8, no control characters,
// no '*', not beginning with '$'. The error is ErrInvalidTopic and says what is
// wrong. Topics are compared byte by byte; nothing is normalised.
func ValidTopic(topic string) error {
	if why := nameFault(topic, MaxTopic); why != "" {
		return Errorf(ErrInvalidTopic, "%s", why)
	}
	if strings.Contains(topic, "*") {
		return Errorf(ErrInvalidTopic, "'*' is for patterns")
	}
	if topic[0] == '$' {
		return Errorf(ErrInvalidTopic, "topics beginning with '$' are reserved")
	}
	return nil
}

// ValidPattern checks a pattern: a topic, "*" alone, or a prefix followed by
// ".*" or ":*". The error is ErrInvalidPattern.
func ValidPattern(pattern string) error {
	if pattern == "*" {
		return nil
	}
	if why := nameFault(pattern, MaxTopic); why != "" {
		return Errorf(ErrInvalidPattern, "%s", why)
	}
	if pattern[0] == '$' {
		return Errorf(ErrInvalidPattern, "topics beginning with '$' are reserved")
	}
	stem, star := strings.CutSuffix(pattern, "*")
	if strings.Contains(stem, "*") {
		return Errorf(ErrInvalidPattern, "'*' may stand only at the end")
	}
	if star && (len(stem) < 2 || stem[len(stem)-1] != '.' && stem[len(stem)-1] != ':') {
		return Errorf(ErrInvalidPattern, "'*' follows '.' or ':' after a prefix, or stands alone")
	}
	return nil
}

// Match reports whether a valid pattern matches a topic. "a.*" matches every
// topic that begins with "a." and has at least one more byte, at any depth.
func Match(pattern, topic string) bool {
	stem, star := strings.CutSuffix(pattern, "*")
	if !star {
		return pattern == topic
	}
	return len(topic) > len(stem) && strings.HasPrefix(topic, stem)
}

// IsExact reports whether a valid pattern is a topic.
func IsExact(pattern string) bool { return !strings.HasSuffix(pattern, "*") }

// nameFault tells what is wrong with a text of 1 to most bytes; "" is nothing.
// Swarm is the swarm whose configuration a topic carries, "" when it is none. A
// swarm's name holds no ':', so config:status:NAME is none.
func Swarm(topic string) string {
	swarm, ok := strings.CutPrefix(topic, "config:")
	if !ok || strings.Contains(swarm, ":") {
		return ""
	}
	return swarm
}

func nameFault(s string, most int) string {
	switch {
	case s == "":
		return "empty"
	case len(s) > most:
		return fmt.Sprintf("%d bytes, maximum %d", len(s), most)
	case !utf8.ValidString(s):
		return "not UTF-8"
	}
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return "contains a control character"
		}
	}
	return ""
}
