package fakeregistry

import (
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
)

// Op is something that a client asks a registry to do.
type Op string

// The operations that can fail.
const (
	OpConnect   Op = "connect"
	OpPublish   Op = "publish"
	OpSubscribe Op = "subscribe"
	OpFence     Op = "fence"
	OpSetFence  Op = "set_fence"
	OpJoin      Op = "join" // or leave
	OpJoined    Op = "joined"
	OpInbox     Op = "inbox"
	OpClear     Op = "clear_inbox"
	OpInfo      Op = "info"
	OpNodes     Op = "nodes"
	OpTopics    Op = "topics"
	OpOperate   Op = "operate" // what operators ask, besides set_fence
)

// Ops lists all operations.
func Ops() []Op {
	return []Op{OpConnect, OpPublish, OpSubscribe, OpFence, OpSetFence, OpJoin, OpJoined, OpInbox, OpClear, OpInfo, OpNodes, OpTopics, OpOperate}
}

var opOf = map[registry.Op]Op{
	registry.OpConnect:    OpConnect,
	registry.OpPublish:    OpPublish,
	registry.OpSubscribe:  OpSubscribe,
	registry.OpGetFence:   OpFence,
	registry.OpSetFence:   OpSetFence,
	registry.OpJoin:       OpJoin,
	registry.OpGetJoined:  OpJoined,
	registry.OpGetInbox:   OpInbox,
	registry.OpClearInbox: OpClear,
	registry.OpGetInfo:    OpInfo,
	registry.OpGetNodes:   OpNodes,
	registry.OpGetTopics:  OpTopics,
	registry.OpOperate:    OpOperate,
}

// Failure says which operations are to be refused, and how.
type Failure struct {
	Op   Op
	Node string // empty: any

	// Topic is a pattern for the topic of a publish, or the pattern of a
	// subscription itself; empty: any.
	Topic string

	// If, when not nil, is asked about each publish that the rest matches. It may
	// look at it, and call nothing here.
	If func(*protocol.Publish) bool

	Skip  int // so many pass before
	Times int // so many are refused; 0 is one, below 0 all until stop is called

	Code       protocol.Code // 0 is ErrInternal
	RetryAfter time.Duration // told to the client

	// Do, when not nil, is called first, under the rules of Failpoint.Do. With no
	// Code the operation then goes on: Do is the fault, such as Crash.
	Do func()
}

// Fail makes operations fail, until as many have or stop is called. Of several
// failures that match the oldest counts first.
//
//	reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpPublish, Node: "a", Code: protocol.ErrRateLimited})
func (r *Registry) Fail(f Failure) (stop func()) {
	if f.Code == 0 && f.Do == nil {
		f.Code = protocol.ErrInternal
	}
	r.fault("fail", fmt.Sprintf("%s of %q on %q with %s, %d times after %d", f.Op, f.Node, f.Topic, f.Code.Name(), f.Times, f.Skip), f.Node)
	return r.failures.add(f, f.Skip, f.Times)
}

// FailNext makes the next n operations of a kind fail with a code.
func (r *Registry) FailNext(op Op, n int, code protocol.Code) {
	if n > 0 {
		r.Fail(Failure{Op: op, Times: n, Code: code})
	}
}

// RefuseConnects sends the next n clients away who try to connect; below 0, all
// until ClearFaults. Their first frame is answered with an error: a registry that
// is not there at all is one that was stopped.
func (r *Registry) RefuseConnects(n int, code protocol.Code) {
	if n != 0 {
		r.Fail(Failure{Op: OpConnect, Times: n, Code: code})
	}
}

// failure is why an operation is refused, or nil.
func (r *Registry) failure(op registry.Operation) error {
	who := r.people.find(op.Node)
	due := r.failures.due(1, func(f *Failure) bool { return f.matches(op, who) })
	if len(due) == 0 {
		return nil
	}
	if due[0].Do != nil {
		due[0].Do()
	}
	if due[0].Code == 0 {
		return nil
	}
	return &protocol.Error{Code: due[0].Code, Detail: "injected", RetryAfter: due[0].RetryAfter}
}

func (f *Failure) matches(op registry.Operation, who names) bool {
	return f.Op == opOf[op.Op] && who.has(f.Node) &&
		(f.Topic == "" || f.Topic == op.Topic || protocol.Match(f.Topic, op.Topic)) &&
		(f.If == nil || op.Publish != nil && f.If(op.Publish))
}
