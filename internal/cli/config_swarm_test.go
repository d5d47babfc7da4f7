package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestSharesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]float64{"95%": 0.95, "0.95": 0.95, "100%": 1, "1": 1, "0": 0, " 12.5%": 0.125} {
		got, err := parseShare(text)
		require.NoError(t, err, text)
		require.InDelta(t, want, got, 1e-12, text)
	}
	for _, text := range []string{"", "%", "95", "101%", "-1%", "NaN", "inf", "a", "5%%"} {
		_, err := parseShare(text)
		require.Error(t, err, text)
	}
	_, err := parseShare("95")
	require.Equal(t, "did you mean 95%? a share is written as 95% or as 0.95", describe(err).hint)
	_, err = parseShare("950")
	require.Equal(t, "a share is written as 95% or as 0.95", describe(err).hint)
	var s shares
	require.NoError(t, s.Set("5%,25%,1"))
	require.Equal(t, "5%,25%,100%", s.String())
	require.Error(t, s.Set("5%,,1"))
}

// What is not all of them never reads as 100 %, and what is does.
func TestPercentIsRoundedDown(t *testing.T) {
	require.Equal(t, "99.9%", percent(9999.0/10000))
	require.Equal(t, "100%", percent(1))
	require.Equal(t, "33.3%", percent(1.0/3))
	require.Equal(t, "29%", percent(0.29))
	require.Equal(t, "0%", percent(0))
	require.Equal(t, "12.5%", percent(0.125))
}

// A count among few has no tenths of a percent.
func TestMeasuredSharesHaveNoMoreDigitsThanTheyAreWorth(t *testing.T) {
	require.Equal(t, "66%", percentOf(2.0/3, 3))
	require.Equal(t, "100%", percentOf(1, 3))
	require.Equal(t, "99%", percentOf(99.0/100, 100))
	require.Equal(t, "33.3%", percentOf(1.0/3, 999))
	require.Equal(t, "99.99%", percentOf(9999.0/10000, 10000))
	require.Equal(t, "99.99%", percentOf(99999.0/100000, 100000))
	require.Equal(t, "29%", percentOf(0.29, 100))
}

func TestExpectationFlag(t *testing.T) {
	for text, want := range map[string]uint64{"none": config.None, "0": config.None, "7": 7, "9007199254740991": protocol.MaxTerm} {
		var e expectation
		require.NoError(t, e.Set(text))
		require.Equal(t, want, uint64(e))
	}
	for _, text := range []string{"", "-1", "x", "9007199254740992", "1.5"} {
		require.Error(t, new(expectation).Set(text), text)
	}
}

func TestModeAndNodesFlags(t *testing.T) {
	var m fileMode
	require.NoError(t, m.Set("0640"))
	require.Equal(t, "0640", m.String())
	for _, text := range []string{"", "0", "9", "1777", "rw"} {
		require.Error(t, new(fileMode).Set(text), text)
	}
	var n nodes
	require.NoError(t, n.Set("2147483701, 2147483702"))
	require.NoError(t, n.Set("2147483703"))
	require.Equal(t, "2147483701,2147483702,2147483703", n.String())
	require.Error(t, n.Set("x"))
}

