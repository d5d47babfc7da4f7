package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
)

// replyTime is how long the registry may take for a first reply. Beyond it the
// session counts as dead.
const replyTime = 5 * time.Second

// connection is one session with a registry. The goroutine in serve owns it; a
// reader for each channel and a writer for each lane run beside it, and end
// with ctx.
type connection struct {
	c       *Client
	s       *link.Session
	addr    string
	control *link.Channel
	welcome *protocol.Welcome

	ctx   context.Context // ends with the connection; its cause tells why
	fail  context.CancelCauseFunc
	tasks sync.WaitGroup

	frames  chan protocol.Frame // from control
	opening atomic.Int32        // subscriptions that wait for the registry's word
	watched atomic.Bool         // the registry owes an answer, as far as is known

	// Owned by serve.
	asked  []*call // in the order sent, answered ones included
	nextID uint64
	after  time.Duration // when to come back, where the registry said so
	vigil
}

// open puts a new session to use.
func (c *Client) open(ctx context.Context, a dialled) (*connection, error) {
	n := &connection{c: c, s: a.s, addr: c.addrs[a.at], frames: make(chan protocol.Frame), vigil: newVigil()}
	if err := n.hello(ctx); err != nil {
		a.s.Close(closeCode(err))
		return nil, err
	}
	n.ctx, n.fail = context.WithCancelCause(c.ctx)
	n.begin()
	return n, nil
}

// closeCode is what the registry is told about a fault of its own.
func closeCode(err error) (protocol.Code, string) {
	switch code := protocol.CodeOf(err); code {
	case protocol.ErrMalformed, protocol.ErrTooLarge, protocol.ErrTimeout, protocol.ErrVersion:
		return code, err.Error()
	default:
		return 0, ""
	}
}

func (n *connection) hello(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, replyTime, errMute)
	defer cancel()
	ch, err := n.s.Open(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	n.control = ch
	ch.SetMaxFrame(protocol.MaxFirstFrame)
	hello := n.c.o.hello(n.c.self.Instance)
	if err := ch.SendContext(ctx, protocol.AppendFrame(nil, hello)); err != nil {
		return causeOf(ctx, err)
	}
	body, err := nextContext(ctx, ch)
	if err != nil {
		return ended("session", err)
	}
	f, err := protocol.Parse(body)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *protocol.Welcome:
		if err := f.Check(hello); err != nil {
			return err
		}
		if f.Node != n.c.self.Node {
			return protocol.Errorf(protocol.ErrMalformed, "the registry took this node for %d", f.Node)
		}
		if err := n.sameLog(f.Epoch); err != nil {
			return err
		}
		n.welcome = f
		ch.SetMaxFrame(f.Limits.MaxPageFrame())
		return nil
	case *protocol.Fail:
		return f.Err()
	}
	return protocol.Errorf(protocol.ErrMalformed, "hello answered by a frame of type %d", f.Type())
}

// sameLog is the error of an address that leads to another log than the client's
// other addresses: its epoch is not the known one and did not begin after it.
func (n *connection) sameLog(epoch protocol.Epoch) error {
	known := n.c.epoch
	if len(n.c.addrs) < 2 || known.ID == 0 || known.ID == epoch.ID || epoch.Born > known.Born {
		return nil
	}
	return protocol.Errorf(protocol.ErrWrongEpoch, "%s serves another log than the other addresses: epoch %v, not %v", n.addr, epoch.ID, known.ID)
}

var errMute = protocol.Errorf(protocol.ErrTimeout, "no answer within %v", replyTime)

// causeOf is the cause for which ctx ended, where that is why err came.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// nextContext is ch.Next with a context; when it ends the channel is of no use.
func nextContext(ctx context.Context, ch *link.Channel) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { ch.SetReadDeadline(time.Unix(1, 0)) })
	body, err := ch.Next()
	if !stop() || err != nil {
		return nil, causeOf(ctx, err)
	}
	return body, nil
}

