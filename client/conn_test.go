package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// echo is a transport without a registry: what is published comes back.
type echo struct {
	came  chan client.Item
	start client.Start
}

func (e *echo) Self() client.Self                 { return client.Self{Node: 7} }
func (e *echo) Capabilities() client.Capabilities { return client.Capabilities{} }

func (e *echo) Publish(_ context.Context, p client.Publication) client.Pending {
	if len(p.Conditions) > 0 {
		return sent{errors.ErrUnsupported}
	}
	e.came <- client.Item{Kind: client.ItemMessage, Message: &protocol.Message{Topic: p.Topic, Payload: p.Payload}}
	return sent{}
}

func (e *echo) Subscribe(_ context.Context, _ string, opts ...client.SubscribeOption) (client.Stream, error) {
	e.start = client.StartOf(opts...)
	return e, nil
}

func (e *echo) Fence(context.Context, string) (client.FenceState, error) {
	return client.FenceState{}, errors.ErrUnsupported
}

func (e *echo) Next(ctx context.Context) (client.Item, error) {
	select {
	case item, ok := <-e.came:
		if !ok {
			return client.Item{}, net.ErrClosed
		}
		return item, nil
	case <-ctx.Done():
		return client.Item{}, ctx.Err()
	}
}

func (e *echo) Close() error {
	close(e.came)
	return nil
}

// sent is a publish that is over at once.
type sent struct{ err error }

func (s sent) Wait(context.Context) (client.Ack, error) { return client.Ack{}, s.err }
func (s sent) Result() (client.Ack, bool, error)        { return client.Ack{}, true, s.err }
func (s sent) Key() []byte                              { return nil }

func (s sent) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Another transport can stand behind a Conn.
func TestConnOfAnotherTransport(t *testing.T) {
	other := &echo{came: make(chan client.Item, 1)}
	var c client.Conn = other
	s, err := c.Subscribe(t.Context(), "jobs", client.Since(time.Unix(5, 0)), client.Buffer(3))
	require.NoError(t, err)
	require.Equal(t, client.Start{Kind: protocol.StartSince, Since: 5e9, Buffer: 3}, other.start)

	_, err = c.Publish(t.Context(), client.Publication{Topic: "jobs", Payload: []byte("a")}).Wait(t.Context())
	require.NoError(t, err)
	fenced := client.Publication{Topic: "jobs", Conditions: []protocol.Condition{{Topic: "jobs", Term: 1}}}
	_, err = c.Publish(t.Context(), fenced).Wait(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)

	require.NoError(t, s.Close())
	var got []string
	for m, err := range client.Messages(t.Context(), s) {
		require.NoError(t, err)
		got = append(got, string(m.Payload))
	}
	require.Equal(t, []string{"a"}, got)
}
