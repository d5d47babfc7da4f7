package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func envelope(o *object, c compat) string {
	var buf bytes.Buffer
	w := bufio.NewWriter(&buf)
	o.writeEnvelope(w, c)
	w.Flush()
	return buf.String()
}

func TestEnvelope(t *testing.T) {
	var none []string
	o := new(object).as("b", "list", "status").
		set("b", "<x>&").set("a", 1).set("list", none).set("status", "inner").set("message", "inner")
	o.alias("items", "list").list = "list"
	for _, test := range []struct {
		compat compat
		want   string
	}{
		{compat{}, `{"status":"ok","data":{"b":"<x>&","a":1,"list":[],"status":"inner","message":"inner"},"b":"<x>&","a":1,"list":[],"items":[]}`},
		{compat{pilotctl: true}, `{"data":{"b":"<x>&","list":[],"status":"inner"},"status":"ok"}`},
		{compat{arrays: true}, `[]`},
		{compat{pilotctl: true, arrays: true}, `[]`},
	} {
		require.Equal(t, test.want+"\n", envelope(o, test.compat))
	}
}

func TestCompat(t *testing.T) {
	c, err := parseCompat("pilotctl, arrays")
	require.NoError(t, err)
	require.Equal(t, compat{true, true}, c)
	_, err = parseCompat("pilotctl,other")
	require.Error(t, err)
}

func TestErrorsAreOneLineOfJSON(t *testing.T) {
	f := usagef("no\nway \x1b[31m")
	f.hint = "do\x00this"
	for _, test := range []struct {
		compat compat
		want   string
	}{
		{compat{}, `{"code":"invalid_argument","error":"no\nway \u001b[31m","hint":"do\u0000this","message":"no\nway \u001b[31m","status":"error"}`},
		{compat{pilotctl: true}, `{"code":"invalid_argument","hint":"do\u0000this","message":"no\nway \u001b[31m","status":"error"}`},
	} {
		var buf bytes.Buffer
		a := &app{err: &buf, json: true, compat: test.compat}
		a.printError(f)
		require.Equal(t, test.want+"\n", buf.String())
	}
	var buf bytes.Buffer
	(&app{err: &buf}).printError(f)
	require.NotContains(t, buf.String(), "\x1b", "a message cannot steer the terminal")
}

// Whatever a message holds, the envelope is valid JSON and its own keys are its own.
func FuzzEnvelope(f *testing.F) {
	f.Add("key", "value\xff\x00\"\\", true)
	f.Add("status", "\u2028", false)
	f.Fuzz(func(t *testing.T, key, value string, pilotctl bool) {
		o := new(object).set(key, value).set("other", []string(nil))
		line := envelope(o, compat{pilotctl: pilotctl})
		require.Equal(t, len(line)-1, strings.IndexByte(line, '\n'))
		var got map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		require.Equal(t, "ok", got["status"])
		require.IsType(t, map[string]any{}, got["data"])
		if !pilotctl {
			for k, v := range got["data"].(map[string]any) {
				if !reserved[k] {
					require.Equal(t, v, got[k])
				}
			}
		}
	})
}

func FuzzQuoted(f *testing.F) {
	for _, s := range []string{"", "a", "\xff", "\xed\xa0\x80", "é\xc3", "\x00\x1f\x7f", "\"\\\n", "\U0001f600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := appendQuotedString(nil, s)
		var got string
		require.NoError(t, json.Unmarshal(quoted, &got))
		require.Equal(t, string([]rune(s)), got) // each bad byte one U+FFFD
	})
}

func FuzzCompactObject(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : [ 1 , {"b":null} ] } `, `{"a":"}\""}`, `[]`, `{`, `{"a":1}x`, "{\"a\":\"\xff\"}", `{"a":1,"a":"\u0061"}`,
		strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object := compactObject(data)
		if object == nil {
			return
		}
		require.NotContains(t, string(object), "\n")
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(object, &want))
		list := members(object, len(data))
		require.Len(t, list, len(want))
		for _, m := range list {
			require.Equal(t, string(want[m.key]), string(m.raw))
		}
	})
}

func TestDeepObjectsAreNotShown(t *testing.T) {
	nest := func(n int) []byte { return []byte(strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)) }
	require.NotNil(t, compactObject(nest(maxDepth)))
	require.Nil(t, compactObject(nest(maxDepth+1)))
	require.NotNil(t, compactObject([]byte(`{"a":"`+strings.Repeat("[", 1000)+`"}`)))
}