// serve runs the session until it ends, and tells after what time the registry
// wants to see the client again, and why it ended.
func (n *connection) serve() (after time.Duration, err error) {
	timer := time.NewTimer(pingTime)
	defer timer.Stop()
	for n.ctx.Err() == nil {
		var err error
		select {
		case f := <-n.frames:
			err = n.handle(f)
		case <-n.c.ask:
			err = n.send()
		case <-timer.C:
			err = n.tick()
		case a := <-n.beside:
			err = n.answered(a)
		case <-n.ctx.Done():
		}
		if err != nil {
			n.fail(err)
			continue
		}
		n.attend()
		timer.Reset(time.Until(n.next()))
	}
	err = n.end()
	return n.after, err
}

// begin makes the connection the client's and sends what waits for one.
func (n *connection) begin() {
	c, w := n.c, n.welcome
	c.stats.connects.Add(1)
	c.maxPayload.Store(w.Limits.Payload)
	c.seen(w.Head)
	if c.epoch.ID != 0 && c.epoch.ID != w.Epoch.ID {
		c.head.Store(uint64(w.Head))
		c.events.emit(NewEpoch{Old: c.epoch, New: w.Epoch})
	}
	c.epoch = w.Epoch
	if key := n.s.PeerKey(); !key.Equal(c.key) {
		if c.key != nil {
			c.events.emit(KeyChanged{Old: c.key, New: key})
		}
		c.key = key
		hash := protocol.KeyHashOf(key)
		c.met.Store(&hash)
	}
	n.tasks.Go(n.readControl)
	again := 0
	for i := range c.lanes {
		again += n.attach(&c.lanes[i])
	}
	c.events.emit(Connected{Address: n.addr, Epoch: w.Epoch, Head: w.Head, Resent: again})
	n.take()
}

// take makes calls and subscriptions use the connection.
func (n *connection) take() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.conn, c.lost, c.hard = n, nil, nil
	for s := range c.subs {
		n.tasks.Go(func() { s.follow(n) })
	}
	if len(c.calls) > 0 {
		c.signal()
	}
}

// attach lets a lane send, and returns how many publishes go again. It has a
// channel once it has something to send: most clients only read.
func (n *connection) attach(l *lane) (again int) {
	again = l.attach(n.welcome.Epoch.ID, n.welcome.Limits.InFlight)
	n.tasks.Go(func() {
		n.fail(l.write(n.ctx, func() (*link.Channel, error) { return n.openLane(l) }, n.due))
	})
	return again
}

