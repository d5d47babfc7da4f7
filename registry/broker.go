package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// brokerOptions bound what a broker keeps. Zero values mean the defaults.
type brokerOptions struct {
	maxPayload  int           // bytes of one payload; 1 MiB
	maxKeys     int           // idempotency keys remembered; 1,000,000
	keyAge      time.Duration // and for how long; 10 minutes
	maxJoins    int           // topics one node may join; 10,000
	maxAllJoins int           // topics that all nodes may join, each counted; 2,000,000
	maxNodes    int           // nodes in the table; 100,000
	maxFences   int           // topics with a fence; 1,000,000
	nodeFences  int           // those of them that one node has made; 10,000

	maxTokens    int // join tokens; 10,000
	maxStandings int // keys that something was said about; 200,000

	// spared fences are not for nodes that nobody has vouched for, in a registry
	// that lets in anybody; none by default.
	spared int
	listed map[protocol.KeyHash]struct{} // keys that the configuration names

	sparedNodes int           // as spared, of maxNodes
	sparedJoins int           // and of maxAllJoins
	presence    protocol.Time // how long after it was seen a node may be at another registry
	log         SenderLog     // nil when the log is none
}

func (o brokerOptions) withDefaults() brokerOptions {
	or := func(n *int, standard int) {
		if *n == 0 {
			*n = standard
		}
	}
	or(&o.maxPayload, protocol.DefaultPayload)
	or(&o.maxKeys, 1_000_000)
	or(&o.maxJoins, 10_000)
	or(&o.maxAllJoins, 2_000_000)
	or(&o.maxNodes, 100_000)
	or(&o.maxFences, 1_000_000)
	or(&o.nodeFences, 10_000)
	or(&o.maxTokens, 10_000)
	or(&o.maxStandings, 200_000)
	if o.keyAge == 0 {
		o.keyAge = 10 * time.Minute
	}
	return o
}

// broker decides what enters the log and keeps what is decided by: the seq, the
// fences, the idempotency keys, the nodes with their inboxes, and who may be one.
//
// It is a machine without I/O. A change takes effect on the next call and is
// staged, and abort takes back what is. Once the log has taken the staged batch,
// seal begins another one; once the oldest sealed batch is in the log, settle
// makes it last; and when it will not be, fail takes back all that is not settled.
// What a call answered holds only once all before it is settled: what is taken
// back makes every answer since then void, also refusals and duplicates, and the
// question may be put again.
//
// It is not safe for concurrent use.
type broker struct {
	epoch protocol.Epoch
	opts  brokerOptions

	seq  protocol.Seq  // of the newest message, staged or not
	time protocol.Time // never goes back
	keys keyTable
	fenceTable
	nodeTable
	inboxes
	instances
	standings
	tokenTable

	step   *step   // staged
	sealed []*step // oldest first
	spare  []*step
	before moment // as of the last settle
}

// moment is where the log ends at one time.
type moment struct {
	seq  protocol.Seq
	time protocol.Time
}

// step is what enters the log together.
type step struct {
	Batch
	end  moment                    // once it is sealed
	undo []func()                  // takes it back, last first
	were map[string]protocol.Fence // the fences that it moves, before it
}

// answer is what became of a publish.
type answer struct {
	Ack    protocol.Ack
	Refuse *protocol.Refuse // nil = accepted or duplicate
	Record *Record          // what will be in the log; nil for duplicates and refusals
}

func newBroker(epoch protocol.Epoch, opts brokerOptions) *broker {
	return &broker{
		epoch:      epoch,
		opts:       opts.withDefaults(),
		keys:       newKeyTable(),
		fenceTable: newFenceTable(),
		nodeTable:  newNodeTable(),
		inboxes:    newInboxes(),
		instances:  make(instances),
		standings:  newStandings(),
		tokenTable: newTokenTable(),
		step:       newStep(),
	}
}

func newStep() *step { return &step{were: make(map[string]protocol.Fence)} }

// load takes over the state of a log. It is called once, before anything else.
func (b *broker) load(l Log) error {
	b.seq, b.time = l.Head()
	b.before = moment{b.seq, b.time}
	return l.Load(State{
		Fence: func(e FenceEntry) error {
			b.fences[e.Topic] = e.Fence
			return nil
		},
		Key: func(e KeyEntry) error {
			b.keys.add(keyRow{keyOf(e.Sender, e.Key), e.Digest, e.Seq, e.Time})
			return nil
		},
		Floor: func(floor protocol.Seq) error {
			b.keys.floor = floor
			return nil
		},
		Entry: b.loadEntry,
	})
}

