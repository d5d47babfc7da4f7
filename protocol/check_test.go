package protocol_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublishCheck(t *testing.T) {
	with := func(change func(p *protocol.Publish)) *protocol.Publish {
		p := &protocol.Publish{Key: key, Topic: "a"}
		change(p)
		return p
	}
	condition := func(change func(c *protocol.Condition)) *protocol.Publish {
		c := protocol.Condition{Topic: "f", Epoch: epoch, Term: 5}
		change(&c)
		return with(func(p *protocol.Publish) { p.Conditions = []protocol.Condition{c} })
	}
	conditions := func(topics ...string) *protocol.Publish {
		return with(func(p *protocol.Publish) {
			for _, topic := range topics {
				p.Conditions = append(p.Conditions, protocol.Condition{Topic: topic, Term: 1})
			}
		})
	}
	direct := func(change func(p *protocol.Publish)) *protocol.Publish {
		return with(func(p *protocol.Publish) { p.Topic, p.To = "", node; change(p) })
	}
	nothing := func(*protocol.Publish) {}
	for _, test := range []struct {
		name string
		p    *protocol.Publish
		want protocol.Code
	}{
		{"least", with(nothing), 0},
		{"direct", direct(nothing), 0},
		{"flags", with(func(p *protocol.Publish) { p.Flags = protocol.FlagResend | protocol.FlagJoin }), 0},
		{"unknown flag", with(func(p *protocol.Publish) { p.Flags = 1 << 63 }), protocol.ErrInvalid},
		{"no key", with(func(p *protocol.Publish) { p.Key = nil }), protocol.ErrInvalid},
		{"longest key", with(func(p *protocol.Publish) { p.Key = make([]byte, 32) }), 0},
		{"too long a key", with(func(p *protocol.Publish) { p.Key = make([]byte, 33) }), protocol.ErrInvalid},
		{"longest slot", with(func(p *protocol.Publish) { p.Slot = make([]byte, 32) }), 0},
		{"too long a slot", with(func(p *protocol.Publish) { p.Slot = make([]byte, 33) }), protocol.ErrInvalid},
		{"largest payload", with(func(p *protocol.Publish) { p.Payload = make([]byte, 1<<20) }), 0},
		{"too large a payload", with(func(p *protocol.Publish) { p.Payload = make([]byte, 1<<20+1) }), protocol.ErrTooLarge},
		{"no place", with(func(p *protocol.Publish) { p.Topic = "" }), protocol.ErrInvalidTopic},
		{"pattern", with(func(p *protocol.Publish) { p.Topic = "a.*" }), protocol.ErrInvalidTopic},
		{"both places", direct(func(p *protocol.Publish) { p.Topic = "a" }), protocol.ErrInvalid},
		{"direct in a slot", direct(func(p *protocol.Publish) { p.Slot = []byte("s") }), protocol.ErrInvalid},
		{"direct that joins", direct(func(p *protocol.Publish) { p.Flags = protocol.FlagJoin }), 0},
		{"two conditions", conditions("a", "b"), 0},
		{"three conditions", conditions("a", "b", "c"), protocol.ErrInvalid},
		{"the same fence", conditions("a", "a"), protocol.ErrInvalid},
		{"fence of a pattern", conditions("*"), protocol.ErrInvalidTopic},
		{"direct under a fence", direct(func(p *protocol.Publish) { p.Conditions = conditions("a").Conditions }), 0},
		{"term 0", condition(func(c *protocol.Condition) { c.Term = 0 }), protocol.ErrInvalid},
		{"highest term", condition(func(c *protocol.Condition) { c.Term = 1<<53 - 1 }), 0},
		{"too high a term", condition(func(c *protocol.Condition) { c.Term = 1 << 53 }), protocol.ErrInvalid},
		{"raise to the term", condition(func(c *protocol.Condition) { c.Raise = 5 }), 0},
		{"raise below the term", condition(func(c *protocol.Condition) { c.Raise = 4 }), protocol.ErrInvalid},
		{"highest raise", condition(func(c *protocol.Condition) { c.Raise = 1<<53 - 1 }), 0},
		{"too high a raise", condition(func(c *protocol.Condition) { c.Raise = 1 << 53 }), protocol.ErrInvalid},
	} {
		assert.Equal(t, test.want, protocol.CodeOf(test.p.Check(protocol.Limits{})), test.name)
	}
}

