package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

func duplicate(t *testing.T, a answer, seq protocol.Seq, at protocol.Time) {
	t.Helper()
	require.Nil(t, a.Refuse)
	require.Nil(t, a.Record)
	require.Equal(t, protocol.Ack{N: a.Ack.N, Seq: seq, Time: at, Duplicate: true}, a.Ack)
}

// The ack of a claim is lost, another claims, and the first is sent again: it
// was in the log, whatever its condition would say now.
func TestDuplicateIsToldBeforeConditionsAreTested(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	mine := d.accepted(1, "election:g", withKey("k"), claiming("election:g", 5, 0))
	d.now += 50
	d.accepted(2, "election:g", claiming("election:g", 6, mine))

	duplicate(t, d.put(1, "election:g", withKey("k"), claiming("election:g", 5, 0), resent(thisEpoch, 0)), mine, 1000)
	require.Equal(t, protocol.Fence{K: 6, S: 2}, d.fence("election:g"))

	// Nor is anything else looked at first.
	duplicate(t, d.put(1, "election:g", withKey("k"), claiming("election:g", 5, 0), resent(thisEpoch+1, 0)), mine, 1000)
	duplicate(t, d.put(1, "election:g", withKey("k"), raising("*", 0, protocol.MaxTerm+1)), mine, 1000)
	d.opts.maxPayload = 1
	d.broker.opts.maxPayload = 1
	duplicate(t, d.put(1, "election:g", withKey("k")), mine, 1000)
}

func TestKeyBelongsToOneMessageOfOneSender(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.accepted(1, "a", withKey("k"), withPayload("x"))
	d.refused(protocol.ErrKeyReused, 1, "b", withKey("k"), withPayload("x"))
	d.refused(protocol.ErrKeyReused, 1, "a", withKey("k"), withPayload("y"))
	d.refused(protocol.ErrKeyReused, 1, "a", withKey("k"), withPayload("x"), direct(5))
	d.refused(protocol.ErrKeyReused, 1, "ax", withKey("k"), withPayload(""))
	d.accepted(2, "b", withKey("k"), withPayload("y"))
	d.accepted(1, "b", withKey("k\x00"), withPayload("y"))
	d.accepted(1, "b", withKey("l"), withPayload("y"))
	d.restart()
	duplicate(t, d.put(1, "a", withKey("k"), withPayload("x")), 1, 1000)
	d.refused(protocol.ErrKeyReused, 1, "a", withKey("k"), withPayload("y"))
}

func TestDigestTellsContentsApart(t *testing.T) {
	seen := make(map[[16]byte]string)
	for _, p := range []protocol.Publish{
		{Topic: "a"}, {Topic: "ab"}, {Topic: "a", Payload: []byte("b")}, {To: 1}, {To: 2},
		{To: 1, Payload: []byte("b")}, {Payload: []byte("b")}, {Payload: []byte("\x00\x00\x00\x00b")},
	} {
		what := fmt.Sprintf("%+v", p)
		digest := digestOf(&p)
		require.NotContains(t, seen, digest, what)
		seen[digest] = what
		p.Key, p.Slot, p.N, p.Flags, p.Head = []byte("k"), []byte("s"), 1, protocol.FlagResend, 5
		require.Equal(t, digest, digestOf(&p), "of topic and payload alone")
	}
}

func TestUnknownOutcome(t *testing.T) {
	const keys = 10
	d := newTrial(t, brokerOptions{maxKeys: keys})
	for range 30 {
		d.accepted(1, "a")
	}
	floor := d.keys.floor
	require.Equal(t, protocol.Seq(20), floor)

	// Without the flag nothing was sent before.
	d.accepted(1, "a", func(p *protocol.Publish) { p.Epoch, p.Head = thisEpoch+1, 0 })
	floor++

	for _, test := range []struct {
		name  string
		epoch protocol.EpochID
		head  protocol.Seq
		why   string // it cannot be told whether the message was in the log; "" = it can
	}{
		{"the newest head", thisEpoch, 31, ""},
		{"a head at the floor", thisEpoch, floor, ""},
		{"a head below the floor", thisEpoch, floor - 1, "older than"},
		{"before the first message", thisEpoch, 0, "older than"},
		{"another epoch", thisEpoch + 1, 31, "new epoch"},
		{"no epoch", 0, 31, "new epoch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.t = t
			if test.why != "" {
				refused := d.refused(protocol.ErrUnknownOutcome, 1, "a", resent(test.epoch, test.head))
				require.Contains(t, refused.Detail, test.why)
				// It is told before conditions, which are of no use then.
				d.refused(protocol.ErrUnknownOutcome, 1, "a", resent(test.epoch, test.head), fenced("a", 9))
				return
			}
			require.NotNil(t, d.put(1, "a", resent(test.epoch, test.head)).Record)
			d.refused(protocol.ErrStaleTerm, 1, "a", resent(test.epoch, test.head), fenced("a", 9))
			d.abort()
		})
	}
}