// digestOf tells the content of a publish from another's: topic or recipient,
// and payload.
func digestOf(p *protocol.Publish) [16]byte {
	h := sha256.New()
	var head [8]byte
	binary.BigEndian.PutUint32(head[:4], uint32(p.To))
	binary.BigEndian.PutUint32(head[4:], uint32(len(p.Topic)))
	h.Write(head[:])
	h.Write([]byte(p.Topic))
	h.Write(p.Payload)
	var sum [sha256.Size]byte
	return [16]byte(h.Sum(sum[:0]))
}

// publish decides one publish and stages it. A message that is in the log
// already is a duplicate before anything else is looked at.
//
// What it keeps of p it copies, but for the topics, which are strings.
func (b *broker) publish(now protocol.Time, sender protocol.NodeID, p *protocol.Publish, digest [16]byte) answer {
	if len(p.Key) == 0 || len(p.Key) > protocol.MaxKey {
		return refuse(p, protocol.Errorf(protocol.ErrInvalid, "idempotency key of %d bytes, not 1 to %d", len(p.Key), protocol.MaxKey))
	}
	key := keyOf(sender, p.Key)
	if a, ok := b.recall(now, sender, p, key, digest); ok {
		return a
	}
	if fault := b.publishFault(sender, p); fault != nil {
		return refuse(p, fault)
	}
	if refused := b.testConditions(p); refused != nil {
		return answer{Refuse: refused}
	}
	if p.Flags&protocol.FlagJoin != 0 && p.Topic != "" {
		if fault := b.join(now, sender, []string{p.Topic}, false); fault != nil {
			return refuse(p, fault)
		}
	}
	return b.accept(now, sender, p, key, digest)
}

// refuseUnlessKnown is publish for what must not enter the log. A refusal says
// that the message is not in it, so what is there is a duplicate all the same.
func (b *broker) refuseUnlessKnown(now protocol.Time, sender protocol.NodeID, p *protocol.Publish, digest [16]byte, fault *protocol.Error) answer {
	if len(p.Key) > 0 && len(p.Key) <= protocol.MaxKey {
		if a, ok := b.recall(now, sender, p, keyOf(sender, p.Key), digest); ok {
			return a
		}
	}
	return refuse(p, fault)
}

// recall answers a publish that is in the log already, or of which that cannot
// be told.
func (b *broker) recall(now protocol.Time, sender protocol.NodeID, p *protocol.Publish, key keyID, digest [16]byte) (a answer, ok bool) {
	if first, ok := b.keys.find(key); ok {
		return b.known(now, sender, p, first, digest), true
	}
	switch {
	case p.Flags&protocol.FlagResend == 0:
		return answer{}, false
	case p.Epoch != b.epoch.ID:
		return refuse(p, protocol.Errorf(protocol.ErrUnknownOutcome, "the log has a new epoch since the first send")), true
	case p.Head < b.keys.floor:
		return refuse(p, protocol.Errorf(protocol.ErrUnknownOutcome, "the key is older than what the registry remembers")), true
	}
	return answer{}, false
}

// known answers a publish whose key is in the table.
func (b *broker) known(now protocol.Time, sender protocol.NodeID, p *protocol.Publish, first keyRow, digest [16]byte) answer {
	if first.digest != digest {
		return refuse(p, protocol.Errorf(protocol.ErrKeyReused, "it belongs to seq %d", first.seq))
	}
	if p.Flags&protocol.FlagJoin != 0 && p.Topic != "" {
		// A full inbox is no reason to deny that the message is in the log.
		_ = b.join(now, sender, []string{p.Topic}, false)
	}
	return answer{Ack: protocol.Ack{N: p.N, Seq: first.seq, Time: first.at, Duplicate: true}}
}

// publishFault is why a publish cannot enter the log as it is.
func (b *broker) publishFault(sender protocol.NodeID, p *protocol.Publish) *protocol.Error {
	if err := p.Check(protocol.Limits{Payload: uint64(b.opts.maxPayload)}); err != nil {
		return refusal(err, protocol.ErrInvalid)
	}
	fresh := 0
	for i := range p.Conditions {
		if c := &p.Conditions[i]; c.Raise != 0 && !b.hasFence(c.Topic) {
			fresh++
		}
	}
	return b.fencesFault(sender, fresh)
}

