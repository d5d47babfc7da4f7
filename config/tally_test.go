package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Agents that ran the version and fell silent, or run another content as it, are
// measured once and not with each report of others.
func TestAWaitMeasuresWhatMayBeEnough(t *testing.T) {
	now := time.Unix(1000, 0)
	w := waiter{want: target{7, DigestOf([]byte(`{}`))}, share: 1, now: now, began: time.Now(), o: ComplianceOptions{StaleAfter: time.Minute}}
	w.begin()
	report := func(node protocol.NodeID, at time.Time, config string) {
		r := Report{AppliedVersion: 7, Digest: DigestOf([]byte(config)), Instance: "i"}
		w.take(client.Item{Kind: client.ItemMessage, Message: &protocol.Message{Sender: node, Time: protocol.TimeOf(at), Payload: r.Append(nil)}})
	}
	require.False(t, w.enough())
	report(1, now.Add(-time.Hour), `{}`)
	report(2, now, `{"forged":1}`)
	report(3, now, `{}`)
	require.False(t, w.enough(), "not caught up")
	w.take(client.Item{Kind: client.ItemCaughtUp})
	require.True(t, w.enough())
	c := w.measured()
	require.Equal(t, 1, c.Counts[StateApplied])
	w.recount(&c)
	require.False(t, w.enough())
	report(3, now, `{}`)
	require.False(t, w.enough())
	report(1, now, `{}`)
	report(2, now, `{}`)
	require.True(t, w.enough())
	require.InDelta(t, 1, w.measured().Share, 0)
}

// The summary of 10,000 reports, without the network.
func BenchmarkTally(b *testing.B) {
	const many = 10_000
	messages := make([]protocol.Message, many)
	for i := range messages {
		r := Report{
			Agent: fmt.Sprint(i), AppliedVersion: uint64(6 + i%2), Version: 7, State: StateApplied,
			Digest: DigestOf([]byte(`{}`)), Every: time.Minute, Instance: "i", Number: 1,
		}
		messages[i] = protocol.Message{Seq: protocol.Seq(i), Sender: protocol.NodeID(1<<31 + i), Time: 1, Payload: r.Append(nil)}
	}
	b.ReportAllocs()
	for b.Loop() {
		t := newTally(nil)
		for i := range messages {
			t.add(&messages[i])
		}
		c := t.measure(target{7, DigestOf([]byte(`{}`))}, nil, time.Unix(0, 2), 0)
		require.InDelta(b, 0.5, c.Share, 0)
	}
}
