package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// simJudge is told what the registry stores and what agents do, and says what
// must not be.
type simJudge struct {
	f      *simSwarm
	broken string // the first thing

	first   map[simVersion]Digest // the content that counts
	counted map[simContent]bool   // in any epoch
	stored1 map[simContent]protocol.EpochID
	expect  map[simContent]uint64 // the version that its writer has seen
	staged  map[simContent]bool   // and not for all yet
	tops    map[protocol.EpochID]uint64
	reach   map[uint64][]Progress
	pending map[simVersion]*Progress // the newest progress of a version

	measured map[string]moment // when a driver looked

	reached map[string]int
}

type simVersion struct {
	epoch   protocol.EpochID
	version uint64
}

type simContent struct {
	version uint64
	digest  Digest
}

func newSimJudge(f *simSwarm) *simJudge {
	return &simJudge{
		f: f, first: map[simVersion]Digest{}, counted: map[simContent]bool{}, stored1: map[simContent]protocol.EpochID{},
		expect: map[simContent]uint64{}, staged: map[simContent]bool{}, tops: map[protocol.EpochID]uint64{},
		reach: map[uint64][]Progress{}, pending: map[simVersion]*Progress{}, reached: map[string]int{}, measured: map[string]moment{},
	}
}

func (j *simJudge) fail(format string, args ...any) {
	j.f.note("BROKEN: "+format, args...)
	if j.broken == "" {
		j.broken = fmt.Sprintf(format, args...)
	}
}

// forger is who puts into the log what no program does.
const forger = "forger"

func (j *simJudge) stored(who string, e documentRead) {
	if e.Void != 0 {
		return
	}
	d := e.Doc
	c, v := simContent{d.Version, d.Digest}, simVersion{e.Epoch, d.Version}
	seen, wants := j.expect[c]
	switch content, ok := j.first[v]; {
	case !ok && d.Version < j.tops[e.Epoch]:
		j.fail("%s stores version %d behind %d", who, d.Version, j.tops[e.Epoch])
	case !ok && wants && seen != j.tops[e.Epoch]:
		j.fail("%s overwrites version %d, and has seen %d", who, j.tops[e.Epoch], seen)
	case !ok:
		j.first[v], j.counted[c], j.stored1[c] = d.Digest, true, e.Epoch
		j.tops[e.Epoch] = d.Version
		j.staged[c] = d.Staged
		j.reached["stored"]++
	case who == forger:
		j.reached["forged"]++
	case content != d.Digest:
		j.fail("%s stores another content as version %d", who, d.Version)
	case j.staged[c] && !d.Staged:
		j.promoted(who, d.Version)
		j.staged[c] = false
	}
}

// promoted checks that all steps of a rollout were taken.
func (j *simJudge) promoted(who string, version uint64) {
	j.reached["promoted"]++
	p := j.pending[simVersion{j.f.epoch, version}]
	switch {
	case p == nil:
		j.fail("%s promotes %d, whose rollout has not begun", who, version)
		return
	}
	if d := j.f.find(version); d != nil {
		plan, _ := planOf(d)
		j.enough(who, p, &plan)
		if baked := j.f.time().Sub(p.Since); !plan.last(p.Step) || p.State == RolloutRunning && baked < plan.Bake {
			j.fail("%s promotes %d in step %d after %v", who, version, p.Step, baked)
		}
	}
}

// enough checks that those who were reached run the version, but for one that
// came or went since the driver looked.
func (j *simJudge) enough(who string, p *Progress, plan *Plan) {
	if truth := j.f.truth(); !truth.isStaged() || j.f.now-j.measured[who] > 3*time.Second {
		return // they can be elsewhere by now
	}
	c := j.f.compliance(p.Version)
	began := time.Time{}
	if d := j.f.find(p.Version); d != nil {
		began = d.Time
	}
	r := p.reach(&c, began)
	if all := float64(r.All); float64(r.Running+1) < plan.Success*all || float64(r.Failed-1) > plan.MaxFailed*all {
		j.fail("%s: the rollout of %d goes on from step %d with %d of %d, and %d failed", who, p.Version, p.Step, r.Running, r.All, r.Failed)
	}
}