func TestResendOnANewLogIsAcceptedWhileAllKeysAreKnown(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.NotNil(t, d.put(1, "a", resent(thisEpoch, 0)).Record)
}

func TestFloorMovesPastAMillionKeys(t *testing.T) {
	const limit = 5000
	d := newTrial(t, brokerOptions{maxKeys: limit})
	key := func(i int) func(*protocol.Publish) { return withKey(fmt.Sprint("k", i)) }
	for i := 1; i <= limit; i++ {
		d.put(1, "a", key(i))
	}
	d.store()
	require.Zero(t, d.keys.floor)
	duplicate(t, d.put(1, "a", key(1)), 1, 1000)

	for i := limit + 1; i <= limit+100; i++ {
		d.put(1, "a", key(i))
	}
	duplicate(t, d.put(1, "a", key(1)), 1, 1000) // until the commit
	d.store()
	require.Equal(t, protocol.Seq(100), d.keys.floor)
	require.NotNil(t, d.put(1, "a", key(100)).Record, "forgotten")
	d.abort()
	duplicate(t, d.put(1, "a", key(101)), 101, 1000)

	// The log is told with the next batch.
	require.Zero(t, d.floor)
	d.accepted(1, "a")
	require.Equal(t, protocol.Seq(100), d.floor)
	d.restart()
	require.Equal(t, protocol.Seq(100), d.keys.floor)
	duplicate(t, d.put(1, "a", key(101)), 101, 1000)
}

func TestFloorMovesPastTenMinutes(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	age := protocol.Time(10 * time.Minute)
	d.accepted(1, "a", withKey("old"))
	d.now += 1
	d.accepted(1, "a", withKey("young"))
	d.now = 1000 + age
	d.accepted(1, "a")
	duplicate(t, d.put(1, "a", withKey("old")), 1, 1000)
	d.now++
	d.accepted(1, "a")
	require.Equal(t, protocol.Seq(1), d.keys.floor)
	duplicate(t, d.put(1, "a", withKey("young")), 2, 1001)
	d.refused(protocol.ErrUnknownOutcome, 1, "a", withKey("old"), resent(thisEpoch, 0))
	require.NotNil(t, d.put(1, "a", withKey("young 2"), resent(thisEpoch, 1)).Record)
}

// After a pause all keys are too old at once; they are forgotten in portions.
func TestForgettingTakesNoLongStop(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	for range 5000 {
		d.put(1, "a")
	}
	d.store()
	d.now += protocol.Time(time.Hour)
	commits := 0
	for d.keys.floor < 5000 {
		before := d.keys.floor
		d.accepted(1, "a")
		commits++
		require.LessOrEqual(t, d.keys.floor-before, protocol.Seq(100))
	}
	require.Less(t, commits, 100)
	require.Len(t, d.keys.places, commits)
}

func TestKeyTableIsAQueue(t *testing.T) {
	table := newKeyTable()
	row := func(i int) keyRow {
		return keyRow{id: keyOf(1, fmt.Append(nil, i)), seq: protocol.Seq(i), at: protocol.Time(i)}
	}
	added := 0
	for round := range 20 {
		for range 700 {
			added++
			table.add(row(added))
		}
		table.drop(100 + round)
		added -= 100 + round
		table.forget(500, ^protocol.Seq(0), 0, 1<<30)
		require.Len(t, table.places, 500)
		require.Equal(t, protocol.Seq(added-500), table.floor)
		for i := added - 600; i <= added+100; i++ {
			got, ok := table.find(row(i).id)
			if known := i > added-500 && i <= added; ok != known || ok && got != row(i) {
				t.Fatalf("key %d of %d: %v %t", i, added, got, ok)
			}
		}
		require.LessOrEqual(t, len(table.rows), 3)
	}
	table.forget(0, ^protocol.Seq(0), 0, 1<<30)
	require.Empty(t, table.places)
	added++
	table.add(row(added))
	require.Equal(t, row(added), *table.row(table.first))
}
