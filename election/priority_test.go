package election_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
)

// The numbers are what `printf %s ID | cksum` prints.
func TestDefaultPriorityIsCksum(t *testing.T) {
	for id, want := range map[string]int64{
		"":                       4294967295,
		"1":                      433426081,
		"123456789":              930766865,
		"null":                   2620764781,
		"2147483648":             2714607183,
		"4294967295":             2726098881,
		"0:0000.8000.0001":       1877752062,
		strings.Repeat("x", 300): 3786917833,
	} {
		require.Equal(t, want, election.DefaultPriority(id), id)
	}
}
