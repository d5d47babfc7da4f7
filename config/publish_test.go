package config_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

func TestVersionsAreSecondsAndRise(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		_, err := s.Latest(t.Context())
		require.ErrorIs(t, err, protocol.ErrNotFound)

		seconds := uint64(time.Now().Unix())
		first := publish(t, s, 0, `{"a":1}`)
		require.Equal(t, seconds, first.Version)
		second := publish(t, s, 0, `{"a":2}`)
		require.Equal(t, seconds+1, second.Version, "in the same second")
		time.Sleep(time.Hour)
		third := publish(t, s, 0, `{"a":3}`)
		require.Equal(t, uint64(time.Now().Unix()), third.Version)
		require.Equal(t, protocol.Fence{K: third.Version, S: third.Seq}, reg.Fence(topic))

		d, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, third.Version, d.Version)
		require.Equal(t, third.Digest, d.Digest)
		require.Equal(t, "a", d.Who)
		require.Equal(t, []uint64{third.Version, second.Version, first.Version}, versions(t, s, config.HistoryOptions{}))
	})
}

func TestAVersionOutOfRangeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		ahead := uint64(time.Now().Add(config.Leap + time.Hour).Unix())
		for _, version := range []uint64{ahead, protocol.MaxTerm, protocol.MaxTerm + 1} {
			_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Version: version})
			require.ErrorIs(t, err, protocol.ErrInvalid)
		}
		require.Zero(t, reg.Fence(topic).K)
		publish(t, s, ahead-2*3600, `{}`)
		publish(t, s, ahead-2*3600+1, `{}`)
	})
}

func TestWhatIsNoDocumentIsNotPublished(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		for _, bad := range []string{"", "[]", `{"a":NaN}`, `{"a":1,"a":1}`, `{"a":1}{}`} {
			_, err := s.Publish(t.Context(), []byte(bad), config.PublishOptions{})
			require.ErrorIs(t, err, protocol.ErrInvalid, bad)
		}
		no := errors.New("max_workers: too many")
		_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Validators: []config.Validator{
			nil, config.ValidatorFunc(func(_ context.Context, d *config.Document) error { return no }),
		}})
		require.ErrorIs(t, err, no)
		for _, extra := range []config.Field{{"a", json.RawMessage(`{`)}, {"type", json.RawMessage(`1`)}, {"a", json.RawMessage(`1,"b":2`)}} {
			_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Extra: []config.Field{extra}})
			require.ErrorIs(t, err, protocol.ErrInvalid, extra.Name)
		}
		require.Zero(t, reg.Head())
	})
}

// H14: what is read has the bytes of what was published, also after a rollback.
func TestBytesSurvive(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		const doc = `{"B":1,"a":9007199254740993,"max":18446744073709551615,"x":1.0,"e":1e6,"é":"\u0000"}`
		publish(t, s, 1, doc)
		publish(t, s, 2, `{"B":2}`)
		r, err := s.Rollback(t.Context(), 1, config.RollbackOptions{})
		require.NoError(t, err)
		for _, version := range []uint64{1, r.Published.Version} {
			d, err := s.Get(t.Context(), version)
			require.NoError(t, err)
			require.Equal(t, doc, string(d.Config))
			require.Equal(t, config.DigestOf([]byte(doc)), d.Digest)
			list, err := config.Diff([]byte(doc), d.Config)
			require.NoError(t, err)
			require.Empty(t, list)
		}
	})
}

