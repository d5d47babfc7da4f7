package registry_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
)

// key is a node's identity, made from a name.
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func nodeID(name string) protocol.NodeID {
	return protocol.NodeIDOf(key(name).Public().(ed25519.PublicKey))
}

// world is a registry on a simulated network.
type world struct {
	t    testing.TB
	net  *simnet.Network
	log  registry.Log
	reg  *registry.Registry
	done chan error // of Serve
	pc   net.PacketConn
}

// start serves a registry on the node "registry". It and the network end with
// the test, or inside of a bubble with close.
func start(t testing.TB, o registry.Options) *world {
	t.Helper()
	if o.Access == nil {
		o.Access = registry.AllowAll
	}
	return startBare(t, o)
}

// startBare is start without rules that let everybody do everything.
func startBare(t testing.TB, o registry.Options) *world {
	t.Helper()
	w := &world{t: t, net: simnet.New(simnet.Options{Latency: time.Millisecond})}
	if o.Log == nil {
		o.Log = memlog.New(memlog.Options{})
	}
	o.Key = key("registry")
	w.log = o.Log
	var err error
	w.reg, err = registry.New(o)
	require.NoError(t, err)
	w.pc = w.net.Listen("registry")
	w.done = make(chan error, 1)
	go func() { w.done <- w.reg.Serve(w.pc) }()
	return w
}

func (w *world) close() {
	w.t.Helper()
	require.NoError(w.t, w.reg.Close())
	require.NoError(w.t, <-w.done)
	require.NoError(w.t, w.pc.Close())
	w.net.Close()
}

// peer is a client made of frames.
type peer struct {
	t       testing.TB
	s       *link.Session
	pc      net.PacketConn
	control *channel
	welcome *protocol.Welcome
	n       uint64
}

// dial makes a session and says nothing.
func (w *world) dial(name string) *peer {
	w.t.Helper()
	return w.dialWith(name, link.Limits{})
}

func (w *world) dialWith(name string, l link.Limits) *peer {
	w.t.Helper()
	pc := w.net.Listen(name)
	l.Frame = 32 << 20
	s, err := link.Dial(w.t.Context(), w.net.Addr("registry"), link.Config{
		Identity: link.Identity{Key: key(name)}, PacketConn: pc, Limits: l,
	})
	require.NoError(w.t, err)
	return &peer{t: w.t, s: s, pc: pc}
}

func (p *peer) close() {
	p.s.Close(0, "")
	if p.pc != nil {
		p.pc.Close()
	}
}

// hello is the usual Hello of a peer.
func hello() *protocol.Hello {
	return &protocol.Hello{MinVersion: protocol.MinVersion, MaxVersion: protocol.Version}
}

// join dials and is welcomed.
func (w *world) join(name string) *peer {
	w.t.Helper()
	return w.joinWith(name, link.Limits{})
}

func (w *world) joinWith(name string, l link.Limits) *peer {
	w.t.Helper()
	p := w.dialWith(name, l)
	p.control = p.open(hello())
	p.welcome = next[*protocol.Welcome](p.control)
	return p
}

// channel is one channel of a peer.
type channel struct {
	t testing.TB
	*link.Channel
}

// open makes a channel that begins with f.
func (p *peer) open(f protocol.Frame) *channel {
	p.t.Helper()
	ch, err := p.s.Open(p.t.Context())
	require.NoError(p.t, err)
	c := &channel{p.t, ch}
	c.send(f)
	return c
}

func (c *channel) send(frames ...protocol.Frame) {
	c.t.Helper()
	require.NoError(c.t, c.Send(encode(frames...)))
}

func encode(frames ...protocol.Frame) []byte {
	var b []byte
	for _, f := range frames {
		b = protocol.AppendFrame(b, f)
	}
	return b
}

// raw puts the length before a body.
func raw(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// next reads a frame of this type.
func next[F protocol.Frame](c *channel) F {
	c.t.Helper()
	got := c.read()
	f, ok := got.(F)
	require.True(c.t, ok, "got %#v", got)
	return f
}

// read reads a frame that owns what it holds.
func (c *channel) read() protocol.Frame {
	c.t.Helper()
	body, err := c.Next()
	require.NoError(c.t, err)
	f, err := protocol.Parse(append([]byte(nil), body...))
	require.NoError(c.t, err)
	return f
}

// ends waits for the end of a channel and checks its code; 0 is a clean end.
func (c *channel) ends(code protocol.Code) {
	c.t.Helper()
	_, err := c.Next()
	if code == 0 {
		require.ErrorIs(c.t, err, io.EOF)
		return
	}
	require.ErrorIs(c.t, err, code)
}

// ends waits for the end of the session and checks its code.
func (p *peer) ends(code protocol.Code) {
	p.t.Helper()
	<-p.s.Done()
	require.ErrorIs(p.t, p.s.Err(), code)
}

func (p *peer) lane(l protocol.Lane) *channel { return p.open(&protocol.OpenLane{Lane: l}) }

var keys atomic.Uint64

// message is a publish with a fresh key.
func (p *peer) message(topic, payload string) *protocol.Publish {
	p.n++
	return &protocol.Publish{
		N: p.n, Key: binary.BigEndian.AppendUint64(nil, keys.Add(1)), Epoch: p.welcome.Epoch.ID, Head: p.welcome.Head,
		Topic: topic, Payload: []byte(payload),
	}
}

// ack reads the answer to one publish, which is accepted.
func (c *channel) ack() protocol.Ack {
	c.t.Helper()
	f := next[*protocol.Acks](c)
	require.Len(c.t, f.List, 1)
	return f.List[0]
}

// refused reads the answer to one publish, which is refused.
func (c *channel) refused(code protocol.Code) *protocol.Refuse {
	c.t.Helper()
	f := next[*protocol.Refuse](c)
	require.Equal(c.t, code, f.Code, f.Detail)
	return f
}

// publish publishes one message and returns its seq.
func (p *peer) publish(lane *channel, topic, payload string) protocol.Seq {
	p.t.Helper()
	lane.send(p.message(topic, payload))
	return lane.ack().Seq
}

// subscribe opens a subscription and reads that it was accepted.
func (p *peer) subscribe(f protocol.Subscribe) (*channel, *protocol.Subscribed) {
	p.t.Helper()
	c := p.open(&f)
	return c, next[*protocol.Subscribed](c)
}

// follow is a subscription to what is new, past its caught up.
func (p *peer) follow(pattern string) *channel {
	p.t.Helper()
	c, _ := p.subscribe(protocol.Subscribe{Pattern: pattern})
	next[*protocol.CaughtUp](c)
	return c
}

// ask sends a request and reads the answer to it.
func ask[F protocol.Frame](p *peer, f protocol.Frame) F {
	p.t.Helper()
	p.control.send(f)
	return next[F](p.control)
}

func deliveries(c *channel, n int) []string {
	c.t.Helper()
	list := make([]string, 0, n)
	for range n {
		list = append(list, string(next[*protocol.Deliver](c).Payload))
	}
	return list
}
