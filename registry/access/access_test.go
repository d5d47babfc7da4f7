package access_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/access"
)

func hashOf(name string) protocol.KeyHash {
	seed := sha256.Sum256([]byte(name))
	return protocol.KeyHashOf(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
}

func as(name string, labels ...string) registry.Caller {
	return registry.Caller{Hash: hashOf(name), Labels: labels}
}

func rules(t testing.TB, lines ...string) *access.Rules {
	t.Helper()
	r, err := access.Parse("rules", []byte(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return r
}

const (
	pub   = registry.RightPublish
	sub   = registry.RightSubscribe
	admin = registry.RightAdmin
	relay = registry.RightRelay
)

func TestTheFirstRuleThatAppliesDecides(t *testing.T) {
	r := rules(t,
		"# who may what",
		"allow label:guest subscribe public.*",
		"deny  label:guest all *",
		"allow any publish config:status:*",
		"allow label:release,"+hashOf("root").String()+" publish config:*",
		"deny any publish config:*   # nobody else",
		"",
		`allow any publish,subscribe "with space" "a#b" "\"quoted\""`,
		"allow any publish,subscribe jobs.* jobs",
		"allow any publish $direct",
		"\tallow "+hashOf("root").String()+"\tall *",
	)
	require.Equal(t, 9, r.Len())
	for _, test := range []struct {
		who   registry.Caller
		right registry.Right
		topic string
		line  int // above 0: allowed by it
	}{
		{as("a"), pub, "jobs.x", 9},
		{as("a"), sub, "jobs", 9},
		{as("a"), pub, "job", 0},
		{as("a"), pub, "config:x", -6},
		{as("a"), pub, "config:status:x", 4},
		{as("a", "release"), pub, "config:x", 5},
		{as("a", "x", "release", "y"), pub, "config:x", 5},
		{as("root"), pub, "config:x", 5},
		{as("a"), sub, "config:x", 0},
		{as("a"), sub, "with space", 8},
		{as("a"), sub, "a#b", 8},
		{as("a"), sub, `"quoted"`, 8},
		{as("a", "guest"), sub, "public.x", 2},
		{as("a", "guest"), pub, "public.x", -3},
		{as("a", "guest", "release"), pub, "config:x", -3},
		{as("a"), relay, "jobs.x", 0},
		{as("root"), relay, "jobs.x", 11},
		{as("a"), admin, "jobs.x", 0},
		{as("root"), admin, "jobs.x", 11},
		{as("root"), admin, "", 11},
		{as("a"), admin, "", 0},

		// Patterns are allowed when all of them is.
		{as("a"), sub, "jobs.*", 9},
		{as("a"), sub, "jobs.eu.*", 9},
		{as("a"), sub, "jobs:*", 0},
		{as("root"), sub, "*", 11},
		{as("a", "guest"), sub, "public.eu.*", 2},
		{as("a", "guest"), sub, "*", -3},
	} {
		q := registry.Request{Caller: test.who, Right: test.right, Topic: test.topic}
		v := r.Decide(&q)
		require.Equal(t, test.line > 0, v.Allowed, "%+v", test)
		require.Equal(t, max(test.line, -test.line), v.Line, "%+v", test)
		err := r.Allow(t.Context(), q)
		if v.Allowed {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, protocol.ErrDenied)
		require.NotContains(t, err.Error(), "line")
	}

	direct := registry.Request{Caller: as("a"), Right: pub, To: 7}
	require.Equal(t, 10, r.Decide(&direct).Line)
	direct.Labels = []string{"guest"}
	require.Equal(t, 3, r.Decide(&direct).Line)
	require.ErrorContains(t, r.Allow(t.Context(), direct), "direct messages")
	all := registry.Request{Caller: as("a"), Right: sub, Topic: "*"}
	require.Equal(t, access.Verdict{Partly: true}, r.Decide(&all))
	require.NoError(t, r.Allow(t.Context(), registry.Request{Right: registry.RightAdmit}), "whoever was let in")
}

// A key that is all zeros is a key like any other.
func TestNoKeyIsEverybody(t *testing.T) {
	r := rules(t, "allow "+protocol.KeyHash{}.String()+" all *")
	require.False(t, r.Decide(&registry.Request{Caller: as("a"), Right: pub, Topic: "t"}).Allowed)
	require.False(t, rules(t).Decide(&registry.Request{Right: pub, Topic: "t"}).Allowed, "no rules")
}

func TestFaultsHaveTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		"allow any publish":                        "rules:1: a rule is: allow|deny WHO RIGHTS WHERE…",
		"\n\npermit any all *":                     `rules:3: a rule begins with allow or deny, not "permit"`,
		"allow a all *":                            `rules:1: "a" is neither any, label:NAME nor a fingerprint (sha256:…)`,
		"allow any,sha256:x all *":                 `rules:1: "sha256:x" is neither any, label:NAME nor a fingerprint (sha256:…)`,
		"allow 2147483649 all *":                   `rules:1: "2147483649" is neither any, label:NAME nor a fingerprint (sha256:…)`,
		"allow label: all *":                       "rules:1: invalid argument: label of 0 bytes, not 1 to 64",
		"allow any write *":                        `rules:1: "write" is no right: publish, subscribe, admin, relay or all`,
		"allow any publish, *":                     `rules:1: "" is no right: publish, subscribe, admin, relay or all`,
		"allow any all jobs*":                      `rules:1: "jobs*": invalid pattern: '*' follows '.' or ':' after a prefix, or stands alone`,
		"allow any all $else":                      `rules:1: "$else": invalid pattern: topics beginning with '$' are reserved`,
		`allow any all "$direct"`:                  `rules:1: "$direct": invalid pattern: topics beginning with '$' are reserved`,
		`allow any all "a`:                         `rules:1: a '"' that does not end`,
		`allow any all "a"b`:                       `rules:1: space is missing behind '"'`,
		"allow any all a\xff":                      "rules:1: not UTF-8",
		"allow any all a\nx\ndeny any no *\n":      "rules:2: a rule is: allow|deny WHO RIGHTS WHERE…\nrules:3: \"no\" is no right: publish, subscribe, admin, relay or all",
		strings.Repeat("x", access.MaxSize+1):      "rules:1: 1048577 bytes, maximum 1048576",
		strings.Repeat("deny any all *\n", 10_001): "rules:10001: more than 10000 rules",
	} {
		r, err := access.Parse("rules", []byte(text))
		require.Nil(t, r)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, protocol.ErrInvalid)
		require.Equal(t, protocol.ErrInvalid, protocol.CodeOf(err))
		var syntax *access.SyntaxError
		require.ErrorAs(t, err, &syntax)
	}
	_, err := access.Parse("rules", []byte(strings.Repeat("x\n", 100)))
	require.Len(t, access.Faults(err), 20, "and no more")
	require.Len(t, access.Faults(os.ErrNotExist), 1)
}