// H12: of two writers with one version one succeeds, a hundred times.
func TestTwoWritersOneVersion(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		writers := []*config.Swarm{join(t, reg, "a"), join(t, reg, "b")}
		reader := join(t, reg, "r")
		agents := []*agent{follow(t, reg, "x"), follow(t, reg, "y"), follow(t, reg, "z")}
		for round := uint64(1); round <= 100; round++ {
			var errs [2]error
			var all sync.WaitGroup
			for i, s := range writers {
				all.Go(func() {
					doc := fmt.Sprintf(`{"round":%d,"by":%d}`, round, i)
					_, errs[i] = s.Publish(t.Context(), []byte(doc), config.PublishOptions{Version: round})
				})
			}
			all.Wait()
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			require.NoError(t, errs[winner])
			var conflict *config.ConflictError
			require.ErrorAs(t, errs[1-winner], &conflict)
			require.ErrorIs(t, conflict, protocol.ErrConflict)
			require.NotErrorIs(t, conflict, protocol.ErrStaleTerm)
			require.Equal(t, round, conflict.Current)

			d, err := reader.Get(t.Context(), round)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"round":%d,"by":%d}`, round, winner), string(d.Config))
		}
		require.Len(t, reg.Messages(topic), 100)
		settle()
		last, err := reader.Get(t.Context(), 100)
		require.NoError(t, err)
		for _, a := range agents {
			require.Equal(t, string(last.Config), a.content())
		}
	})
}

func TestTheSameBytesAgainAreASuccess(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		first := publish(t, a, 5, `{"a":1}`)
		again := publish(t, b, 5, "{\"a\":1}\n")
		require.True(t, again.Duplicate)
		require.Equal(t, first.Seq, again.Seq)
		publish(t, a, 6, `{"a":2}`)
		require.Equal(t, first.Seq, publish(t, b, 5, `{"a":1}`).Seq, "also when it is not the newest")
		_, err := b.Publish(t.Context(), []byte(`{"a":3}`), config.PublishOptions{Version: 5})
		require.ErrorIs(t, err, protocol.ErrConflict)
		_, err = b.Publish(t.Context(), []byte(`{"a":3}`), config.PublishOptions{Version: 3})
		require.ErrorIs(t, err, protocol.ErrConflict, "was skipped, and is over")
	})
}

// Two pipelines publish at once: the one that lost succeeds if it had the same to say.
func TestTwoWritersOfTheSameBytes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		var got [2]config.Published
		var all sync.WaitGroup
		for i, node := range []string{"a", "b"} {
			s := join(t, reg, node)
			all.Go(func() { got[i] = publish(t, s, 7, `{}`) })
		}
		all.Wait()
		require.Equal(t, got[0].Seq, got[1].Seq)
		require.NotEqual(t, got[0].Duplicate, got[1].Duplicate)
	})
}

func TestAScriptsVersionCounts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "script")
		s := join(t, reg, "a")
		require.NoError(t, script(t, c, 100, `{ "a" : 1 }`))
		d, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{ "a" : 1 }`, string(d.Config))
		require.ErrorIs(t, script(t, c, 100, `{"a":2}`), protocol.ErrStaleTerm)

		// Past the fence, or under another term, it is void.
		for _, raw := range []fakeregistry.Raw{
			{Payload: []byte(`{"type":"config_update","version":900,"config":{}}`)},
			{Payload: []byte(`{"type":"config_update","version":901,"config":{}}`), Conditions: []protocol.Condition{{Topic: topic, Term: 101, Raise: 101}}},
		} {
			raw.From, raw.Topic = "script", topic
			_, err := reg.Inject(t.Context(), raw)
			require.NoError(t, err)
		}
		d, err = s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(100), d.Version)
		require.Equal(t, []uint64{100}, versions(t, s, config.HistoryOptions{}))
		_, err = s.Get(t.Context(), 901)
		require.ErrorIs(t, err, protocol.ErrNotFound)
	})
}

