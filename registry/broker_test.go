package registry

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

const thisEpoch = protocol.EpochID(7)

// trial drives a broker and keeps what it stages, as a log would.
type trial struct {
	*broker
	Log // for Head and Load alone

	t      *testing.T
	opts   brokerOptions
	now    protocol.Time
	serial int

	records []*Record
	fences  map[string]protocol.Fence
	entries map[string]map[string][]byte
	floor   protocol.Seq
}

func newTrial(t *testing.T, opts brokerOptions) *trial {
	return &trial{
		broker: newBroker(protocol.Epoch{ID: thisEpoch}, opts), t: t, opts: opts, now: 1000,
		fences: make(map[string]protocol.Fence), entries: make(map[string]map[string][]byte),
	}
}

// put publishes with a key of its own.
func (d *trial) put(sender protocol.NodeID, topic string, more ...func(*protocol.Publish)) answer {
	d.serial++
	p := &protocol.Publish{
		N: uint64(d.serial), Key: fmt.Append(nil, "key ", d.serial), Epoch: thisEpoch, Head: d.seq,
		Topic: topic, Payload: []byte("payload"),
	}
	for _, change := range more {
		change(p)
	}
	a := d.publish(d.now, sender, p, digestOf(p))
	require.Equal(d.t, p.N, a.Ack.N+a.number(), "the answer's number")
	return a
}

func (a answer) number() uint64 {
	if a.Refuse == nil {
		return 0
	}
	return a.Refuse.N
}

// accepted publishes, commits, and returns the seq.
func (d *trial) accepted(sender protocol.NodeID, topic string, more ...func(*protocol.Publish)) protocol.Seq {
	d.t.Helper()
	a := d.put(sender, topic, more...)
	require.Nil(d.t, a.Refuse)
	require.NotNil(d.t, a.Record, "a duplicate")
	d.store()
	return a.Ack.Seq
}

func (d *trial) refused(code protocol.Code, sender protocol.NodeID, topic string, more ...func(*protocol.Publish)) *protocol.Refuse {
	d.t.Helper()
	before := dump(d.broker)
	a := d.put(sender, topic, more...)
	require.NotNil(d.t, a.Refuse, "accepted")
	require.Equal(d.t, code, a.Refuse.Code, "%v", a.Refuse.Err())
	require.Nil(d.t, a.Record)
	require.Equal(d.t, before, dump(d.broker), "a refusal changes nothing")
	return a.Refuse
}

// store settles all there is.
func (d *trial) store() {
	d.seal()
	for len(d.sealed) > 0 {
		d.settle()
	}
}

// settle stores the oldest sealed batch.
func (d *trial) settle() {
	b := &d.sealed[0].Batch
	d.records = append(d.records, b.Records...)
	for _, f := range b.Fences {
		d.fences[f.Topic] = f.Fence
	}
	for _, e := range b.Entries {
		if d.entries[e.Table] == nil {
			d.entries[e.Table] = make(map[string][]byte)
		}
		if e.Value == nil {
			delete(d.entries[e.Table], e.Key)
		} else {
			d.entries[e.Table][e.Key] = e.Value
		}
	}
	d.floor = max(d.floor, b.KeyFloor)
	d.broker.settle()
}

// seal seals what is staged.
func (d *trial) seal() {
	d.staged() // notes the floor
	d.broker.seal()
}

// Head and Load make the trial a log to load from.
func (d *trial) Head() (seq protocol.Seq, at protocol.Time) {
	if n := len(d.records); n > 0 {
		seq, at = d.records[n-1].Seq, d.records[n-1].Time
	}
	return seq, at
}

func (d *trial) Load(s State) error {
	for topic, f := range d.fences {
		if err := s.Fence(FenceEntry{topic, f}); err != nil {
			return err
		}
	}
	for table, rows := range d.entries {
		for key, value := range rows {
			if err := s.Entry(Entry{table, key, value}); err != nil {
				return err
			}
		}
	}
	for _, r := range d.records {
		if r.Seq <= d.floor {
			continue
		}
		if err := s.Key(KeyEntry{r.Sender, r.Key, r.Seq, r.Time, r.Digest}); err != nil {
			return err
		}
	}
	return s.Floor(d.floor)
}

// restart loads what was stored into a new broker.
func (d *trial) restart() {
	d.t.Helper()
	d.broker = newBroker(protocol.Epoch{ID: thisEpoch}, d.opts)
	require.NoError(d.t, d.load(d))
}

