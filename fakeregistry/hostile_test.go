package fakeregistry_test

import (
	"context"
	"testing"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

func TestHostileWelcome(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"array of 4 billion":  fakeregistry.Framed([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}),
		"bytes of 4 billion":  fakeregistry.Framed([]byte{0x91, 0xc6, 0xff, 0xff, 0xff, 0xff}),
		"length 0":            {0, 0, 0, 0},
		"length of 4 billion": {0xff, 0xff, 0xff, 0xff},
		"unused type":         fakeregistry.Framed([]byte{0x91, 0xc1}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
					require.IsType(t, &protocol.Hello{}, h.Frame)
					return fakeregistry.Answer{Bytes: bytes}
				}}))
				addr, o := options(reg, "a")
				_, err := client.Dial(t.Context(), addr, o)
				require.Error(t, err)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// TestHostileSubscription welcomes the client and cheats later. The real registry
// then finds the client alive.
func TestHostileSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		a := join(t, reg, "a")
		sub := subscribe(t, a, "x")
		heard := make(chan fakeregistry.Heard, 1)
		require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
			if _, ok := h.Frame.(*protocol.Subscribe); !ok {
				return fakeregistry.Answer{}
			}
			select {
			case heard <- h:
			default:
			}
			good := fakeregistry.Frames(&protocol.Subscribed{Epoch: reg.Epoch()})
			return fakeregistry.Answer{Bytes: append(good, fakeregistry.Framed([]byte{0x91, 0xd4})...)}
		}}))
		h := <-heard
		require.Equal(t, "a", h.Node)
		require.Greater(t, h.Channel, 1)
		require.NoError(t, reg.Start())
		publish(t, join(t, reg, "b"), "x", "real")
		require.Equal(t, "real", string(message(t, sub).Payload))
	})
}

func TestHostileEndings(t *testing.T) {
	for name, c := range map[string]struct {
		answer fakeregistry.Answer
		want   protocol.Code
	}{
		"cut":   {fakeregistry.Answer{Bytes: []byte{0, 0, 0, 9, 0x99, 0x02}, End: true}, protocol.ErrMalformed},
		"reset": {fakeregistry.Answer{Reset: protocol.ErrLimit}, protocol.ErrLimit},
		"close": {fakeregistry.Answer{Close: protocol.ErrVersion}, protocol.ErrVersion},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
				require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(fakeregistry.Heard) fakeregistry.Answer { return c.answer }}))
				addr, o := options(reg, "a")
				_, err := client.Dial(t.Context(), addr, o)
				require.ErrorIs(t, err, c.want)
			})
		})
	}
}

func TestHostileWelcomesByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		require.NoError(t, reg.Hostile(fakeregistry.Impostor{}))
		require.False(t, reg.Running())
		a := join(t, reg, "a")
		require.ErrorIs(t, within(t, a, time.Second, "x", ""), context.DeadlineExceeded)
		require.Empty(t, reg.Messages("*"))
	})
}

// TestHostileLimitsChannels leaves room for the channels of a session and for no
// subscription.
func TestHostileLimitsChannels(t *testing.T) {
	bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
		require.NoError(t, reg.Hostile(fakeregistry.Impostor{Channels: 3, Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
			require.LessOrEqual(t, h.Channel, 3)
			return fakeregistry.Answer{}
		}}))
		a := join(t, reg, "a")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := a.OpenSubscription(ctx, "x")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Empty(t, reg.Subscriptions())
	})
}