func TestPublishCheckKnowsTheSession(t *testing.T) {
	p := &protocol.Publish{Key: key, Topic: "a", Payload: make([]byte, 100)}
	require.NoError(t, p.Check(protocol.Limits{Payload: 100}))
	require.ErrorIs(t, p.Check(protocol.Limits{Payload: 99}), protocol.ErrTooLarge)
	p.Payload = make([]byte, protocol.MaxPayload+1)
	require.ErrorIs(t, p.Check(protocol.Limits{Payload: math.MaxUint64}), protocol.ErrTooLarge)
}

func TestHelloCheck(t *testing.T) {
	with := func(change func(h *protocol.Hello)) *protocol.Hello {
		h := &protocol.Hello{MinVersion: 1, MaxVersion: 1}
		change(h)
		return h
	}
	for _, test := range []struct {
		name string
		h    *protocol.Hello
		want protocol.Code
	}{
		{"least", with(func(*protocol.Hello) {}), 0},
		{"most", with(func(h *protocol.Hello) {
			h.Name = strings.Repeat("n", 255)
			h.Tags = slices.Repeat([]string{strings.Repeat("t", 255)}, 16)
			h.Token = make([]byte, 4096)
		}), 0},
		{"version 0", with(func(h *protocol.Hello) { h.MinVersion = 0 }), protocol.ErrInvalid},
		{"versions in disorder", with(func(h *protocol.Hello) { h.MinVersion = 2 }), protocol.ErrInvalid},
		{"long name", with(func(h *protocol.Hello) { h.Name = strings.Repeat("n", 256) }), protocol.ErrInvalid},
		{"control character", with(func(h *protocol.Hello) { h.Name = "a\x1b[31m" }), protocol.ErrInvalid},
		{"no UTF-8", with(func(h *protocol.Hello) { h.Name = "a\xff" }), protocol.ErrInvalid},
		{"17 tags", with(func(h *protocol.Hello) { h.Tags = slices.Repeat([]string{"t"}, 17) }), protocol.ErrTooLarge},
		{"empty tag", with(func(h *protocol.Hello) { h.Tags = []string{"a", ""} }), protocol.ErrInvalid},
		{"long tag", with(func(h *protocol.Hello) { h.Tags = []string{strings.Repeat("t", 256)} }), protocol.ErrInvalid},
		{"long token", with(func(h *protocol.Hello) { h.Token = make([]byte, 4097) }), protocol.ErrTooLarge},
	} {
		assert.Equal(t, test.want, protocol.CodeOf(test.h.Check()), test.name)
	}
	most := with(func(h *protocol.Hello) {
		h.Name = strings.Repeat("n", 255)
		h.Tags = slices.Repeat([]string{strings.Repeat("t", 255)}, 16)
		h.Token = make([]byte, 4096)
	})
	require.Less(t, len(most.Append(nil)), protocol.MaxFirstFrame)
}

func TestHelloChoose(t *testing.T) {
	for _, test := range []struct {
		least, most uint64
		want        uint64
	}{
		{1, 1, 1}, {1, 9, 1}, {2, 9, 0}, {1, math.MaxUint64, 1},
	} {
		got, err := (&protocol.Hello{MinVersion: test.least, MaxVersion: test.most}).Choose()
		require.Equal(t, test.want, got)
		if test.want == 0 {
			require.ErrorIs(t, err, protocol.ErrVersion)
			require.EqualError(t, err, "no protocol version in common: the client speaks 2 to 9, the registry 1 to 1")
		}
	}
}

func TestWelcomeCheck(t *testing.T) {
	hello := &protocol.Hello{MinVersion: 1, MaxVersion: 2}
	check := func(change func(w *protocol.Welcome)) protocol.Code {
		w := *meanings["welcome"].(*protocol.Welcome)
		change(&w)
		return protocol.CodeOf(w.Check(hello))
	}
	require.Zero(t, check(func(*protocol.Welcome) {}))
	require.Equal(t, protocol.ErrVersion, check(func(w *protocol.Welcome) { w.Version = 3 }))
	require.Equal(t, protocol.ErrVersion, check(func(w *protocol.Welcome) { w.Version = 0 }))
	require.Equal(t, protocol.ErrInvalid, check(func(w *protocol.Welcome) { w.Epoch.ID = 0 }))
	require.Equal(t, protocol.ErrInvalid, check(func(w *protocol.Welcome) { w.Limits.Payload = 0 }))
	require.Equal(t, protocol.ErrInvalid, check(func(w *protocol.Welcome) { w.Limits.Payload = 1<<24 + 1 }))
	require.Equal(t, protocol.ErrInvalid, check(func(w *protocol.Welcome) { w.Limits.InFlight = 0 }))
	require.Equal(t, protocol.ErrInvalid, check(func(w *protocol.Welcome) { w.Limits.Page = 1<<24 + 1 }))
}

