package election_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

var instance = protocol.Instance{0: 0xab, 15: 0x01}

func TestMessagesAreTheRecipes(t *testing.T) {
	wall := time.Date(2025, 11, 30, 10, 13, 20, 5, time.FixedZone("", 3600))
	for _, test := range []struct {
		m    election.Message
		want string
	}{
		{
			election.Message{Kind: election.KindCandidacy, Node: "2147483649", Priority: 7, Term: 3},
			`{"type":"election","candidate":"2147483649","priority":7,"term":3}`,
		},
		{
			election.Message{Kind: election.KindClaim, Node: "2147483649", Priority: election.DefaultPriority("2147483649"), Term: 3},
			`{"type":"leader","leader":"2147483649","term":3,"elected_at":"2025-11-30T09:13:20Z"}`,
		},
		{
			election.Message{Kind: election.KindHeartbeat, Node: "2147483649", Priority: election.DefaultPriority("2147483649"), Term: 3},
			`{"type":"heartbeat","leader":"2147483649","term":3,"timestamp":"1764494000"}`,
		},
		{
			election.Message{Kind: election.KindResign, Node: "2147483649", Term: 3, Successor: "agent \"7\""},
			`{"type":"resign","leader":"2147483649","term":3,"successor":"agent \"7\""}`,
		},
		{
			election.Message{Kind: election.KindCandidacy, Node: "1", Priority: -1, Term: protocol.MaxTerm, Seen: 42, Instance: instance},
			`{"type":"election","candidate":"1","priority":-1,"term":9007199254740991,"seen":42,"instance":"ab000000000000000000000000000001"}`,
		},
		{
			election.Message{Kind: election.KindHeartbeat, Node: "1", Priority: 9, Term: 3, Instance: instance},
			`{"type":"heartbeat","leader":"1","term":3,"timestamp":"1764494000","priority":9,"instance":"ab000000000000000000000000000001"}`,
		},
	} {
		b := test.m.Append(nil, wall)
		require.Equal(t, test.want, string(b))
		got, err := election.Parse(b)
		require.NoError(t, err)
		got.Stamp, got.Clock = "", 0
		if test.m.Kind == election.KindResign {
			got.Priority = 0 // nobody asks for it
		}
		require.Equal(t, test.m, got)
	}
}

func TestIDsMayBeNumbers(t *testing.T) {
	for raw, want := range map[string]string{
		`"2147483649"`:  "2147483649",
		`2147483649`:    "2147483649",
		`2147483649.0`:  "2147483649",
		`2.147483649e9`: "2147483649",
		`"agent-7"`:     "agent-7",
		`-1`:            "-1",
	} {
		m, err := election.Parse([]byte(`{"type":"leader","leader":` + raw + `,"term":1}`))
		require.NoError(t, err, raw)
		require.Equal(t, want, m.Node)
	}
	for _, raw := range []string{`""`, `null`, `true`, `1.5`, `[]`, `{}`, `"a\nb"`, `1e400`, `"` + strings.Repeat("x", 129) + `"`} {
		_, err := election.Parse([]byte(`{"type":"leader","leader":` + raw + `,"term":1}`))
		require.Equal(t, election.VoidNode, err, raw)
	}
}

func TestTermsAreIntegersInRange(t *testing.T) {
	for raw, want := range map[string]uint64{`1`: 1, `1e3`: 1000, `3.0`: 3, `9007199254740991`: protocol.MaxTerm} {
		m, err := election.Parse([]byte(`{"type":"election","candidate":"a","term":` + raw + `}`))
		require.NoError(t, err, raw)
		require.Equal(t, want, m.Term)
	}
	for _, raw := range []string{`0`, `-1`, `1.5`, `"1"`, `null`, `[1]`, `9007199254740992`, `1e17`, `1e999`, `18446744073709551617`} {
		text := []byte(`{"type":"election","candidate":"a","term":` + raw + `}`)
		_, err := election.Parse(text)
		require.Equal(t, election.VoidTerm, err, raw)
	}
}

func TestAMissingPriorityIsTheDefault(t *testing.T) {
	for _, field := range []string{``, `,"priority":null`} {
		m, err := election.Parse([]byte(`{"type":"election","candidate":"123456789","term":1` + field + `}`))
		require.NoError(t, err)
		require.EqualValues(t, 930766865, m.Priority)
	}
	for _, raw := range []string{`"7"`, `1.5`, `true`, `1e300`} {
		_, err := election.Parse([]byte(`{"type":"election","candidate":"a","term":1,"priority":` + raw + `}`))
		require.Equal(t, election.VoidPriority, err, raw)
		_, err = election.Parse([]byte(`{"type":"leader","leader":"a","term":1,"priority":` + raw + `}`))
		require.NoError(t, err, "in a claim it is an extra field")
	}
}

