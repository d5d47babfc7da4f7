package cli

import (
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestTokenIsWrittenAsItIsRead(t *testing.T) {
	for text, want := range map[string]token{
		"tasks:5@00000000000000ff":                {election.Token{Term: 5, Epoch: 255}, "tasks"},
		"a:b@c:9007199254740991@f000000000000001": {election.Token{Term: protocol.MaxTerm, Epoch: 0xf000000000000001}, "a:b@c"},
	} {
		var got token
		require.NoError(t, got.Set(text))
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	for _, text := range []string{
		"", "tasks", "tasks:5", "tasks@00000000000000ff", ":5@00000000000000ff", "tasks:0@00000000000000ff",
		"tasks:-1@00000000000000ff", "tasks:9007199254740992@00000000000000ff", "tasks:5@", "tasks:5@ff",
		"tasks:5@0000000000000000", "tasks:x@00000000000000ff", "ta\nsks:5@00000000000000ff",
	} {
		require.Error(t, new(token).Set(text), text)
	}
}

func TestPreemptionFlag(t *testing.T) {
	for text, want := range map[string]election.Preemption{
		"never": {}, "always": {Allowed: true}, "1m0s": {Allowed: true, After: time.Minute},
	} {
		var got preemption
		require.NoError(t, got.Set(text))
		require.Equal(t, want, election.Preemption(got))
		require.Equal(t, text, got.String())
	}
	require.Error(t, new(preemption).Set("sometimes"))
}

// A command must be gone when the lease ends, so its grace is bounded.
func TestGraceFitsTheProfile(t *testing.T) {
	for name, timing := range profiles {
		o := runOptions{signal: "TERM"}
		o.profile.value = name
		whole, err := o.terms()
		require.NoError(t, err)
		require.Equal(t, timing.Stop, whole.Grace+whole.Margin)

		o.grace = whole.Grace
		_, err = o.terms()
		require.NoError(t, err)
		o.grace++
		_, err = o.terms()
		require.ErrorContains(t, err, name)
	}
	o := runOptions{signal: "NONSENSE"}
	o.profile.value = "lan"
	_, err := o.terms()
	require.ErrorContains(t, err, "--signal")
}

func TestChildrenGetTheTokenOfTheirRegistryOnly(t *testing.T) {
	t.Setenv("PILOT_HOME", t.TempDir())
	t.Setenv("PILOTGO_TOKEN", "")
	t.Setenv("PILOTGO_REGISTRY", "")
	for _, setting := range []string{"registry=one.example", "token=secret"} {
		code, _, stderr := runLine(t, "config", "--set", setting)
		require.Zero(t, code, stderr)
	}
	tokenAt := func(word string) string {
		a, err := newApp(nil, t.Output(), t.Output())
		require.NoError(t, err)
		h, err := a.chosen(word)
		require.NoError(t, err)
		var o connection
		require.NoError(t, a.secrets(h, &o))
		return o.token
	}
	require.Equal(t, "secret", tokenAt("one.example"))
	require.Empty(t, tokenAt("two.example"))

	t.Setenv("PILOTGO_REGISTRY", "two.example:9002") // as for the command of a run there
	require.Empty(t, tokenAt(""))
	t.Setenv("PILOTGO_REGISTRY", "one.example:9002")
	require.Equal(t, "secret", tokenAt(""))
}

// What stands before -- is seen by commands that ask for it, and by no others.
func TestDashIsKeptWhereItMeansSomething(t *testing.T) {
	for _, test := range []struct{ line, want []string }{
		{[]string{"election", "run", "g", "--", "cmd", "--json", "--", "x"}, []string{"election", "run", "--", "g", "--", "cmd", "--json", "--", "x"}},
		{[]string{"election", "run", "h", "g", "--quiet", "--", "-x"}, []string{"election", "run", "--", "h", "g", "--", "-x"}},
		{[]string{"publish", "h", "t", "--", "--data"}, []string{"publish", "--", "h", "t", "--data"}},
	} {
		a, err := newApp(nil, t.Output(), t.Output())
		require.NoError(t, err)
		_, words, err := parseArgs(a.root(), test.line, false)
		require.NoError(t, err)
		require.Equal(t, test.want, words)
		require.False(t, a.json)
	}
}

// The past of a group is told by registry time and by what passed its fence.
func TestPastIsReadFromTheLog(t *testing.T) {
	p := &past{heard: make(map[string]time.Time), now: time.Unix(100, 0)}
	for _, m := range []struct {
		payload string
		second  int64
		term    uint64
	}{
		{`{"type":"leader","leader":"1","term":5}`, 10, 5},
		{`{"type":"heartbeat","leader":"1","term":5}`, 20, 5},
		{`{"type":"leader","leader":"9","term":7}`, 25, 0}, // a script's
		{`nonsense`, 26, 0},
		{`{"type":"leader","leader":"2","term":8}`, 30, 8},
		{`{"type":"resign","leader":"2","term":8}`, 40, 0}, // asks only
		{`{"type":"resign","leader":"2","term":8}`, 50, 8},
		{`{"type":"leader","leader":"3","term":9}`, 60, 9},
		{`{"type":"heartbeat","leader":"3","term":9}`, 90, 9},
	} {
		p.read(logged(m.payload, m.second, m.term))
	}
	stamp := func(second int64) string { return milliStamp(time.Unix(second, 0)) }
	ended := func(second int64) *string { s := stamp(second); return &s }
	require.Equal(t, []pastTerm{
		{"1", 5, stamp(10), ended(30), "superseded"},
		{"2", 8, stamp(30), ended(50), "resigned"},
		{Leader: "3", Term: 9, Elected: stamp(60)},
	}, p.terms)
	require.Equal(t, 10*time.Second, p.silence())

	view := election.Status{Now: election.Observation{View: election.View{Leader: "3", Token: election.Token{Term: 9}}}}
	r := newReport(view, p, election.Mixed)
	require.Equal(t, 10*time.Second, r.age)
	require.Equal(t, &change{"leader", stamp(60), ""}, r.lastChange())
	r = newReport(view, p, election.WAN) // ten seconds are too long there
	require.Empty(t, r.Now.Leader)
	require.Equal(t, &change{"lost", stamp(90), "silent"}, r.lastChange())
}

func logged(payload string, second int64, term uint64) *protocol.Message {
	m := &protocol.Message{Payload: []byte(payload), Time: protocol.Time(second * int64(time.Second)), Topic: "election:g"}
	if term != 0 {
		m.Fences = []protocol.Mark{{Topic: m.Topic, Term: term}}
	}
	return m
}
