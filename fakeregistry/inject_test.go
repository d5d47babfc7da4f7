package fakeregistry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestInjectSpeaksForTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		start := time.Now()
		seqs, err := reg.Inject(t.Context(),
			fakeregistry.Raw{From: "z", Topic: "election:g", Payload: []byte(`{"type":"election"}`)},
			fakeregistry.Raw{Sender: 12, Origin: 13, Topic: "x", Slot: "s", Payload: []byte("low id")},
			fakeregistry.Raw{From: "z", To: fakeregistry.NodeID("a"), Payload: []byte("direct")},
		)
		require.NoError(t, err)
		require.Equal(t, []protocol.Seq{1, 2, 3}, seqs)
		require.Equal(t, start, time.Now(), "takes no virtual time")

		a := join(t, reg, "a")
		m := message(t, subscribe(t, a, "election:g", client.FromAll()))
		require.Equal(t, fakeregistry.NodeID("z"), m.Sender)
		m = message(t, subscribe(t, a, "x", client.FromAll()))
		require.EqualValues(t, 12, m.Sender)
		require.EqualValues(t, 13, m.Origin)
		inbox, err := a.SubscribeInbox(t.Context(), client.FromAll())
		require.NoError(t, err)
		require.Equal(t, "direct", string(message(t, inbox).Payload))

		require.Len(t, reg.Sessions(), 1, "the injector is not shown")
		require.Len(t, reg.Events(fakeregistry.EventConnect), 1)
	})
}

// TestInjectIsDelivered injects while a subscription is open, on a topic that no
// registry accepts: a client skips and counts it and stays.
func TestInjectIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		sub := subscribe(t, a, "*")
		bad := []string{"a*b", "new\nline", "\x00nul", "bad \xff utf-8", "$reserved", ""}
		for _, topic := range bad {
			_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: topic})
			require.NoError(t, err, "%q", topic)
		}
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: "good"})
		require.NoError(t, err)
		require.Equal(t, "good", message(t, sub).Topic)
		require.EqualValues(t, len(bad)-1, a.Stats().Invalid, "the empty one matches nothing")
		require.EqualValues(t, 1, a.Stats().Connects)
	})
}

func TestInjectUnderAFence(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		claim := protocol.Condition{Topic: "election:g", Term: 7, HasExpect: true, Raise: 7}
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: "election:g", Conditions: []protocol.Condition{claim}})
		require.NoError(t, err)
		require.Equal(t, protocol.Fence{K: 7, S: 1}, reg.Fence("election:g"))

		_, err = reg.Inject(t.Context(), fakeregistry.Raw{From: "y", Topic: "election:g", Conditions: []protocol.Condition{claim}})
		require.ErrorIs(t, err, protocol.ErrConflict)

		_, err = reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: "election:g", Fences: []protocol.Mark{{Topic: "election:g", Term: 6}}})
		require.NoError(t, err)
		require.EqualValues(t, 6, reg.Messages("election:g")[1].Term(), "a stamp that never was")
		require.Equal(t, protocol.Fence{K: 7, S: 1}, reg.Fence("election:g"))
	})
}

// TestFaultsDoNotConcernInject has all of them at once.
func TestFaultsDoNotConcernInject(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		reg.RefuseConnects(-1, protocol.ErrDraining)
		reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpPublish, Times: -1})
		reg.Mute("")
		reg.DropAcks("", -1)
		reg.Isolate("z")
		_, err := reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: "x"})
		require.NoError(t, err)
		reg.StorageFull(true)
		_, err = reg.Inject(t.Context(), fakeregistry.Raw{From: "z", Topic: "x"})
		require.ErrorIs(t, err, protocol.ErrStorageFull)
	})
}

func TestInjectAHistory(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		start := time.Now()
		reg.SetClock(-time.Hour)
		var old []fakeregistry.Raw
		for i := range 1000 {
			old = append(old, fakeregistry.Raw{From: "z", Topic: "x", Payload: fmt.Append(nil, i)})
		}
		_, err := reg.Inject(t.Context(), old...)
		require.NoError(t, err)
		reg.SetClock(0)
		list := reg.Messages("x")
		require.Len(t, list, 1000)
		require.Equal(t, "999", string(list[999].Payload))
		require.Equal(t, start.Add(-time.Hour).UTC(), list[0].Time.Time())
	})
}
