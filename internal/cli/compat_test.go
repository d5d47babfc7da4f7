package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/stretchr/testify/require"
)

// recording is what pilotctl 1.2.2 printed. Of its lists, texts and numbers only
// the kind matters here.
type recording struct {
	RC             int
	Stdout, Stderr string
}

// With PILOTGO_COMPAT=pilotctl the shapes are those of the real one.
func TestCompatShapes(t *testing.T) {
	b, err := os.ReadFile("testdata/pilotctl.json")
	require.NoError(t, err)
	var recorded map[string]recording
	require.NoError(t, json.Unmarshal(b, &recorded))

	addr := testServer(t)
	t.Setenv("PILOT_HOME", t.TempDir())
	t.Setenv("PILOTGO_COMPAT", "pilotctl")
	t.Setenv("PILOTGO_REGISTRY", addr)
	_, info, _ := runLine(t, "--json", "info")
	me := fmt.Sprint(decode(t, []byte(info))["data"].(map[string]any)["address"])

	for _, test := range []struct {
		name string
		line string // words with spaces between; HOST and ME stand for what is here
	}{
		{name: "ok.init.json", line: "--json init --registry HOST --hostname h --socket /s"},
		{name: "ok.config_set.json", line: "--json config --set socket=/s"},
		{name: "ok.config_show.json", line: "--json config"},
		{name: "err.config_set_bad.json", line: "--json config --set foo"},
		{name: "ok.info.json", line: "--json info"},
		{name: "untrusted.inbox_empty.json", line: "--json inbox"},
		{name: "untrusted.received_empty.json", line: "--json received"},
		{name: "ok.received_clear.json", line: "--json received --clear"},
		{name: "ok.publish.json", line: `--json publish HOST election:g --data {"n":1}`},
		{name: "err.publish_dataeq.json", line: "--json publish HOST t --data=a=b"},
		{name: "err.publish_nodata.json", line: "--json publish HOST t"},
		{name: "err.publish_unknownhost.json", line: "--json publish no.such.host.invalid t --data x"},
		{name: "ok.publish.json", line: "--json publish HOST t --data x --no-such-flag"},
		{name: "ok.send_message.json", line: "--json send-message ME --data hello"},
		{name: "ok.send_message_binary.json", line: "--json send-message ME --data \xff --type binary"},
		{name: "ok.send_message_jsontype.json", line: `--json send-message ME --data {"k":1} --type json`},
		{name: "err.send_message_badtype.json", line: "--json send-message ME --data x --type foo"},
		{name: "err.send_message_nodata.json", line: "--json send-message ME"},
		{name: "ok.inbox.json", line: "--json inbox"},
		{name: "ok.inbox_clear.json", line: "--json inbox --clear"},
		{name: "ok.inbox_clear_again.json", line: "--json inbox --clear"},
		{name: "ok.subscribe_count2.json", line: "--json subscribe HOST * --count 2 --timeout 8s --from all"},
		{name: "ok.subscribe_wildcard_partial.json", line: "--json subscribe HOST * --count 50 --timeout 1s --from all"},
		{name: "ok.subscribe_timeout_count.json", line: "--json subscribe HOST quiet --count 2 --timeout 100ms"},
		{name: "ok.subscribe_timeout_nocount.json", line: "--json subscribe HOST quiet --timeout 100ms"},
		{name: "ok.subscribe_unbounded_timeout.json", line: "--json subscribe HOST * --timeout 1s --from all"},
		{name: "err.subscribe_badcount.json", line: "--json subscribe HOST t --count x"},
		{name: "err.subscribe_badtimeout.json", line: "--json subscribe HOST t --timeout x"},
		{name: "err.unknown_command.json", line: "--json frobnicate"},
		{name: "err.unknown_command.plain", line: "frobnicate"},
	} {
		want, ok := recorded[test.name]
		require.True(t, ok, test.name)
		words := strings.Fields(strings.NewReplacer("HOST", addr, "ME", me).Replace(test.line))
		code, stdout, stderr := runLine(t, words...)
		require.Equal(t, want.RC, code, "%s: %s", test.name, stderr)
		require.Equal(t, shapes(t, want.Stdout), shapes(t, stdout), test.name)
		if strings.HasPrefix(want.Stderr, "{") {
			// pilotctl has a hint for some errors; here all may have one.
			require.Equal(t, errorShape(t, want.Stderr), errorShape(t, stderr), test.name)
			require.True(t, strings.HasPrefix(stderr, `{"code":`), test.name)
		}
	}
}

// shapes lists the different kinds of values that an output has.
func shapes(t *testing.T, output string) []string {
	t.Helper()
	var list []string
	d := json.NewDecoder(strings.NewReader(output))
	for d.More() {
		var v any
		require.NoError(t, d.Decode(&v), output)
		if s := shape(v); len(list) == 0 || list[len(list)-1] != s {
			list = append(list, s)
		}
	}
	return list
}

func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		kinds := make(map[string]string)
		for k, e := range v {
			if k != "dir" { // a folder that is not there has no name
				kinds[k] = shape(e)
			}
		}
		return fmt.Sprint(kinds)
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	case float64:
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

func errorShape(t *testing.T, output string) string {
	m := decode(t, []byte(output))
	delete(m, "hint")
	return fmt.Sprint(m["code"], shape(m))
}

// testServer is a registry at the address returned.
func testServer(t *testing.T) string {
	t.Helper()
	s := &server{key: link.NewIdentity(), addr: "127.0.0.1:0"}
	require.NoError(t, s.start())
	t.Cleanup(s.stop)
	return s.addr
}
