package fakeregistry

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Raw is a message that Inject puts into the log.
type Raw struct {
	// From is the sender, by name: NodeID(From). Sender, when not 0, takes its
	// place.
	From   string
	Sender protocol.NodeID

	Topic   string // anything, also what a registry refuses
	To      protocol.NodeID
	Payload []byte
	Slot    string
	Origin  protocol.NodeID

	// Conditions are checked and move fences, as those of a publish. A condition
	// without an epoch is for the log's present one.
	Conditions []protocol.Condition

	// Fences, when not nil, are what readers see, whatever was checked.
	Fences []protocol.Mark
}

// injector is who publishes for Inject. No fault of the registry concerns it and
// no inspection shows it. It is made when first used: this package is linked into
// a command whose start it would slow down.
var injector = sync.OnceValue(func() protocol.NodeID { return NodeID(injectorNode) })

const injectorNode = "\x00injector"

// injections are what is put in the place of the injector's publishes, by key.
type injections struct {
	mu    sync.Mutex
	count uint64
	by    map[string]*Raw
}

func (x *injections) add(m *Raw) (key []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count++
	key = binary.BigEndian.AppendUint64(nil, x.count)
	if x.by == nil {
		x.by = make(map[string]*Raw)
	}
	x.by[string(key)] = m
	return key
}

func (x *injections) drop(key []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.by, string(key))
}

func (x *injections) put(records []*registry.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range records {
		if m := x.by[string(r.Key)]; m != nil && r.Sender == injector() {
			m.replace(r)
		}
	}
}

func (m *Raw) replace(r *registry.Record) {
	r.Sender, r.Topic, r.To, r.Origin = m.sender(), m.Topic, m.To, m.Origin
	if m.Fences != nil {
		r.Message.Fences = m.Fences
	}
	r.Seal()
}

func (m *Raw) sender() protocol.NodeID {
	if m.Sender != 0 {
		return m.Sender
	}
	return NodeID(m.From)
}

// Inject puts messages into the log, in this order, past all checks of names and
// rights, and returns where they are: to have a history before a test begins, to
// speak as a node that is dead, to send what no registry would accept. It stops
// at the first that is refused, by a condition or because the log is full.
//
// The registry must be running, and its node not isolated.
func (r *Registry) Inject(ctx context.Context, messages ...Raw) ([]protocol.Seq, error) {
	seqs, err := r.inject(ctx, messages)
	if err != nil {
		return seqs, fmt.Errorf("inject: %w", err)
	}
	return seqs, nil
}

func (r *Registry) inject(ctx context.Context, messages []Raw) ([]protocol.Seq, error) {
	if !r.Running() {
		return nil, protocol.Errorf(protocol.ErrNotConnected, "the registry is stopped")
	}
	s, err := r.visit(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	welcome, err := s.hello(ctx)
	if err != nil {
		return nil, err
	}
	lane, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := send(ctx, lane, &protocol.OpenLane{}); err != nil {
		return nil, err
	}
	var seqs []protocol.Seq
	for i := range messages {
		if messages[i].Sender == 0 {
			r.people.call(messages[i].From)
		}
		seq, err := r.injectOne(ctx, lane, welcome, &messages[i])
		if err != nil {
			return seqs, fmt.Errorf("message %d: %w", i+1, err)
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

// placeholder is the topic under which the registry decides about a message
// whose own it would refuse.
const placeholder = "fakeregistry:injected"

func (r *Registry) injectOne(ctx context.Context, lane *link.Channel, welcome *protocol.Welcome, m *Raw) (protocol.Seq, error) {
	key := r.injections.add(m)
	defer r.injections.drop(key)
	p := &protocol.Publish{
		N: 1, Key: key, Epoch: welcome.Epoch.ID, Head: welcome.Head,
		Topic: m.Topic, To: m.To, Payload: m.Payload, Slot: []byte(m.Slot),
	}
	if m.To == 0 && protocol.ValidTopic(m.Topic) != nil || m.To != 0 && m.Topic != "" {
		p.Topic, p.To = placeholder, 0
	}
	for _, c := range m.Conditions {
		if c.Epoch == 0 {
			c.Epoch = welcome.Epoch.ID
		}
		p.Conditions = append(p.Conditions, c)
	}
	if err := send(ctx, lane, p); err != nil {
		return 0, err
	}
	switch f, err := next(lane); f := f.(type) {
	case *protocol.Acks:
		return f.List[0].Seq, nil
	case *protocol.Refuse:
		return 0, f.Err()
	case nil:
		return 0, err
	default:
		return 0, protocol.Errorf(protocol.ErrMalformed, "answer of type %d", f.Type())
	}
}
