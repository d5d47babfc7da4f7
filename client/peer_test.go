package client_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/internal/simnet"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/stretchr/testify/require"
)

// latency is one way.
const latency = 10 * time.Millisecond

// peer stands in for a registry: a log in a slice, and hooks to answer what no
// registry would.
type peer struct {
	t  *testing.T
	n  *simnet.Network
	id link.Identity

	running sync.WaitGroup
	stopped chan struct{} // closed by stop
	pc      net.PacketConn
	ln      *link.Listener

	mu       sync.Mutex
	changed  *sync.Cond
	epoch    protocol.Epoch
	limits   protocol.Limits
	log      []protocol.Message
	seq      protocol.Seq
	keys     map[string]protocol.Ack
	got      []protocol.Publish // each publish frame, as it came
	hellos   []hello
	opened   []protocol.Subscribe
	evicted  protocol.Seq
	sessions map[*link.Session]*link.Channel // with their control channels

	// Hooks; nil is what a registry does. They are called without a lock.
	onHello     func(*protocol.Hello) protocol.Frame
	onPublish   func(*protocol.Publish) protocol.Frame // mute for none
	onRequest   func(protocol.Frame) protocol.Frame    // nil for none
	onSubscribe func(*protocol.Subscribe) protocol.Frame
	onStream    func(ch *link.Channel, f *protocol.Subscribe) // instead of messages
}

// hello is one session as it began.
type hello struct {
	protocol.Hello
	at time.Time
}

// mute is an answer that is none.
var mute protocol.Frame = &protocol.Done{}

func newPeer(t *testing.T, n *simnet.Network) *peer {
	p := &peer{
		t: t, n: n, id: link.NewIdentity(),
		epoch:    protocol.Epoch{ID: 1, Born: 100},
		limits:   protocol.Limits{Payload: 1 << 20, InFlight: 1024, Subscriptions: 100, Page: 1 << 16},
		keys:     make(map[string]protocol.Ack),
		sessions: make(map[*link.Session]*link.Channel),
	}
	p.changed = sync.NewCond(&p.mu)
	p.start()
	t.Cleanup(p.stop)
	return p
}

// start listens, after stop again.
func (p *peer) start() {
	p.t.Helper()
	p.pc = p.n.Listen("registry")
	ln, err := link.Listen(p.pc, link.Config{Identity: p.id})
	require.NoError(p.t, err)
	p.ln, p.stopped = ln, make(chan struct{})
	p.running.Go(func() {
		for {
			s, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(s) })
		}
	})
}

// stop ends all sessions, telling the clients so.
func (p *peer) stop() {
	select {
	case <-p.stopped:
		return
	default:
	}
	close(p.stopped)
	p.mu.Lock()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.ln.Close()
	p.pc.Close()
	p.running.Wait()
}

// kill is stop without a word.
func (p *peer) kill() {
	p.n.Isolate("registry")
	p.stop()
	p.n.Heal("registry", "")
}

func (p *peer) isStopped() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// renew begins a new log.
func (p *peer) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch.ID++
	p.epoch.Born += 100
	p.log, p.seq, p.evicted = nil, 0, 0
	clear(p.keys)
}

// drop ends all sessions with a code; the peer goes on.
func (p *peer) drop(code protocol.Code) {
	for s := range p.controls() {
		s.Close(code, "dropped")
	}
}

func (p *peer) controls() map[*link.Session]*link.Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make(map[*link.Session]*link.Channel)
	for s, ch := range p.sessions {
		open[s] = ch
	}
	return open
}

// tell sends a frame on each control channel.
func (p *peer) tell(f protocol.Frame) {
	for _, ch := range p.controls() {
		send(ch, f)
	}
}

func send(ch *link.Channel, f protocol.Frame) error { return ch.Send(protocol.AppendFrame(nil, f)) }

func (p *peer) serve(s *link.Session) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer func() {
		p.mu.Lock()
		delete(p.sessions, s)
		p.changed.Broadcast()
		p.mu.Unlock()
		s.Close(0, "")
	}()
	tasks.Go(func() {
		<-s.Done()
		p.mu.Lock()
		p.changed.Broadcast()
		p.mu.Unlock()
	})
	for {
		ch, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		tasks.Go(func() { p.channel(s, ch) })
	}
}

func (p *peer) channel(s *link.Session, ch *link.Channel) {
	defer ch.CloseSend()
	body, err := ch.Next()
	if err != nil {
		return
	}
	f, err := protocol.Parse(body)
	if err != nil {
		panic(err)
	}
	switch f := f.(type) {
	case *protocol.Hello:
		p.control(s, ch, f)
	case *protocol.OpenLane:
		p.lane(s, ch)
	case *protocol.Subscribe:
		p.stream(s, ch, f)
	}
}