// An error's own hint knows more than its code's; a code's alone gives way to what
// the command line knows.
func TestHintsOfErrors(t *testing.T) {
	conflict := &config.ConflictError{Swarm: "s", Current: 7, Expect: 5}
	for _, test := range []struct {
		err  error
		code string
		exit int
		hint string
	}{
		{fmt.Errorf("around: %w", conflict), "conflict", exitConflict, conflict.Hint()},
		{&config.InvalidError{Path: "/a", Rule: "command", Err: protocol.Errorf(protocol.ErrTimeout, "killed")}, "invalid_argument", exitInvalid, "correct the document, or the rule, and publish again"},
		{&config.UnhealthyError{Swarm: "s", Agents: 2, Healthy: 1}, codeThreshold, exitThreshold, new(config.UnhealthyError).Hint()},
		{&config.FileError{Code: protocol.ErrDenied, Path: "/x", Err: errors.New("no")}, "permission_denied", exitError, (&config.FileError{Code: protocol.ErrDenied}).Hint()},
		{&config.SupersededError{Swarm: "s", Version: 1, Latest: 2}, "conflict", exitConflict, protocol.ErrConflict.Hint()},
		{protocol.Errorf(protocol.ErrTimeout, "no answer"), "timeout", exitTimeout, protocol.ErrTimeout.Hint()},
	} {
		f := describe(test.err)
		require.Equal(t, test.code, f.code)
		require.Equal(t, test.exit, f.exit, f.message)
		require.Equal(t, test.hint, f.hint, f.message)
	}
	dns := &net.DNSError{Name: "nowhere", IsNotFound: true}
	require.Contains(t, describe(fmt.Errorf("%w: %w", protocol.ErrNotConnected, dns)).hint, "PILOTGO_HOSTS=nowhere=")
}

func TestBarShowsHowFarASwarmIs(t *testing.T) {
	half := config.Compliance{
		Version: 7, Agents: make([]config.AgentStatus, 4), Share: 0.5,
		Counts: map[config.AgentState]int{config.StateApplied: 2, config.StateFailed: 1, config.StateRejected: 1},
	}
	require.Equal(t, "[###############.........|.....] 2 of 4 agents (50%) run version 7, 2 do not get it applied", bar(half, 0.8))
	all := config.Compliance{Version: 7, Agents: make([]config.AgentStatus, 1), Share: 1, Counts: map[config.AgentState]int{config.StateApplied: 1}}
	require.Equal(t, "[##############################] 1 of 1 agents (100%) run version 7", bar(all, 1))
	require.Equal(t, "[..............................] 0 of 0 agents (0%) run version 7", bar(config.Compliance{Version: 7}, 1))
}

// Colour, and the care with control characters, are for terminals only.
func TestChangesAreColouredOnATerminalOnly(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	changes := []config.Difference{
		{Kind: config.Added, Path: "/a", New: []byte(`"` + "\u009b31m" + `"`)},
		{Kind: config.Removed, Path: "/b", Old: []byte("1")},
		{Kind: config.Changed, Path: "", Old: []byte("1"), New: []byte("2")},
		{Kind: config.Moved, Path: "/c"},
	}
	text := func(a *app) string {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		a.writeChanges(w, changes)
		require.NoError(t, w.Flush())
		return b.String()
	}
	plainText := "+ /a: \"\u009b31m\"\n- /b: 1\n~ (all): 1 -> 2\n~ /c: the same in another order\n"
	require.Equal(t, plainText, text(&app{}))
	onTerminal := text(&app{terminal: true})
	require.Contains(t, onTerminal, red+"- /b: 1"+plain+"\n")
	require.NotContains(t, onTerminal, "\u009b")
	t.Setenv("NO_COLOR", "1")
	require.NotContains(t, text(&app{terminal: true}), "\x1b")
}

func TestAgentsAreShownTheWorstFirst(t *testing.T) {
	list := []config.AgentStatus{
		{Node: 3, State: config.StateApplied, AppliedVersion: 7, ReportedAt: time.Unix(1, 0), Age: 1500 * time.Millisecond, Labels: map[string]string{"z": "1", "a": "2"}},
		{Node: 1, Agent: "1", State: config.StateStale, Script: true},
		{Node: 2, Agent: "two", State: config.StateRejected, Error: "/a: required", Pinned: true},
	}
	require.Equal(t, [][]string{
		{"NODE", "AGENT", "STATE", "APPLIED", "AGE", "LABELS", "REMARK"},
		{"2", "two", "rejected", "none", "never", "-", "pinned, /a: required"},
		{"1", "-", "stale", "none", "never", "-", "script"},
		{"3", "-", "applied", "7", "2s", "a=2,z=1", ""},
	}, new(app).agentRows(list))
	raw := string(marshal(showAgent(list[1])))
	require.Contains(t, raw, `"labels":{}`)
	require.Contains(t, raw, `"reported_at":null,"age_ms":null`)
}

