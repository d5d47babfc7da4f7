package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// fenceOp is one thing that was done with a fence.
type fenceOp struct {
	write  bool
	expect protocol.Seq
	raise  uint64
}

type fenceResult struct {
	seq   protocol.Seq // of an accepted write
	code  protocol.Code
	fence protocol.Fence // what was told with a refusal, or read
}

// fenceModel is a fence as one object: what is told has to be true at some moment
// between the question and the answer.
var fenceModel = porcupine.Model{
	Init: func() any { return protocol.Fence{} },
	Step: func(state, in, out any) (bool, any) {
		f, op, got := state.(protocol.Fence), in.(fenceOp), out.(fenceResult)
		if !op.write {
			return got.fence == f, f
		}
		code := protocol.Code(0)
		switch {
		case op.raise < f.K:
			code = protocol.ErrStaleTerm
		case op.expect != f.S:
			code = protocol.ErrConflict
		}
		if code != 0 {
			return got.code == code && got.fence == f, f
		}
		return got.code == 0, protocol.Fence{K: op.raise, S: got.seq}
	},
}

// fenceTopic is the topic of the fence that clients race for.
const fenceTopic = "g"

// FenceRace notes what clients that race for one fence ask and are told.
type FenceRace struct {
	epoch protocol.EpochID
	start time.Time

	mu       sync.Mutex
	history  []porcupine.Operation
	open     map[string]porcupine.Operation // writes without an answer, by payload
	known    protocol.Fence                 // what anybody was told last
	n        int
	accepted int
	refused  int
}

// NewFenceRace begins a race in one epoch of a log.
func NewFenceRace(epoch protocol.EpochID) *FenceRace {
	return &FenceRace{epoch: epoch, start: time.Now(), open: make(map[string]porcupine.Operation)}
}

// Step makes a client read the fence, or publish on a condition that may hold.
// The error is why there was no answer.
func (r *FenceRace) Step(ctx context.Context, p *client.Client, who int, rng *rand.Rand) error {
	r.mu.Lock()
	op := fenceOp{write: rng.IntN(4) > 0, expect: r.known.S, raise: max(1, r.known.K+uint64(rng.IntN(2)))}
	r.n++
	payload := fmt.Sprint(who, "/", r.n)
	r.mu.Unlock()
	o := porcupine.Operation{ClientId: who, Input: op, Call: int64(time.Since(r.start))}
	got, err := doFence(ctx, p, r.epoch, op, payload)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if op.write {
			r.open[payload] = o
		}
		return err
	}
	o.Output, o.Return = got, int64(time.Since(r.start))
	r.history = append(r.history, o)
	switch {
	case op.write && got.code == 0:
		r.accepted++
		r.known = protocol.Fence{K: op.raise, S: got.seq}
	default:
		if op.write {
			r.refused++
		}
		r.known = got.fence
	}
	return nil
}

// Check requires that what was told is the history of one fence. in has what is
// in the log, by payload: of writes without an answer, those that are there were
// done at some moment, and the others never.
func (r *FenceRace) Check(t *testing.T, in map[string]protocol.Seq) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	end := int64(time.Since(r.start))
	who := 1000 // an operation without an end is of a client of its own
	for payload, o := range r.open {
		if seq, ok := in[payload]; ok {
			who++
			o.ClientId, o.Output, o.Return = who, fenceResult{seq: seq}, end
			r.history = append(r.history, o)
		}
	}
	t.Logf("%d accepted, %d refused, %d without an answer", r.accepted, r.refused, len(r.open))
	require.NotZero(t, r.accepted)
	require.NotZero(t, r.refused)
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(fenceModel, r.history, 60*time.Second))
}

func doFence(ctx context.Context, p *client.Client, epoch protocol.EpochID, op fenceOp, payload string) (fenceResult, error) {
	if !op.write {
		f, err := p.Fence(ctx, fenceTopic)
		return fenceResult{fence: f.Fence}, err
	}
	// A raise must raise; the same term again is a write without one.
	cond := protocol.Condition{Topic: fenceTopic, Epoch: epoch, Term: op.raise, HasExpect: true, Expect: op.expect, Raise: op.raise}
	ack, err := p.Publish(ctx, client.Publication{Topic: fenceTopic, Payload: []byte(payload), Conditions: []protocol.Condition{cond}}).Wait(ctx)
	var told *protocol.Error
	switch {
	case err == nil:
		return fenceResult{seq: ack.Seq}, nil
	case errors.As(err, &told) && (told.Code == protocol.ErrStaleTerm || told.Code == protocol.ErrConflict):
		return fenceResult{code: told.Code, fence: told.Fence}, nil
	}
	return fenceResult{}, err
}

// The checker finds a history that one fence cannot have.
func TestFenceModelFindsStaleAnswers(t *testing.T) {
	ops := []porcupine.Operation{
		{ClientId: 0, Input: fenceOp{write: true, raise: 1}, Call: 0, Output: fenceResult{seq: 1}, Return: 10},
		{ClientId: 1, Input: fenceOp{write: true, expect: 1, raise: 1}, Call: 20, Output: fenceResult{code: protocol.ErrConflict}, Return: 30},
	}
	require.False(t, porcupine.CheckOperations(fenceModel, ops))
	ops[1].Call = 5
	require.True(t, porcupine.CheckOperations(fenceModel, ops))
}
