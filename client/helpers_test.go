package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/stretchr/testify/require"
)

// latency is one way.
const latency = 10 * time.Millisecond

// bubble runs a test against a registry in virtual time.
func bubble(t *testing.T, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	bubbleWith(t, fakeregistry.Options{}, test)
}

func bubbleWith(t *testing.T, o fakeregistry.Options, test func(t *testing.T, reg *fakeregistry.Registry)) {
	t.Helper()
	if o.Latency == 0 {
		o.Latency = latency
	}
	synctest.Test(t, func(t *testing.T) {
		// A client that dials for ever would let virtual time run for ever.
		stuck := time.AfterFunc(24*time.Hour, func() { panic("the test is stuck") })
		defer stuck.Stop()
		test(t, fakeregistry.New(t, o))
	})
}

func limited(l registry.Limits) fakeregistry.Options { return fakeregistry.Options{Limits: l} }

func options(reg *fakeregistry.Registry, node string, more ...func(*client.Options)) (string, client.Options) {
	e := reg.Endpoint(node)
	o := client.Options{
		Key: e.Key, NoState: true, Name: node, PacketConn: e.PacketConn, RegistryKey: e.RegistryKey,
	}
	for _, f := range more {
		f(&o)
	}
	return e.Addr, o
}

// join connects a client at a node until the test ends.
func join(t *testing.T, reg *fakeregistry.Registry, node string, more ...func(*client.Options)) *client.Client {
	t.Helper()
	addr, o := options(reg, node, more...)
	c, err := client.Dial(t.Context(), addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func window(n int) func(*client.Options) { return func(o *client.Options) { o.Window = n } }

// stored lists the payloads in the log.
func stored(reg *fakeregistry.Registry) []string {
	list := []string{}
	for _, m := range reg.Messages("*") {
		list = append(list, string(m.Payload))
	}
	return list
}

// tape stands in for the registry: it notes each frame and answers by script, or
// not at all. Pings it answers and does not note.
type tape struct {
	mu    sync.Mutex
	heard []fakeregistry.Heard
}

func record(t *testing.T, reg *fakeregistry.Registry, answer func(fakeregistry.Heard) fakeregistry.Answer) *tape {
	t.Helper()
	x := &tape{}
	require.NoError(t, reg.Hostile(fakeregistry.Impostor{Answer: func(h fakeregistry.Heard) fakeregistry.Answer {
		h.Frame = clone(h.Frame)
		if ping, ok := h.Frame.(*protocol.Ping); ok {
			return fakeregistry.Answer{Bytes: fakeregistry.Frames(&protocol.Done{ID: ping.ID})}
		}
		x.mu.Lock()
		x.heard = append(x.heard, h)
		x.mu.Unlock()
		if answer == nil {
			return fakeregistry.Answer{}
		}
		return answer(h)
	}}))
	return x
}

func clone(f protocol.Frame) protocol.Frame {
	f, err := protocol.Parse(f.Append(nil))
	if err != nil {
		panic(err)
	}
	return f
}

// frames lists all frames of a type that came.
func frames[F protocol.Frame](x *tape) []F {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []F
	for _, h := range x.heard {
		if f, ok := h.Frame.(F); ok {
			list = append(list, f)
		}
	}
	return list
}

// payloads lists what was published, marked where it came again.
func (x *tape) payloads() []string {
	list := []string{}
	for _, f := range frames[*protocol.Publish](x) {
		text := string(f.Payload)
		if f.Flags&protocol.FlagResend != 0 {
			text += " again"
		}
		list = append(list, text)
	}
	return list
}

func answer(f ...protocol.Frame) fakeregistry.Answer {
	return fakeregistry.Answer{Bytes: fakeregistry.Frames(f...)}
}

// publish hands over payloads on the topic t.
func publish(t *testing.T, c *client.Client, payloads ...string) []client.Pending {
	t.Helper()
	var list []client.Pending
	for _, text := range payloads {
		list = append(list, c.Publish(t.Context(), client.Publication{Topic: "t", Payload: []byte(text)}))
	}
	return list
}

// put publishes one after another, each to its topic.
func put(t *testing.T, c *client.Client, topic string, payloads ...string) {
	t.Helper()
	for _, text := range payloads {
		_, err := c.PublishTo(t.Context(), topic, []byte(text))
		require.NoError(t, err)
	}
}

func acked(t *testing.T, p client.Pending) client.Ack {
	t.Helper()
	ack, err := p.Wait(t.Context())
	require.NoError(t, err)
	return ack
}

func subscribe(t *testing.T, c *client.Client, pattern string, opts ...client.SubscribeOption) *client.Subscription {
	t.Helper()
	s, err := c.OpenSubscription(t.Context(), pattern, opts...)
	require.NoError(t, err)
	return s
}

// show is an item as a short text.
func show(i client.Item) string {
	switch i.Kind {
	case client.ItemMessage:
		return string(i.Message.Payload)
	case client.ItemCaughtUp:
		return fmt.Sprintf("caught up %d", i.Seq)
	case client.ItemGap:
		return fmt.Sprintf("gap %d-%d", i.From, i.To)
	case client.ItemEpoch:
		return "epoch"
	case client.ItemDisconnected:
		return "disconnected"
	}
	return "?"
}

// next takes so many items.
func next(t *testing.T, s client.Stream, n int) []string {
	t.Helper()
	var list []string
	for range n {
		i, err := s.Next(t.Context())
		require.NoError(t, err)
		list = append(list, show(i))
	}
	return list
}

// none makes sure that nothing is at hand.
func none(t *testing.T, s client.Stream) {
	t.Helper()
	synctest.Wait()
	i, err := s.Next(ended(t))
	require.ErrorIs(t, err, context.Canceled, "unexpected: %s", show(i))
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// within is a context with an end.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// until waits for an event of type E and drops those before it.
func until[E client.Event](t *testing.T, e *client.Events) E {
	t.Helper()
	for {
		ev, err := e.Next(t.Context())
		require.NoError(t, err)
		if want, ok := ev.(E); ok {
			return want
		}
	}
}

// numbers are 1 to n.
func numbers(n int) []string {
	list := []string{}
	for i := range n {
		list = append(list, fmt.Sprint(i+1))
	}
	return list
}

func refusalOf(t *testing.T, err error) *protocol.Error {
	t.Helper()
	var refused *protocol.Error
	require.True(t, errors.As(err, &refused), "%v", err)
	return refused
}
