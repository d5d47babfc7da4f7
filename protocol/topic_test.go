package protocol_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestValidTopic(t *testing.T) {
	for _, good := range []string{
		"a", "jobs.created", "election:workers", "config:status:fleet", "a b", " ", ".", ":", ".:.", "a..b",
		"🚀", "e\u0301", "\u0301", "日本", "a$", "\u200b", "\u2028", "\ufffd", "\U0010ffff", "\u00a0",
		"'\"\\/?#[]{}<>|&;!~`", strings.Repeat("x", 1024), strings.Repeat("é", 512),
	} {
		require.NoError(t, protocol.ValidTopic(good), "%q", good)
		require.NoError(t, protocol.ValidPattern(good), "%q", good)
		require.True(t, protocol.IsExact(good), "%q", good)
		require.True(t, protocol.Match(good, good), "%q", good)
	}
	for bad, fault := range map[string]string{
		"":                         "empty",
		"$":                        "reserved",
		"$sys.nodes":               "reserved",
		"*":                        "'*'",
		"jobs.*":                   "'*'",
		"a*b":                      "'*'",
		"a\n":                      "control",
		"\x00":                     "control",
		"\x00a":                    "control",
		"a\tb":                     "control",
		"a\x7f":                    "control",
		"a\u0080":                  "control",
		"a\u009f":                  "control",
		"\xff":                     "UTF-8",
		"a\xc3":                    "UTF-8",
		"\xc0\x80":                 "UTF-8",
		"\xed\xa0\x80":             "UTF-8",
		strings.Repeat("x", 1025):  "1025 bytes, maximum 1024",
		strings.Repeat("é", 513):   "1026 bytes",
		strings.Repeat("x", 1<<20): "1048576 bytes",
	} {
		err := protocol.ValidTopic(bad)
		require.ErrorIs(t, err, protocol.ErrInvalidTopic, "%.20q", bad)
		require.ErrorContains(t, err, fault, "%.20q", bad)
	}
}

// What looks alike is not the same: nothing is normalised.
func TestTopicsAreComparedByteByByte(t *testing.T) {
	for _, pair := range [][2]string{
		{"e\u0301", "é"}, {"A", "a"}, {"a", "a "}, {"a.b", "a:b"}, {"a", "a\u200b"},
	} {
		require.False(t, protocol.Match(pair[0], pair[1]), "%q", pair)
	}
}

func TestValidPattern(t *testing.T) {
	for _, good := range []string{
		"*", "jobs.*", "config:*", "a:b.*", "..*", "a .*", "🚀:*", strings.Repeat("x", 1022) + ".*",
	} {
		require.NoError(t, protocol.ValidPattern(good), "%q", good)
		require.False(t, protocol.IsExact(good), "%q", good)
	}
	for _, bad := range []string{
		"", "**", "*.*", "*.a", "a*", "jobs*", ".*", ":*", "a.*.b", "a.**", "a*.*", "a.* ", "$*", "$.*", "$sys.*", "$a",
		"a\n.*", "\x00*", "\xff.*", strings.Repeat("x", 1023) + ".*", strings.Repeat("x", 1025),
	} {
		require.ErrorIs(t, protocol.ValidPattern(bad), protocol.ErrInvalidPattern, "%.20q", bad)
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, topic string
		want           bool
	}{
		{"a", "a", true},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"*", "a", true},
		{"*", "a.b:c", true},
		{"*", "", false}, // a direct message
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", true},
		{"a.*", "a.b:c", true},
		{"a.*", "a.", false},
		{"a.*", "a..", true},
		{"a.*", "a", false},
		{"a.*", "a:b", false},
		{"a.*", "ab", false},
		{"a.*", "b.a.c", false},
		{"a.*", "", false},
		{"config:*", "config:fleet", true},
		{"config:*", "config:status:fleet", true},
		{"config:status:*", "config:fleet", false},
		{"é.*", "é.x", true},
		{"é.*", "e\u0301.x", false},
	} {
		require.Equal(t, test.want, protocol.Match(test.pattern, test.topic), "%q %q", test.pattern, test.topic)
	}
}

// The same rules as regular expressions, for what is plain text.
var (
	topicShape   = regexp.MustCompile(`^[^$*][^*]*$`)
	patternShape = regexp.MustCompile(`^(\*|[^$*][^*]*|[^$*][^*]*[.:]\*)$`)
)

func plainText(s string) bool {
	return len(s) <= 1024 && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func FuzzTopic(f *testing.F) {
	for _, s := range []string{"a", "*", "jobs.*", "$a", "a\n", "🚀:*", "\xff", "", "a*b", "\u0085", ".*"} {
		f.Add(s, "a.b")
		f.Add("a.*", s)
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		err := protocol.ValidTopic(topic)
		goodTopic := plainText(topic) && topicShape.MatchString(topic)
		require.Equal(t, goodTopic, err == nil, "%q: %v", topic, err)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalidTopic)
		}

		err = protocol.ValidPattern(pattern)
		goodPattern := plainText(pattern) && patternShape.MatchString(pattern)
		require.Equal(t, goodPattern, err == nil, "%q: %v", pattern, err)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalidPattern)
		}

		if goodTopic && goodPattern {
			require.Equal(t, shape(pattern).MatchString(topic), protocol.Match(pattern, topic), "%q %q", pattern, topic)
		}
	})
}

// shape is a pattern as a regular expression.
func shape(pattern string) *regexp.Regexp {
	text := regexp.QuoteMeta(pattern)
	if stem, ok := strings.CutSuffix(text, `\*`); ok {
		text = stem + `.+`
	}
	return regexp.MustCompile(`^(?s:` + text + `)$`)
}

func TestSwarm(t *testing.T) {
	for topic, swarm := range map[string]string{
		"config:workers": "workers", "config:a.b": "a.b",
		"config:status:workers": "", "config:": "", "config": "", "jobs": "", "xconfig:a": "",
	} {
		require.Equal(t, swarm, protocol.Swarm(topic), topic)
	}
}