// state is all that a broker knows.
type state struct {
	Seq     protocol.Seq
	Time    protocol.Time
	Fences  map[string]protocol.Fence
	Keys    []keyRow
	Floor   protocol.Seq
	Nodes   []protocol.Node
	Online  int
	Joined  map[protocol.NodeID][]string
	Members map[string][]protocol.NodeID
	Cursors map[protocol.NodeID]protocol.Seq
	Spoken  map[protocol.NodeID]struct{}
	Keyring map[protocol.KeyHash]protocol.KeyEntry
	Judged  []protocol.KeyHash
	Tokens  map[protocol.TokenID]joinToken
	Made    []protocol.TokenID
}

func dump(b *broker) state {
	s := state{
		Seq: b.seq, Time: b.time, Fences: maps.Clone(b.fences), Floor: b.keys.floor,
		Nodes: b.nodes(0, 0, ""), Online: b.online,
		Joined: make(map[protocol.NodeID][]string), Members: make(map[string][]protocol.NodeID),
		Cursors: make(map[protocol.NodeID]protocol.Seq),
		Spoken:  maps.Clone(b.spoken), Keyring: maps.Clone(b.standingOf), Judged: slices.Clone(b.judged),
		Tokens: maps.Clone(b.tokens), Made: slices.Clone(b.made),
	}
	for place := b.keys.first; place < b.keys.next(); place++ {
		s.Keys = append(s.Keys, *b.keys.row(place))
	}
	for node, in := range b.byNode {
		if len(in.topics) > 0 {
			s.Joined[node] = slices.Clone(in.topics)
		}
		if in.cursor > 0 {
			s.Cursors[node] = in.cursor
		}
	}
	for topic := range b.joinedBy {
		s.Members[topic] = slices.Clone(b.joinedBy[topic])
	}
	return s
}

// Changes of a publish.

func fenced(topic string, term uint64) func(*protocol.Publish) {
	return func(p *protocol.Publish) {
		p.Conditions = append(p.Conditions, protocol.Condition{Topic: topic, Epoch: thisEpoch, Term: term})
	}
}

func raising(topic string, term, raise uint64) func(*protocol.Publish) {
	return func(p *protocol.Publish) {
		p.Conditions = append(p.Conditions, protocol.Condition{Topic: topic, Epoch: thisEpoch, Term: term, Raise: raise})
	}
}

// claiming is what a candidate and a config's publisher do.
func claiming(topic string, term uint64, expect protocol.Seq) func(*protocol.Publish) {
	return func(p *protocol.Publish) {
		p.Conditions = append(p.Conditions, protocol.Condition{
			Topic: topic, Epoch: thisEpoch, Term: term, HasExpect: true, Expect: expect, Raise: term,
		})
	}
}

func withKey(key string) func(*protocol.Publish) {
	return func(p *protocol.Publish) { p.Key = []byte(key) }
}

func withPayload(s string) func(*protocol.Publish) {
	return func(p *protocol.Publish) { p.Payload = []byte(s) }
}

func resent(epoch protocol.EpochID, head protocol.Seq) func(*protocol.Publish) {
	return func(p *protocol.Publish) { p.Flags, p.Epoch, p.Head = p.Flags|protocol.FlagResend, epoch, head }
}

func alsoJoin(p *protocol.Publish) { p.Flags |= protocol.FlagJoin }

func direct(to protocol.NodeID) func(*protocol.Publish) {
	return func(p *protocol.Publish) { p.Topic, p.To = "", to }
}

func TestAcceptedMessageIsRecordedWhole(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	d.accepted(1, "config:a", raising("config:a", 1, 1))
	p := &protocol.Publish{
		N: 9, Key: []byte("key"), Topic: "election:g", Payload: []byte("hello"), Slot: []byte("beat"), Origin: 4,
		Conditions: []protocol.Condition{
			{Topic: "election:g", Epoch: thisEpoch, Term: 5, Raise: 6},
			{Topic: "config:a", Epoch: thisEpoch, Term: 1},
		},
	}
	digest := digestOf(p)
	a := d.publish(2000, 3, p, digest)
	require.Equal(t, answer{Ack: protocol.Ack{N: 9, Seq: 2, Time: 2000}, Record: a.Record}, a)

	want := &Record{
		Message: protocol.Message{
			Seq: 2, Time: 2000, Sender: 3, Origin: 4, Topic: "election:g", Payload: []byte("hello"), Key: []byte("key"),
			Fences: []protocol.Mark{{Topic: "election:g", Term: 5}, {Topic: "config:a", Term: 1}},
		},
		Slot: "beat", Digest: digest, Epoch: thisEpoch,
	}
	want.Seal()
	require.Equal(t, want, a.Record)
	require.Equal(t, &Batch{
		Records: []*Record{a.Record},
		Fences:  []FenceEntry{{"election:g", protocol.Fence{K: 6, S: 2}}},
		Entries: []Entry{{tableSenders, nodeKey(3), joinRow()}}, // its first
	}, d.staged())

	// The caller's memory is the caller's again.
	for _, b := range [][]byte{p.Key, p.Payload, p.Slot} {
		clear(b)
	}
	clear(p.Conditions)
	require.Equal(t, want, a.Record)
}

