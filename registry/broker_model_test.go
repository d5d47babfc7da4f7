package registry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// ledger is the rules for keys and fences as simple as can be: it keeps every
// message for ever and looks through all of them.
type ledger struct {
	maxKeys int
	age     protocol.Time

	list   []ledgerRow
	fences map[string]protocol.Fence
	floor  protocol.Seq
}

type ledgerRow struct {
	sender protocol.NodeID
	key    string
	topic  string
	body   string
	seq    protocol.Seq
	at     protocol.Time
}

func (l *ledger) clone() *ledger {
	c := *l
	c.list, c.fences = slices.Clone(l.list), maps.Clone(l.fences)
	return &c
}

// publish tells what should become of a publish: an ack or a code.
func (l *ledger) publish(now protocol.Time, sender protocol.NodeID, p *protocol.Publish) (protocol.Ack, protocol.Code) {
	for _, m := range l.list {
		if m.seq <= l.floor || m.sender != sender || m.key != string(p.Key) {
			continue
		}
		if m.topic != p.Topic || m.body != string(p.Payload) {
			return protocol.Ack{}, protocol.ErrKeyReused
		}
		return protocol.Ack{N: p.N, Seq: m.seq, Time: m.at, Duplicate: true}, 0
	}
	if p.Flags == protocol.FlagResend && (p.Epoch != thisEpoch || p.Head < l.floor) {
		return protocol.Ack{}, protocol.ErrUnknownOutcome
	}
	for _, c := range p.Conditions {
		if code := l.test(c); code != 0 {
			return protocol.Ack{}, code
		}
	}
	m := ledgerRow{sender: sender, key: string(p.Key), topic: p.Topic, body: string(p.Payload), seq: 1, at: now}
	if n := len(l.list); n > 0 {
		m.seq, m.at = l.list[n-1].seq+1, max(now, l.list[n-1].at)
	}
	l.list = append(l.list, m)
	for _, c := range p.Conditions {
		f := l.fences[c.Topic]
		if c.Raise > f.K {
			f.K = c.Raise
		}
		if c.Topic == p.Topic {
			f.S = m.seq
		}
		l.fences[c.Topic] = f
	}
	return protocol.Ack{N: p.N, Seq: m.seq, Time: m.at}, 0
}

func (l *ledger) test(c protocol.Condition) protocol.Code {
	f := l.fences[c.Topic]
	if c.Epoch != thisEpoch {
		return protocol.ErrWrongEpoch
	}
	if c.Term < f.K {
		return protocol.ErrStaleTerm
	}
	if c.Raise == 0 && c.Term > f.K {
		return protocol.ErrStaleTerm
	}
	if c.Raise > 0 && !c.HasExpect && c.Raise <= f.K {
		return protocol.ErrStaleTerm
	}
	if c.HasExpect && c.Expect != f.S {
		return protocol.ErrConflict
	}
	return 0
}

// settle forgets keys once the first n messages are in the log.
func (l *ledger) settle(n int) {
	if n == 0 {
		return
	}
	last := l.list[n-1]
	for i, m := range l.list[:n] {
		if len(l.list)-i > l.maxKeys || m.at+l.age < last.at {
			l.floor = max(l.floor, m.seq)
		}
	}
}

// ledgers are how the ledger was at each seal, and at the last settle.
type ledgers struct {
	*ledger
	sealed  []*ledger
	settled *ledger
}

func (l *ledgers) settle() {
	l.settled, l.sealed = l.sealed[0], l.sealed[1:]
	l.ledger.settle(len(l.settled.list))
	for _, s := range append(l.sealed, l.settled) {
		s.floor = l.floor // what is forgotten stays so
	}
}

func (l *ledgers) abort() {
	newest := l.settled
	if n := len(l.sealed); n > 0 {
		newest = l.sealed[n-1]
	}
	l.ledger = newest.clone()
}

// Random publishes of few senders with few keys on few topics, so that much of
// it repeats, comes too late or collides; batches are committed, aborted or lost
// with the process at random.
func TestBrokerAgainstLedger(t *testing.T) {
	total := make(map[string]int)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runLedger(t, seed, total) })
	}
	for _, code := range []protocol.Code{
		protocol.ErrKeyReused, protocol.ErrUnknownOutcome, protocol.ErrWrongEpoch, protocol.ErrStaleTerm, protocol.ErrConflict,
	} {
		require.Greater(t, total[code.Name()], 100, "%s was hardly met: %v", code, total)
	}
	require.Greater(t, total["accepted"], 1000)
	require.Greater(t, total["duplicate"], 1000)
	require.Greater(t, total["both conditions"], 100)
	require.Greater(t, total["in flight"], 1000)
}

