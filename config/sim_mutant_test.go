package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// simMutants are programs with one rule broken: in the machine, or in what is
// around it. Each may name the seed by which it was found last: others come after it.
var simMutants = []struct {
	mutant
	flaw flaw
	seed uint64
}{
	{mutant: mutant{name: "an empty log is taken for the truth", twist: func(_ state, x *turn, e event) {
		if _, ok := e.(epochBegan); ok {
			x.highest = 0
		}
	}}, seed: 53},
	{mutant: mutant{name: "a lost log makes what is applied old", bend: func(s *state, e event) event {
		if _, ok := e.(epochBegan); ok {
			s.applied, s.highest = ref{}, 0
		}
		return e
	}}},
	{mutant: mutant{name: "what was read of the lost log still counts", twist: func(was state, x *turn, e event) {
		if _, ok := e.(epochBegan); ok && was.epoch != 0 {
			x.shelf = was.shelf
		}
	}}, seed: 36},
	{mutant: mutant{name: "the last of two messages with one version counts", bend: func(s *state, e event) event {
		if d, ok := e.(documentRead); ok && d.Void == 0 && d.Doc.Version == s.latest.Version && !d.Looked {
			s.latest = d.Doc
			if s.applied.Version == d.Doc.Version && s.phase == idle {
				s.applied.Version--
			}
		}
		return e
	}}},
	{mutant: mutant{name: "a message need not be stamped", bend: func(s *state, e event) event {
		if d, ok := e.(documentRead); ok && d.Void != 0 {
			d.Void, d.Doc = 0, content(s.latest.Version+1, "forged")
			d.Doc.Seq = d.Seq
			return d
		}
		return e
	}}},
	{mutant: mutant{name: "does not look back", bend: func(_ *state, e event) event {
		if c, ok := e.(caughtUp); ok {
			c.Fence.S = 0
			return c
		}
		return e
	}}},
	{mutant: mutant{name: "looks back only once", bend: func(s *state, e event) event {
		if c, ok := e.(caughtUp); ok && s.looked {
			c.Fence.S = s.read
			return c
		}
		if _, ok := e.(epochBegan); ok && s.looked {
			return nil
		}
		return e
	}}, seed: 13},
	{mutant: mutant{name: "a look that failed is not repeated", twist: func(_ state, x *turn, e event) {
		if l, ok := e.(lookedBack); ok && !l.OK {
			x.lookAt = never
		}
	}}},
	{mutant: mutant{name: "a staged version is for all", twist: func(_ state, x *turn, e event) {
		if d, ok := e.(documentRead); ok && d.Void == 0 && d.Doc.Staged {
			x.open = d.Doc.Version
			x.settle()
		}
	}}},
	{mutant: mutant{name: "a rollout's progress is not heard", bend: func(_ *state, e event) event {
		if _, ok := e.(stageMoved); ok {
			return nil
		}
		return e
	}}},
	{mutant: mutant{name: "a pin holds nothing", bend: func(s *state, e event) event {
		s.pinned = false
		if c, ok := e.(currentFound); ok {
			c.Pinned = false
			return c
		}
		return e
	}}},
	{mutant: mutant{name: "nothing is judged", bend: func(_ *state, e event) event {
		if j, ok := e.(judged); ok {
			j.OK = true
			return j
		}
		return e
	}}},
	{mutant: mutant{name: "a failure is final", twist: func(_ state, x *turn, e event) {
		if d, ok := e.(done); ok && !d.OK && x.phase == waiting {
			x.phase, x.outcome.State = idle, StateRejected
		}
	}}},
	{mutant: mutant{name: "a refused version is in use", twist: func(was state, x *turn, e event) {
		if j, ok := e.(judged); ok && !j.OK && was.phase == judging && j.Doc.is(was.work) {
			x.applied = j.Doc
		}
	}}},
	{mutant: mutant{name: "goes to what the log says, also down", twist: func(_ state, x *turn, e event) {
		if g := x.goal(); x.ready && x.phase == idle && !x.pinned && g.Version != 0 && g.Version < x.applied.Version {
			x.begin(g)
		}
	}}, seed: 5},
	{mutant: mutant{name: "nothing is reported again", twist: func(_ state, x *turn, e event) {
		if _, ok := e.(timerFired); ok {
			x.tellAt = never
		}
	}}},

	{mutant: mutant{name: "a writer needs no fence"}, flaw: flaw{unstamped: true}},
	{mutant: mutant{name: "a writer takes what it is told for read"}, flaw: flaw{retries: true}},
	{mutant: mutant{name: "a writer takes any content for its own"}, flaw: flaw{taken: true}},
	{mutant: mutant{name: "a rollout does not bake"}, flaw: flaw{noBake: true}},
	{mutant: mutant{name: "a rollout goes to all at once"}, flaw: flaw{all: true}},
	{mutant: mutant{name: "progress is written whatever came meanwhile"}, flaw: flaw{unexpecting: true}},
	{mutant: mutant{name: "who waits counts as running"}, flaw: flaw{reported: true}, seed: 13},
	{mutant: mutant{name: "a rollout ends though it was paused meanwhile"}, flaw: flaw{blind: true}},
	{mutant: mutant{name: "a rollout is paused though its end is decided on"}, flaw: flaw{deafened: true}, seed: 6},
	{mutant: mutant{name: "who fails waits"}, flaw: flaw{deaf: true}},
}

// Each rule is needed: without it the simulation finds something wrong.
func TestTheSimulationFindsMutants(t *testing.T) {
	const most = 80
	for _, m := range simMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(most) {
				seed := (m.seed + n) % most
				if found := broken(seed, m.mutant, m.flaw); found != "" {
					t.Logf("seed %d: %s", seed, found)
					return
				}
			}
			require.Fail(t, "it is not found")
		})
	}
}

// broken is what is wrong in a schedule; a machine that does two things at once
// cannot even be simulated.
func broken(seed uint64, m mutant, flaw flaw) (found string) {
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(string)
			if !ok {
				panic(r)
			}
			found = text
		}
	}()
	return simulate(seed, m, flaw, nil).judge.broken
}
