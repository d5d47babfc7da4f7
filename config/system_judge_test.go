package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// selfTelling is a document that tells whether it is whole.
type selfTelling struct {
	N    int    `json:"n"`
	Bad  bool   `json:"bad"`
	Pad  string `json:"pad"`
	Hash string `json:"hash"`
}

func (s *selfTelling) hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %v %s", s.N, s.Bad, s.Pad))
	return hex.EncodeToString(sum[:])
}

// newSelfTelling makes the bytes of a document of some size.
func newSelfTelling(n, size int, bad bool) []byte {
	s := selfTelling{N: n, Bad: bad, Pad: strings.Repeat(fmt.Sprint(n%10), size)}
	s.Hash = s.hash()
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// whole reads such a document; an error is a torn one.
func whole(b []byte) (s selfTelling, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return s, err
	}
	if s.hash() != s.Hash {
		return s, errors.New("its parts are of two documents")
	}
	return s, nil
}

type versionIn struct {
	epoch   protocol.EpochID
	version uint64
}

// storedVersion is what counts as a version.
type storedVersion struct {
	config string
	staged bool
}

// stormJudge is told what the registry stores, what agents put into use and what
// publishers believe, and remembers what must not be.
type stormJudge struct {
	reg   *fakeregistry.Registry
	start time.Time

	mu       sync.Mutex
	tape     []string
	broken   []string
	versions map[versionIn]*storedVersion
	contents map[string]bool // version and bytes of all that counted, in any epoch
	tops     map[protocol.EpochID]uint64
	staged   map[uint64]bool // not yet for all
	reach    map[versionIn][]config.Progress
	highest  uint64
	runs     map[string]uint64 // the version of each agent
	count    map[string]int
}

func newStormJudge(reg *fakeregistry.Registry) *stormJudge {
	j := &stormJudge{
		reg: reg, start: time.Now(), versions: map[versionIn]*storedVersion{}, contents: map[string]bool{},
		tops: map[protocol.EpochID]uint64{}, staged: map[uint64]bool{}, reach: map[versionIn][]config.Progress{},
		runs: map[string]uint64{}, count: map[string]int{},
	}
	j.attach()
	return j
}

func (j *stormJudge) attach() {
	j.reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Times: -1, Do: func(h fakeregistry.Hit) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		switch h.Topic {
		case topic:
			j.stored(j.reg.Epoch().ID, h)
		case rolloutTopic:
			j.progressed(h)
		}
		return nil
	}})
}

func (j *stormJudge) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(format, args...)
}

func (j *stormJudge) write(format string, args ...any) {
	j.tape = append(j.tape, fmt.Sprintf("%9.3f ", time.Since(j.start).Seconds())+fmt.Sprintf(format, args...))
}

// fail is called under mu.
func (j *stormJudge) fail(format string, args ...any) {
	j.write("BROKEN: "+format, args...)
	j.broken = append(j.broken, j.tape[len(j.tape)-1])
}

func (j *stormJudge) wrong(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(format, args...)
}

func (j *stormJudge) stored(epoch protocol.EpochID, h fakeregistry.Hit) {
	d, err := config.ParseDocument(h.Payload)
	if err != nil || h.Term() != d.Version {
		j.count["void"]++
		return
	}
	j.write("%s's version %d is stored at %d, staged %v", h.Node, d.Version, h.Seq, d.Staged)
	at := versionIn{epoch, d.Version}
	switch have := j.versions[at]; {
	case have == nil && d.Version <= j.tops[epoch]:
		j.fail("version %d comes after %d", d.Version, j.tops[epoch])
	case have == nil:
		j.versions[at] = &storedVersion{string(d.Config), d.Staged}
		j.contents[fmt.Sprint(d.Version, " ", string(d.Config))] = true
		j.tops[epoch], j.staged[d.Version] = d.Version, d.Staged
		j.highest = max(j.highest, d.Version)
		j.count["versions"]++
	case have.config != string(d.Config):
		j.fail("version %d has two contents", d.Version)
	case have.staged && !d.Staged:
		j.completed(h, d.Version)
		have.staged, j.staged[d.Version] = false, false
		j.count["completed"]++
	}
}

// completed checks that the last step of a rollout is over, and is not paused.
func (j *stormJudge) completed(h fakeregistry.Hit, version uint64) {
	list := j.reach[versionIn{j.reg.Epoch().ID, version}]
	if len(list) == 0 {
		j.fail("%s completes the rollout of %d, which has not begun", h.Node, version)
		return
	}
	last := list[len(list)-1]
	if baked := h.Time.Time().Sub(last.Since); last.State == config.RolloutRunning && baked < j.bake(h, version) || last.State == config.RolloutPaused {
		j.fail("%s completes the rollout of %d, %s, after %v", h.Node, version, last.State, baked)
	}
}

