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

func TestListen(t *testing.T) {
	reg := fakeregistry.Listen(t, fakeregistry.Options{})
	a, b := join(t, reg, "a"), join(t, reg, "b")
	sub := subscribe(t, b, "x")
	publish(t, a, "x", "over loopback")
	require.Equal(t, "over loopback", string(message(t, sub).Payload))
	require.Equal(t, fakeregistry.NodeID("a"), reg.Messages("x")[0].Sender)
	require.NotEqual(t, reg.Endpoint("a").Addr, reg.Endpoint("b").Addr)
	require.Equal(t, reg.Endpoint("a").Addr, reg.Endpoint("a").Addr)
}

// TestListenTellsNodesApart dials the common address, as processes do that know
// nothing of each other: faults find them by the names they told.
func TestListenTellsNodesApart(t *testing.T) {
	reg := fakeregistry.Listen(t, fakeregistry.Options{})
	dial := func(name string) *client.Client {
		c, err := client.Dial(t.Context(), reg.Addr(), client.Options{Key: fakeregistry.Key("key of " + name), Name: name, NoState: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := dial("a"), dial("b")
	require.Equal(t, "a", reg.Sessions()[0].Node)

	reg.Partition("a", fakeregistry.Host)
	publish(t, b, "x", "")
	require.ErrorIs(t, within(t, a, 50*time.Millisecond, "x", ""), context.DeadlineExceeded)
	require.Len(t, reg.Messages("x"), 1)
	reg.Heal("a", fakeregistry.Host)
	publish(t, a, "x", "")

	reg.Fail(fakeregistry.Failure{Op: fakeregistry.OpPublish, Node: b.Self().Node.String()})
	publish(t, a, "x", "")
	require.ErrorIs(t, within(t, b, time.Second, "x", ""), protocol.ErrInternal)
}

// TestListenCutsNewSocketsToo partitions a name before anybody has it.
func TestListenCutsNewSocketsToo(t *testing.T) {
	reg := fakeregistry.Listen(t, fakeregistry.Options{})
	reg.Partition("a", fakeregistry.Host)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.Dial(ctx, reg.Addr(), client.Options{Key: fakeregistry.Key("k"), Name: "a", NoState: true})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	c, err := client.Dial(t.Context(), reg.Addr(), client.Options{Key: fakeregistry.Key("l"), Name: "b", NoState: true})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestStartWithoutATest(t *testing.T) {
	reg, err := fakeregistry.Start(fakeregistry.Options{Latency: 2 * time.Millisecond})
	require.NoError(t, err)
	defer reg.Close()
	a := join(t, reg, "a")
	start := time.Now()
	publish(t, a, "x", "")
	require.GreaterOrEqual(t, time.Since(start), 4*time.Millisecond)
	require.NoError(t, reg.Restart())
	publish(t, a, "x", "")
	require.Len(t, reg.Messages("x"), 2)
	require.NoError(t, a.Close())
	reg.Close()
	reg.Close()
	require.Error(t, reg.Start())
}

func TestStartStaysOnLoopback(t *testing.T) {
	_, err := fakeregistry.Start(fakeregistry.Options{Addr: "0.0.0.0:0"})
	require.ErrorContains(t, err, "no loopback address")
	_, err = fakeregistry.Start(fakeregistry.Options{Addr: "nonsense"})
	require.Error(t, err)
}

// TestListenCarriesMuch pushes a megabyte many times through the gateway.
func TestListenCarriesMuch(t *testing.T) {
	reg := fakeregistry.Listen(t, fakeregistry.Options{})
	a := join(t, reg, "a")
	payload := make([]byte, 1<<20)
	var last client.Pending
	for range 20 {
		last = a.Publish(t.Context(), client.Publication{Topic: "x", Payload: payload})
	}
	_, err := last.Wait(t.Context())
	require.NoError(t, err)
	require.Len(t, reg.Messages("x"), 20)
}

func TestWaitFor(t *testing.T) {
	reg := fakeregistry.Listen(t, fakeregistry.Options{})
	a := join(t, reg, "a")
	connected := func(e fakeregistry.Event) bool { return e.Kind == fakeregistry.EventConnect && e.Node == "a" }
	e, err := reg.WaitFor(t.Context(), connected)
	require.NoError(t, err, "it was before")
	require.EqualValues(t, 1, e.Session)

	go func() { _ = a.Close() }()
	_, err = reg.WaitFor(t.Context(), func(e fakeregistry.Event) bool { return e.Kind == fakeregistry.EventDisconnect })
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = reg.WaitFor(ctx, func(fakeregistry.Event) bool { return false })
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