func TestRightsByName(t *testing.T) {
	for _, name := range []string{"publish", "subscribe", "admin", "relay"} {
		_, err := access.ParseRight(name)
		require.NoError(t, err)
	}
	for _, name := range []string{"", "all", "admit"} {
		_, err := access.ParseRight(name)
		require.ErrorIs(t, err, protocol.ErrInvalid)
	}
}

// pieces of rules for those drawn by chance.
var (
	patterns = []string{"*", "a", "a.*", "a.b", "a.b.*", "a.b.c", "a:*", "a:b", "b.*", "b.c"}
	topics   = []string{"a", "a.b", "a.c", "a.b.c", "a.b.d", "a:b", "a:c", "b", "b.c", "c"}
)

// What is said of a pattern holds for each topic that it matches.
func TestPatternsAreAllowedOnlyWhole(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	seen := make(map[access.Verdict]int)
	for range 20_000 {
		var lines []string
		for range 1 + chance.IntN(4) {
			lines = append(lines, fmt.Sprintf("%s any subscribe %s", []string{"allow", "deny"}[chance.IntN(2)], patterns[chance.IntN(len(patterns))]))
		}
		r := rules(t, lines...)
		for _, asked := range patterns {
			v := r.Decide(&registry.Request{Right: sub, Topic: asked})
			seen[access.Verdict{Allowed: v.Allowed, Partly: v.Partly}]++
			for _, topic := range topics {
				if !protocol.Match(asked, topic) {
					continue
				}
				one := r.Decide(&registry.Request{Right: sub, Topic: topic})
				require.False(t, one.Partly && one.Allowed)
				if v.Allowed {
					require.True(t, one.Allowed, "%q of %q by\n%s", topic, asked, strings.Join(lines, "\n"))
				} else if !v.Partly {
					require.False(t, one.Allowed, "%q of %q by\n%s", topic, asked, strings.Join(lines, "\n"))
				}
			}
		}
	}
	require.Len(t, seen, 3, "%v", seen)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestAFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	_, err := access.Open(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = access.Open(filepath.Dir(path))
	require.ErrorIs(t, err, protocol.ErrInvalid)
	write(t, path, "allow any all a")
	f, err := access.Open(path)
	require.NoError(t, err)
	may := func(topic string) bool {
		return f.Allow(t.Context(), registry.Request{Right: pub, Topic: topic}) == nil
	}
	require.True(t, may("a"))
	changed, err := f.Reload()
	require.NoError(t, err)
	require.False(t, changed)

	write(t, path, "allow any all b")
	changed, err = f.Reload()
	require.NoError(t, err)
	require.True(t, changed)
	require.True(t, may("b") && !may("a"))

	for range 2 {
		write(t, path, "allow any all c\nnonsense")
		changed, err = f.Reload()
		require.ErrorContains(t, err, "rules:2: ")
		require.False(t, changed)
		require.True(t, may("b"), "what was in force stays")
	}
	require.NoError(t, os.Remove(path))
	_, err = f.Reload()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, 1, f.Rules().Len())
}

func TestAFileIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	write(t, path, "allow any all a")
	synctest.Test(t, func(t *testing.T) {
		f, err := access.Open(path)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 100)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Watch(ctx, time.Second, func(err error) { told <- err })
		}()
		heard := func() []error {
			time.Sleep(3 * time.Second)
			synctest.Wait()
			var list []error
			for len(told) > 0 {
				list = append(list, <-told)
			}
			return list
		}
		time.Sleep(time.Second / 2) // between two looks
		require.Empty(t, heard())
		write(t, path, "allow any all b")
		require.Equal(t, []error{nil}, heard())
		require.NoError(t, f.Allow(ctx, registry.Request{Right: pub, Topic: "b"}))

		write(t, path, "nonsense")
		list := append(heard(), heard()...)
		require.Len(t, list, 1, "told once")
		require.ErrorContains(t, list[0], "rules:1: ")
		write(t, path, "allow any all b") // as it was
		require.Empty(t, heard())
		write(t, path, "nonsense")
		require.Len(t, heard(), 1, "told again")
		require.NoError(t, os.Remove(path))
		list = heard()
		require.Len(t, list, 1)
		require.True(t, errors.Is(list[0], os.ErrNotExist))

		// What changes all the time is still being written.
		for i := range 5 {
			write(t, path, fmt.Sprintf("allow any all c%d", i))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Empty(t, told)
		require.Equal(t, []error{nil}, heard())
		cancel()
		<-ended
	})
}

// No text crashes it, faults have a line, and a rule is read the same again.
func FuzzParse(f *testing.F) {
	f.Add("allow any publish,subscribe *\n# c\ndeny label:a all \"x y\" $direct")
	f.Add("allow sha256:Yw3NKWbEM2aRElRIu7JbT_QSpJxzLbLIq8G4WBvXEN0 admin jobs.*")
	f.Add("deny any all \"\\u0041\"")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := access.Parse("f", []byte(text))
		if err != nil {
			var syntax *access.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Positive(t, syntax.Line)
			return
		}
		for _, topic := range topics {
			v := r.Decide(&registry.Request{Right: sub, Topic: topic})
			if v.Line == 0 {
				require.False(t, v.Allowed)
				continue
			}
			one, err := access.Parse("f", []byte(v.Rule))
			require.NoError(t, err)
			require.Equal(t, v.Allowed, one.Decide(&registry.Request{Right: sub, Topic: topic}).Allowed)
		}
	})
}

func BenchmarkAllow(b *testing.B) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("allow label:l%d publish topic.%d.*", i, i))
	}
	r := rules(b, append(lines, "allow any all *")...)
	q := registry.Request{Caller: as("a", "x", "y"), Right: pub, Topic: "topic.5.x"}
	b.ReportAllocs()
	for b.Loop() {
		if r.Allow(b.Context(), q) != nil {
			b.Fatal("denied")
		}
	}
}