func runLedger(t *testing.T, seed uint64, total map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	opts := brokerOptions{maxKeys: 20 + rng.IntN(100), keyAge: 500}
	d := newTrial(t, opts)
	l := &ledgers{ledger: &ledger{maxKeys: opts.maxKeys, age: protocol.Time(opts.keyAge), fences: make(map[string]protocol.Fence)}}
	l.settled = l.clone()
	for step := range 1500 {
		switch rng.IntN(20) {
		case 0:
			d.abort()
			l.abort()
		case 1, 2:
			d.seal()
			l.sealed = append(l.sealed, l.clone())
		case 3, 6:
			if len(l.sealed) > 0 {
				d.settle()
				l.settle()
			}
			total["in flight"] += len(l.sealed)
		case 4:
			switch rng.IntN(10) {
			case 0:
				d.restart()
				l.settled.floor = d.floor // the log may remember more
				l.sealed = nil
				l.abort()
			case 1:
				d.fail()
				l.sealed = nil
				l.abort()
			}
		case 5:
			topic, k := ledgerTopics[rng.IntN(2)], uint64(rng.IntN(30))
			_, fault := d.setFence(1, topic, thisEpoch, k)
			require.Nil(t, fault)
			f := l.fences[topic]
			l.fences[topic] = protocol.Fence{K: k, S: f.S}
		default:
			d.now = protocol.Time(int(d.now) + rng.IntN(30) - 5)
			p, sender := randomPublish(rng, l.ledger, uint64(step)), protocol.NodeID(1+rng.IntN(2))
			ack, code := l.publish(d.now, sender, p)
			a := d.publish(d.now, sender, p, digestOf(p))
			what := fmt.Sprintf("step %d: %+v", step, p)
			if code != 0 {
				require.NotNil(t, a.Refuse, what)
				require.Equal(t, code, a.Refuse.Code, what)
				total[code.Name()]++
				break
			}
			require.Nil(t, a.Refuse, what)
			require.Equal(t, ack, a.Ack, what)
			require.Equal(t, ack.Duplicate, a.Record == nil, what)
			total[map[bool]string{true: "duplicate", false: "accepted"}[ack.Duplicate]]++
			if !ack.Duplicate && len(p.Conditions) == 2 {
				total["both conditions"]++
			}
		}
		for _, topic := range ledgerTopics {
			require.Equal(t, l.fences[topic], d.broker.fences[topic], "step %d: fence of %s", step, topic)
			require.Equal(t, l.settled.fences[topic], d.fence(topic), "step %d: settled fence of %s", step, topic)
		}
		require.Equal(t, l.floor, d.keys.floor, "step %d: floor", step)
	}
}

var ledgerTopics = []string{"g", "c", "plain"}

func randomPublish(rng *rand.Rand, l *ledger, n uint64) *protocol.Publish {
	p := &protocol.Publish{
		N: n, Key: fmt.Append(nil, rng.IntN(150)), Epoch: thisEpoch,
		Topic: ledgerTopics[rng.IntN(3)], Payload: fmt.Append(nil, rng.IntN(2)),
	}
	if rng.IntN(3) == 0 && len(l.list) > 0 { // what was sent before, or nearly
		m := l.list[max(0, len(l.list)-1-rng.IntN(40))]
		p.Key, p.Topic, p.Payload = []byte(m.key), m.topic, []byte(m.body)
	}
	if rng.IntN(3) == 0 {
		p.Flags = protocol.FlagResend
		p.Head = l.floor + protocol.Seq(rng.IntN(9)) - min(4, l.floor)
		p.Epoch += protocol.EpochID(rng.IntN(8) / 7)
	}
	first := rng.IntN(2)
	for i := range rng.IntN(3) {
		topic := ledgerTopics[(first+i)%2]
		f := l.fences[topic]
		c := protocol.Condition{Topic: topic, Epoch: thisEpoch + protocol.EpochID(rng.IntN(12)/11)}
		c.Term = max(1, f.K+uint64(rng.IntN(4))-min(1, f.K))
		if rng.IntN(2) == 0 {
			c.Raise = c.Term + uint64(rng.IntN(2))
		}
		if rng.IntN(2) == 0 {
			c.HasExpect, c.Expect = true, f.S+protocol.Seq(rng.IntN(5)/4)
		}
		p.Conditions = append(p.Conditions, c)
	}
	return p
}
