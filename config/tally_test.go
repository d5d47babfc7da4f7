package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

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
