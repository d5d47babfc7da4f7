package registry_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// Whatever comes in on whatever channel is answered by well-formed frames or
// with a typed error, and the registry goes on.
func FuzzSession(f *testing.F) {
	epoch := protocol.Epoch{ID: 7, Born: 1}
	pub := func(change func(p *protocol.Publish)) *protocol.Publish {
		p := &protocol.Publish{N: 1, Key: []byte("k"), Epoch: 7, Topic: "jobs.a", Payload: []byte("x")}
		change(p)
		return p
	}
	for _, seed := range [][]protocol.Frame{
		{hello()},
		{pub(func(p *protocol.Publish) {}), pub(func(p *protocol.Publish) { p.Flags = 3 })},
		{pub(func(p *protocol.Publish) { p.Topic, p.To = "", 9 })},
		{pub(func(p *protocol.Publish) { p.Slot = []byte("s") })},
		{pub(func(p *protocol.Publish) {
			p.Conditions = []protocol.Condition{{Topic: "jobs.a", Epoch: 7, Term: 1, Raise: 2, HasExpect: true}, {Topic: "b", Epoch: 7, Term: 1}}
		})},
		{&protocol.Join{ID: 1, Topics: []string{"jobs.a", "config:x"}}, &protocol.GetJoined{ID: 2}, &protocol.Join{ID: 3, Topics: []string{"jobs.a"}, Leave: true}},
		{&protocol.GetInbox{ID: 1, Limit: 1 << 63}, &protocol.ClearInbox{ID: 2, UpTo: 1 << 63}},
		{&protocol.GetInfo{ID: 1}, &protocol.GetNodes{ID: 2, Limit: 1}, &protocol.GetTopics{ID: 3, Pattern: "jobs.*", Limit: 1 << 62}},
		{&protocol.GetFence{ID: 1, Topic: "jobs.a"}, &protocol.SetFence{ID: 2, Topic: "jobs.a", Epoch: 7, K: 3}},
		{&protocol.Subscribe{Pattern: "jobs.*", Start: protocol.StartAll}, &protocol.Subscribe{Source: protocol.SourceInbox, Start: protocol.StartLast}},
		{
			&protocol.CreateToken{ID: 1, Token: protocol.TokenID{1}, Uses: 1, Lifetime: 1 << 62, Labels: []string{"l"}},
			&protocol.CreateToken{ID: 2, Token: protocol.TokenID{2}}, &protocol.RevokeToken{ID: 3, Token: protocol.TokenID{1}},
			&protocol.GetTokens{ID: 4, After: []byte{1}, Limit: 1},
		},
		{
			&protocol.SetKey{ID: 1, Key: protocol.KeyHash{1}, Standing: protocol.StandingRevoked, Add: []string{"b", "a"}},
			&protocol.SetKey{ID: 2, Key: protocol.KeyHash{1}, Drop: []string{"b", "a"}}, &protocol.GetKeys{ID: 3, Limit: 1},
		},
		{pub(func(p *protocol.Publish) { p.Flags = 2 }), &protocol.ForgetNode{ID: 1, Node: 9}, &protocol.PurgeTopic{ID: 2, Topic: "jobs.a", UpTo: 1}, &protocol.DeleteTopic{ID: 3, Topic: "jobs.a"}},
		{&protocol.Subscribe{Pattern: "*", Start: protocol.StartSince, Since: 5, After: 1, Epoch: 7}},
	} {
		f.Add(encode(seed...))
	}
	for _, b := range foul(nil) {
		f.Add(b[:min(len(b), 100)])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := registry.New(registry.Options{
			Log: memlog.New(memlog.Options{Epoch: epoch, Retention: registry.Retention{Messages: 2}}), Key: key("registry"),
			Limits: registry.Limits{Payload: 1 << 10, Page: 1 << 10},
		})
		require.NoError(t, err)
		defer r.Close()
		frames := registry.NewFrames(r, key("a").Public().(ed25519.PublicKey))
		cut := protocol.NewReader(bytes.NewReader(in), 1<<12)
		for {
			body, err := cut.Next()
			if err != nil {
				require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || protocol.CodeOf(err) != protocol.ErrInternal, "%v", err)
				return
			}
			answers(t, func(body []byte) ([]byte, error) {
				f, err := frames.Control(body)
				if err != nil {
					return nil, err
				}
				return encode(f), nil
			}, body)
			answers(t, func(body []byte) ([]byte, error) {
				f, err := frames.Publish(body)
				if err != nil {
					return nil, err
				}
				return encode(f), nil
			}, body)
			answers(t, frames.Subscribe, body)
		}
	})
}

// answers checks what comes of a frame.
func answers(t *testing.T, give func(body []byte) ([]byte, error), body []byte) {
	out, err := give(bytes.Clone(body))
	if err != nil {
		require.Equal(t, protocol.ErrMalformed, protocol.CodeOf(err), "%v", err)
		return
	}
	cut := protocol.NewReader(bytes.NewReader(out), 1<<20)
	for {
		body, err := cut.Next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return
		}
		_, err = protocol.Parse(body)
		require.NoError(t, err)
	}
}