// H08: whatever the spelling, it is for display.
func TestTimestampsInAnySpelling(t *testing.T) {
	for raw, want := range map[string]float64{
		`"1764500000"`:                      1764500000,
		`1764500000`:                        1764500000,
		`1.7645e9`:                          1764500000,
		`"1764500000.5"`:                    1764500000.5,
		`"2025-11-30T10:53:20Z"`:            1764500000,
		`"2025-11-30T11:53:20+01:00"`:       1764500000,
		`"yesterday"`:                       0,
		`""`:                                0,
		`"1e999"`:                           0,
		`"nan"`:                             0,
		`null`:                              0,
		`{"a":1}`:                           0,
		`"` + strings.Repeat("1", 65) + `"`: 0,
	} {
		m, err := election.Parse([]byte(`{"type":"heartbeat","leader":"a","term":1,"timestamp":` + raw + `}`))
		require.NoError(t, err, raw)
		require.Equal(t, want, m.Clock, raw)
	}
	m, err := election.Parse([]byte(`{"type":"heartbeat","leader":"a","term":1}`))
	require.NoError(t, err)
	require.Empty(t, m.Stamp)
	m, err = election.Parse([]byte(`{"type":"leader","leader":"a","term":1,"elected_at":"2025-11-30T10:53:20Z"}`))
	require.NoError(t, err)
	require.Equal(t, 1764500000.0, m.Clock)
}

func TestWhatIsNoElectionMessage(t *testing.T) {
	for text, want := range map[string]election.Void{
		``:                                 election.VoidMalformed,
		`null`:                             election.VoidMalformed,
		`[]`:                               election.VoidMalformed,
		`{"type":"leader"`:                 election.VoidMalformed,
		`{"type":"leader","leader":"a"} x`: election.VoidMalformed,
		`{"type":"election","candidate":"a","priority":1,"term":xterm}`: election.VoidMalformed, // the recipe, when TERM is the terminal's
		strings.Repeat("[", 20000):                                      election.VoidMalformed,
		`{}`:                                                            election.VoidType,
		`{"type":7}`:                                                    election.VoidType,
		`{"type":"Leader","leader":"a","term":1}`:                       election.VoidType,
		`{"TYPE":"leader","leader":"a","term":1}`:                       election.VoidType, // jq would not find it either
		`{"type":"leader","candidate":"a","term":1}`:                    election.VoidNode,
		`{"type":"election","leader":"a","term":1}`:                     election.VoidNode,
		`{"type":"leader","leader":"a"}`:                                election.VoidTerm,
	} {
		_, err := election.Parse([]byte(text))
		require.Equal(t, want, err, text)
	}
	long := `{"type":"leader","leader":"a","term":1,"note":"` + strings.Repeat("x", election.MaxPayload) + `"}`
	_, err := election.Parse([]byte(long))
	require.Equal(t, election.VoidMalformed, err)
}

func TestOwnFieldsOfAnotherShapeAreNotOurs(t *testing.T) {
	m, err := election.Parse([]byte(`{"type":"election","candidate":"a","term":1,"instance":7,"seen":"x","successor":[],"more":{"a":[1]}}`))
	require.NoError(t, err)
	require.Zero(t, m.Instance)
	require.Zero(t, m.Seen)
	m, err = election.Parse([]byte(`{"type":"resign","leader":"a","term":1,"successor":5,"instance":"AB000000000000000000000000000001"}`))
	require.NoError(t, err)
	require.Equal(t, "5", m.Successor)
	require.Equal(t, instance, m.Instance)
}

func TestVoidsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for v := election.VoidMalformed; v <= election.VoidExhausted; v++ {
		require.NotEmpty(t, v.String())
		require.False(t, seen[v.String()], v.String())
		seen[v.String()] = true
	}
	require.Equal(t, "void 200", election.Void(200).String())
	require.EqualError(t, election.VoidTerm, "election message: bad term")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"type":"election","candidate":"2147483649","priority":2620764781,"term":3}`,
		`{"type":"leader","leader":2147483649,"term":3,"elected_at":"2025-11-30T09:13:20Z"}`,
		`{"type":"heartbeat","leader":"a","term":1e3,"timestamp":1.7645e9}`,
		`{"type":"resign","leader":"a","term":1,"successor":"b","instance":"ab000000000000000000000000000001"}`,
		`{"type":"election","candidate":"\ud800","term":1,"seen":7}`,
		`{"type":"leader","leader":"<&>\u2028","term":9007199254740991,"priority":-0}`,
		`{"type":`, `null`, `{}`,
	} {
		f.Add([]byte(s))
	}
	wall := time.Unix(1764500000, 0)
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		m, err := election.Parse(payload)
		require.Equal(t, before, payload)
		if err != nil {
			var v election.Void
			require.True(t, errors.As(err, &v))
			require.NotZero(t, v)
			return
		}
		// What was read is written so that it reads the same.
		again, err := election.Parse(m.Append(nil, wall))
		require.NoError(t, err)
		m.Stamp, m.Clock, again.Stamp, again.Clock = "", 0, "", 0
		if m.Kind == election.KindResign {
			m.Priority, again.Priority = 0, 0
		}
		require.Equal(t, m, again)
	})
}
