package testenv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
)

// outcome stands in for a test and notes how it ended.
type outcome struct {
	testing.TB
	text string
}

func (o *outcome) Helper() {}

func (o *outcome) Skipf(format string, args ...any) {
	o.text = "skip: " + fmt.Sprintf(format, args...)
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.text = "fail: " + fmt.Sprintf(format, args...)
	panic(o)
}

// run calls f as a test would, up to where it ends the test.
func run(f func(t testing.TB)) string {
	o := &outcome{}
	func() {
		defer func() { recover() }()
		f(o)
	}()
	return o.text
}

func TestNeed(t *testing.T) {
	for _, test := range []struct {
		name, require string
		have          bool
		want          string
	}{
		{"it is there", "nats", true, ""},
		{"it is missing", "", false, "skip: needs nats: no server"},
		{"another is required", "natsish,chromium", false, "skip: needs nats: no server"},
		{"it is required", "chromium,nats", false, "fail: PILOTGO_REQUIRE names nats: no server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PILOTGO_REQUIRE", test.require)
			got := run(func(t testing.TB) { testenv.Need(t, "nats", test.have, "no server") })
			require.Equal(t, test.want, got)
		})
	}
}

func TestBudget(t *testing.T) {
	t.Setenv("PILOTGO_TEST_BUDGET", "")
	require.Equal(t, time.Second, testenv.Budget(t, time.Second))

	t.Setenv("PILOTGO_TEST_BUDGET", "5m")
	require.Equal(t, 5*time.Minute, testenv.Budget(t, time.Second))

	for _, bad := range []string{"5", "-1s", "0", "long"} {
		t.Setenv("PILOTGO_TEST_BUDGET", bad)
		require.Contains(t, run(func(t testing.TB) { testenv.Budget(t, time.Second) }), "fail: ", bad)
	}
}

func TestAllocs(t *testing.T) {
	testenv.Allocs(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {}))
}