func TestMaxFrame(t *testing.T) {
	l := protocol.Limits{Payload: 1000, Page: 5000}
	require.Equal(t, 1000+65536, l.MaxFrame())
	require.Equal(t, 6000+65536, l.MaxPageFrame())
	l = protocol.Limits{Payload: math.MaxUint64, Page: math.MaxUint64}
	require.Equal(t, 1<<24+65536, l.MaxFrame())
	require.Equal(t, 1<<25+65536, l.MaxPageFrame())

	// What may stand beside the payload fits.
	name := strings.Repeat("x", protocol.MaxTopic)
	marks := []protocol.Mark{{Topic: name, Term: math.MaxUint64}, {Topic: name, Term: math.MaxUint64}}
	for _, f := range []protocol.Frame{
		&protocol.Deliver{Message: protocol.Message{
			Seq: math.MaxUint64, Time: math.MaxUint64, Sender: math.MaxUint32, Origin: math.MaxUint32, To: math.MaxUint32,
			Topic: name, Payload: make([]byte, 1000), Key: make([]byte, protocol.MaxKey), Fences: marks,
		}},
		&protocol.Publish{Topic: name, Payload: make([]byte, 1000), Conditions: []protocol.Condition{
			{Topic: name, Epoch: math.MaxUint64, Term: math.MaxUint64, HasExpect: true, Expect: math.MaxUint64, Raise: math.MaxUint64},
			{Topic: name, Epoch: math.MaxUint64, Term: math.MaxUint64, HasExpect: true, Expect: math.MaxUint64, Raise: math.MaxUint64},
		}},
	} {
		require.Less(t, len(f.Append(nil)), 1000+protocol.FrameOverhead/8)
	}
}

func TestRequestsCheck(t *testing.T) {
	for _, test := range []struct {
		f    interface{ Check() error }
		want protocol.Code
	}{
		{&protocol.OpenLane{}, 0},
		{&protocol.OpenLane{Lane: protocol.LaneUrgent}, 0},
		{&protocol.OpenLane{Lane: 2}, protocol.ErrInvalid},
		{&protocol.Subscribe{Pattern: "*"}, 0},
		{&protocol.Subscribe{Pattern: "a.*", Start: protocol.StartSince}, 0},
		{&protocol.Subscribe{Pattern: "a*"}, protocol.ErrInvalidPattern},
		{&protocol.Subscribe{}, protocol.ErrInvalidPattern},
		{&protocol.Subscribe{Pattern: "a", Start: 5}, protocol.ErrInvalid},
		{&protocol.Subscribe{Source: protocol.SourceInbox}, 0},
		{&protocol.Subscribe{Source: protocol.SourceInbox, Pattern: "a"}, protocol.ErrInvalid},
		{&protocol.Subscribe{Source: 2}, protocol.ErrInvalid},
		{&protocol.GetFence{ID: 1, Topic: "a"}, 0},
		{&protocol.GetFence{Topic: "a"}, protocol.ErrInvalid},
		{&protocol.GetFence{ID: 1}, protocol.ErrInvalidTopic},
		{&protocol.SetFence{ID: 1, Topic: "a", K: 1<<53 - 1}, 0},
		{&protocol.SetFence{ID: 1, Topic: "a", K: 1 << 53}, protocol.ErrInvalid},
		{&protocol.SetFence{ID: 1, Topic: "$a"}, protocol.ErrInvalidTopic},
		{&protocol.Join{ID: 1}, 0},
		{&protocol.Join{ID: 1, Topics: slices.Repeat([]string{"a"}, 256), Leave: true}, 0},
		{&protocol.Join{ID: 1, Topics: slices.Repeat([]string{"a"}, 257)}, protocol.ErrTooLarge},
		{&protocol.Join{ID: 1, Topics: []string{"a", "*"}}, protocol.ErrInvalidTopic},
		{&protocol.Join{Topics: []string{"a"}}, protocol.ErrInvalid},
		{&protocol.GetJoined{ID: 1}, 0},
		{&protocol.GetJoined{}, protocol.ErrInvalid},
		{&protocol.GetInbox{ID: 1}, 0},
		{&protocol.GetInbox{ID: 1, Topic: "a", All: true}, 0},
		{&protocol.GetInbox{ID: 1, Topic: "*"}, protocol.ErrInvalidTopic},
		{&protocol.GetInbox{}, protocol.ErrInvalid},
		{&protocol.Ping{ID: 1, Pad: make([]byte, protocol.PingSize)}, 0},
		{&protocol.Ping{}, protocol.ErrInvalid},
		{&protocol.Ping{ID: 1, Pad: make([]byte, protocol.PingSize+1)}, protocol.ErrTooLarge},
		{&protocol.ClearInbox{ID: 1}, 0},
		{&protocol.ClearInbox{}, protocol.ErrInvalid},
		{&protocol.GetInfo{ID: 1}, 0},
		{&protocol.GetInfo{}, protocol.ErrInvalid},
		{&protocol.GetNodes{ID: 1}, 0},
		{&protocol.GetNodes{ID: 1, Topic: "a.*"}, protocol.ErrInvalidTopic},
		{&protocol.GetNodes{}, protocol.ErrInvalid},
		{&protocol.GetTopics{ID: 1}, 0},
		{&protocol.GetTopics{ID: 1, Pattern: "a.*"}, 0},
		{&protocol.GetTopics{ID: 1, Pattern: "a*"}, protocol.ErrInvalidPattern},
		{&protocol.GetTopics{}, protocol.ErrInvalid},
	} {
		assert.Equal(t, test.want, protocol.CodeOf(test.f.Check()), "%T %+v", test.f, test.f)
	}
}

