package config

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// wantDefaults finds a field that has no default and is not named as right when it
// is zero. A new option must be looked at here.
func wantDefaults(t *testing.T, validated any, zero ...string) {
	t.Helper()
	v := reflect.ValueOf(validated)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		require.Equal(t, slices.Contains(zero, name), v.Field(i).IsZero(), "%s.%s", v.Type(), name)
	}
	for _, name := range zero {
		_, ok := v.Type().FieldByName(name)
		require.True(t, ok, name)
	}
}

// wantStays finds a field that given leaves out, or that is another in got.
func wantStays(t *testing.T, given, got any) {
	t.Helper()
	v, w := reflect.ValueOf(given), reflect.ValueOf(got)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		require.False(t, v.Field(i).IsZero(), "%s.%s is forgotten", v.Type(), f.Name)
		if f.Type.Kind() == reflect.Func {
			require.Equal(t, v.Field(i).Pointer(), w.Field(i).Pointer(), f.Name)
			continue
		}
		require.Equal(t, v.Field(i).Interface(), w.Field(i).Interface(), "%s.%s", v.Type(), f.Name)
	}
}

// wantCarried finds a field of from that to has too, and that did not get there.
func wantCarried(t *testing.T, from, to any, elsewhere ...string) {
	t.Helper()
	v, w := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		require.False(t, v.Field(i).IsZero(), "%s.%s is forgotten", v.Type(), name)
		if slices.Contains(elsewhere, name) {
			continue
		}
		there := w.FieldByName(name)
		require.True(t, there.IsValid(), "%s.%s goes nowhere", v.Type(), name)
		require.Equal(t, v.Field(i).Interface(), there.Interface(), name)
	}
}

type nobody struct{ client.Conn }

func (nobody) Self() client.Self { return client.Self{Node: 1<<31 + 7, Name: "n"} }

type led struct{ Leadership }

var logger = slog.New(slog.NewTextHandler(io.Discard, nil))

func TestOptionsHaveDefaults(t *testing.T) {
	t.Setenv("PILOT_HOME", t.TempDir())
	var swarm Options
	swarm.validate(nobody{})
	wantDefaults(t, swarm)
	require.Equal(t, "n", swarm.Who)

	var follow FollowOptions
	require.NoError(t, follow.validate(nobody{}.Self()))
	wantDefaults(t, follow, "Validators", "Labels", "NoReport", "Unpin", "settled")
	require.Equal(t, []time.Duration{time.Minute, time.Second, time.Minute}, []time.Duration{follow.ReportEvery, follow.Retry, follow.MaxRetry})

	file, err := FileOptions{Swarm: "s"}.validate()
	require.NoError(t, err)
	wantDefaults(t, file, "Validator", "After", "Health", "Retained")

	health, err := Health{Exec: &Exec{Command: "x"}}.validate()
	require.NoError(t, err)
	wantDefaults(t, health, "Check")

	var plan Plan
	require.NoError(t, plan.validate())
	wantDefaults(t, plan, "Labels", "MaxFailed")

	var drive DriveOptions
	drive.validate()
	wantDefaults(t, drive, "Members", "Leadership", "Who")
}

func TestOptionsStayAsTheyAreGiven(t *testing.T) {
	swarm := Options{Who: "w", WallClock: time.Now, Logger: logger}
	was := swarm
	swarm.validate(nobody{})
	wantStays(t, was, swarm)

	follow := FollowOptions{
		Validators: []Validator{nil}, Agent: "a", Labels: map[string]string{"zone": "b"}, ReportEvery: time.Hour,
		NoReport: true, Retry: time.Minute, MaxRetry: time.Hour, Unpin: true, Notify: func(Change) {},
	}
	given := follow
	require.NoError(t, follow.validate(nobody{}.Self()))
	wantStays(t, given, follow)

	file := FileOptions{
		Swarm: "s", Target: "/t", VersionFile: "/v", State: "/s", Mode: 0o600, Validator: &Schema{}, ValidateTimeout: 1,
		After: &Exec{Command: "x"}, Health: &Health{Exec: &Exec{Command: "x"}, Tries: 1, Interval: 2, Timeout: 3},
		Retained: func(context.Context, uint64) (*Document, error) { return nil, nil }, Logger: logger,
	}
	got, err := file.validate()
	require.NoError(t, err)
	wantStays(t, file, got)

	plan := Plan{
		Labels: map[string]string{"zone": "b"}, Canary: 0.1, Steps: []float64{0.2, 1}, Bake: time.Second, Success: 0.3,
		Timeout: time.Minute, MaxFailed: 0.4, MaxUnhealthy: 0.5,
	}
	before := plan
	require.NoError(t, plan.validate())
	wantStays(t, before, plan)
	text, err := plan.text()
	require.NoError(t, err)
	read, err := planOf(new(Document).with(planField, text))
	require.NoError(t, err)
	wantStays(t, plan, read)
}

// What a rollback or a rollout is told reaches what it publishes.
func TestOptionsAreCarriedOn(t *testing.T) {
	back := RollbackOptions{
		Expect: 1, Reason: "r", Who: "w", Validators: []Validator{nil}, Leadership: led{}, DryRun: true,
	}
	wantCarried(t, back, back.publish(), "DryRun")
	rollout := RolloutOptions{Reason: "r", Who: "w", Leadership: led{}}
	wantCarried(t, rollout, rollout.publish())
	drive := DriveOptions{Members: []protocol.NodeID{1}, Leadership: led{}, Who: "w", Notify: func(RolloutStatus) {}}
	wantCarried(t, drive, drive.writing(), "Members", "Notify")
}

// Each option that can be wrong is refused when it is; the others are named.
func TestOptionsAreChecked(t *testing.T) {
	s := &Swarm{name: "s", fenced: true}
	for _, test := range []struct {
		options any
		wrong   map[string]error
		any     []string // fields that may have any value
	}{
		{PublishOptions{}, map[string]error{
			"Version": s.checkOptions(&PublishOptions{Version: protocol.MaxTerm + 1}),
			"Expect":  s.checkOptions(&PublishOptions{Expect: protocol.MaxTerm + 1}),
			"Extra":   s.checkOptions(&PublishOptions{Extra: []Field{{"digest", []byte("1")}}}),
		}, []string{"Reason", "Who", "Validators", "Leadership", "also"}},
		{HistoryOptions{}, map[string]error{
			"Limit": (&HistoryOptions{Limit: -1}).validate(),
		}, []string{"Before"}},
		{ComplianceOptions{}, map[string]error{
			"Version":    (&ComplianceOptions{Version: protocol.MaxTerm + 1}).validate(),
			"StaleAfter": (&ComplianceOptions{StaleAfter: -1}).validate(),
		}, []string{"Members", "Relays"}},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(test.options)) {
			if slices.Contains(test.any, f.Name) {
				continue
			}
			err, ok := test.wrong[f.Name]
			require.True(t, ok, "%T.%s is forgotten", test.options, f.Name)
			require.ErrorIs(t, err, protocol.ErrInvalid, f.Name)
		}
	}
	require.NoError(t, s.checkOptions(&PublishOptions{Expect: None}))

	// Others void a report above a limit: an agent that cannot report is told.
	long := FollowOptions{Labels: map[string]string{"a": strings.Repeat("x", maxLabels)}}
	require.ErrorIs(t, long.validate(nobody{}.Self()), protocol.ErrTooLarge)
}