func (p *peer) control(s *link.Session, ch *link.Channel, f *protocol.Hello) {
	p.mu.Lock()
	p.hellos = append(p.hellos, hello{*f, time.Now()})
	p.sessions[s] = ch
	answer := protocol.Frame(&protocol.Welcome{
		Version: protocol.Version, Epoch: p.epoch, Node: protocol.NodeIDOf(s.PeerKey()),
		Head: p.seq, Now: protocol.TimeOf(time.Now()), Limits: p.limits, Software: "peer",
	})
	p.mu.Unlock()
	if p.onHello != nil {
		answer = p.onHello(f)
	}
	if answer != nil && answer != mute {
		send(ch, answer)
	}
	for {
		body, err := ch.Next()
		if err != nil {
			return
		}
		f, err := protocol.Parse(body)
		if err != nil {
			panic(err)
		}
		if answer := p.request(f); answer != nil {
			send(ch, answer)
		}
	}
}

func (p *peer) request(f protocol.Frame) protocol.Frame {
	if p.onRequest != nil {
		return p.onRequest(f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f := f.(type) {
	case *protocol.GetInfo:
		return &protocol.InfoState{ID: f.ID, Epoch: p.epoch.ID, Born: p.epoch.Born, Head: p.seq}
	case *protocol.GetFence:
		return &protocol.FenceState{ID: f.ID, Topic: f.Topic, Epoch: p.epoch.ID, K: 7, S: 3}
	case *protocol.Join:
		return &protocol.Done{ID: f.ID}
	}
	return nil
}

func (p *peer) lane(s *link.Session, ch *link.Channel) {
	sender := protocol.NodeIDOf(s.PeerKey())
	for {
		body, err := ch.Next()
		if err != nil {
			return
		}
		var f protocol.Publish
		if err := f.Parse(bytes.Clone(body)); err != nil {
			panic(err)
		}
		p.mu.Lock()
		p.got = append(p.got, f)
		p.changed.Broadcast()
		p.mu.Unlock()
		answer := p.publish(sender, &f)
		if answer != mute {
			send(ch, answer)
		}
	}
}

func (p *peer) publish(sender protocol.NodeID, f *protocol.Publish) protocol.Frame {
	if p.onPublish != nil {
		if answer := p.onPublish(f); answer != nil {
			return answer
		}
	}
	return p.accept(sender, f)
}

// accept puts a publish into the log, as a registry does.
func (p *peer) accept(sender protocol.NodeID, f *protocol.Publish) protocol.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ack, ok := p.keys[string(f.Key)]; ok {
		ack.N, ack.Duplicate = f.N, true
		return &protocol.Acks{List: []protocol.Ack{ack}}
	}
	if f.Flags&protocol.FlagResend != 0 && f.Epoch != p.epoch.ID {
		return &protocol.Refuse{N: f.N, Code: protocol.ErrUnknownOutcome}
	}
	ack := p.append(protocol.Message{Sender: sender, Topic: f.Topic, To: f.To, Payload: f.Payload, Key: f.Key})
	p.keys[string(f.Key)] = ack
	ack.N = f.N
	return &protocol.Acks{List: []protocol.Ack{ack}}
}

// append is under mu.
func (p *peer) append(m protocol.Message) protocol.Ack {
	p.seq++
	m.Seq, m.Time = p.seq, protocol.TimeOf(time.Now())
	p.log = append(p.log, m)
	p.changed.Broadcast()
	return protocol.Ack{Seq: m.Seq, Time: m.Time}
}

// put lets another node publish.
func (p *peer) put(topic, payload string) protocol.Seq {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.append(protocol.Message{Sender: 5, Topic: topic, Payload: []byte(payload)}).Seq
}

// evict drops all up to seq from the log.
func (p *peer) evict(seq protocol.Seq) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.evicted = seq
	p.log = slices.DeleteFunc(p.log, func(m protocol.Message) bool { return m.Seq <= seq })
}

func (p *peer) stream(s *link.Session, ch *link.Channel, f *protocol.Subscribe) {
	p.mu.Lock()
	p.opened = append(p.opened, *f)
	p.mu.Unlock()
	if p.onSubscribe != nil {
		if answer := p.onSubscribe(f); answer != nil {
			if answer != mute {
				send(ch, answer)
			}
			<-s.Done()
			return
		}
	}
	at, epoch := p.begin(f)
	send(ch, &protocol.Subscribed{Epoch: epoch, Position: at})
	if p.onStream != nil {
		p.onStream(ch, f)
		<-s.Done()
		return
	}
	p.deliver(s, ch, f, at)
}