func TestMessageTerm(t *testing.T) {
	m := meanings["deliver"].(*protocol.Deliver).Message
	require.EqualValues(t, 2, m.Term())
	m.Topic = "other"
	require.Zero(t, m.Term())
}

// What was parsed may be kept when the frame is gone.
func TestOwn(t *testing.T) {
	for _, want := range []protocol.Frame{meanings["deliver-own"], meanings["publish"], meanings["publish-two-conditions"]} {
		b := want.Append(nil)
		f, err := protocol.Parse(b)
		require.NoError(t, err)
		f.(interface{ Own() }).Own()
		copy(b, bytes.Repeat([]byte{0xff}, len(b)))
		require.Equal(t, want, f)
	}
	p := &protocol.Publish{Key: []byte("k"), Payload: []byte("p"), Slot: []byte("s")}
	p.Own()
	p.Key = append(p.Key, 'x') // is no part of the payload
	require.Equal(t, "p", string(p.Payload))
}

// The bytes of a page belong to its messages.
func TestPagesOwnTheirMessages(t *testing.T) {
	want := meanings["inbox-page"]
	b := want.Append(nil)
	f, err := protocol.Parse(b)
	require.NoError(t, err)
	clear(b)
	require.Equal(t, want, f)
}

// A frame is parsed into a struct that held another one.
func TestParseAgain(t *testing.T) {
	var p protocol.Publish
	var a protocol.Acks
	var d protocol.Deliver
	for _, v := range frameVectors(t) {
		if v.expect == "malformed" {
			continue
		}
		fresh, err := protocol.Parse(v.bytes)
		require.NoError(t, err)
		switch fresh := fresh.(type) {
		case *protocol.Publish:
			require.NoError(t, p.Parse(v.bytes))
			require.Equal(t, fresh, &p, v.name)
			require.ErrorIs(t, a.Parse(v.bytes), protocol.ErrMalformed)
		case *protocol.Acks:
			require.NoError(t, a.Parse(v.bytes))
			require.Equal(t, fresh.Append(nil), a.Append(nil), v.name)
			require.ErrorIs(t, d.Parse(v.bytes), protocol.ErrMalformed)
		case *protocol.Deliver:
			require.NoError(t, d.Parse(v.bytes))
			require.Equal(t, fresh, &d, v.name)
			require.ErrorIs(t, p.Parse(v.bytes), protocol.ErrMalformed)
		}
	}
}