func TestTimeNeverGoesBack(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.Equal(t, protocol.Time(1000), d.put(1, "a").Ack.Time)
	d.now = 900
	require.Equal(t, protocol.Time(1000), d.put(1, "a").Ack.Time)
	d.store()
	require.Equal(t, protocol.Time(1000), d.put(1, "a").Ack.Time)
	d.now = 1001
	require.Equal(t, protocol.Time(1001), d.put(1, "a").Ack.Time)
	d.store()
	d.restart()
	d.now = 5
	require.Equal(t, protocol.Time(1001), d.put(1, "a").Ack.Time)
}

func TestPublishesOfOneBatchSeeEachOther(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	first := d.put(1, "election:g", withKey("k"), raising("election:g", 5, 5))
	require.Equal(t, protocol.Seq(1), first.Ack.Seq)

	d.refused(protocol.ErrStaleTerm, 2, "election:g", raising("election:g", 5, 5))
	d.refused(protocol.ErrConflict, 2, "election:g", claiming("election:g", 6, 0))
	again := d.put(1, "election:g", withKey("k"), raising("election:g", 5, 5))
	require.Equal(t, answer{Ack: protocol.Ack{N: again.Ack.N, Seq: 1, Time: 1000, Duplicate: true}}, again)
	require.Equal(t, protocol.Seq(2), d.put(2, "election:g", claiming("election:g", 6, 1)).Ack.Seq)
	require.Len(t, d.staged().Records, 2)
}

func TestAbortLeavesNoTrace(t *testing.T) {
	opts := brokerOptions{maxKeys: 50}
	d := newTrial(t, opts)
	work := func(round int) {
		node := protocol.NodeID(round)
		d.now += 10
		for i := range 40 {
			d.put(node, "a")
			d.put(node, "election:g", raising("election:g", uint64(round*100+i+1), uint64(round*100+i+1)))
		}
		d.put(node, "b", fenced("election:g", uint64(round*100+40)), alsoJoin)
		require.Nil(t, d.join(d.now, node, []string{"config:x", "y"}, false))
		require.Nil(t, d.join(d.now, 1, []string{"y"}, true))
		_, fault := d.setFence(1, "other", thisEpoch, uint64(round))
		require.Nil(t, fault)
		d.enroll(d.now, node, make(ed25519.PublicKey, 32), "name", []string{"tag"})
		d.enroll(d.now, 1, make(ed25519.PublicKey, 32), "another name", nil)
		d.leave(d.now, 1)
		d.leave(d.now, node)
		d.clearInbox(1, d.seq)
	}
	work(1)
	d.store()
	for round := 2; round < 5; round++ {
		before := dump(d.broker)
		work(round)
		require.NotEqual(t, before, dump(d.broker))
		d.abort()
		require.Equal(t, before, dump(d.broker))
		require.Nil(t, d.staged())
		d.abort() // of nothing
		require.Equal(t, before, dump(d.broker))

		work(round)
		d.seal()
		between := dump(d.broker)
		work(round + 1)
		d.abort()
		require.Equal(t, between, dump(d.broker))
		work(round + 1)
		d.seal()
		work(round + 2)
		d.fail()
		require.Equal(t, before, dump(d.broker))

		work(round)
		d.store()
		after := dump(d.broker)
		d.restart()
		for i := range after.Nodes {
			after.Nodes[i].Online = 0
		}
		after.Online = 0
		// The log is told of the floor with the next batch.
		loaded := dump(d.broker)
		require.LessOrEqual(t, loaded.Floor, after.Floor)
		require.Equal(t, after.Keys, loaded.Keys[len(loaded.Keys)-len(after.Keys):])
		after.Floor, after.Keys, loaded.Floor, loaded.Keys = 0, nil, 0, nil
		require.Equal(t, after, loaded)
	}
}

func TestNothingStagedIsNoBatch(t *testing.T) {
	d := newTrial(t, brokerOptions{})
	require.Nil(t, d.staged())
	d.refused(protocol.ErrStaleTerm, 1, "a", fenced("a", 1))
	require.Nil(t, d.join(d.now, 1, nil, false))
	require.Nil(t, d.join(d.now, 1, []string{"a"}, true))
	d.clearInbox(1, 10)
	d.leave(d.now, 1)
	require.Nil(t, d.staged())
	d.commit()
	require.Nil(t, d.staged())
}