// ends is told when a driver is about to end a rollout, either way. A version
// behind it may still refuse that.
func (j *simJudge) ends(who string, version uint64) {
	p := j.pending[simVersion{j.f.epoch, version}]
	if s := j.f.truth(); s.isStaged() && s.staged.Version == version && p != nil && p.State == RolloutPaused {
		j.fail("%s ends the rollout of %d, which is paused", who, version)
	}
}

func (j *simJudge) progressed(who string, p *Progress) {
	was := j.pending[simVersion{j.f.epoch, p.Version}]
	j.pending[simVersion{j.f.epoch, p.Version}] = p
	j.reach[p.Version] = append(j.reach[p.Version], *p)
	j.reached["rollout "+string(p.State)]++
	d := j.f.find(p.Version)
	if d == nil || p.State.Over() {
		return
	}
	plan, _ := planOf(d)
	allowed := plan.share(p.Step)
	switch {
	case p.Share > allowed && j.beyond(p, allowed) > 2: // one, and one that has just come
		j.fail("%s: the rollout of %d goes to %.2f in step %d, which has %.2f", who, p.Version, p.Share, p.Step, allowed)
	case was == nil && p.Step > 0:
		j.fail("%s: the rollout of %d begins with step %d", who, p.Version, p.Step)
	case was == nil:
	case was.State.Over():
		j.fail("%s: the rollout of %d goes on after its end", who, p.Version)
	case p.Step < was.Step || p.Share < was.Share && !was.Since.IsZero():
		j.fail("%s: the rollout of %d goes back from step %d (%.2f) to %d (%.2f)", who, p.Version, was.Step, was.Share, p.Step, p.Share)
	case p.Step > was.Step && (was.State != RolloutRunning || p.Step > was.Step+1 || p.Since.Sub(was.Since) < plan.Bake):
		j.fail("%s: the rollout of %d goes to step %d, %v after step %d began", who, p.Version, p.Step, p.Since.Sub(was.Since), was.Step)
	case p.Step == was.Step && was.State == RolloutRunning && !was.Since.IsZero() && !p.Since.Equal(was.Since) && p.State == RolloutRunning:
		j.fail("%s: the rollout of %d begins step %d again", who, p.Version, p.Step)
	case p.Step > was.Step:
		j.enough(who, was, &plan)
	}
}

// beyond counts the agents that progress reaches beyond a share and that were
// there to be seen.
func (j *simJudge) beyond(p *Progress, share float64) (n int) {
	c := j.f.compliance(p.Version)
	narrow := *p
	narrow.Share = share
	for _, a := range c.Agents {
		if !a.Script && a.State != StateStale && p.Reaches(a.Node, a.Labels) && !narrow.Reaches(a.Node, a.Labels) {
			n++
		}
	}
	return n
}

// expected is told what a writer has seen before its version.
func (j *simJudge) expected(version uint64, digest Digest, seen uint64) {
	j.expect[simContent{version, digest}] = seen
}

// outcome is what a writer believes.
func (j *simJudge) outcome(who string, d *Document, err error) {
	c := simContent{d.Version, d.Digest}
	switch {
	case err == nil && !j.counted[c]:
		j.fail("%s has published version %d, it believes", who, d.Version)
	case err == nil:
		j.reached["published"]++
	case errors.Is(err, protocol.ErrConflict) && j.stored1[c] == j.f.epoch:
		j.fail("%s lost version %d, it believes", who, d.Version)
	case errors.Is(err, protocol.ErrConflict):
		j.reached["conflict"]++
	case errors.Is(err, protocol.ErrUnknownOutcome):
		j.reached["unknown"]++
	}
}

