package logtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

func testSlots(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Messages: 3})
	l.publish(1, "status", slot("s"))  // 1
	l.publish(2, "status", slot("s"))  // 2: another sender
	l.publish(1, "status", slot("t"))  // 3: another slot
	l.publish(1, "state", slot("s"))   // 4: another topic
	l.publish(1, "status")             // 5: none
	l.publish(1, "", to(2), slot("s")) // 6: direct
	l.want("*", 1, 2, 3, 4, 5)
	l.publish(1, "status", slot("s")) // 7 for 1
	l.want("*", 2, 3, 4, 5, 7)
	l.reopen()
	l.publish(1, "", to(2), slot("s")) // 8 for 6
	l.append(                          // two in one batch
		l.record(2, "status", slot("s")), // 9 for 2
		l.record(2, "status", slot("s")), // 10 for 9
	)
	l.want("*", 3, 4, 5, 7, 10)
	got, _ := l.read(registry.Selection{Direct: 2}, 0)
	equal(t, got, seqs(8), "direct")
	equal(t, l.mark(registry.Selection{Pattern: "*", Direct: 2}), 0, "a replaced message leaves no mark")

	l.publish(1, "status") // 11 pushes 3 out, which held slot t
	l.want("*", 4, 5, 7, 10, 11)
	l.publish(1, "status", slot("t")) // 12 replaces nothing, and pushes 5 out
	l.want("*", 4, 7, 10, 11, 12)
	equal(t, l.mark(registry.Selection{Pattern: "status"}), 5, "mark")
	equal(t, l.Topic("status"), registry.TopicStats{Topic: "status", Messages: 4, First: 7, Last: 12}, "status")
}

func testMessagesPerSender(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Messages: 3})
	l.publish(1, "a")       // 1
	l.publish(1, "b")       // 2
	l.publish(1, "", to(3)) // 3
	for range 5 {           // 4 … 13
		l.publish(2, "a")
		l.publish(2, "", to(3))
	}
	l.want("a", 1, 8, 10, 12)
	l.want("b", 2)
	got, evicted := l.read(registry.Selection{Direct: 3}, 0)
	equal(t, got, seqs(3, 9, 11, 13), "direct")
	equal(t, evicted, 7, "mark of the inbox")
	equal(t, l.mark(registry.Selection{Pattern: "a"}), 6, "mark of a")
	equal(t, l.mark(registry.Selection{Pattern: "b"}), 0, "mark of b")
	l.reopen()
	l.publish(2, "a") // 14
	l.want("a", 1, 10, 12, 14)
	equal(t, l.mark(registry.Selection{Pattern: "a"}), 8, "mark of a")
}

func testVersions(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Versions: 3, Messages: 2, Age: time.Hour})
	for range 4 { // 1 … 12
		l.publish(1, "config:fleet")
		l.publish(1, "config:status:fleet")
		l.publish(1, "config:")
	}
	l.want("config:fleet", 4, 7, 10)
	l.want("config:status:fleet", 8, 11)
	l.want("config:", 9, 12)
	check(t, l.Expire(l.now+protocol.Time(2*time.Hour)))
	l.want("*", 4, 7, 10)
}

func testAge(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Age: time.Hour})
	l.publish(1, "a")        // 1
	l.publish(1, "config:x") // 2: has no age
	l.publish(1, "", to(2))  // 3
	l.now += protocol.Time(time.Hour / 2)
	l.publish(2, "a") // 4
	l.now += protocol.Time(time.Hour / 2)
	l.want("a", 1, 4)
	l.publish(2, "b") // 5 comes when 1 and 3 are too old
	l.want("*", 2, 4, 5)
	got, evicted := l.read(registry.Selection{Direct: 2}, 0)
	equal(t, got, nil, "direct")
	equal(t, evicted, 3, "mark of the inbox")
	equal(t, l.mark(registry.Selection{Pattern: "a"}), 1, "mark of a")
	l.reopen()

	now := l.now + protocol.Time(time.Hour)
	check(t, l.Expire(now)) // 5 is not older than that
	l.want("*", 2, 5)
	check(t, l.Expire(now+1))
	l.want("*", 2)
	equal(t, l.mark(registry.Selection{Pattern: "*"}), 5, "mark")
	equal(t, l.Stats().Messages, 1, "messages")
	check(t, l.Expire(now-protocol.Time(time.Hour))) // clocks go back
	l.want("*", 2)
}