// Two messages with one version can pass a fence that is not raised: the first is
// the version, wherever one looks.
func TestTheFirstOfAVersionCounts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		publish(t, s, 4, `{"first":true}`)
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{
			From: "b", Topic: topic, Payload: []byte(`{"type":"config_update","version":4,"config":{}}`),
			Conditions: []protocol.Condition{{Topic: topic, Term: 4}},
		})
		require.NoError(t, err)
		check := func() {
			d, err := s.Get(t.Context(), 4)
			require.NoError(t, err)
			require.Equal(t, `{"first":true}`, string(d.Config))
		}
		check()
		d, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{"first":true}`, string(d.Config))
		publish(t, s, 5, `{}`)
		check()
	})
}

func TestExpectation(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		count := 0
		with := func(expect uint64) error {
			count++
			_, err := s.Publish(t.Context(), fmt.Appendf(nil, `{"n":%d}`, count), config.PublishOptions{Expect: expect})
			return err
		}
		require.ErrorIs(t, with(3), protocol.ErrConflict)
		require.NoError(t, with(config.None))
		require.ErrorIs(t, with(config.None), protocol.ErrConflict)
		d, err := s.Latest(t.Context())
		require.NoError(t, err)
		require.NoError(t, with(d.Version))
		err = with(d.Version)
		var conflict *config.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, d.Version+1, conflict.Current)
		require.EqualError(t, err, fmt.Sprintf(`config "workers": version conflict: current is %d, expected %d`, d.Version+1, d.Version))
	})
}

// The answer to a publish with an expectation is lost for good: the same again finds
// its own bytes upon the version that it expects, and nobody else's.
func TestAPublishWithAnExpectationCanBeRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a, b := join(t, reg, "a"), join(t, reg, "b")
		lost := func(expect uint64, text string) {
			reg.DropAcks("a", -1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := a.Publish(ctx, []byte(text), config.PublishOptions{Expect: expect})
			require.ErrorIs(t, err, protocol.ErrUnknownOutcome)
			reg.DropAcks("a", 0)
		}
		again := func(s *config.Swarm, text string, o config.PublishOptions) (config.Published, error) {
			return s.Publish(t.Context(), []byte(text), o)
		}
		conflict := func(s *config.Swarm, text string, o config.PublishOptions) {
			t.Helper()
			_, err := again(s, text, o)
			require.ErrorIs(t, err, protocol.ErrConflict)
		}
		lost(config.None, `{"n":1}`)
		first, err := again(a, `{"n":1}`, config.PublishOptions{Expect: config.None})
		require.NoError(t, err)
		require.True(t, first.Duplicate)
		require.Equal(t, protocol.Seq(1), first.Seq)

		lost(first.Version, `{"n":2}`)
		second, err := again(a, `{"n":2}`, config.PublishOptions{Expect: first.Version})
		require.NoError(t, err)
		require.Equal(t, []any{first.Version + 1, protocol.Seq(2), true}, []any{second.Version, second.Seq, second.Duplicate})
		named, err := again(a, `{"n":2}`, config.PublishOptions{Expect: first.Version, Version: second.Version})
		require.NoError(t, err)
		require.True(t, named.Duplicate)
		require.Len(t, reg.Messages(topic), 2)

		conflict(a, `{"n":2}`, config.PublishOptions{Expect: first.Version - 1})
		conflict(a, `{"n":2}`, config.PublishOptions{Expect: config.None})
		conflict(a, `{"n":2}`, config.PublishOptions{Expect: first.Version, Version: second.Version + 1})
		conflict(a, `{"n":2 }`, config.PublishOptions{Expect: first.Version})
		conflict(b, `{"n":2}`, config.PublishOptions{Expect: first.Version})
		publish(t, b, 0, `{"n":3}`)
		conflict(a, `{"n":2}`, config.PublishOptions{Expect: first.Version})
		require.Len(t, reg.Messages(topic), 3)
	})
}

// The ack is lost with the connection: the version's own bytes tell.
func TestAnAnswerThatIsLostIsLookedUp(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		reg.At(fakeregistry.Failpoint{Point: fakeregistry.AfterStore, Topic: topic, Do: func(fakeregistry.Hit) error {
			reg.Disconnect("a")
			return nil
		}})
		p := publish(t, s, 9, `{}`)
		require.Equal(t, uint64(9), p.Version)
		require.Len(t, reg.Messages(topic), 1)
	})
}

func TestPublishEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		reg.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Publish(ctx, []byte(`{}`), config.PublishOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// lead is a leadership of a term.
type lead struct {
	client.Conn
	epoch protocol.EpochID
	term  uint64
}

func (l lead) Publish(ctx context.Context, p client.Publication) client.Pending {
	p.Conditions = append(p.Conditions, protocol.Condition{Topic: "election:g", Epoch: l.epoch, Term: l.term})
	return l.Conn.Publish(ctx, p)
}

func (l lead) Done() <-chan struct{} { return nil }

func TestOnlyTheLeaderPublishes(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		s := openSwarm(t, c)
		_, err := c.SetFence(t.Context(), "election:g", reg.Epoch().ID, 3)
		require.NoError(t, err)
		as := func(term uint64) error {
			_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Leadership: lead{c, reg.Epoch().ID, term}})
			return err
		}
		require.NoError(t, as(3))
		_, err = c.SetFence(t.Context(), "election:g", reg.Epoch().ID, 4)
		require.NoError(t, err)
		err = as(3)
		require.ErrorIs(t, err, protocol.ErrStaleTerm)
		require.NotErrorIs(t, err, protocol.ErrConflict)
		require.Len(t, reg.Messages(topic), 1)
	})
}

func TestWithoutFencesItIsBestEffort(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		c := dial(t, reg, "a")
		s := openSwarm(t, restricted{c, client.Capabilities{History: true}})
		require.True(t, s.BestEffort())
		p := publish(t, s, 0, `{"a":1}`)
		require.True(t, p.BestEffort)
		require.Equal(t, p.Version+1, publish(t, s, 0, `{"a":2}`).Version)
		_, err := c.PublishTo(t.Context(), topic, fmt.Appendf(nil, `{"type":"config_update","version":%d,"config":{"late":1}}`, p.Version))
		require.NoError(t, err)
		d, err := s.Get(t.Context(), p.Version)
		require.NoError(t, err)
		require.Equal(t, `{"a":1}`, string(d.Config), "the first read counts")
		require.Equal(t, []uint64{p.Version + 1, p.Version}, versions(t, s, config.HistoryOptions{}))

		_, err = s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Leadership: lead{Conn: c}})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		bare := openSwarm(t, restricted{c, client.Capabilities{}})
		_, err = bare.Latest(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestExtraFieldsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		p, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{
			Reason: "fewer time-outs", Who: "ci", Extra: []config.Field{{"ticket", json.RawMessage(`"A-1"`)}},
		})
		require.NoError(t, err)
		d, err := s.Get(t.Context(), p.Version)
		require.NoError(t, err)
		require.Equal(t, []any{"fewer time-outs", "ci", p.Seq}, []any{d.Reason, d.Who, d.Seq})
		require.Equal(t, []config.Field{{"ticket", json.RawMessage(`"A-1"`)}}, d.Extra)
		require.True(t, bytes.HasPrefix(reg.Messages(topic)[0].Payload, []byte(`{"type":"config_update","version":`)))
	})
}

func TestWithoutTheRegistrysTimeTheLocalOneCounts(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		reg.SetClock(time.Hour)
		require.Equal(t, uint64(time.Now().Add(time.Hour).Unix()), publish(t, s, 0, `{}`).Version)
		reg.FailNext(fakeregistry.OpInfo, 1, protocol.ErrDenied)
		second := publish(t, s, 0, `{"a":1}`)
		require.Equal(t, uint64(time.Now().Add(time.Hour).Unix())+1, second.Version, "still above the last")
	})
}

// A log that was lost does not know how high the versions were: the agents do.
func TestALostLogsVersionsAreGoneAbove(t *testing.T) {
	ahead := func() uint64 { return uint64(time.Now().Add(time.Hour).Unix()) }
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		last := ahead()
		publish(t, s, last, `{"v":1}`)
		a := follow(t, reg, "a")
		pinned := follow(t, reg, "pinned")
		settle()
		require.Equal(t, last, a.version())
		require.NoError(t, reg.RestartEmpty())
		pass(30 * time.Second)
		require.Contains(t, a.took(), "registry behind "+fmt.Sprint(last))

		p := publish(t, s, 0, `{"v":2}`)
		require.Equal(t, last+1, p.Version)
		settle()
		require.Equal(t, `{"v":2}`, a.content())
		require.Equal(t, `{"v":2}`, pinned.content())
	})
	t.Run("what is not applied counts", func(t *testing.T) {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			s := join(t, reg, "ci")
			last := ahead()
			a := follow(t, reg, "a", func(a *agent) { a.now.Version, a.now.Highest = last-7, last })
			settle()
			require.Equal(t, fmt.Sprintf("%d: applied %d behind", last-7, last-7), a.report(t, reg))
			require.Equal(t, last+1, publish(t, s, 0, `{"v":2}`).Version)
			settle()
			require.Equal(t, `{"v":2}`, a.content())
		})
	})
	t.Run("what is too far ahead beside it does not", func(t *testing.T) {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			s := join(t, reg, "ci")
			last := ahead()
			a := follow(t, reg, "a", func(a *agent) { a.now.Version, a.now.Highest = last, protocol.MaxTerm-1 })
			settle()
			require.Equal(t, fmt.Sprintf("%d: applied %d behind", last, last), a.report(t, reg))
			require.Equal(t, last+1, publish(t, s, 0, `{"v":2}`).Version)
		})
	})
	t.Run("later, too", func(t *testing.T) {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			s := join(t, reg, "ci")
			publish(t, s, 0, `{"v":1}`)
			last := ahead()
			follow(t, reg, "a", func(a *agent) { a.now.Version = last })
			settle()
			require.Equal(t, last+1, publish(t, s, 0, `{"v":2}`).Version)
		})
	})
	t.Run("an old log was not lost", func(t *testing.T) {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			s := join(t, reg, "ci")
			publish(t, s, 0, `{"v":1}`)
			reg.SetClock(49 * time.Hour)
			tell(t, reg, uint64(time.Now().Add(50*time.Hour).Unix()))
			require.Equal(t, uint64(time.Now().Add(49*time.Hour).Unix()), publish(t, s, 0, `{"v":2}`).Version)
		})
	})
}

// tell reports a version as anybody can.
func tell(t *testing.T, reg *fakeregistry.Registry, version uint64) {
	t.Helper()
	_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "liar", Topic: status, Payload: fmt.Appendf(nil, `{"agent":"x","applied_version":%d}`, version)})
	require.NoError(t, err)
}

// A report uses no versions up, and without the right to read any a publish works.
func TestReportsDoNotUseUpVersions(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "ci")
		tell(t, reg, protocol.MaxTerm)
		tell(t, reg, uint64(time.Now().Add(config.Leap).Unix()))
		require.Equal(t, uint64(time.Now().Unix()), publish(t, s, 0, `{"v":1}`).Version)
		limit := uint64(time.Now().Add(config.Leap).Unix()) - 1
		tell(t, reg, limit)
		require.Equal(t, limit+1, publish(t, s, 0, `{"v":2}`).Version)
	})
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		s := openSwarm(t, denied{dial(t, reg, "ci"), status})
		tell(t, reg, uint64(time.Now().Add(time.Hour).Unix()))
		require.Equal(t, uint64(time.Now().Unix()), publish(t, s, 0, `{"v":1}`).Version)
	})
}

// denied is a connection that may not read a topic.
type denied struct {
	*client.Client
	topic string
}

func (d denied) Subscribe(ctx context.Context, topic string, o ...client.SubscribeOption) (client.Stream, error) {
	if topic == d.topic {
		return nil, protocol.Errorf(protocol.ErrDenied, "no")
	}
	return d.Client.Subscribe(ctx, topic, o...)
}

// A registry may take longer messages than by default: not longer than agents read.
func TestAMessageIsNoLongerThanAgentsRead(t *testing.T) {
	var o fakeregistry.Options
	o.Limits.Payload = 8 * config.MaxDocument
	bubbleWith(t, o, func(t *testing.T, reg *fakeregistry.Registry) {
		s := join(t, reg, "a")
		_, err := s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Reason: strings.Repeat("x", 2*config.MaxDocument)})
		require.ErrorIs(t, err, protocol.ErrTooLarge)
		_, err = s.Publish(t.Context(), []byte(`{}`), config.PublishOptions{Reason: strings.Repeat("x", config.MaxDocument)})
		require.NoError(t, err)
		_, err = s.Latest(t.Context())
		require.NoError(t, err)
	})
}
