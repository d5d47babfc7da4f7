package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func TestUsageTellsHowNearTheBoundsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startBare(t, registry.Options{
			Admission: registry.Admission{Mode: registry.AdmitToken, Operators: []protocol.KeyHash{hashOf("root")}},
			Limits:    registry.Limits{Sessions: 5, TotalSubscriptions: 6, Nodes: 7, TotalJoins: 8},
		})
		defer w.close()
		root := w.enters("root", "")
		defer root.close()
		a := w.enters("a", grant(root, 1).String())
		defer a.close()
		silent := w.dial("b")
		defer silent.close()
		a.follow("jobs")
		require.IsType(t, &protocol.Done{}, ask[protocol.Frame](a, &protocol.Join{ID: 1, Topics: []string{"jobs", "config:x"}}))
		raise := a.message("election:g", "1")
		raise.Conditions = []protocol.Condition{{Topic: "election:g", Epoch: a.welcome.Epoch.ID, Term: 1, Raise: 1}}
		lane := a.lane(protocol.LaneNormal)
		lane.send(raise)
		lane.ack()
		synctest.Wait()
		require.Equal(t, registry.Usage{
			Sessions: registry.Share{Used: 3, Limit: 5}, Subscriptions: registry.Share{Used: 1, Limit: 6},
			Nodes: registry.Share{Used: 2, Limit: 7}, Inboxes: registry.Share{Used: 3, Limit: 8},
			Fences: registry.Share{Used: 1, Limit: 1_000_000}, Tokens: registry.Share{Used: 1, Limit: 10_000},
			Keys: registry.Share{Used: 1, Limit: 200_000},
		}, w.reg.Usage())
	})
}

// A node that stays connected is noted as seen, or it would look long away once the
// registry has failed.
func TestWhoStaysIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		w.join("b").close()
		time.Sleep(5 * time.Hour)
		page := ask[*protocol.NodesPage](a, &protocol.GetNodes{ID: 1})
		require.Len(t, page.Nodes, 2)
		for _, n := range page.Nodes {
			away := time.Since(n.LastSeen.Time())
			if n.ID == nodeID("a") {
				require.Less(t, away, 2*time.Hour)
			} else {
				require.Greater(t, away, 4*time.Hour)
			}
		}
	})
}