func testMarks(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{Messages: 1})
	for _, topic := range []string{"x.1", "x.2", "y", "x.1", "x.2", "y", "z"} { // 1 … 7
		l.publish(1, topic)
	}
	for range 2 {
		l.publish(1, "", to(4)) // 8, 9
	}
	for range 2 {
		for _, test := range []struct {
			name  string
			sel   registry.Selection
			after protocol.Seq
			want  protocol.Seq
		}{
			{"a topic", registry.Selection{Pattern: "x.1"}, 0, 1},
			{"a topic, just before", registry.Selection{Pattern: "x.2"}, 1, 2},
			{"a mark that is not behind", registry.Selection{Pattern: "x.2"}, 2, 0},
			{"a topic that lost nothing", registry.Selection{Pattern: "z"}, 0, 0},
			{"a topic that is not there", registry.Selection{Pattern: "w"}, 0, 0},
			{"a prefix", registry.Selection{Pattern: "x.*"}, 0, 2},
			{"another prefix", registry.Selection{Pattern: "z.*"}, 0, 0},
			{"everything", registry.Selection{Pattern: "*"}, 0, 3},
			{"an inbox", registry.Selection{Topics: set("x.1", "z")}, 0, 1},
			{"direct messages", registry.Selection{Topics: set("x.1", "z"), Direct: 4}, 0, 8},
			{"what may not be read", registry.Selection{Pattern: "y", Readable: func(string) bool { return false }}, 0, 0},
			{"the last per topic", registry.Selection{Pattern: "x.*", LastPerTopic: true}, 0, 2},
		} {
			_, evicted := l.read(test.sel, test.after)
			equal(t, evicted, test.want, test.name)
		}
		l.reopen()
	}
	// A mark outlives the last message of its topic.
	check(t, l.Purge("x.1", 4))
	l.want("x.1")
	equal(t, l.mark(registry.Selection{Pattern: "x.1"}), 4, "mark of a topic without messages")
	equal(t, l.mark(registry.Selection{Pattern: "x.*"}), 4, "mark of its prefix")
	l.publish(1, "x.1") // 10
	equal(t, l.mark(registry.Selection{Pattern: "x.1"}), 4, "mark when there are messages again")
}

func testTopicBytes(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{TopicBytes: 1000})
	l.publish(1, "a", payload(100)) // 1
	l.publish(1, "a", payload(100)) // 2
	l.publish(3, "b", payload(900)) // 3: another topic
	for range 7 {                   // 4 … 10: 900 bytes in all on a
		l.publish(2, "a", payload(100))
	}
	l.want("a", 1, 2, 4, 5, 6, 7, 8, 9, 10)
	l.publish(1, "a", payload(200)) // 11: sender 2 is the largest
	l.want("a", 1, 2, 5, 6, 7, 8, 9, 10, 11)
	l.reopen()
	l.publish(1, "a", payload(310)) // 12: 1 loses 1 and 2, then 2 loses 5, then 1 loses 11
	l.want("a", 6, 7, 8, 9, 10, 12)
	equal(t, l.Topic("a").Bytes, 810, "bytes")
	equal(t, l.mark(registry.Selection{Pattern: "a"}), 11, "mark")
	l.want("b", 3)
}

