package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// testRoot is a command line with every kind of flag.
func testRoot() (*cobra.Command, *testFlags) {
	var got testFlags
	root := &cobra.Command{Use: "pilotgo"}
	root.PersistentFlags().BoolVar(&got.json, "json", false, "")
	root.PersistentFlags().BoolVarP(&got.verbose, "verbose", "v", false, "")
	publish := &cobra.Command{Use: "publish", Run: func(*cobra.Command, []string) {}}
	f := publish.Flags()
	f.StringVar(&got.data, "data", "", "")
	f.IntVar(&got.count, "count", 0, "")
	f.BoolVar(&got.clear, "clear", false, "")
	durationFlag(f, &got.timeout, "timeout", 0, "")
	f.Var(&got.from, "from", "")
	group := &cobra.Command{Use: "registry"}
	group.AddCommand(&cobra.Command{Use: "serve", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(publish, group)
	return root, &got
}

type testFlags struct {
	json, verbose, clear bool
	data                 string
	count                int
	timeout              time.Duration
	from                 start
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		line  string // words with spaces between; _ is an empty word
		words string
		flags testFlags
	}{
		{"publish h t", "publish -- h t", testFlags{}},
		{"--json publish h t", "publish -- h t", testFlags{json: true}},
		{"publish --json h t", "publish -- h t", testFlags{json: true}},
		{"publish h t --json", "publish -- h t", testFlags{json: true}},
		{"-json publish h", "publish -- h", testFlags{json: true}},
		{"publish h t --data x", "publish -- h t", testFlags{data: "x"}},
		{"publish h t -data x", "publish -- h t", testFlags{data: "x"}},
		{"publish h t --data=x", "publish -- h t", testFlags{data: "x"}},
		{"publish h t -data=a=b", "publish -- h t", testFlags{data: "a=b"}},
		{"publish h t --data _", "publish -- h t", testFlags{}},
		{"publish h t --data=", "publish -- h t", testFlags{}},
		{"publish h t --data --json", "publish -- h t", testFlags{data: "--json"}},
		{"publish h t --data --json --json", "publish -- h t", testFlags{data: "--json", json: true}},
		{"publish h t --data --count", "publish -- h t", testFlags{data: "--count"}},
		{"publish h t --data -", "publish -- h t", testFlags{data: "-"}},
		{"publish h t --data -5", "publish -- h t", testFlags{data: "-5"}},
		{"publish h t --data x --data y", "publish -- h t", testFlags{data: "y"}},
		{"publish h t -1 -3.5 -", "publish -- h t -1 -3.5 -", testFlags{}},
		{"publish h t --count 3", "publish -- h t", testFlags{count: 3}},
		{"publish h t --count -3", "publish -- h t", testFlags{count: -3}},
		{"publish --count 3 h t", "publish -- h t", testFlags{count: 3}},
		{"publish --clear h t", "publish -- h t", testFlags{clear: true}},
		{"publish --clear=false h t", "publish -- h t", testFlags{}},
		{"publish --clear true", "publish -- true", testFlags{clear: true}},
		{"publish h t -- --data --json", "publish -- h t --data --json", testFlags{}},
		{"publish publish registry", "publish -- publish registry", testFlags{}},
		{"-v publish h", "publish -- h", testFlags{verbose: true}},
		{"publish h --timeout 2", "publish -- h", testFlags{timeout: 2 * time.Second}},
		{"publish h --timeout 0.5", "publish -- h", testFlags{timeout: 500 * time.Millisecond}},
		{"publish h --timeout 1m30s", "publish -- h", testFlags{timeout: 90 * time.Second}},
		{"registry serve", "registry serve --", testFlags{}},
		{"registry other", "registry -- other", testFlags{}},
		{"publish h --help", "publish --help", testFlags{}},
		{"publish -h", "publish --help", testFlags{}},
		{"frobnicate x", "-- frobnicate x", testFlags{}},
		{"", "--", testFlags{}},
	} {
		root, got := testRoot()
		_, words, err := parseArgs(root, split(test.line), false)
		require.NoError(t, err, test.line)
		require.Equal(t, test.words, strings.Join(words, " "), test.line)
		require.Equal(t, test.flags, *got, test.line)
	}
}

func split(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		if words[i] == "_" {
			words[i] = ""
		}
	}
	return words
}

func TestArgumentErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"publish h t --data", "--data needs a value"},
		{"publish h t --dat x", "publish has no flag --dat"},
		{"publish h t -x", "publish has no flag --x"},
		{"--data x publish", "unknown flag --data before a command"},
		{"publish h --count x", `invalid integer for --count: "x"`},
		{"publish h --count 1.5", `invalid integer for --count: "1.5"`},
		{"publish h --timeout x", `invalid duration for --timeout: "x"`},
		{"publish h --timeout -1s", `invalid duration for --timeout: "-1s"`},
		{"publish h --timeout NaN", `invalid duration for --timeout: "NaN"`},
		{"publish h --timeout 1e300", `invalid duration for --timeout: "1e300"`},
		{"publish h --clear=maybe", `invalid bool for --clear: "maybe"`},
		{"publish h --from seq:x", `invalid start for --from: "seq:x"`},
		{"publish h --from middle", `invalid start for --from: "middle"`},
	} {
		root, _ := testRoot()
		_, _, err := parseArgs(root, split(test.line), false)
		require.EqualError(t, err, test.want, test.line)
		require.Equal(t, codeUsage, describe(err).code, test.line)
	}
}

// pilotctl passes over flags that it does not know, with their values.
func TestLenientArguments(t *testing.T) {
	for _, test := range []struct{ line, words string }{
		{"publish h t --trace", "publish -- h t"},
		{"publish h --trace x t", "publish -- h t"},
		{"publish h t --wait --data x", "publish -- h t"},
		{"publish h --wait=5 t", "publish -- h t"},
	} {
		root, _ := testRoot()
		_, words, err := parseArgs(root, split(test.line), true)
		require.NoError(t, err, test.line)
		require.Equal(t, test.words, strings.Join(words, " "), test.line)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("publish\x00h\x00--data\x00--json")
	f.Add("--\x00-\x00--=")
	f.Fuzz(func(t *testing.T, line string) {
		root, _ := testRoot()
		_, words, err := parseArgs(root, strings.Split(line, "\x00"), false)
		if err != nil {
			require.Equal(t, codeUsage, describe(err).code)
			return
		}
		require.NotEmpty(t, words)
	})
}

// Every command has what help and the manifest show.
func TestCommandsAreDescribed(t *testing.T) {
	a := &app{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
		for line := range strings.SplitSeq(c.Example, "\n") {
			require.True(t, strings.HasPrefix(line, "  "), "%s: %q", c.CommandPath(), line)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
}

// shellWord is a word, or several in quotes.
var shellWord = regexp.MustCompile(`'[^']*'|\S+`)

// substituted is a word that another command prints.
var substituted = regexp.MustCompile(`"\$\(([^)]*)\)"`)

// The examples in the help are lines that parse.
func TestExamplesParse(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			line = substituted.ReplaceAllString(line, "1; $1")
			for _, call := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("|$()&;", r) }) {
				words, ok := strings.CutPrefix(strings.TrimSpace(call), "pilotgo ")
				if !ok {
					continue
				}
				_, _, err := parseArgs((&app{}).root(), shellWord.FindAllString(words, -1), false)
				require.NoError(t, err, call)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func runLine(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}
