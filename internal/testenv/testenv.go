// Package testenv tells tests what they may count on: what the machine has,
// and how long they may take. It reads two variables:
//
//   - PILOTGO_REQUIRE, a list with commas, names what no test may do without:
//     [Need] fails where it would skip.
//   - PILOTGO_TEST_BUDGET, a Go duration, is how long each long test goes on.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Need skips the test, with its reason, unless have; if PILOTGO_REQUIRE names
// what, the test fails instead.
//
//	path, err := exec.LookPath("pilotctl")
//	testenv.Need(t, "pilotctl", err == nil, "no pilotctl on the path")
func Need(t testing.TB, what string, have bool, reason string) {
	t.Helper()
	if have {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("PILOTGO_REQUIRE"), ","), what) {
		t.Fatalf("PILOTGO_REQUIRE names %s: %s", what, reason)
	}
	t.Skipf("needs %s: %s", what, reason)
}

// Allocs skips the test under the race detector, which allocates.
func Allocs(t testing.TB) {
	t.Helper()
	Need(t, "allocs", !race, "the race detector allocates")
}

// Raced returns full, but raced under the race detector, which makes tests ten and
// more times as long: for sizes that are not what a test is about.
func Raced[T any](full, raced T) T {
	if race {
		return raced
	}
	return full
}

// Budget returns how long a long test is to go on: usual, or what
// PILOTGO_TEST_BUDGET says. Whether that is virtual time or real is the test's
// to say.
func Budget(t testing.TB, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("PILOTGO_TEST_BUDGET")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("PILOTGO_TEST_BUDGET is no positive duration: %q", text)
	}
	return d
}