func testTotalBytes(t *testing.T, s Suite) {
	const each = 1000 + registry.RecordOverhead
	l := s.open(t, registry.Retention{TotalBytes: 20 * each})
	for i := range 4 { // 1 … 4
		l.publish(1, fmt.Sprint("quiet.", i), payload(1000))
	}
	for i := range 30 { // 5 … 34
		l.publish(2, fmt.Sprint("busy.", i%3), payload(1000))
	}
	for i := range 20 { // 35 … 54
		l.publish(protocol.NodeID(10+i%2), "", to(9), payload(1000))
	}
	l.want("quiet.*", 1, 2, 3, 4)
	busy, _ := l.read(registry.Selection{Pattern: "busy.*"}, 0)
	direct, _ := l.read(registry.Selection{Direct: 9}, 0)
	// 16 are left for three senders.
	equal(t, len(busy) >= 5 && len(direct) >= 10 && len(busy)+len(direct) <= 16, true, fmt.Sprintf("busy %v and direct %v have their shares", busy, direct))
	equal(t, busy, between(35-protocol.Seq(len(busy)), 34), "busy has its newest")
}

func testPurge(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	for range 5 {
		l.publish(1, "a", payload(10), slot("")) // 1, 3, …
		l.publish(2, "b", payload(10))           // 2, 4, …
	}
	check(t, l.Purge("nothing", 100))
	check(t, l.Purge("a", 4))
	for range 2 {
		l.want("*", 2, 4, 5, 6, 7, 8, 9, 10)
		equal(t, l.Topic("a"), registry.TopicStats{Topic: "a", Messages: 3, Bytes: 30, First: 5, Last: 9}, "a")
		equal(t, l.mark(registry.Selection{Pattern: "a"}), 3, "mark")
		l.reopen()
	}
	check(t, l.Purge("a", 1000))
	l.want("a")
	equal(t, l.Topic("a"), registry.TopicStats{Topic: "a"}, "a")
	seq, _ := l.Head()
	equal(t, seq, 10, "head")
	equal(t, l.publish(1, "a"), 11, "the next seq")
	l.want("a", 11)
}

func testStats(t *testing.T, s Suite) {
	l := s.open(t, registry.Retention{})
	for _, topic := range []string{"b", "a", "c:x", "b", "c"} {
		l.publish(1, topic, payload(10))
	}
	l.publish(1, "", to(2), payload(5))
	for range 2 {
		a := registry.TopicStats{Topic: "a", Messages: 1, Bytes: 10, First: 2, Last: 2}
		b := registry.TopicStats{Topic: "b", Messages: 2, Bytes: 20, First: 1, Last: 4}
		c := registry.TopicStats{Topic: "c", Messages: 1, Bytes: 10, First: 5, Last: 5}
		cx := registry.TopicStats{Topic: "c:x", Messages: 1, Bytes: 10, First: 3, Last: 3}
		for _, test := range []struct {
			after string
			limit int
			want  []registry.TopicStats
		}{
			{"", 10, []registry.TopicStats{a, b, c, cx}},
			{"", 2, []registry.TopicStats{a, b}},
			{"b", 2, []registry.TopicStats{c, cx}},
			{"bb", 1, []registry.TopicStats{c}},
			{"c:x", 5, nil},
		} {
			got, err := l.Topics(test.after, test.limit)
			check(t, err)
			equal(t, got, test.want, fmt.Sprintf("%d topics after %q", test.limit, test.after))
		}
		equal(t, l.Topic("b"), b, "b")
		equal(t, l.Stats(), registry.LogStats{Topics: 4, Messages: 6, Bytes: 55, Keys: 6}, "sums")
		l.reopen()
	}
	check(t, l.Purge("b", 4))
	got, err := l.Topics("a", 1)
	check(t, err)
	equal(t, got[0].Topic, "c", "the topic after a without b")
	equal(t, l.Stats(), registry.LogStats{Topics: 3, Messages: 4, Bytes: 35, Keys: 6}, "sums without b")
}