// ran checks what becomes the one in use, where was is the version before.
func (j *simJudge) ran(who string, was uint64, d ref) {
	c := simContent{d.Version, d.Digest}
	j.f.note("%s runs %d after %d", who, d.Version, was)
	j.reached["applied"]++
	switch {
	case !j.counted[c]:
		j.fail("%s runs a version %d that nobody has published", who, d.Version)
	case d.Version <= was:
		j.fail("%s goes from %d to %d", who, was, d.Version)
	case j.f.traits[d.Digest].bad && who[0] == 'a':
		j.fail("%s runs %d, which it refuses", who, d.Version)
	}
}

// agentRan is ran for those that rollouts reach.
func (j *simJudge) agentRan(a *simAgent, d ref) {
	j.ran(a.name, a.disk.Version, d)
	if a.disk.Pinned {
		j.fail("%s runs %d, and is pinned", a.name, d.Version)
	}
	if !j.staged[simContent{d.Version, d.Digest}] {
		return
	}
	j.reached["staged applied"]++
	for _, p := range j.reach[d.Version] {
		if p.Reaches(a.node, a.labels) {
			return
		}
	}
	j.fail("%s runs %d, whose rollout has not reached it", a.name, d.Version)
}

// told checks what an agent reports.
func (j *simJudge) told(a *simAgent, r report) {
	j.reached[string(r.State)]++
	for i, is := range []bool{r.Pinned, r.Held, r.Behind} {
		if is {
			j.reached[[]string{"pinned", "held", "behind"}[i]]++
		}
	}
	if r.Applied != a.disk.Version && !a.disk.Pinned || r.State == StateApplied && r.Version != r.Applied {
		j.fail("%s runs %d and reports %v", a.name, a.disk.Version, r)
	}
}

// rest checks, when nothing is to come, that each agent is where the log wants it.
func (j *simJudge) rest(a *simAgent) {
	truth := j.f.truth()
	want, t := truth.latest, j.f.traits[truth.latest.Digest]
	behind := truth.top() < a.s.highest || a.disk.Version == want.Version && a.disk.Digest != want.Digest && want.Version != 0
	switch {
	case truth.isStaged():
		j.fail("the rollout of %d is never over", truth.staged.Version)
	case a.disk.Pinned:
		j.reached["rest pinned"]++
	case behind:
		j.reached["rest behind"]++
		if !a.last.Behind {
			j.fail("%s does not tell that the registry is behind: %v", a.name, a.last)
		}
	case want.Version == a.disk.Version:
		j.reached["rest applied"]++
		if a.last.State != StateApplied || a.last.Behind || a.last.Held {
			j.fail("%s reports %v in the end", a.name, a.last)
		}
	case t.bad && a.last.State == StateRejected, j.f.weak(a, want) && a.last.State == StateFailed:
		j.reached["rest "+string(a.last.State)]++
	default:
		j.fail("%s rests at %d, and should run %d: %v", a.name, a.disk.Version, want.Version, a.last)
	}
}

// same checks that all run the last version, and that the registry knows.
func (j *simJudge) same(last ref) {
	c := j.f.compliance(last.Version)
	seen := map[protocol.NodeID]AgentState{}
	for _, a := range c.Agents {
		seen[a.Node] = a.State
	}
	for _, a := range j.f.agents {
		switch {
		case a.disk.Pinned:
			if !a.last.Pinned || a.last.Applied != a.disk.Version {
				j.fail("%s is pinned at %d and reports %v", a.name, a.disk.Version, a.last)
			}
		case !last.is(ref{Version: a.disk.Version, Digest: a.disk.Digest}), seen[a.node] != StateApplied:
			j.fail("%s runs %d in the end, and not %d: %v, seen as %s", a.name, a.disk.Version, last.Version, a.last, seen[a.node])
		}
	}
	for _, s := range j.f.scripts {
		if !last.is(s.has) {
			j.fail("%s runs %d in the end, and not %d", s.name, s.has.Version, last.Version)
		}
	}
}
