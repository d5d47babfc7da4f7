package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pure names the files that only compute: time, chance and bytes come in as
// arguments and go out as results.
var pure = []string{
	"protocol/*.go",
	"registry/broker.go",
	"registry/fences.go",
	"registry/guests.go",
	"registry/inbox.go",
	"registry/joins.go",
	"registry/keys.go",
	"registry/nodes.go",
	"registry/record.go",
	"registry/retention.go",
	"registry/rows.go",
	"registry/standing.go",
	"registry/tokens.go",
	"registry/access/rules.go",
	"registry/access/parse.go",
	"client/session.go",
	"election/action.go",
	"election/campaign.go",
	"election/event.go",
	"election/lease.go",
	"election/machine.go",
	"election/message.go",
	"election/open.go",
	"election/plain.go",
	"election/priority.go",
	"election/read.go",
	"election/send.go",
	"election/timing.go",
	"election/told.go",
	"election/view.go",
	"config/machine.go",
	"config/plan.go",
	"config/progress.go",
	"config/report.go",
	"config/tally.go",
	"config/diff.go",
	"config/document.go",
	"config/event.go",
	"config/json.go",
}

// impure names the exceptions to the patterns above.
var impure = []string{"protocol/framing.go"}

// effects are packages with a world behind them.
var effects = []string{
	"context", "crypto/rand", "embed", "io", "log", "math/rand", "net", "os",
	"plugin", "runtime", "sync", "syscall", "testing", "unsafe",
}

// harmless are those below effects that only compute.
var harmless = []string{"net/netip", "net/url"}

// clocks are the functions and types of package time that read or wait.
var clocks = []string{
	"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick",
	"NewTimer", "NewTicker", "Timer", "Ticker",
}

// terminal are the functions of package fmt that read or write by themselves.
var terminal = []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}

func TestPureFilesOnlyCompute(t *testing.T) {
	all := packages(t)
	for _, pattern := range pure {
		files, ok := all[path.Dir(pattern)]
		if !ok {
			continue // no such package in this checkout
		}
		matches := slices.DeleteFunc(slices.Clone(files), func(s *source) bool {
			ok, err := path.Match(pattern, s.path)
			require.NoError(t, err)
			return !ok || slices.Contains(impure, s.path)
		})
		assert.NotEmpty(t, matches, "no file is %s", pattern)
		check(t, matches, impurities)
	}
}

func impurities(s *source) []string {
	var found []string
	complain := func(n ast.Node, what string) { found = append(found, s.at(n)+": "+what) }
	for _, spec := range s.Imports {
		p := importPath(spec)
		if under(p, effects...) && !under(p, harmless...) {
			complain(spec, "imports "+p)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			complain(spec, "imports into its own names") // would hide time.Now
		}
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		if what := effect(s, n); what != "" {
			complain(n, what)
		}
		return true
	})
	return found
}

// effect names the side effect of a node, if it has one.
func effect(s *source, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.ChanType:
		return "has a channel"
	case *ast.SendStmt:
		return "sends"
	case *ast.SelectStmt:
		return "selects"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receives"
		}
	case *ast.SelectorExpr:
		pkg, name := s.selects(n)
		if pkg == "time" && slices.Contains(clocks, name) || pkg == "fmt" && slices.Contains(terminal, name) {
			return fmt.Sprintf("uses %s.%s", pkg, name)
		}
	}
	return ""
}

func TestImpuritiesAreFound(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"func f() { go f() }", "a.go:2: starts a goroutine"},
		{"var c chan int", "a.go:2: has a channel"},
		{"func f(c C) { c <- 1 }", "a.go:2: sends"},
		{"func f(c C) { <-c }", "a.go:2: receives"},
		{"func f() { select {} }", "a.go:2: selects"},
		{`import "time"; var now = time.Now`, "a.go:2: uses time.Now"},
		{`import t "time"; func f() { t.Sleep(1) }`, "a.go:2: uses time.Sleep"},
		{`import "time"; type s struct { t *time.Timer }`, "a.go:2: uses time.Timer"},
		{`import . "time"`, "a.go:2: imports into its own names"},
		{`import "os"`, "a.go:2: imports os"},
		{`import "os/exec"`, "a.go:2: imports os/exec"},
		{`import "math/rand/v2"`, "a.go:2: imports math/rand/v2"},
		{`import "crypto/rand"`, "a.go:2: imports crypto/rand"},
		{`import "sync/atomic"`, "a.go:2: imports sync/atomic"},
		{`import "log/slog"`, "a.go:2: imports log/slog"},
		{`import "fmt"; func f() { fmt.Println() }`, "a.go:2: uses fmt.Println"},
	} {
		require.Equal(t, []string{test.want}, impurities(snippet(t, "a.go", "package a\n"+test.text)))
	}
	require.Empty(t, impurities(snippet(t, "a.go", `package a
import ("fmt"; "net/netip"; "time")
func f(now time.Time, a netip.Addr) string { return fmt.Sprint(now.Add(time.Second).After(now), a) }`)))
}
