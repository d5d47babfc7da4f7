package fakeregistry

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// Op is something that a client asks a registry to do.
type Op string

// The operations that Fail can make fail.
const (
	OpConnect   Op = "connect"
	OpPublish   Op = "publish"
	OpSubscribe Op = "subscribe"
	OpFence     Op = "fence"
	OpSetFence  Op = "set_fence"
	OpJoin      Op = "join"
	OpJoined    Op = "joined"
	OpInbox     Op = "inbox"
	OpClear     Op = "clear_inbox"
	OpInfo      Op = "info"
	OpNodes     Op = "nodes"
	OpTopics    Op = "topics"
)

// Ops lists all operations.
func Ops() []Op {
	return []Op{OpConnect, OpPublish, OpSubscribe, OpFence, OpSetFence, OpJoin, OpJoined, OpInbox, OpClear, OpInfo, OpNodes, OpTopics}
}

// Failure says which operations are to be refused, and how.
type Failure struct {
	Op   Op
	Node string // empty: any

	// Topic is a pattern for the topic of a publish, or the pattern of a
	// subscription itself; empty: any.
	Topic string

	Skip  int // so many pass before
	Times int // so many are refused; 0 is one, below 0 all until stop is called

	Code       protocol.Code // 0 is ErrInternal
	RetryAfter time.Duration
}

// failures are the Failures that are not used up.
type failures struct {
	mu   sync.Mutex
	list []*Failure
}

func (f *failures) add(x Failure) (stop func()) {
	if x.Times == 0 {
		x.Times = 1
	}
	if x.Code == 0 {
		x.Code = protocol.ErrInternal
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &x)
	return func() { f.remove(&x) }
}

func (f *failures) remove(x *Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, func(y *Failure) bool { return x == y })
}

// hit asks whether an operation fails. All failures that match count it; the
// first that is due decides.
func (f *failures) hit(op Op, who names, topic string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, x := range slices.Clone(f.list) {
		if !x.matches(op, who, topic) {
			continue
		}
		if x.Skip > 0 {
			x.Skip--
			continue
		}
		if err != nil {
			continue
		}
		err = &protocol.Error{Code: x.Code, Detail: "injected", RetryAfter: x.RetryAfter}
		if x.Times--; x.Times == 0 {
			f.list = slices.DeleteFunc(f.list, func(y *Failure) bool { return x == y })
		}
	}
	return err
}

func (f *failures) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

func (x *Failure) matches(op Op, who names, topic string) bool {
	return x.Op == op && who.has(x.Node) && (x.Topic == "" || x.Topic == topic || protocol.Match(x.Topic, topic))
}

func (x *Failure) String() string {
	return fmt.Sprintf("%s of %s on %q: %d times %s after %d", x.Op, x.Node, x.Topic, x.Times, x.Code.Name(), x.Skip)
}

// names are all that a session may be called by: the node in the simulated
// network, the name it told, its node id.
type names []string

// has reports whether a fault for node concerns it; "" is any.
func (n names) has(node string) bool { return node == "" || slices.Contains(n, node) }

// first is what the event log calls it.
func (n names) first() string {
	if len(n) == 0 {
		return ""
	}
	return n[0]
}