// A publish as the leader passes two fences in one step; its own comes first.
func TestAFenceIsAddedToWhatIsPublished(t *testing.T) {
	seen := &recorder{}
	f := fencedConn{seen, []protocol.Condition{{Topic: "election:g", Term: 5}}}
	given := make([]protocol.Condition, 1, 8)
	given[0].Topic = "config:s"
	f.Publish(t.Context(), client.Publication{Topic: "config:s", Conditions: given})
	require.Equal(t, []protocol.Condition{{Topic: "config:s"}, {Topic: "election:g", Term: 5}}, seen.p.Conditions)
	require.Empty(t, given[:2][1].Topic, "the caller's own list is left alone")
	require.Nil(t, f.Done())
}

type recorder struct {
	client.Conn
	p client.Publication
}

func (r *recorder) Publish(_ context.Context, p client.Publication) client.Pending {
	r.p = p
	return nil
}

func TestEndsOfRolloutsHaveExitCodes(t *testing.T) {
	for state, exit := range map[config.RolloutState]int{
		config.RolloutComplete: 0, config.RolloutRolledBack: exitThreshold, config.RolloutSuperseded: exitConflict,
	} {
		st := config.RolloutStatus{}
		st.Version, st.State, st.Reason = 7, state, "why"
		err := rolloutEnd(st)
		if exit == 0 {
			require.NoError(t, err)
			continue
		}
		f := describe(err)
		require.Equal(t, exit, f.exit)
		require.Contains(t, f.message, "version 7: ")
		require.Contains(t, f.message, ": why")
	}
}

func TestWatchEventsForPrograms(t *testing.T) {
	read := func(e config.WatchEvent, program string) string {
		text, err := jqText(program, string(watchFields("s", e).appendTo(nil)))
		require.NoError(t, err)
		return text
	}
	require.Equal(t, `["gap",3,9,null]`, read(config.WatchEvent{Kind: config.WatchGap, From: 3, To: 9}, "[.event, .from, .to, .version]"))
	require.Equal(t, `["new_epoch","00000000000000ff"]`, read(config.WatchEvent{Kind: config.WatchEpoch, Epoch: protocol.Epoch{ID: 255}}, "[.event, .epoch]"))

	// One that is no document is shown as text, with what is wrong.
	d, err := config.ParseDocument([]byte(`{"type":"config_update","version":7,"config":[1]}`))
	require.NoError(t, err)
	require.Equal(t, `["update",7,null,"[1]",true]`,
		read(config.WatchEvent{Kind: config.WatchUpdate, Document: d}, "[.event, .version, .config, .text, (.fault | length > 0)]"))
}

// The agents of the demonstration stand where its shares divide them.
func TestIdentitiesBetweenShares(t *testing.T) {
	for i := range demoAgents {
		id := identityBetween(demoShares[i], demoShares[i+1])
		for step, share := range map[int]float64{1: 0.2, 3: 0.6, 5: 1} {
			p := config.Progress{State: config.RolloutRunning, Share: share}
			require.Equal(t, i < step, p.Reaches(id.NodeID(), nil), "agent %d, share %v", i+1, share)
		}
	}
}

// Commands that a line cannot need are not made: each start would pay for them.
func TestCommandsBelowConfigAreMadeWhenNeeded(t *testing.T) {
	for line, want := range map[string]bool{
		"version": false, "publish h t --data x": false, "config": true, "--json config get s": true, "config --set a=b": true,
		"help": true, "context": true, "completion bash": true, "__complete config ": true,
	} {
		a, err := newApp(nil, t.Output(), t.Output())
		require.NoError(t, err)
		a.args = strings.Fields(line)
		require.Equal(t, want, subcommand(a.root(), "config").HasSubCommands(), line)
	}
}
