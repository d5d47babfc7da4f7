package logtest

import (
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func testRetained(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Messages: 2, Age: time.Hour})
	retained := func(node protocol.NodeID, at protocol.Seq, waiting bool) {
		t.Helper()
		last, waits := l.Log.(registry.SenderLog).Retained(node)
		want := protocol.Time(0)
		if at > 0 {
			want = start + protocol.Time(at)*protocol.Time(time.Millisecond)
		}
		equal(t, last, want, "time of the newest message")
		equal(t, waits, waiting, "direct messages to it")
	}
	retained(1, 0, false)
	l.publish(1, "a")            // 1
	l.publish(1, "b", slot("s")) // 2
	l.publish(2, "a")            // 3
	l.publish(2, "", to(3))      // 4
	for range 2 {
		retained(1, 2, false)
		retained(2, 4, false)
		retained(3, 0, true)
		l.reopen()
	}
	l.publish(1, "b", slot("s")) // 5 for 2
	l.publish(1, "c")            // 6
	retained(1, 6, false)
	check(t, l.Purge("c", 6))
	retained(1, 5, false)
	check(t, l.Purge("b", 6))
	retained(1, 1, false)
	check(t, l.Purge("a", 6))
	retained(1, 0, false)
	retained(2, 4, false)
	check(t, l.Expire(l.now+protocol.Time(2*time.Hour)))
	for range 2 {
		retained(2, 0, false)
		retained(3, 0, false)
		l.reopen()
	}
	l.publish(3, "config:x") // 7 has no age
	check(t, l.Expire(l.now+protocol.Time(2*time.Hour)))
	retained(3, 7, false)
}