func (j *stormJudge) progressed(h fakeregistry.Hit) {
	p, err := config.ParseProgress(h.Payload)
	if err != nil {
		return
	}
	j.write("%s: rollout of %d: %s, step %d, share %.2f", h.Node, p.Version, p.State, p.Step, p.Share)
	j.count["rollout "+string(p.State)]++
	at := versionIn{j.reg.Epoch().ID, p.Version}
	if list := j.reach[at]; len(list) > 0 && !p.State.Over() && j.versions[at] != nil {
		was := list[len(list)-1]
		switch {
		case p.Step < was.Step, p.Step > was.Step+1, p.Step > was.Step && was.State != config.RolloutRunning:
			j.fail("the rollout of %d goes from step %d, %s, to %d", p.Version, was.Step, was.State, p.Step)
		case p.Step > was.Step && p.Since.Sub(was.Since) < j.bake(h, p.Version):
			j.fail("the rollout of %d goes on to step %d after %v", p.Version, p.Step, p.Since.Sub(was.Since))
		}
	}
	j.reach[at] = append(j.reach[at], *p)
}

// bake reads how long the steps of a rollout are.
func (j *stormJudge) bake(h fakeregistry.Hit, version uint64) time.Duration {
	for _, m := range j.reg.Messages(topic) {
		d, err := config.ParseDocument(m.Payload)
		if err != nil || d.Version != version || !d.Staged {
			continue
		}
		var plan struct{ Bake string }
		for _, f := range d.Extra {
			if f.Name == "rollout" && json.Unmarshal(f.Value, &plan) == nil {
				if bake, err := time.ParseDuration(plan.Bake); err == nil {
					return bake
				}
			}
		}
		j.fail("version %d of %s has no plan", version, h.Node)
	}
	return 0
}

// published is told what a publisher believes.
func (j *stormJudge) published(who string, content []byte, p config.Published, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var conflict *config.ConflictError
	switch {
	case err == nil:
		j.count["published"]++
		if have := j.versions[versionIn{p.Epoch, p.Version}]; have == nil || have.config != string(content) {
			j.fail("%s has published version %d, it believes", who, p.Version)
		}
	case errors.As(err, &conflict):
		j.count["conflict"]++
		if have := j.versions[versionIn{j.reg.Epoch().ID, conflict.Version}]; have != nil && have.config == string(content) {
			j.fail("%s has lost version %d, it believes", who, conflict.Version)
		}
	default:
		j.count["unpublished"]++
		j.write("%s: %v", who, err)
	}
}

// ran is told what an agent has put into use.
func (j *stormJudge) ran(a *stormAgent, d *config.Document) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count["applied"]++
	j.write("%s runs %d after %d", a.name, d.Version, j.runs[a.name])
	if d.Version <= j.runs[a.name] {
		j.fail("%s goes from %d to %d", a.name, j.runs[a.name], d.Version)
	}
	j.runs[a.name] = d.Version
	s, err := whole(d.Config)
	switch {
	case err != nil || !j.contents[fmt.Sprint(d.Version, " ", string(d.Config))]:
		j.fail("%s runs a version %d that nobody has published", a.name, d.Version)
	case s.Bad:
		j.fail("%s runs %d, which it refuses", a.name, d.Version)
	}
	if !j.staged[d.Version] {
		return
	}
	j.count["staged applied"]++
	for at, list := range j.reach {
		reached := func(p config.Progress) bool { return p.Reaches(fakeregistry.NodeID(a.name), a.labels) }
		if at.version == d.Version && slices.ContainsFunc(list, reached) {
			return
		}
	}
	j.fail("%s runs %d, whose rollout has not reached it", a.name, d.Version)
}

// found is told what an agent's applier says is in use.
func (j *stormJudge) found(a *stormAgent, now config.Applied) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.Pinned {
		j.count["pinned"]++
		j.runs[a.name] = now.Version
	}
	if now.Version < j.runs[a.name] {
		j.fail("%s is back from %d at %d", a.name, j.runs[a.name], now.Version)
	}
	j.runs[a.name] = now.Version
	if now.Version != 0 && !j.contents[fmt.Sprint(now.Version, " ", string(now.Config))] {
		j.fail("%s has %d in use, which nobody has published", a.name, now.Version)
	}
}

func (j *stormJudge) verdict() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, b := range j.broken {
		errs = append(errs, errors.New(b))
	}
	return errors.Join(errs...)
}

// lines is the end of the tape.
func (j *stormJudge) lines() string {
	const shown = 250
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.tape[max(0, len(j.tape)-shown):], "\n")
}
