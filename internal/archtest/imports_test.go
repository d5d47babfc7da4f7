package archtest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// arrows says which packages of this module each package may import, tests
// aside. Everyone may import protocol. A package that is not here is not on the
// map in DESIGN.md either: draw it in both.
var arrows = map[string][]string{
	"protocol":           {},
	"internal/link":      {"internal/statefile"},
	"internal/statefile": {},
	"internal/simnet":    {},
	"internal/testenv":   {},
	"internal/licenses":  {},
	"internal/archtest":  {},

	"client":   {"internal/link"},
	"election": {"client"},
	"config":   {"client", "internal/statefile"},

	"registry":          {"internal/link"},
	"registry/access":   {"registry"},
	"registry/memlog":   {"registry", "internal/retained"},
	"registry/disklog":  {"registry", "internal/retained"},
	"registry/jetlog":   {"registry", "registry/memlog"},
	"registry/logtest":  {"registry"},
	"fakeregistry":      {"registry", "registry/memlog", "internal/simnet", "internal/link"},
	"pilotd":            {"client", "internal/link"},
	"pilotd/listen":     {"pilotd", "registry"},
	"pilotd/fakedaemon": {"pilotd"},

	"internal/agent":       {"client", "election", "config"},
	"internal/admin":       {"client", "election", "config", "registry"},
	"internal/retained":    {"registry"},
	"internal/extras":      {"client", "registry"},
	"internal/stores":      {"internal/extras", "internal/admin", "registry", "registry/disklog", "registry/jetlog"},
	"internal/cli":         {"*"},
	"cmd/pilotgo":          {"internal/cli", "internal/extras"},
	"cmd/pilotgo-registry": {"internal/cli", "internal/stores"},
}

// outside says where the modules of others are at home. What has no home is for
// tests. A sealed one stays at home in tests too.
var outside = []struct {
	module string
	homes  []string
	sealed bool
}{
	{"github.com/quic-go/quic-go", []string{"internal/link", "internal/simnet"}, true},
	{"github.com/nats-io", []string{"registry/jetlog"}, true},
	{"github.com/cockroachdb/pebble", []string{"registry/disklog"}, true},
	{"github.com/vmihailenco/msgpack/v5", []string{"protocol", "registry"}, false},
	{"github.com/cenkalti/backoff/v4", []string{"client", "election", "config", "pilotd", "internal/agent"}, false},
	{"github.com/google/jsonschema-go", []string{"config"}, false},
	{"github.com/prometheus/client_golang", []string{"internal/admin"}, false},
	{"github.com/spf13/cobra", []string{"internal/cli"}, false},
	{"github.com/spf13/pflag", []string{"internal/cli"}, false},
	{"golang.org/x/sys", []string{"config", "election", "internal", "pilotd", "registry"}, false},

	{"github.com/stretchr/testify", nil, false},
	{"github.com/rogpeppe/go-internal", nil, false},
	{"github.com/itchyny/gojq", nil, false},
	{"github.com/anishathalye/porcupine", nil, false},
}

// testers may import testing outside their own tests.
var testers = []string{"internal/testenv", "registry/logtest"}

func TestImportsFollowTheMap(t *testing.T) {
	check(t, tree(t), strayImports)
}

func strayImports(s *source) []string {
	var found []string
	for _, p := range s.imported() {
		if why := stray(s, p); why != "" {
			found = append(found, fmt.Sprintf("%s imports %s: %s", s.path, p, why))
		}
	}
	return found
}

// stray tells why the file may not import p, or nothing.
func stray(s *source, p string) string {
	switch {
	case under(p, module):
		return strayOwn(s, strings.TrimPrefix(p, module+"/"))
	case strings.Contains(strings.Split(p, "/")[0], "."):
		return strayOutside(s, p)
	case under(p, "testing") && !s.test() && !under(s.dir(), testers...):
		return "testing is for tests"
	}
	return ""
}

func strayOwn(s *source, p string) string {
	if s.test() {
		return ""
	}
	allowed, ok := arrows[s.dir()]
	if !ok {
		return "the importer is not on the map"
	}
	if p == "protocol" && s.dir() != "protocol" || slices.Contains(allowed, "*") || slices.Contains(allowed, p) {
		return ""
	}
	return "the map has no such arrow"
}

func strayOutside(s *source, p string) string {
	for _, m := range outside {
		if !under(p, m.module) {
			continue
		}
		if under(s.dir(), m.homes...) || s.test() && !m.sealed {
			return ""
		}
		return fmt.Sprintf("%s is at home in %q", m.module, m.homes)
	}
	return "the module has no home on the map"
}

func TestEveryPackageIsOnTheMap(t *testing.T) {
	for dir := range packages(t) {
		assert.Contains(t, arrows, dir)
	}
}

func TestStrayImportsAreFound(t *testing.T) {
	for _, test := range []struct{ file, imports, want string }{
		{"client/a.go", module + "/protocol", ""},
		{"client/a.go", module + "/internal/link", ""},
		{"client/a.go", module + "/registry", "no such arrow"},
		{"client/a.go", module + "/fakeregistry", "no such arrow"},
		{"client/a_test.go", module + "/fakeregistry", ""},
		{"config/a.go", module + "/election", "no such arrow"},
		{"protocol/a.go", module + "/client", "no such arrow"},
		{"protocol/sub/a.go", module + "/client", "not on the map"},
		{"internal/cli/a.go", module + "/registry/memlog", ""},
		{"client/a.go", "github.com/quic-go/quic-go/http3", "at home in"},
		{"client/a_test.go", "github.com/quic-go/quic-go", "at home in"},
		{"internal/link/a.go", "github.com/quic-go/quic-go", ""},
		{"registry/a.go", "github.com/nats-io/nats.go/jetstream", "at home in"},
		{"registry/jetlog/a.go", "github.com/nats-io/nats.go", ""},
		{"fakeregistry/a.go", "github.com/stretchr/testify/require", "at home in"},
		{"client/a_test.go", "github.com/stretchr/testify/require", ""},
		{"client/a.go", "example.com/new", "no home"},
		{"fakeregistry/a.go", "testing", "for tests"},
		{"fakeregistry/a.go", "testing/synctest", "for tests"},
		{"registry/logtest/a.go", "testing", ""},
		{"client/a.go", "net/http", ""},
	} {
		found := strayImports(snippet(t, test.file, fmt.Sprintf("package a\nimport %q\n", test.imports)))
		if test.want == "" {
			require.Empty(t, found, "%s", test)
			continue
		}
		require.Len(t, found, 1, "%s", test)
		require.Contains(t, found[0], test.want)
	}
}

// Every call of a script pays for what the small program links in.
func TestTheSmallProgramStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/cmd/pilotgo").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, module+"/client")
	for _, heavy := range []string{"github.com/cockroachdb/pebble/v2", "github.com/nats-io/nats.go", "github.com/prometheus/client_golang/prometheus", module + "/internal/stores"} {
		require.NotContains(t, deps, heavy)
	}
}
