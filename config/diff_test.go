package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
)

func diff(t *testing.T, a, b string) []string {
	t.Helper()
	list, err := config.Diff([]byte(a), []byte(b))
	require.NoError(t, err)
	out := []string{}
	for _, d := range list {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", d.Kind, d.Path, d.Old, d.New)))
	}
	return out
}

func TestDiff(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want []string
	}{
		{`{"a":1}`, `{"a":1}`, []string{}},
		{`{"a":1}`, "\n{ \"a\" : 1 }\n", []string{}},
		{`{"a":"é"}`, `{"a":"\u00e9"}`, []string{}},
		{`{"a":1}`, `{"a":1.0}`, []string{"changed /a 1 1.0"}},
		{`{"a":9007199254740992}`, `{"a":9007199254740993}`, []string{"changed /a 9007199254740992 9007199254740993"}},
		{`{"a":1}`, `{"A":1}`, []string{"removed /a 1", "added /A  1"}},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, []string{"moved"}},
		{`{"a":1,"b":2}`, `{"x":0,"a":1,"b":2}`, []string{"added /x  0"}},
		{`{"o":{"a":1,"b":2}}`, `{"o":{"b":2,"a":3}}`, []string{"changed /o/a 1 3", "moved /o"}},
		{`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, []string{"changed /a~1b/~0 1 2"}},
		{`{"":1}`, `{"":null}`, []string{"changed / 1 null"}},
		{`{"l":[1,2,3]}`, `{"l":[0,1,2,3]}`, []string{"added /l/0  0"}},
		{`{"l":[1,2,3]}`, `{"l":[1,3]}`, []string{"removed /l/1 2"}},
		{`{"l":[{"a":1},{"b":1}]}`, `{"l":[{"a":2},{"b":1}]}`, []string{"changed /l/0/a 1 2"}},
		{`{"l":[1, 2]}`, `{"l":[1,2 ]}`, []string{}},
		{`{"l":[1,2]}`, `{"l":[3,4,5]}`, []string{"changed /l/0 1 3", "changed /l/1 2 4", "added /l/2  5"}},
		{`{"a":[1]}`, `{"a":{"0":1}}`, []string{`changed /a [1] {"0":1}`}},
		{`{"a":"1"}`, `{"a":1}`, []string{`changed /a "1" 1`}},
	} {
		require.Equal(t, test.want, diff(t, test.a, test.b), "%s  %s", test.a, test.b)
	}
	for _, bad := range []string{``, `[]`, `{"a":1,"a":2}`} {
		_, err := config.Diff([]byte(`{}`), []byte(bad))
		require.ErrorIs(t, err, protocol.ErrInvalid)
		_, err = config.Diff([]byte(bad), []byte(bad))
		require.ErrorIs(t, err, protocol.ErrInvalid)
	}
}

// Each level compares what is below it, but not again and again.
func TestDiffOfDeepDocuments(t *testing.T) {
	deep := func(leaf string) string {
		n := config.MaxDepth - 2
		return `{"a":` + strings.Repeat("[", n) + leaf + strings.Repeat("]", n) + `}`
	}
	require.Equal(t, []string{"changed /a" + strings.Repeat("/0", config.MaxDepth-2) + " 1 2"}, diff(t, deep("1"), deep("2")))
}

// Whatever differs in more than space shows, and nothing else.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":null}],"c":"\u0000"}`), []byte(`{"c":"","a":[2,{"b":0}]}`))
	f.Add([]byte(`{"a":1}`), []byte(` { "a" : 1 } `))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		list, err := config.Diff(a, b)
		back, other := config.Diff(b, a)
		require.Equal(t, err == nil, other == nil)
		require.Equal(t, len(list) == 0, len(back) == 0)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrInvalid)
			return
		}
		same, err := config.Diff(a, a)
		require.NoError(t, err)
		require.Empty(t, same)
	})
}
