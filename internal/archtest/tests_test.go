package archtest

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTestsWaitInBubblesAndSkipThroughTestenv(t *testing.T) {
	all := tree(t)
	bubbles := bubbling(all)
	check(t, all, func(s *source) []string { return badManners(s, bubbles[s.dir()]) })
}

// bubbling names the folders whose tests make bubbles, be it in one helper.
func bubbling(all []*source) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range all {
		if s.test() && slices.Contains(s.imported(), "testing/synctest") {
			dirs[s.dir()] = true
		}
	}
	return dirs
}

// polls are the assertions that look again and again until real time is up.
var polls = []string{"Eventually", "Eventuallyf", "EventuallyWithT", "EventuallyWithTf", "Never", "Neverf"}

// badManners finds real waiting and private skipping in a test file. Where the
// tests of its folder run in bubbles, time is taken to be virtual.
func badManners(s *source, bubbles bool) []string {
	if !s.test() || s.dir() == "internal/testenv" {
		return nil
	}
	var found []string
	ast.Inspect(s.File, func(n ast.Node) bool {
		switch pkg, name := s.selects(n); {
		case pkg == "time" && name == "Sleep" && !bubbles:
			found = append(found, s.at(n)+": sleeps, and no test beside it has a synctest bubble")
		case slices.Contains(polls, name):
			found = append(found, s.at(n)+": polls; wait in a synctest bubble")
		case skips(n):
			found = append(found, s.at(n)+": skips; testenv.Need does, with a reason that CI can overrule")
		}
		return true
	})
	return found
}

// skips tells whether n is a Skip of what looks like a test.
func skips(n ast.Node) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name)
}

func TestBadMannersAreFound(t *testing.T) {
	const imports = `package a
import ("testing"; "time"; "github.com/stretchr/testify/require")
`
	for _, test := range []struct{ text, want string }{
		{"func TestA(t *testing.T) { time.Sleep(1) }", "sleeps"},
		{"func TestA(t *testing.T) { require.Eventually(t, nil, 1, 1) }", "polls"},
		{`func TestA(t *testing.T) { t.Skip("later") }`, "skips"},
		{`func BenchmarkA(b *testing.B) { b.SkipNow() }`, "skips"},
	} {
		found := badManners(snippet(t, "client/a_test.go", imports+test.text), false)
		require.Len(t, found, 1)
		require.Contains(t, found[0], "client/a_test.go:3: "+test.want)
	}
	require.Empty(t, badManners(snippet(t, "client/a.go", imports+"func f() { time.Sleep(1) }"), false))

	helper := snippet(t, "client/helpers_test.go", "package a\nimport \"testing/synctest\"\nvar _ = synctest.Test")
	bubbles := bubbling([]*source{helper, snippet(t, "config/a_test.go", imports)})
	require.Equal(t, map[string]bool{"client": true}, bubbles)
	sleeping := snippet(t, "client/a_test.go", imports+"func TestA(t *testing.T) { bubble(t, func() { time.Sleep(1) }) }")
	require.Empty(t, badManners(sleeping, bubbles["client"]))
}
