package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
)

// one is an agent's machine with what drives it left to the test.
type one struct {
	s     state
	epoch protocol.EpochID
	seq   protocol.Seq
}

var usual = settings{Retry: time.Second, MaxRetry: 4 * time.Second, Every: time.Minute}

func fresh(a Applied) *one { return &one{s: newState(usual, a), epoch: 1} }

// ready is an agent that has caught up with an empty log.
func ready(a Applied) *one {
	o := fresh(a)
	o.at(0, caughtUp{Epoch: 1})
	return o
}

// runs is an agent that applies version 5.
func runs() *one {
	o := ready(Applied{})
	o.at(0, o.update(5), o.ok(), o.done())
	return o
}

// at takes events and tells the actions, timers aside.
func (o *one) at(now moment, events ...event) []string {
	list := []string{}
	for _, e := range events {
		if a, ok := e.(answer); ok {
			e = a.of(o.s.work)
		}
		var actions []action
		o.s, actions = o.s.Step(now, e)
		for _, a := range actions {
			if text := tellAction(a); text != "" {
				list = append(list, text)
			}
		}
	}
	return list
}

func tellAction(a action) string {
	switch a := a.(type) {
	case look:
		return "look"
	case judge:
		return fmt.Sprint("judge ", a.Doc.Version)
	case cancel:
		return "cancel"
	case apply:
		return fmt.Sprint("apply ", a.Doc.Version)
	case tell:
		return "tell " + a.String()
	case show:
		text := fmt.Sprint(a.Kind, " ", a.Version)
		if a.Reason != "" {
			text += ": " + a.Reason
		}
		return text
	case voided:
		return "void: " + a.Void.String()
	case setTimer:
	}
	return ""
}

func (r report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d, %s %d", r.Applied, r.State, r.Version)
	if r.Error != "" {
		text.WriteString(": " + r.Error)
	}
	for i, is := range []bool{r.Pinned, r.Held, r.Behind} {
		if is {
			text.WriteString([]string{" pinned", " held", " behind"}[i])
		}
	}
	return text.String()
}

func content(version uint64, text string) ref {
	return ref{Version: version, Digest: DigestOf([]byte(text))}
}

// read is the next message of the log.
func (o *one) read(d ref) documentRead {
	o.seq++
	d.Seq = o.seq
	return documentRead{Epoch: o.epoch, Seq: o.seq, Stamped: true, Doc: d}
}

func (o *one) update(version uint64) documentRead { return o.read(content(version, "")) }

func (o *one) stage(version uint64) documentRead {
	d := content(version, "")
	d.Staged = true
	return o.read(d)
}

// answer is what comes of the work that goes on when its turn has come.
type answer struct{ of func(work ref) event }

func (answer) happen(*turn) {}

func (o *one) ok() answer {
	return answer{func(work ref) event { return judged{Doc: work, OK: true} }}
}

func (o *one) done() answer {
	return answer{func(work ref) event { return done{Doc: work, OK: true} }}
}

func (o *one) fails(why string) answer {
	return answer{func(work ref) event { return done{Doc: work, Error: why} }}
}

func TestStatesCompare(t *testing.T) {
	a, b := runs(), runs()
	require.True(t, a.s == b.s)
	b.at(1, b.update(6))
	require.False(t, a.s == b.s)
}

func TestNothingIsDoneBeforeTheLogIsKnown(t *testing.T) {
	o := fresh(Applied{Version: 3})
	require.Equal(t, []string{"announced 7"}, o.at(0, o.update(7)))
	require.Equal(t, []string{"look"}, o.at(0, caughtUp{Epoch: 1, Fence: protocol.Fence{K: 9, S: 5}}))
	require.Empty(t, o.at(0, caughtUp{Epoch: 1, Fence: protocol.Fence{K: 9, S: 5}}), "one look at a time")
	found := o.update(9)
	found.Seq, found.Doc.Seq, found.Looked = 5, 5, true
	require.Equal(t, []string{"announced 9", "judge 9"}, o.at(0, found, lookedBack{Epoch: 1, Fence: protocol.Fence{K: 9, S: 5}, OK: true}))
}

func TestAnEmptyLogNeedsNoLook(t *testing.T) {
	o := fresh(Applied{})
	require.Equal(t, []string{"tell 0, pending 0"}, o.at(0, caughtUp{Epoch: 1}))
}

func TestALookThatFailsIsMadeAgain(t *testing.T) {
	o := fresh(Applied{})
	s := protocol.Fence{K: 9, S: 5}
	require.Equal(t, []string{"look"}, o.at(0, caughtUp{1, s}))
	require.Empty(t, o.at(1, lookedBack{}))
	require.Equal(t, moment(1)+usual.Retry, o.s.deadline())
	require.Equal(t, []string{"look"}, o.at(o.s.deadline(), timerFired{}))
	require.Equal(t, []string{"look"}, o.at(0, lookedBack{Epoch: 2, OK: true}), "of another log")
	require.Equal(t, []string{"tell 0, pending 0"}, o.at(0, lookedBack{1, s, true}), "retention took it")
}

