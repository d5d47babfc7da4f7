package admin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/admin"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func metrics() *admin.Metrics {
	return admin.NewMetrics(admin.Source{
		Info:    func() protocol.InfoState { return protocol.InfoState{Sessions: 3, Head: 77, Born: 1767323045} },
		Stats:   func() registry.LogStats { return registry.LogStats{Messages: 5, Keys: 9} },
		Stalled: func() time.Duration { return 1500 * time.Millisecond },
		Usage: func() registry.Usage {
			return registry.Usage{
				Sessions: registry.Share{Used: 1, Limit: 2}, Subscriptions: registry.Share{Used: 3, Limit: 4},
				Nodes: registry.Share{Used: 5, Limit: 6}, Inboxes: registry.Share{Used: 7, Limit: 8}, Fences: registry.Share{Used: 9, Limit: 10},
				Tokens: registry.Share{Used: 11, Limit: 12}, Keys: registry.Share{Used: 13, Limit: 14},
			}
		},
	})
}

func record(topic string, size int) *registry.Record {
	r := &registry.Record{}
	r.Topic, r.Payload = topic, make([]byte, size)
	return r
}

func TestMetricsCountWhatTheObserverIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what is counted does not wait, and the clock stands still
		m := metrics()
		o := m.Observer()
		o.Published(4, time.Millisecond)
		o.Answered(registry.OpGetInfo, time.Millisecond)
		o.Stored([]*registry.Record{record("a", 10), record("a", 20)}, time.Millisecond)
		o.Delivered(7, 700, 2)
		o.Event(registry.Event{Kind: registry.EventSessionOpened, Node: 5})
		o.Event(registry.Event{Kind: registry.EventSessionClosed, Node: 5, Err: protocol.ErrNotConnected})
		o.Event(registry.Event{Kind: registry.EventSessionOpened, Node: 5})
		o.Event(registry.Event{Kind: registry.EventRefused, Op: registry.OpPublish, Err: protocol.ErrRateLimited})
		o.Event(registry.Event{Kind: registry.EventSessionRefused, Op: registry.OpConnect, Err: protocol.ErrNotAdmitted})

		text := get(m.Handler(), "/metrics").Body.String()
		for _, want := range []string{
			`operations_total{code="ok",op="publish"} 4`,
			`operations_total{code="rate_limited",op="publish"} 1`,
			`operations_total{code="auth_required",op="connect"} 1`,
			`operations_total{code="ok",op="get_info"} 1`,
			`operation_seconds_count{op="publish"} 1`,
			`stored_messages_total 2`, `stored_bytes_total 30`, `append_messages_sum 2`,
			`delivered_messages_total 7`, `delivered_bytes_total 700`, `reader_lag_messages_sum 2`,
			`sessions_opened_total 2`, `reconnects_total 1`, `sessions_closed_total{code="connection_failed"} 1`,
			`sessions 3`, `log_head_seq 77`, `log_messages 5`, `log_keys 9`, `log_stalled_seconds 1.5`,
			`used{of="sessions"} 1`, `limit{of="sessions"} 2`, `used{of="subscriptions"} 3`, `limit{of="subscriptions"} 4`,
			`used{of="nodes"} 5`, `limit{of="nodes"} 6`, `used{of="inbox_topics"} 7`, `limit{of="inbox_topics"} 8`,
			`used{of="fences"} 9`, `limit{of="fences"} 10`, `used{of="tokens"} 11`, `limit{of="tokens"} 12`,
			`used{of="keys"} 13`, `limit{of="keys"} 14`,
		} {
			assert.Contains(t, text, "\npilotgo_registry_"+want+"\n")
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		require.NoError(t, err)
		for _, p := range problems {
			assert.False(t, strings.HasPrefix(p.Metric, "pilotgo_"), "%s: %s", p.Metric, p.Text)
		}
	})
}

func TestEveryOperationHasAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics()
		o := m.Observer()
		for op := registry.OpConnect; op <= registry.OpOperate; op++ {
			o.Answered(op, 0)
		}
		assert.NotContains(t, get(m.Handler(), "/metrics").Body.String(), `op="other"`)
	})
}

func TestRatesAreOfTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics()
		o := m.Observer()
		for range 60 {
			o.Stored([]*registry.Record{record("jobs", 1), record("jobs", 1)}, 0)
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 2, m.Rates()["jobs"], .1)
		time.Sleep(30 * time.Second)
		assert.InDelta(t, 1, m.Rates()["jobs"], .25, "half of the minute was silent")
		time.Sleep(2 * time.Minute)
		assert.Empty(t, m.Rates())
	})
}

func TestRatesAreBounded(t *testing.T) {
	m := metrics()
	o := m.Observer()
	for i := range 20_000 {
		o.Stored([]*registry.Record{record(fmt.Sprintf("t%d", i), 1)}, 0)
	}
	o.Stored([]*registry.Record{record("election:workers", 1)}, 0)
	r := m.Rates()
	assert.LessOrEqual(t, len(r), 10_001)
	assert.Contains(t, r, "election:workers")
}

// What the alerts ask for is there, and each says what to do.
func TestTheAlertsKnowTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/alerts.yml")
	require.NoError(t, err)
	m := metrics()
	o := m.Observer()
	o.Event(registry.Event{Kind: registry.EventRefused, Op: registry.OpPublish, Err: protocol.ErrStorageFull})
	have := get(m.Handler(), "/metrics").Body.String()
	alerts, asked := strings.Split(string(text), "- alert: ")[1:], 0
	require.Greater(t, len(alerts), 5)
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		require.Regexp(t, `^Pilotgo[A-Z]\w+$`, name)
		for _, field := range []string{"expr: ", "severity: ", "summary: ", "description: "} {
			assert.Contains(t, rest, field, name)
		}
		for _, n := range regexp.MustCompile(`pilotgo_registry_[a-z_]+`).FindAllString(rest, -1) {
			asked++
			assert.Regexp(t, "(?m)^"+n+"[ {]", have, name)
		}
	}
	require.NotZero(t, asked)
}

// What the dashboard asks for is there.
func TestTheDashboardKnowsTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/grafana.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	m := metrics()
	o := m.Observer()
	o.Published(1, 0)
	o.Event(registry.Event{Kind: registry.EventSessionClosed})
	have := get(m.Handler(), "/metrics").Body.String()
	name := regexp.MustCompile(`(?:pilotgo_registry|process|go)_[a-z_]+`)
	asked := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, n := range name.FindAllString(target.Expr, -1) {
				asked++
				assert.Contains(t, have, "\n"+n, "panel %q", p.Title)
			}
		}
	}
	require.NotZero(t, asked)
}

// Whoever may publish can make topics, also those of groups, and nobody need look
// at the rates meanwhile.
func TestRatesOfManyTopicsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics()
		o := m.Observer()
		for i := range 30_000 {
			o.Stored([]*registry.Record{record(fmt.Sprint("t", i), 1), record(fmt.Sprint("election:g", i), 1)}, 0)
		}
		require.Len(t, m.Rates(), 20_000)
		o.Stored([]*registry.Record{record("late", 1)}, 0)
		require.NotContains(t, m.Rates(), "late")
		time.Sleep(2 * time.Minute)
		o.Stored([]*registry.Record{record("late", 1)}, 0)
		require.Contains(t, m.Rates(), "late")
		require.Len(t, m.Rates(), 1)
	})
}
