package registry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

func TestPublishesAreAckedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)

		var frames []protocol.Frame
		for i := range 1000 {
			frames = append(frames, a.message("jobs", fmt.Sprint(i)))
		}
		lane.send(frames...)
		acked := 0
		for acked < 1000 {
			for _, ack := range next[*protocol.Acks](lane).List {
				require.Equal(t, uint64(acked+1), ack.N)
				require.Equal(t, protocol.Seq(acked+1), ack.Seq)
				require.False(t, ack.Duplicate)
				acked++
			}
		}

		sub, _ := a.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAll})
		for i, payload := range deliveries(sub, 1000) {
			require.Equal(t, fmt.Sprint(i), payload)
		}
		require.Equal(t, protocol.Seq(1000), next[*protocol.CaughtUp](sub).Seq)
	})
}

// A refusal concerns one publish, and those around it go on.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *protocol.Publish)
		want   protocol.Code
	}{
		{"no topic", func(p *protocol.Publish) { p.Topic = "" }, protocol.ErrInvalidTopic},
		{"topic with a star", func(p *protocol.Publish) { p.Topic = "a.*" }, protocol.ErrInvalidTopic},
		{"reserved topic", func(p *protocol.Publish) { p.Topic = "$sys" }, protocol.ErrInvalidTopic},
		{"topic that is not UTF-8", func(p *protocol.Publish) { p.Topic = "\xff" }, protocol.ErrInvalidTopic},
		{"topic and recipient", func(p *protocol.Publish) { p.To = 1 << 31 }, protocol.ErrInvalid},
		{"no key", func(p *protocol.Publish) { p.Key = nil }, protocol.ErrInvalid},
		{"long key", func(p *protocol.Publish) { p.Key = make([]byte, 33) }, protocol.ErrInvalid},
		{"long slot", func(p *protocol.Publish) { p.Slot = make([]byte, 33) }, protocol.ErrInvalid},
		{"payload", func(p *protocol.Publish) { p.Payload = make([]byte, 1001) }, protocol.ErrTooLarge},
		{"key reused", func(p *protocol.Publish) { p.Key = []byte("taken") }, protocol.ErrKeyReused},
		{"lost log", func(p *protocol.Publish) { p.Flags, p.Epoch = protocol.FlagResend, 99 }, protocol.ErrUnknownOutcome},
		{"wrong epoch", func(p *protocol.Publish) {
			p.Conditions = []protocol.Condition{{Topic: p.Topic, Epoch: 99, Term: 1}}
		}, protocol.ErrWrongEpoch},
		{"stale term", func(p *protocol.Publish) {
			p.Conditions = []protocol.Condition{{Topic: "fenced", Epoch: p.Epoch, Term: 4}}
		}, protocol.ErrStaleTerm},
		{"conflict", func(p *protocol.Publish) {
			p.Conditions = []protocol.Condition{{Topic: "fenced", Epoch: p.Epoch, Term: 6, Raise: 6, HasExpect: true, Expect: 1}}
		}, protocol.ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, registry.Options{Limits: registry.Limits{Payload: 1000}})
				defer w.close()
				a := w.join("a")
				defer a.close()
				lane := a.lane(protocol.LaneNormal)
				taken := a.message("jobs", "first")
				taken.Key = []byte("taken")
				lane.send(taken)
				lane.ack()
				raised := a.message("fenced", "claim")
				raised.Conditions = []protocol.Condition{{Topic: "fenced", Epoch: raised.Epoch, Term: 5, Raise: 5}}
				lane.send(raised)
				lane.ack()

				before, bad, after := a.message("jobs", "before"), a.message("jobs", "bad"), a.message("jobs", "after")
				test.change(bad)
				lane.send(before, bad, after)

				answers := map[uint64]protocol.Code{}
				for len(answers) < 3 {
					switch f := lane.read().(type) {
					case *protocol.Acks:
						for _, ack := range f.List {
							answers[ack.N] = 0
						}
					case *protocol.Refuse:
						answers[f.N] = f.Code
						if len(bad.Conditions) > 0 {
							require.Equal(t, bad.Conditions[0].Topic, f.Topic)
							require.Equal(t, a.welcome.Epoch.ID, f.Epoch)
							require.Equal(t, w.reg.Fence(f.Topic), f.Fence)
						}
					}
				}
				require.Equal(t, map[uint64]protocol.Code{before.N: 0, bad.N: test.want, after.N: 0}, answers)
			})
		})
	}
}

func TestResentPublishIsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		lane := a.lane(protocol.LaneNormal)
		m := a.message("jobs", "x")
		lane.send(m)
		first := lane.ack()
		a.close()

		a = w.join("a")
		defer a.close()
		lane = a.lane(protocol.LaneNormal)
		m.Flags |= protocol.FlagResend
		lane.send(m)
		again := lane.ack()
		require.True(t, again.Duplicate)
		require.Equal(t, first.Seq, again.Seq)
		require.Equal(t, first.Time, again.Time)
	})
}

func TestRates(t *testing.T) {
	for name, limits := range map[string]registry.Limits{
		"publishes of a node": {Node: registry.Rate{Publishes: 10}},
		"bytes of a node":     {Node: registry.Rate{Bytes: 1000}},
		"publishes of all":    {Total: registry.Rate{Publishes: 10}},
		"bytes of all":        {Total: registry.Rate{Bytes: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, registry.Options{Limits: limits})
				defer w.close()
				a := w.join("a")
				defer a.close()
				lane := a.lane(protocol.LaneNormal)
				payload := string(make([]byte, 100))
				for range 10 {
					a.publish(lane, "jobs", payload)
				}
				// 10 more come in a second, minus the 20 ms that the ten took.
				lane.send(a.message("jobs", payload))
				wait := lane.refused(protocol.ErrRateLimited).RetryAfter
				require.Greater(t, wait, 50*time.Millisecond)
				require.LessOrEqual(t, wait, 100*time.Millisecond)

				time.Sleep(wait - 5*time.Millisecond)
				lane.send(a.message("jobs", payload))
				wait = lane.refused(protocol.ErrRateLimited).RetryAfter
				time.Sleep(wait)
				a.publish(lane, "jobs", payload)
			})
		})
	}
}

// A refusal says that the message is not in the log. So one that is there is a
// duplicate also when sending it now is refused for another reason.
func TestWhatIsInTheLogIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Node: registry.Rate{Publishes: 1}}})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		m := a.message("jobs", "x")
		lane.send(m)
		first := lane.ack()

		m.Flags = protocol.FlagResend
		lane.send(m)
		require.Equal(t, protocol.Ack{N: m.N, Seq: first.Seq, Time: first.Time, Duplicate: true}, lane.ack())
		m.Payload = []byte("y")
		lane.send(m)
		lane.refused(protocol.ErrKeyReused)
		unknown := a.message("jobs", "x")
		lane.send(unknown)
		lane.refused(protocol.ErrRateLimited)
		unknown.Flags, unknown.Epoch = protocol.FlagResend, 99
		lane.send(unknown)
		lane.refused(protocol.ErrUnknownOutcome)
	})
}

// Coming back does not help a node that is too fast.
func TestRateOutlivesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{Limits: registry.Limits{Node: registry.Rate{Publishes: 1}}})
		defer w.close()
		a := w.join("a")
		a.publish(a.lane(protocol.LaneNormal), "jobs", "x")
		a.close()
		synctest.Wait()
		a = w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		lane.send(a.message("jobs", "y"))
		lane.refused(protocol.ErrRateLimited)
	})
}

// fullLog is a log on a disk that can be full.
type fullLog struct {
	registry.Log
	full bool
}

func (l *fullLog) Append(b *registry.Batch) error {
	if l.full {
		return protocol.Errorf(protocol.ErrStorageFull, "no space left")
	}
	return l.Log.Append(b)
}

func TestFullDiskRefusesPublishesAndServesReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fullLog{Log: memlog.New(memlog.Options{})}
		w := start(t, registry.Options{Log: disk})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		known := a.message("jobs", "known")
		lane.send(known)
		first := lane.ack()

		disk.full = true
		fresh, bad, more := a.message("jobs", "new"), a.message("$jobs", "invalid"), a.message("jobs", "new too")
		lane.send(fresh, known, bad, more)
		got := map[uint64]protocol.Code{}
		for len(got) < 4 {
			switch f := lane.read().(type) {
			case *protocol.Refuse:
				got[f.N] = f.Code
				require.Equal(t, f.Code == protocol.ErrStorageFull, f.RetryAfter > 0, "it says when to try again")
			case *protocol.Acks:
				require.Len(t, f.List, 1)
				require.True(t, f.List[0].Duplicate)
				require.Equal(t, first.Seq, f.List[0].Seq)
				got[f.List[0].N] = 0
			}
		}
		require.Equal(t, map[uint64]protocol.Code{
			fresh.N: protocol.ErrStorageFull, known.N: 0, bad.N: protocol.ErrInvalidTopic, more.N: protocol.ErrStorageFull,
		}, got)

		// Who comes now is admitted, and reads.
		b := w.join("b")
		defer b.close()
		sub, _ := b.subscribe(protocol.Subscribe{Pattern: "jobs", Start: protocol.StartAll})
		require.Equal(t, []string{"known"}, deliveries(sub, 1))
		require.Equal(t, first.Seq, next[*protocol.CaughtUp](sub).Seq)
		require.Equal(t, protocol.ErrStorageFull, ask[*protocol.Fail](b, &protocol.Join{ID: 1, Topics: []string{"jobs"}}).Code)

		disk.full = false
		a.publish(lane, "jobs", "space again")
		require.Equal(t, []string{"space again"}, deliveries(sub, 1))
	})
}

func TestUrgentPublishDoesNotWaitBehindBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		sub := a.follow("beats")
		bulk, urgent := a.lane(protocol.LaneNormal), a.lane(protocol.LaneUrgent)
		urgent.SetUrgent()
		a.publish(urgent, "beats", "0")
		require.Equal(t, []string{"0"}, deliveries(sub, 1))
		w.net.SetLink("a", "registry", simnet.Link{Latency: time.Millisecond, Bandwidth: 1e6}) // bulk takes a second

		for range 8 {
			bulk.send(a.message("bulk", string(make([]byte, 100_000))))
		}
		begin := time.Now() // 256 KiB or more are still queued here
		a.publish(urgent, "beats", "1")
		require.Equal(t, []string{"1"}, deliveries(sub, 1))
		require.Less(t, time.Since(begin), 220*time.Millisecond)
		for range 8 {
			bulk.ack()
		}
		require.Greater(t, time.Since(begin), 250*time.Millisecond)
	})
}

func TestOneLaneOfAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		a.publish(lane, "jobs", "x")
		a.lane(protocol.LaneNormal).ends(protocol.ErrMalformed)
		a.lane(7).ends(protocol.ErrInvalid)
		a.publish(lane, "jobs", "y")

		require.NoError(t, lane.CloseSend())
		lane.ends(0)
		synctest.Wait()
		a.publish(a.lane(protocol.LaneNormal), "jobs", "z")
	})
}

// What came before a malformed frame is answered.
func TestMalformedPublishEndsTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, registry.Options{})
		defer w.close()
		a := w.join("a")
		defer a.close()
		lane := a.lane(protocol.LaneNormal)
		require.NoError(t, lane.Send(append(encode(a.message("jobs", "x")), raw([]byte{0xc1})...)))
		_, err := lane.Next()
		if err == nil { // the reset may overtake the ack
			_, err = lane.Next()
		}
		require.ErrorIs(t, err, protocol.ErrMalformed)
		require.Equal(t, protocol.Seq(1), w.reg.Info().Head)
		a.publish(a.lane(protocol.LaneNormal), "jobs", "y")
	})
}