func TestAVersionIsJudgedAndApplied(t *testing.T) {
	o := ready(Applied{})
	require.Equal(t, []string{"announced 5", "judge 5"}, o.at(0, o.update(5)))
	require.Equal(t, []string{"apply 5"}, o.at(0, o.ok()))
	require.Equal(t, []string{"applied 5", "tell 5, applied 5"}, o.at(0, o.done()))
	require.Empty(t, o.at(0, o.ok(), done{Doc: o.s.work, Error: "late"}))
}

func TestARollbackIsShownAsOne(t *testing.T) {
	o := ready(Applied{})
	d := content(6, "")
	d.Rollback = true
	o.at(0, o.read(d), judged{Doc: d, OK: true})
	require.Equal(t, "rolled back 6", o.at(0, o.done())[0])
}

func TestRejection(t *testing.T) {
	o := runs()
	require.Equal(t, []string{"announced 6", "judge 6"}, o.at(0, o.update(6)))
	require.Equal(t, []string{"rejected 6: no", "tell 5, rejected 6: no"}, o.at(0, judged{Doc: o.s.work, Reason: "no"}))
	require.Empty(t, o.at(0, caughtUp{Epoch: 1}, o.update(6)), "it was judged")
	require.Equal(t, []string{"announced 7", "judge 7"}, o.at(0, o.update(7)))
	o.at(0, o.ok())
	require.Equal(t, []string{"rejected 7: schema", "tell 5, rejected 7: schema"},
		o.at(0, done{Doc: o.s.work, Refused: true, Error: "schema"}), "by the applier")
}

func TestRetries(t *testing.T) {
	o := runs()
	o.at(0, o.update(6), o.ok())
	require.Equal(t, []string{"failed 6: disk", "tell 5, failed 6: disk"}, o.at(0, o.fails("disk")))
	now := moment(0)
	for _, delay := range []time.Duration{1, 2, 4, 4, 4} {
		now += delay * time.Second
		require.Equal(t, now, o.s.due)
		require.Empty(t, o.at(now-1, timerFired{}))
		require.Equal(t, []string{"judge 6"}, o.at(now, timerFired{}))
		require.Equal(t, []string{"apply 6", "failed 6: disk"}, o.at(now, o.ok(), o.fails("disk")))
	}
	require.Equal(t, []string{"announced 7", "superseded 6", "judge 7"}, o.at(now, o.update(7)))
	require.Equal(t, []string{"apply 7", "failed 7: disk", "tell 5, failed 7: disk"}, o.at(now, o.ok(), o.fails("disk")))
	require.Equal(t, now+time.Second, o.s.due, "a new version begins anew")
}

func TestSuperseding(t *testing.T) {
	o := runs()
	o.at(0, o.update(6))
	require.Equal(t, []string{"announced 7", "superseded 6", "cancel", "judge 7"}, o.at(0, o.update(7)))
	require.Empty(t, o.at(0, judged{Doc: content(6, ""), OK: true}), "an answer that was called off")
	require.Equal(t, []string{"apply 7"}, o.at(0, o.ok()))
	require.Equal(t, []string{"announced 8"}, o.at(0, o.update(8)), "an apply is not called off")
	require.Equal(t, []string{"applied 7", "judge 8"}, o.at(0, o.done()))
}

func TestVersionsOnlyRise(t *testing.T) {
	o := runs()
	require.Equal(t, []string{"void: old version"}, o.at(0, o.update(4)))
	require.Empty(t, o.at(0, o.update(5)))
	require.Equal(t, []string{"void: version has another content"}, o.at(0, o.read(content(5, "other"))))
	e := documentRead{Epoch: 1, Seq: 99, Void: VoidUnstamped}
	require.Equal(t, []string{"void: not stamped with its version"}, o.at(0, e))
	require.Empty(t, o.at(0, documentRead{Epoch: 9, Seq: 1, Stamped: true, Doc: content(50, "")}), "of a log that is gone")
}

// Of two messages with one version the first counts, also if it is found later.
func TestALookFindsTheFirst(t *testing.T) {
	o := fresh(Applied{})
	o.seq = 8
	o.at(0, caughtUp{1, protocol.Fence{K: 5, S: 8}}, o.read(content(5, "second")))
	first := o.read(content(5, "first"))
	first.Doc.Seq, first.Looked = 3, true
	require.Equal(t, []string{"judge 5"}, o.at(0, first, lookedBack{1, protocol.Fence{K: 5, S: 9}, true}))
	require.Equal(t, content(5, "first").Digest, o.s.work.Digest)
}

