package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// SenderLog is a Log that can tell whether it retains anything of a node. Of a
// log that is none, a registry takes it that what a node has published is there.
type SenderLog interface {
	Log

	// Retained tells the time of a node's newest retained message, 0 when there is
	// none, and whether direct messages to the node are retained. What cannot be
	// read yet need not count.
	Retained(node protocol.NodeID) (last protocol.Time, waiting bool)
}

const (
	// evictShare of the node table goes at once: finding who goes is a walk
	// through all of it, which strangers must not be able to ask for each time.
	evictShare = 100

	// evictPause is how long nobody is looked for after that would have found
	// hardly anybody.
	evictPause = protocol.Time(30 * time.Second)

	// stayShare of the node table are strangers with nothing here that stay, those
	// seen last: others that publish must not push out all who come and go.
	stayShare = 20

	// strangersKept is how long after its last visit a stranger that joined topics or
	// published keeps its place where the table is full: a client counts a
	// registry for seven idle days.
	strangersKept = protocol.Time(7 * 24 * time.Hour)

	// evictJoins bounds the rows of one batch.
	evictJoins = 20_000

	// presenceEvery is how often a node that is here is noted as seen, and
	// presenceDoubt how long after that it may still be here: of a shared log
	// another registry may have it.
	presenceEvery = time.Hour
	presenceDoubt = protocol.Time(2 * time.Hour)
)

// need is how much a node's place in the table is needed. Nodes with less go
// first.
type need int

const (
	needNone     need = iota // nothing here is of the node
	needJoined               // it has joined topics
	needRetained             // messages of it are retained
	needed                   // it stays
)

// tenant is a node that may have to go.
type tenant struct {
	node protocol.Node
	need need
	seen protocol.Time
}

// evict forgets those strangers that are needed least, and of these the longest
// away. It reports whether there were any.
func (b *broker) evict(now protocol.Time) bool {
	return b.evictOf(now, func(*tenant) bool { return true })
}

// evictReaders is evict of those that have joined topics.
func (b *broker) evictReaders(now protocol.Time) bool {
	return b.evictOf(now, func(t *tenant) bool { return len(b.topicsOf(t.node.ID)) > 0 })
}

func (b *broker) evictOf(now protocol.Time, some func(*tenant) bool) bool {
	if now < b.crowdedUntil {
		return false
	}
	list := b.tenants(now)
	list = slices.DeleteFunc(list, func(t tenant) bool { return !some(&t) })
	most, joins := 1+b.opts.maxNodes/evictShare, 0
	if len(list) < most {
		b.crowdedUntil = now + evictPause
	}
	for _, t := range list[:min(len(list), most)] {
		joins += len(b.topicsOf(t.node.ID))
		if b.removeNode(t.node); joins > evictJoins {
			break
		}
	}
	return len(list) > 0
}

// tenants are those that may go, who goes first first.
func (b *broker) tenants(now protocol.Time) []tenant {
	parties := b.parties()
	var list []tenant
	for _, n := range b.nodesByID {
		if _, party := parties[n.ID]; party {
			continue
		}
		if t := b.tenant(now, n); t.need != needed {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(x, y tenant) int {
		return cmp.Or(cmp.Compare(x.need, y.need), cmp.Compare(x.seen, y.seen), cmp.Compare(x.node.ID, y.node.ID))
	})
	idle, _ := slices.BinarySearchFunc(list, needJoined, func(t tenant, n need) int { return cmp.Compare(t.need, n) })
	stay := min(idle, b.opts.maxNodes/stayShare)
	for stay > 0 && since(now, list[idle-stay].seen) >= strangersKept {
		stay--
	}
	return slices.Delete(list, idle-stay, idle)
}

// parties are the senders and recipients of what is not in the log yet.
func (b *broker) parties() map[protocol.NodeID]struct{} {
	set := make(map[protocol.NodeID]struct{})
	for _, s := range append(b.sealed[:len(b.sealed):len(b.sealed)], b.step) {
		for _, r := range s.Records {
			set[r.Sender] = struct{}{}
			set[r.To] = struct{}{}
		}
	}
	return set
}

// tenant tells how much a node is needed. Only of strangers can it be less than
// needed; messages that wait for a node are for its key alone.
func (b *broker) tenant(now protocol.Time, n protocol.Node) tenant {
	t := tenant{node: n, need: needed, seen: n.LastSeen}
	if n.Online > 0 || since(now, n.LastSeen) < b.opts.presence {
		return t
	}
	key := protocol.KeyHashOf(n.Key)
	_, judged := b.standingOf[key]
	_, listed := b.opts.listed[key]
	last, waiting := b.retained(n.ID)
	if judged || listed || waiting {
		return t
	}
	t.seen = max(t.seen, last)
	switch {
	case last == 0 && len(b.topicsOf(n.ID)) == 0:
		t.need = needNone
	case since(now, t.seen) < strangersKept: // stays
	case last == 0:
		t.need = needJoined
	default:
		t.need = needRetained
	}
	return t
}

func (b *broker) retained(id protocol.NodeID) (last protocol.Time, waiting bool) {
	_, spoke := b.spoken[id]
	switch {
	case b.opts.log != nil:
		return b.opts.log.Retained(id)
	case spoke:
		return 1, false
	}
	return 0, false
}

// since is how long ago a time was. Clocks go back.
func since(now, then protocol.Time) protocol.Time { return now - min(now, then) }

// here notes as seen those that have a session, of up to limit nodes behind
// after. next is where to go on, 0 at the end.
func (b *broker) here(now protocol.Time, after protocol.NodeID, limit int) (next protocol.NodeID) {
	at, found := slices.BinarySearch(b.nodeIDs, after)
	if found {
		at++
	}
	rest := b.nodeIDs[at:]
	for _, id := range rest[:min(limit, len(rest))] {
		if n := b.nodesByID[id]; n.Online > 0 && since(now, n.LastSeen) >= protocol.Time(presenceEvery)/2 {
			b.seen(now, n)
		}
		next = id
	}
	if len(rest) <= limit {
		return 0
	}
	return next
}
