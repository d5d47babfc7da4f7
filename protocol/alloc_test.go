package protocol_test

import (
	"bytes"
	"testing"

	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// What a heartbeat is on its way: a fenced publish, its ack, its delivery.
func heartbeat() (*protocol.Publish, *protocol.Acks, *protocol.Deliver) {
	payload := bytes.Repeat([]byte{'x'}, 128)
	p := &protocol.Publish{
		N: 1234, Key: key, Epoch: epoch, Head: 99999, Topic: "election:workers", Payload: payload,
		Slot:       []byte("heartbeat"),
		Conditions: []protocol.Condition{{Topic: "election:workers", Epoch: epoch, Term: term}},
	}
	a := &protocol.Acks{List: []protocol.Ack{{N: 1234, Seq: 100000, Time: now}}}
	d := &protocol.Deliver{Message: protocol.Message{
		Seq: 100000, Time: now, Sender: node, Topic: "election:workers", Payload: payload,
		Fences: []protocol.Mark{{Topic: "election:workers", Term: term}},
	}}
	return p, a, d
}

func requireAllocs(t *testing.T, want float64, what string, f func()) {
	t.Helper()
	require.LessOrEqual(t, testing.AllocsPerRun(200, f), want, what)
}

func TestAllocEncode(t *testing.T) {
	testenv.Allocs(t)
	p, a, d := heartbeat()
	b := make([]byte, 0, 4096)
	for _, f := range []protocol.Frame{p, a, d} {
		requireAllocs(t, 0, f.Type().String(), func() { b = f.Append(b[:0]) })
		requireAllocs(t, 0, f.Type().String(), func() { b = protocol.AppendFrame(b[:0], f) })
	}
}

func TestAllocValidate(t *testing.T) {
	testenv.Allocs(t)
	p, a, d := heartbeat()
	for _, f := range []protocol.Frame{p, a, d} {
		b := f.Append(nil)
		requireAllocs(t, 0, f.Type().String(), func() {
			if err := protocol.Validate(b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAllocDecode(t *testing.T) {
	testenv.Allocs(t)
	p, a, d := heartbeat()
	plain := *d
	plain.Fences = nil
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}

	var acks protocol.Acks
	b := a.Append(nil)
	requireAllocs(t, 0, "acks into the same struct", func() { must(acks.Parse(b)) })

	// As a reader of one topic does, who hands each message on for good.
	var into protocol.Deliver
	b = plain.Append(nil)
	requireAllocs(t, 0, "a plain message", func() { must(into.Parse(b)) })
	requireAllocs(t, 1, "a plain message, owned", func() { must(into.Parse(b)); into.Own() })
	b = d.Append(nil)
	requireAllocs(t, 2, "a stamped message, owned", func() { must(into.Parse(b)); into.Own() })
	b = plain.Append(nil)
	requireAllocs(t, 2, "a plain message of another topic, owned", func() {
		into.Topic = ""
		must(into.Parse(b))
		into.Own()
	})

	var publish protocol.Publish
	b = p.Append(nil)
	requireAllocs(t, 1, "a fenced publish", func() { must(publish.Parse(b)) })
	requireAllocs(t, 2, "a fenced publish, owned", func() { must(publish.Parse(b)); publish.Own() })
}

func TestAllocCheck(t *testing.T) {
	testenv.Allocs(t)
	p, _, _ := heartbeat()
	requireAllocs(t, 0, "check", func() {
		if err := p.Check(protocol.Limits{}); err != nil {
			t.Error(err)
		}
	})
}

func TestAllocReader(t *testing.T) {
	testenv.Allocs(t)
	p, _, _ := heartbeat()
	stream := bytes.Repeat(protocol.AppendFrame(nil, p), 1000)
	source := bytes.NewReader(stream)
	r := protocol.NewReader(source, 1<<20)
	requireAllocs(t, 1, "a thousand frames", func() {
		source.Reset(stream)
		for range 1000 {
			if _, err := r.Next(); err != nil {
				t.Error(err)
			}
		}
	})
}