// accept stages the message and what comes with it.
func (b *broker) accept(now protocol.Time, sender protocol.NodeID, p *protocol.Publish, key keyID, digest [16]byte) answer {
	b.time = max(b.time, now)
	b.seq++
	r := &Record{
		Message: protocol.Message{
			Seq: b.seq, Time: b.time, Sender: sender, Origin: p.Origin, To: p.To,
			Topic: p.Topic, Payload: p.Payload, Key: p.Key, Fences: marks(p.Conditions),
		},
		Slot:   string(p.Slot),
		Digest: digest,
		Epoch:  b.epoch.ID,
	}
	r.Seal() // copies payload and key
	b.passConditions(sender, p, b.seq)
	b.speaks(sender)
	b.keys.add(keyRow{key, digest, b.seq, b.time})
	b.step.Records = append(b.step.Records, r)
	return answer{Ack: protocol.Ack{N: p.N, Seq: r.Seq, Time: r.Time}, Record: r}
}

func refuse(p *protocol.Publish, err *protocol.Error) answer {
	return answer{Refuse: refuseWith(p.N, err)}
}

func refuseWith(n uint64, e *protocol.Error) *protocol.Refuse {
	return &protocol.Refuse{
		N: n, Code: e.Code, RetryAfter: e.RetryAfter, Detail: e.Detail,
		Topic: e.Topic, Epoch: e.Epoch, Fence: e.Fence,
	}
}

// staged is what must be appended; nil when there is nothing. It is valid until it
// is settled or taken back.
func (b *broker) staged() *Batch {
	batch := &b.step.Batch
	if len(batch.Records) == 0 && len(batch.Fences) == 0 && len(batch.Entries) == 0 {
		return nil
	}
	batch.KeyFloor = b.keys.floor
	return batch
}

// commit is called once the staged batch is in the log, and nothing is sealed.
func (b *broker) commit() {
	b.seal()
	b.settle()
}

// seal lets what is staged wait for the log.
func (b *broker) seal() {
	b.step.end = moment{b.seq, b.time}
	b.sealed = append(b.sealed, b.step)
	b.step = b.nextStep()
}

func (b *broker) nextStep() *step {
	last := len(b.spare) - 1
	if last < 0 {
		return newStep()
	}
	s := b.spare[last]
	b.spare = b.spare[:last]
	return s
}

// settle is called once the oldest sealed batch is in the log.
func (b *broker) settle() {
	s := b.sealed[0]
	b.sealed = slices.Delete(b.sealed, 0, 1)
	b.settled(s.end, len(s.Records))
	b.reuse(s)
}

// settled makes last what holds at a moment, with so many messages more than
// before.
func (b *broker) settled(end moment, fresh int) {
	b.before = end
	// Forgotten in portions, so that a pause of ten minutes does not end in a
	// long one here. The log is told with the next batch: until then it remembers
	// more than is asked for.
	cutoff := end.time - min(end.time, protocol.Time(b.opts.keyAge))
	b.keys.forget(b.opts.maxKeys, end.seq, cutoff, 4*fresh+64)
}

// abort takes back what is staged.
func (b *broker) abort() {
	b.takeBack(b.step)
	b.reuse(b.step)
	b.step = b.nextStep()
}

// fail takes back all that is not settled.
func (b *broker) fail() {
	b.abort()
	for i := len(b.sealed) - 1; i >= 0; i-- {
		s := b.sealed[i]
		b.sealed = b.sealed[:i]
		b.takeBack(s)
		b.reuse(s)
	}
}

// takeBack undoes the newest step.
func (b *broker) takeBack(s *step) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	b.keys.drop(len(s.Records))
	end := b.before
	if n := len(b.sealed); n > 0 {
		end = b.sealed[n-1].end
	}
	b.seq, b.time = end.seq, end.time
}

// reuse keeps the memory of a step for a later one.
func (b *broker) reuse(s *step) {
	clear(s.Records)
	clear(s.Fences)
	clear(s.Entries)
	clear(s.undo)
	clear(s.were)
	s.Batch = Batch{
		Records: s.Records[:0], Fences: s.Fences[:0],
		Entries: s.Entries[:0], Claims: s.Claims[:0],
	}
	s.undo = s.undo[:0]
	b.spare = append(b.spare, s)
}

// stage adds a row of a table to the batch.
func (b *broker) stage(table, key string, value []byte, undo func()) {
	b.step.Entries = append(b.step.Entries, Entry{table, key, value})
	b.step.undo = append(b.step.undo, undo)
}

// joining reports whether a join or a leave is on its way to the log.
func (b *broker) joining() bool {
	return b.step.joins() || slices.ContainsFunc(b.sealed, (*step).joins)
}

func (s *step) joins() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Table == tableJoins })
}