// begin is where a subscription starts.
func (p *peer) begin(f *protocol.Subscribe) (protocol.Seq, protocol.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f.Epoch != 0 && f.Epoch != p.epoch.ID:
		return 0, p.epoch
	case f.Epoch != 0 || f.Start == protocol.StartAfter:
		return f.After, p.epoch
	case f.Start == protocol.StartNew:
		return p.seq, p.epoch
	}
	return 0, p.epoch
}

func (p *peer) deliver(s *link.Session, ch *link.Channel, f *protocol.Subscribe, at protocol.Seq) {
	// A reader of the other direction notices that the client has gone.
	gone := make(chan struct{})
	p.running.Go(func() {
		ch.Next()
		close(gone)
		p.mu.Lock()
		p.changed.Broadcast()
		p.mu.Unlock()
	})
	closed := func() bool {
		select {
		case <-gone:
			return true
		case <-s.Done():
			return true
		default:
			return p.isStopped()
		}
	}
	caught := false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.evicted > at {
		send(ch, &protocol.Gap{From: at + 1, To: p.evicted})
	}
	for !closed() {
		page := p.after(f, at)
		for _, m := range page {
			p.mu.Unlock()
			err := send(ch, &protocol.Deliver{Message: m})
			p.mu.Lock()
			if err != nil {
				return
			}
			at = m.Seq
		}
		if len(page) > 0 {
			continue
		}
		at = p.seq
		if !caught {
			caught = true
			send(ch, &protocol.CaughtUp{Seq: at, Fence: protocol.Fence{K: 7, S: 3}})
		}
		p.changed.Wait()
	}
}

// after lists what a subscription has not got yet, under mu.
func (p *peer) after(f *protocol.Subscribe, at protocol.Seq) []protocol.Message {
	var list []protocol.Message
	for _, m := range p.log {
		if m.Seq > at && (f.Source == protocol.SourceInbox || m.To == 0 && protocol.Match(f.Pattern, m.Topic)) {
			list = append(list, m)
		}
	}
	return list
}

// received lists the payloads of all publish frames that came, marked when resent.
func (p *peer) received() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, f := range p.got {
		text := string(f.Payload)
		if f.Flags&protocol.FlagResend != 0 {
			text += " again"
		}
		list = append(list, text)
	}
	return list
}

// stored lists the payloads in the log.
func (p *peer) stored() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []string{}
	for _, m := range p.log {
		list = append(list, string(m.Payload))
	}
	return list
}

// waitFor waits until cond holds; it is asked under the lock at each change.
func (p *peer) waitFor(cond func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond() {
		p.changed.Wait()
	}
}

// bubble runs a test with a network and a peer in virtual time.
func bubble(t *testing.T, test func(t *testing.T, p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stuck := time.AfterFunc(time.Hour, func() { panic("the test is stuck") })
		t.Cleanup(func() { stuck.Stop() })
		n := simnet.New(simnet.Options{Latency: latency})
		t.Cleanup(n.Close)
		test(t, newPeer(t, n))
	})
}

// dial connects a client on a node of its own.
func (p *peer) dial(node string, more ...func(*client.Options)) *client.Client {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), p.n.Addr("registry"), p.options(node, more...))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	return c
}

func (p *peer) options(node string, more ...func(*client.Options)) client.Options {
	o := client.Options{Key: keyOf(node), NoState: true, Name: node, PacketConn: p.n.Listen(node)}
	for _, f := range more {
		f(&o)
	}
	return o
}

// keyOf is the key of a node, by its name.
func keyOf(node string) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, node)
	return ed25519.NewKeyFromSeed(seed)
}

// publish hands over payloads on the topic t.
func publish(t *testing.T, c *client.Client, payloads ...string) []*client.Pending {
	var list []*client.Pending
	for _, text := range payloads {
		list = append(list, c.Publish(t.Context(), client.Publication{Topic: "t", Payload: []byte(text)}))
	}
	return list
}

func wait(t *testing.T, p *client.Pending) client.Ack {
	t.Helper()
	ack, err := p.Wait(t.Context())
	require.NoError(t, err)
	return ack
}

// subscribe opens a subscription that ends with the test.
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
		return fmt.Sprintf("epoch %d", i.Epoch.ID)
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i, err := s.Next(ctx)
	require.ErrorIs(t, err, context.Canceled, "unexpected: %s", show(i))
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

func numbers(from, to int) []string {
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func errorIs(err, target error) bool { return errors.Is(err, target) }
