package election_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/protocol"
)

// registerTopic is what only leaders write: its last message is the register.
const registerTopic = "register:system"

// A history is what was done to the register of each epoch and to the fence that
// guards it, for porcupine: it must be that of one register and one fence, on
// which everything happens at one instant between its call and its return.
type history struct {
	ops map[protocol.EpochID][]porcupine.Operation
}

type outcome int

const (
	accepted outcome = iota
	stale            // refused: a higher term was claimed
	refused          // for another reason, so the fence says nothing
	unknown
)

// op raises the fence, writes or reads.
type op struct {
	kind  string
	term  uint64
	value string // written, or read; empty: nothing was there
}

// registerState is the fence and the register.
type registerState struct {
	term  uint64
	value string
}

func (h *history) add(epoch protocol.EpochID, client int, o op, out outcome, call, end time.Time) {
	if h.ops == nil {
		h.ops = map[protocol.EpochID][]porcupine.Operation{}
	}
	h.ops[epoch] = append(h.ops[epoch], porcupine.Operation{
		ClientId: client, Input: o, Output: out, Call: call.UnixNano(), Return: end.UnixNano(),
	})
}

// raise is stored now: a claim, or a resign, which raises the fence past its term.
func (h *history) raise(epoch protocol.EpochID, to uint64) {
	h.add(epoch, 0, op{kind: "raise", term: to}, accepted, time.Now(), time.Now())
}

// read is what the log has now.
func (h *history) read(epoch protocol.EpochID, value string) {
	h.add(epoch, 0, op{kind: "read", value: value}, accepted, time.Now(), time.Now())
}

// forever is when an operation returns whose outcome nobody knows.
var forever = time.Unix(1<<33, 0)

// wrote is a write that was called at a time and has its answer now.
func (h *history) wrote(client int, t election.Token, value string, out outcome, call time.Time) {
	if out == refused {
		return
	}
	end := time.Now()
	if out == unknown {
		end = forever
	}
	h.add(t.Epoch, client, op{"write", t.Term, value}, out, call, end)
}

// outcomeOf sorts the answer to a fenced write.
func outcomeOf(err error) outcome {
	var e *protocol.Error
	switch {
	case err == nil:
		return accepted
	case errors.As(err, &e) && e.Code == protocol.ErrStaleTerm && e.Fence.K != 0:
		return stale // by the registry
	case errors.Is(err, protocol.ErrStaleTerm), errors.Is(err, protocol.ErrWrongEpoch),
		errors.Is(err, protocol.ErrRateLimited), errors.Is(err, protocol.ErrStorageFull):
		return refused
	}
	return unknown
}

// registerModel is one register behind one fence. A write of unknown outcome
// takes place or does not.
var registerModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{registerState{}} },
	Step: func(state, input, output any) []any {
		s, o := state.(registerState), input.(op)
		written := registerState{s.term, o.value}
		switch {
		case o.kind == "raise" && o.term >= s.term:
			return []any{registerState{o.term, s.value}}
		case o.kind == "read" && o.value == s.value:
			return []any{s}
		case o.kind != "write":
			return nil
		case output == stale && s.term <= o.term:
			return nil
		case output == stale:
			return []any{s}
		case output == unknown && o.term >= s.term:
			return []any{written, s}
		case output == unknown:
			return []any{s}
		case o.term < s.term:
			return nil
		}
		return []any{written}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
}

// check looks for an order in which each epoch's operations make sense.
func (h *history) check() error {
	for epoch, ops := range h.ops {
		switch porcupine.CheckOperationsTimeout(registerModel.ToModel(), ops, time.Minute) {
		case porcupine.Ok:
		case porcupine.Illegal:
			return fmt.Errorf("the register of epoch %v is not linearizable: %d operations", epoch, len(ops))
		case porcupine.Unknown:
			return fmt.Errorf("the register of epoch %v has too many operations to tell: %d", epoch, len(ops))
		}
	}
	return nil
}

// The model refuses what it should.
func TestTheRegisterModelFindsStaleWrites(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, test := range []struct {
		name string
		late outcome // of a write of term 1 that is called after the claim of 2
		read string
		ok   bool
	}{
		{"refused, and not there", stale, "b", true},
		{"accepted", accepted, "a", false},
		{"accepted, and not seen", accepted, "b", false},
		{"refused, and there all the same", stale, "a", false},
		{"unknown, and not there", unknown, "b", true},
		{"unknown, and there", unknown, "a", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h history
			h.add(1, 0, op{kind: "raise", term: 1}, accepted, at(1), at(1))
			h.add(1, 0, op{kind: "raise", term: 2}, accepted, at(2), at(2))
			h.add(1, 2, op{"write", 2, "b"}, accepted, at(3), at(4))
			end := at(6)
			if test.late == unknown {
				end = forever
			}
			h.add(1, 1, op{"write", 1, "a"}, test.late, at(5), end)
			h.add(1, 0, op{kind: "read", value: test.read}, accepted, at(7), at(7))
			require.Equal(t, test.ok, h.check() == nil)
		})
	}
}
