package election_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/fakeregistry"
)

func TestOneOfManyLeads(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		p := newPool(t, reg)
		for _, node := range []string{"a", "b", "c"} {
			p.run(node)
		}
		leader, took := p.await("")
		t.Log(leader, took, said(t, reg))
		time.Sleep(time.Minute)
		require.Equal(t, leader, p.leader())
		require.Equal(t, []string{"+" + leader}, p.told())
	})
}