func TestMalformedPublishesAreRefused(t *testing.T) {
	long := func(n int) []byte { return make([]byte, n) }
	for _, test := range []struct {
		name   string
		code   protocol.Code
		change func(*protocol.Publish)
	}{
		{"no key", protocol.ErrInvalid, func(p *protocol.Publish) { p.Key = nil }},
		{"long key", protocol.ErrInvalid, func(p *protocol.Publish) { p.Key = long(33) }},
		{"long slot", protocol.ErrInvalid, func(p *protocol.Publish) { p.Slot = long(33) }},
		{"large payload", protocol.ErrTooLarge, func(p *protocol.Publish) { p.Payload = long(101) }},
		{"no topic", protocol.ErrInvalidTopic, func(p *protocol.Publish) { p.Topic = "" }},
		{"pattern for a topic", protocol.ErrInvalidTopic, func(p *protocol.Publish) { p.Topic = "a.*" }},
		{"reserved topic", protocol.ErrInvalidTopic, func(p *protocol.Publish) { p.Topic = "$a" }},
		{"topic and recipient", protocol.ErrInvalid, func(p *protocol.Publish) { p.To = 1 }},
		{"direct message with a slot", protocol.ErrInvalid, func(p *protocol.Publish) { p.Topic, p.To, p.Slot = "", 1, []byte("s") }},
		{"flag of a later version", protocol.ErrInvalid, func(p *protocol.Publish) { p.Flags = 1 << 7 }},
		{"three conditions", protocol.ErrInvalid, func(p *protocol.Publish) {
			for _, topic := range []string{"a", "b", "c"} {
				raising(topic, 1, 1)(p)
			}
		}},
		{"two conditions on one topic", protocol.ErrInvalid, func(p *protocol.Publish) {
			raising("a", 1, 1)(p)
			raising("a", 2, 2)(p)
		}},
		{"condition on no topic", protocol.ErrInvalidTopic, raising("", 1, 1)},
		{"condition on a pattern", protocol.ErrInvalidTopic, raising("*", 1, 1)},
		{"term 0", protocol.ErrInvalid, raising("a", 0, 1)},
		{"term too high", protocol.ErrInvalid, fenced("a", protocol.MaxTerm+1)},
		{"raise too high", protocol.ErrInvalid, raising("a", 1, protocol.MaxTerm+1)},
		{"raise below the term", protocol.ErrInvalid, raising("a", 2, 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused := newTrial(t, brokerOptions{maxPayload: 100}).refused(test.code, 1, "a", test.change)
			require.NotContains(t, refused.Detail, test.code.Error(), "the code says it already")
		})
	}
}

func TestUtmostPublishesAreAccepted(t *testing.T) {
	d := newTrial(t, brokerOptions{maxPayload: 100})
	d.accepted(1, "a", withPayload(""))
	d.accepted(1, "a", withPayload(fmt.Sprintf("%100d", 0)))
	d.accepted(1, "a", withKey(fmt.Sprintf("%32d", 0)))
	d.accepted(1, "a", func(p *protocol.Publish) { p.Slot = make([]byte, 32) })
	d.accepted(1, "a", raising("a", protocol.MaxTerm, protocol.MaxTerm))
	d.accepted(1, "", direct(2))
}

// What a publish takes is its record and the record's bytes.
func TestPublishAllocates(t *testing.T) {
	testenv.Allocs(t)
	d := newTrial(t, brokerOptions{maxKeys: 1000})
	p := &protocol.Publish{Key: make([]byte, 24), Topic: "jobs", Payload: make([]byte, 128), Flags: protocol.FlagJoin}
	n := 0
	publish := func() {
		n++
		binary.BigEndian.PutUint64(p.Key[16:], uint64(n)) // as clients count
		if a := d.publish(d.now, 1, p, digestOf(p)); a.Record == nil {
			t.Error(a.Refuse)
		}
		d.staged()
		d.commit()
	}
	for range 10_000 {
		publish()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(5000, publish), 2.1)
}

func TestBrokerDefaults(t *testing.T) {
	require.Equal(t, brokerOptions{
		maxPayload: 1 << 20, maxKeys: 1_000_000, keyAge: 10 * time.Minute,
		maxJoins: 10_000, maxAllJoins: 2_000_000, maxNodes: 100_000, maxFences: 1_000_000, nodeFences: 10_000,
		maxTokens: 10_000, maxStandings: 200_000,
	}, brokerOptions{}.withDefaults())
}