func TestAbsentIsNotEmpty(t *testing.T) {
	o := runs()
	require.Equal(t, []string{"new epoch 5"}, o.at(0, epochBegan{2}))
	o.epoch = 2
	require.Equal(t, []string{"registry behind 5", "tell 5, applied 5 behind"}, o.at(0, caughtUp{Epoch: 2}))
	require.Empty(t, o.at(0, o.update(4)))
	require.Equal(t, []string{"tell 5, applied 5"}, o.at(0, o.update(5)), "the same as here")
	require.Equal(t, []string{"announced 6", "judge 6"}, o.at(0, o.update(6)))
}

func TestAnotherContentInANewLog(t *testing.T) {
	o := runs()
	o.at(0, epochBegan{2}, caughtUp{Epoch: 2})
	o.epoch = 2
	require.Empty(t, o.at(0, o.read(content(5, "other"))))
	require.True(t, o.s.behind())
}

// What was being done for a log that is gone is given up.
func TestWorkEndsWithItsLog(t *testing.T) {
	o := runs()
	o.at(0, o.update(6))
	require.Equal(t, []string{"new epoch 5", "cancel"}, o.at(0, epochBegan{2}))
	require.Empty(t, o.at(0, judged{Doc: content(6, ""), OK: true}))
	o = runs()
	o.at(0, o.update(6), o.ok())
	require.Equal(t, []string{"new epoch 5"}, o.at(0, epochBegan{2}))
	require.Equal(t, []string{"applied 6"}, o.at(0, o.done()), "an apply comes to its end")
	require.Equal(t, []string{"registry behind 6", "tell 6, applied 6 behind"}, o.at(0, caughtUp{Epoch: 2}))
}

func TestPins(t *testing.T) {
	o := ready(Applied{Version: 4, Highest: 5, Pinned: true})
	require.Equal(t, []string{"tell 4, pending 5 pinned"}, o.at(0, o.update(5)))
	require.Equal(t, []string{"announced 6", "tell 4, pending 6 pinned"}, o.at(0, o.update(6)))
	free := currentFound{Applied: ref{Version: 4}, Highest: 5}
	require.Equal(t, []string{"judge 6", "unpinned 4"}, o.at(0, free))
	o.at(0, o.ok())
	pinned := free
	pinned.Pinned = true
	require.Equal(t, []string{"pinned 4"}, o.at(0, pinned), "found while applying")
	require.Empty(t, o.at(0, o.fails("pinned")), "is no failure")
	require.Equal(t, idle, o.s.phase)
}

func TestRollouts(t *testing.T) {
	o := runs()
	require.Equal(t, []string{"announced 6", "held 6", "tell 5, applied 5 held"}, o.at(0, o.stage(6)))
	require.Empty(t, o.at(0, stageMoved{7, true}, stageMoved{6, false}))
	require.Equal(t, []string{"judge 6"}, o.at(0, stageMoved{6, true}))
	require.Equal(t, []string{"cancel", "held 6"}, o.at(0, stageMoved{6, false}), "it is over")
	o.at(0, stageMoved{6, true}, o.ok())
	require.Equal(t, []string{"applied 6", "tell 6, applied 6"}, o.at(0, o.done()))
	require.Empty(t, o.at(0, stageMoved{6, false}), "nothing goes back by itself")
	require.Empty(t, o.at(0, o.update(6)), "complete: it has it")
	require.Equal(t, []string{"announced 7", "judge 7"}, o.at(0, o.update(7)))
}

func TestARolloutThatIsCompleteReachesAll(t *testing.T) {
	o := runs()
	o.at(0, o.stage(6))
	require.Equal(t, []string{"judge 6"}, o.at(0, o.update(6)))
	o = runs()
	o.at(0, o.stage(6))
	require.Equal(t, []string{"void: version has another content"}, o.at(0, o.read(content(6, "other"))))
	require.Equal(t, []string{"announced 7", "judge 7"}, o.at(0, o.update(7)), "superseded")
}

func TestReportsAreRepeated(t *testing.T) {
	o := runs()
	require.Empty(t, o.at(59*time.Second, timerFired{}))
	require.Equal(t, []string{"tell 5, applied 5"}, o.at(time.Minute, timerFired{}))
	require.Equal(t, []string{"tell 5, applied 5"}, o.at(2*time.Minute, timerFired{}))
	o.at(2*time.Minute, o.update(6))
	require.Equal(t, []string{"tell 5, pending 6"}, o.at(3*time.Minute, timerFired{}), "it takes long")
}

func TestWithoutFencesTheFirstReadCounts(t *testing.T) {
	c := usual
	c.BestEffort = true
	o := &one{s: newState(c, Applied{}), epoch: 1}
	e := o.update(5)
	e.Stamped = false
	require.Equal(t, []string{"announced 5", "judge 5"}, o.at(0, e))
	o.at(0, o.ok(), o.done())
	require.Equal(t, []string{"void: version has another content"}, o.at(0, o.read(content(5, "other"))))
	require.Empty(t, o.at(0, epochBegan{2}, caughtUp{Epoch: 2, Fence: protocol.Fence{S: 9}})[2:])
}