func (n *connection) openLane(l *lane) (*link.Channel, error) {
	ctx, cancel := context.WithTimeoutCause(n.ctx, replyTime, errMute)
	defer cancel()
	ch, err := n.s.Open(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	if l.which == protocol.LaneUrgent {
		ch.SetUrgent()
	}
	if err := ch.SendContext(ctx, protocol.AppendFrame(nil, &protocol.OpenLane{Lane: l.which})); err != nil {
		return nil, causeOf(ctx, err)
	}
	n.tasks.Go(func() { n.fail(l.read(ch)) })
	return ch, nil
}

// end takes the connection out of use and tells why it ended.
func (n *connection) end() error {
	c := n.c
	err := n.why()
	c.mu.Lock()
	c.conn, c.lost = nil, err
	c.mu.Unlock()
	for i := range c.lanes {
		c.lanes[i].detach()
	}
	n.s.Close(closeCode(err))
	n.tasks.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(n.unanswered(), c.calls...)
	if c.over {
		for _, call := range c.calls {
			call.reply(nil, errClosed)
		}
		c.calls = nil
	}
	return err
}

// why is the reason for the end.
func (n *connection) why() error {
	if n.c.ctx.Err() != nil {
		return errClosed
	}
	err := context.Cause(n.ctx)
	if errors.Is(err, protocol.ErrDraining) {
		n.after = max(n.after, retryAfter(err), firstDelay)
	}
	return foreign(err)
}

// unanswered lists the calls that have no answer.
func (n *connection) unanswered() []*call {
	var open []*call
	for _, call := range n.asked {
		if !call.answered() {
			open = append(open, call)
		}
	}
	return open
}

// readControl hands frames of the control channel to serve.
func (n *connection) readControl() {
	for {
		body, err := n.control.Next()
		if err != nil {
			n.fail(ended("session", err))
			return
		}
		f, err := protocol.Parse(body)
		if err != nil {
			n.fail(err)
			return
		}
		select {
		case n.frames <- f:
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *connection) handle(f protocol.Frame) error {
	switch f := f.(type) {
	case *protocol.Drain:
		n.drain(f)
		return nil
	case *protocol.Successor:
		return n.successor(&f.Succession)
	case *protocol.Fail:
		if f.ID == 0 {
			return f.Err()
		}
		return n.reply(f.ID, nil, f.Err())
	}
	id, ok := replyID(f)
	if !ok {
		return protocol.Errorf(protocol.ErrMalformed, "frame of type %d on the control channel", f.Type())
	}
	return n.reply(id, f, nil)
}

func (n *connection) drain(f *protocol.Drain) {
	n.after = max(f.RetryAfter, firstDelay)
	for i := range n.c.lanes {
		n.c.lanes[i].hold()
	}
	n.c.events.emit(Draining{RetryAfter: f.RetryAfter, Reason: f.Reason})
	n.c.o.Logger.Info("registry is draining", "registry", n.addr, "back_in", n.after, "reason", f.Reason)
}

// successor tells of the next key. Nothing is pinned yet: the registry shows the
// statement again when it uses the key.
func (n *connection) successor(s *protocol.Succession) error {
	if !s.Verify() || !n.s.PeerKey().Equal(s.Old) {
		return protocol.Errorf(protocol.ErrMalformed, "succession that this registry's key did not sign")
	}
	n.c.events.emit(KeyChanged{Old: s.Old, New: s.New, Announced: true})
	return nil
}

// replyID is the request that a frame answers.
func replyID(f protocol.Frame) (id uint64, ok bool) {
	switch f := f.(type) {
	case *protocol.Done:
		return f.ID, true
	case *protocol.FenceState:
		return f.ID, true
	case *protocol.JoinedPage:
		return f.ID, true
	case *protocol.InboxPage:
		return f.ID, true
	case *protocol.InfoState:
		return f.ID, true
	case *protocol.NodesPage:
		return f.ID, true
	case *protocol.TopicsPage:
		return f.ID, true
	case *protocol.TokensPage:
		return f.ID, true
	case *protocol.KeysPage:
		return f.ID, true
	}
	return 0, false
}

// reply hands an answer to its call. One that nobody waits for any more is
// dropped.
func (n *connection) reply(id uint64, f protocol.Frame, err error) error {
	for i, call := range n.asked {
		if call.id != id {
			continue
		}
		if err == nil && f.Type() != call.want {
			return protocol.Errorf(protocol.ErrMalformed, "request %d answered by a frame of type %d", id, f.Type())
		}
		n.asked = append(n.asked[:i], n.asked[i+1:]...)
		call.reply(f, err)
		return nil
	}
	if id == 0 || id > n.nextID {
		return protocol.Errorf(protocol.ErrMalformed, "answer to request %d, which was not made", id)
	}
	return nil
}

// send sends the calls that wait.
func (n *connection) send() error {
	for _, call := range n.c.takeCalls() {
		if err := n.ask(call); err != nil {
			return fmt.Errorf("send request: %w", err)
		}
	}
	return nil
}

func (n *connection) ask(call *call) error {
	n.nextID++
	call.id, call.sent = n.nextID, time.Now()
	n.asked = append(n.asked, call)
	n.watched.Store(true)
	ctx, cancel := context.WithTimeoutCause(n.ctx, replyTime, errMute)
	defer cancel()
	if err := n.control.SendContext(ctx, protocol.AppendFrame(nil, call.frame(call.id))); err != nil {
		return causeOf(ctx, err)
	}
	return nil
}
