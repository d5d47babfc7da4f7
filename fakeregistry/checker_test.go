package fakeregistry_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// told collects what a checker complains about.
type told struct {
	fakeregistry.TB
	complaints []string
}

func (t *told) Helper() {}
func (t *told) Errorf(format string, args ...any) {
	t.complaints = append(t.complaints, fmt.Sprintf(format, args...))
}

func TestCheckerFindsBrokenPromises(t *testing.T) {
	type reader = fakeregistry.Reader
	for _, c := range []struct {
		name  string
		watch func(r *reader, log []fakeregistry.Message)
		want  string // nothing when empty
	}{
		{"all", func(r *reader, log []fakeregistry.Message) {
			r.Message(&log[0].Message)
			r.Message(&log[1].Message)
			r.CaughtUp(5)
		}, ""},
		{"from the middle", func(r *reader, log []fakeregistry.Message) { r.Message(&log[1].Message) }, ""},
		{"passed over", func(r *reader, log []fakeregistry.Message) { r.CaughtUp(0); r.Message(&log[1].Message) }, "passed over"},
		{"caught up too early", func(r *reader, log []fakeregistry.Message) { r.Message(&log[0].Message); r.CaughtUp(5) }, "passed over"},
		{"a gap", func(r *reader, log []fakeregistry.Message) { r.CaughtUp(0); r.Gap(1, 3); r.Message(&log[1].Message) }, ""},
		{"a gap elsewhere", func(r *reader, log []fakeregistry.Message) { r.CaughtUp(0); r.Gap(2, 3); r.Message(&log[1].Message) }, "seq 1 on \"x\" was passed over"},
		{"a gap behind", func(r *reader, log []fakeregistry.Message) { r.Message(&log[1].Message); r.Gap(1, 2) }, "when all up to 4 was settled"},
		{"a gap the wrong way", func(r *reader, log []fakeregistry.Message) { r.Gap(3, 2) }, "gap from 3 to 2"},
		{"twice", func(r *reader, log []fakeregistry.Message) { r.Message(&log[0].Message); r.Message(&log[0].Message) }, "late or twice"},
		{"out of order", func(r *reader, log []fakeregistry.Message) { r.Message(&log[1].Message); r.Message(&log[0].Message) }, "late or twice"},
		{"after caught up", func(r *reader, log []fakeregistry.Message) { r.CaughtUp(5); r.Message(&log[0].Message) }, "late or twice"},
		{"invented", func(r *reader, log []fakeregistry.Message) { r.Message(&protocol.Message{Seq: 9, Topic: "x"}) }, "seq 9 is not in the log"},
		{"changed", func(r *reader, log []fakeregistry.Message) {
			m := log[0].Message
			m.Payload = []byte("else")
			r.Message(&m)
		}, "not the message in the log"},
		{"another topic", func(r *reader, log []fakeregistry.Message) {
			r.Message(&protocol.Message{Seq: 2, Topic: "y", Sender: log[0].Sender, Payload: []byte("2")})
		}, "does not match"},
		{"unknown epoch", func(r *reader, log []fakeregistry.Message) { r.Epoch(12) }, "never had"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				_, err := reg.Inject(t.Context(),
					fakeregistry.Raw{From: "z", Topic: "x", Payload: []byte("1")},
					fakeregistry.Raw{From: "z", Topic: "y", Payload: []byte("2")},
					fakeregistry.Raw{From: "z", Topic: "x", Payload: []byte("3"), Slot: "s"}, // will be replaced
					fakeregistry.Raw{From: "z", Topic: "x", Payload: []byte("4"), Slot: "s"},
					fakeregistry.Raw{From: "z", Topic: "y", Payload: []byte("5")},
				)
				require.NoError(t, err)
				told := &told{TB: t}
				check := fakeregistry.NewChecker(told, reg)
				c.watch(check.Reader("reader", "x"), reg.Messages("x"))
				if c.want == "" {
					require.Empty(t, told.complaints)
					require.NoError(t, check.Err())
					return
				}
				require.Len(t, told.complaints, 1)
				require.Contains(t, told.complaints[0], c.want)
				require.ErrorContains(t, check.Err(), c.want)
			})
		})
	}
}

func TestCheckerKnowsAcks(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		ack := publish(t, a, "x", "payload")
		reg.Purge("x")
		told := &told{TB: t}
		check := fakeregistry.NewChecker(told, reg)
		check.Acked(ack.Epoch, ack.Seq, "x", []byte("payload"))
		require.Empty(t, told.complaints, "retention took it later")
		check.Acked(ack.Epoch, ack.Seq, "x", []byte("other"))
		check.Acked(ack.Epoch, ack.Seq+1, "x", []byte("payload"))
		check.Acked(ack.Epoch+1, ack.Seq, "x", []byte("payload"))
		require.Len(t, told.complaints, 3)
		require.NoError(t, reg.RestartEmpty())
		check.Acked(ack.Epoch, ack.Seq, "x", []byte("payload"))
		require.Len(t, told.complaints, 3, "it was in the log that is lost")
	})
}

func TestCheckerSettles(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		told := &told{TB: t}
		check := fakeregistry.NewChecker(told, reg)
		reader := check.ReaderAfter("reader", "x", 0)
		check.Settled()
		require.Empty(t, told.complaints)
		publish(t, a, "x", "1")
		publish(t, a, "y", "2")
		check.Settled()
		require.Len(t, told.complaints, 1)
		check.Settled()
		require.Len(t, told.complaints, 1, "told once")

		require.NoError(t, reg.RestartEmpty())
		check.Settled()
		require.Len(t, told.complaints, 2, "the reader knows nothing of the new log")
		reader.Epoch(reg.Epoch().ID)
		check.Settled()
		require.Len(t, told.complaints, 2)
	})
}

// follow feeds a reader from a subscription until that is closed.
func follow(t *testing.T, reader *fakeregistry.Reader, sub *client.Subscription) {
	for {
		item, err := sub.Next(t.Context())
		if err != nil {
			return
		}
		switch item.Kind {
		case client.ItemEpoch:
			reader.Epoch(item.Epoch.ID)
		case client.ItemMessage:
			reader.Message(item.Message)
		case client.ItemGap:
			reader.Gap(item.From, item.To)
		case client.ItemCaughtUp:
			reader.CaughtUp(item.Seq)
		case client.ItemDisconnected:
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	bubbleWith(t, fakeregistry.Options{History: 10}, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		check := fakeregistry.NewChecker(t, reg)
		sub := subscribe(t, a, "x")
		go follow(t, check.Reader("a", "x"), sub)
		var first client.Ack
		for i := range 100 {
			ack := publish(t, a, "x", fmt.Sprint(i))
			if i == 0 {
				first = ack
			}
		}
		synctest.Wait()
		check.Settled()
		check.Acked(first.Epoch, first.Seq, "x", []byte("anything: it is forgotten"))
		require.NoError(t, sub.Close())
	})
}
