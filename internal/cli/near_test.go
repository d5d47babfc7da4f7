package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearNames(t *testing.T) {
	there := []string{"worker-pool", "workers", "billing", "a"}
	for word, want := range map[string][]string{
		"worker-pol":     {"worker-pool"},
		"Worker-Pool":    {"worker-pool"},
		"worker":         {"worker-pool", "workers"},
		"worker-pools":   {"worker-pool"},
		"biling":         {"billing"},
		"x":              nil,
		"an":             nil,
		"something-else": nil,
	} {
		require.Equal(t, want, near(word, there), word)
	}
	require.Equal(t, "did you mean billing?", meant("billin", "groups", there, "begin one"))
	require.Equal(t, "groups there: worker-pool, workers, billing, a; begin one", meant("something", "groups", there, "begin one"))
	require.Equal(t, "begin one", meant("something", "groups", nil, "begin one"))
}

func TestDistanceOfWords(t *testing.T) {
	require.Equal(t, 0, distance("jobs", "jobs"))
	require.Equal(t, 1, distance("jobs", "job"))
	require.Equal(t, 2, distance("tasks", "taks.")) // one taken out, one put in
	require.Equal(t, 4, distance("", "jobs"))
	require.Equal(t, 3, distance("kitten", "sitting"))
}
