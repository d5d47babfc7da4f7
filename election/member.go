package election

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Member is one member of a group: an observer, and a candidate while it
// campaigns. Its methods may be called from any goroutine.
//
// It has one subscription and publishes by itself only while it campaigns or
// leads. Once that subscription has ended for good, because the connection was
// closed or the topic may not be read any more, the error of that is the error of
// every call.
type Member struct {
	conn       client.Conn
	o          Options
	topic      string
	instance   protocol.Instance
	bestEffort bool // the link has no fences, or no order for all
	blind      bool // nor does it tell when it is there
	suspend    bool // the clock goes on while the machine is suspended
	stream     client.Stream

	done  chan struct{}  // closed when loop has ended
	tasks sync.WaitGroup // of loop: publish, and who waits for answers
	runs  sync.WaitGroup // calls of Run
	sends chan *sending  // to publish, closed by loop

	mu     sync.Mutex
	posted []func()           // for loop
	wake   context.CancelFunc // ends rest
	ending error              // why nothing begins any more
	over   bool               // loop has ended
	record record

	// Owned by loop:
	machine  machine
	reader   reader
	rest     context.Context // ends when loop has more to do than to read
	events   []event         // of actions, for after them
	stepping bool
	now      instant // of the last look at the clock
	timer    *time.Timer
	due      instant
	broken   bool         // the subscription has ended
	arrived  protocol.Seq // messages of a link without a common order
	out      []*sending
	stands   *campaign   // not elected yet
	leads    *Leadership // until it is lost
	won      *Leadership // in this step
	lost     *Leadership // in this step, without a resign
	counted  bool        // the message of this step as one that does not count
}

// Join subscribes to the group's topic and observes from then on. ctx bounds
// only the opening. The caller closes the Member; conn stays open.
//
// Errors: protocol.ErrInvalid for options that cannot work, with the inequality
// that does not hold, and those of conn's Subscribe.
func Join(ctx context.Context, conn client.Conn, o Options) (*Member, error) {
	m, err := join(ctx, conn, o)
	if err != nil {
		return nil, fmt.Errorf("election %q: %w", o.Group, err)
	}
	return m, nil
}

func join(ctx context.Context, conn client.Conn, o Options) (*Member, error) {
	self, ownClock := conn.Self(), o.Clock != nil
	o, err := o.validate(self.Node)
	if err != nil {
		return nil, err
	}
	can := conn.Capabilities()
	m := &Member{
		conn: conn, o: o, topic: o.topic(),
		bestEffort: !can.Fences || !can.Ordered,
		blind:      !can.Fences && !can.History,
		suspend:    countsSuspend || ownClock,
		done:       make(chan struct{}),
		sends:      make(chan *sending, maxSends),
		due:        never,
	}
	var seed [8]byte
	rand.Read(seed[:])
	// Not the connection's instance: its own publishes have keys that begin with
	// that, and count from one as the attempts do.
	rand.Read(m.instance[:])
	if m.machine, err = newMachine(settings{
		Topic: m.topic, Node: self.Node, Instance: m.instance, Seed: binary.BigEndian.Uint64(seed[:]),
		Priority: o.Priority, Timing: o.Timing, Plain: o.Plain, Preempt: o.Preempt,
		BestEffort: m.bestEffort,
	}); err != nil {
		return nil, err
	}
	m.record.begin(o.WallClock())
	m.rest, m.wake = context.WithCancel(context.Background())
	if m.stream, err = conn.Subscribe(ctx, m.topic, m.from()); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// from is where the subscription begins.
func (m *Member) from() client.SubscribeOption {
	if m.blind {
		return client.FromNew()
	}
	return client.FromAll()
}

func (m *Member) begin() {
	m.timer = time.AfterFunc(time.Hour, func() { m.post(m.fired) })
	m.timer.Stop()
	if !m.suspend {
		m.o.Logger.Warn("deadlines stand still while this machine is suspended", "group", m.o.Group)
	}
	if m.bestEffort {
		m.o.Logger.Warn("best effort: the link has no fences, so two can lead for a while", "group", m.o.Group)
	}
	m.tasks.Go(m.publish)
	go m.loop()
}

// Close ends the membership: it ends a campaign, and a leadership as a lead of
// Run that returns does. It waits until the work under the leadership has
// stopped, or its lease is over; until the resign has left, for no longer than
// others wait for this leader anyway (Timing.Silence); and for calls of Run, so
// lead must not call it. It is idempotent, and leaves the connection open.
func (m *Member) Close() error {
	m.post(func() {
		m.finish(fmt.Errorf("election %q: %w: %w", m.o.Group, protocol.ErrClosed, net.ErrClosed))
	})
	<-m.done
	m.runs.Wait()
	return nil
}

// post has loop call f, and reports whether it will.
func (m *Member) post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	m.posted = append(m.posted, f)
	m.wake()
	return true
}

// call waits until loop has called f, if it still does. Loop does not block, so
// there is no ctx.
func (m *Member) call(f func()) {
	done := make(chan struct{})
	if m.post(func() { f(); close(done) }) {
		<-done
	}
}

// err is why nothing begins any more.
func (m *Member) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending
}

// loop is the one goroutine around the machine.
func (m *Member) loop() {
	if m.blind {
		m.step(caughtUp{}) // there is nothing to catch up with
	}
	for !m.finished() {
		m.next()
		for _, f := range m.take() {
			f()
		}
		m.answers()
	}
	m.end()
}

// next waits for the next item, or until there is something else to do.
func (m *Member) next() {
	if m.broken {
		<-m.rest.Done()
		return
	}
	m.hear(m.rest)
}

// hear takes what the subscription has to say, and reports whether it was an item.
func (m *Member) hear(ctx context.Context) bool {
	item, err := m.stream.Next(ctx)
	switch {
	case err == nil:
		m.read(item)
		return true
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	default:
		m.broken = true
		m.finish(fmt.Errorf("election %q: %w", m.o.Group, err))
	}
	return false
}

// take begins another rest, then takes what was posted: what comes after it
// ends the rest.
func (m *Member) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rest.Err() != nil {
		m.rest, m.wake = context.WithCancel(context.Background())
	}
	list := m.posted
	m.posted = nil
	return list
}

// fired hands over what there is to say, and then that the time has come.
func (m *Member) fired() {
	if m.clock() < m.due {
		m.arm() // a timer from before, or one that is ahead of the clock
		return
	}
	m.drain()
	if !m.machine.leads() { // a leader's deadlines are not put off
		m.giveWay()
	}
	if m.clock() >= m.due {
		m.step(timerFired{})
	}
}

// A message is handed on so often in this process, from the socket to a Member.
const handOvers = 6

// giveWay lets those run who are about to hand over what was received. Where many
// members share few processors their readers stand in the same queue as the timer
// did, and hold what makes a candidacy or a silence needless.
func (m *Member) giveWay() {
	for range handOvers {
		runtime.Gosched()
	}
	m.drain()
}

// maxDrain bounds how long a flood of messages puts a deadline off.
const maxDrain = 4096

// drain takes what is at hand.
func (m *Member) drain() {
	for range maxDrain {
		if m.broken || !m.hear(atHand) {
			break
		}
	}
	m.answers()
}

// atHand is a context that is over.
var atHand = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// read hands an item to the machine.
func (m *Member) read(item client.Item) {
	if m.bestEffort {
		item.Epoch = protocol.Epoch{}
	}
	switch item.Kind {
	case client.ItemMessage:
		m.readMessage(item)
	case client.ItemCaughtUp:
		m.step(caughtUp{Epoch: item.Epoch, Seq: item.Seq, Fence: item.Fence})
	case client.ItemGap:
		m.step(gapFound{})
	case client.ItemEpoch:
		m.forget()
		m.step(epochBegan{Epoch: item.Epoch})
	case client.ItemDisconnected:
		m.step(disconnected{})
	}
}

func (m *Member) readMessage(item client.Item) {
	if m.blind && !m.machine.caughtUp {
		m.step(caughtUp{}) // the link is back
	}
	e := m.reader.reading(item.Message, item.Epoch)
	if m.bestEffort {
		m.arrived++
		e.Seq = m.arrived // no order but this one
	}
	m.counted = false
	m.step(e)
	m.note(e, item.Message)
}

// step tells the machine what happened and does what it says, all of it before
// the next event.
func (m *Member) step(e event) {
	m.events = append(m.events, e)
	if m.stepping {
		return
	}
	m.stepping = true
	for len(m.events) > 0 {
		e, m.events = m.events[0], m.events[1:]
		var actions []action
		m.machine, actions = m.machine.Step(m.clock(), e)
		for _, a := range actions {
			m.do(a)
		}
		m.settle()
	}
	m.stepping = false
}

// settle tells what has come of a step, once all of it is done: who is told can
// see the rest.
func (m *Member) settle() {
	m.snapshot()
	if l := m.lost; l != nil {
		m.lost = nil
		l.finish(l.lost.Load())
	}
	if l := m.won; l != nil {
		m.won = nil
		l.campaign.result <- result{l: l}
	}
}

// clock reads the clock, which the machine wants to go ahead only.
func (m *Member) clock() instant {
	m.now = max(m.now, instant(m.o.Clock()))
	return m.now
}

func (m *Member) do(a action) {
	switch a := a.(type) {
	case sendAction:
		m.send(a)
	case timerAction:
		m.due = a.At
		m.arm()
	case leadAction:
		m.begun(a)
	case renewAction:
		m.leads.until.Store(int64(a.Until))
	case cancelAction:
		m.cancelled(a)
	case lostAction:
		m.ended(a)
	case showAction:
		m.show(a)
	case countAction:
		m.count(a)
	}
}

// arm sets the timer to when the machine wants to be asked again, counted from
// the last look at the clock: if that was a while ago, fired looks again.
func (m *Member) arm() {
	if m.due == never {
		m.timer.Stop()
		return
	}
	m.timer.Reset(m.due.Sub(m.now))
}

// finish begins the end.
func (m *Member) finish(err error) {
	m.mu.Lock()
	if m.ending == nil {
		m.ending = err
	}
	err = m.ending
	m.mu.Unlock()
	if c := m.stands; c != nil {
		m.stands = nil
		c.fail(err)
	}
	m.step(withdrawAsked{})
}

// finished reports whether nothing is left to wait for. A resign has no chance
// while there is no connection.
func (m *Member) finished() bool {
	return m.err() != nil && m.leads == nil && (!m.machine.caughtUp || !m.resigns())
}

// end leaves nothing behind.
func (m *Member) end() {
	m.timer.Stop()
	m.giveUpSends()
	close(m.sends)
	_ = m.stream.Close()
	m.tasks.Wait()
	for _, s := range m.out {
		_, _, err := s.pending.Result()
		if err != nil {
			err = fmt.Errorf("%w: %w", protocol.ErrNotConnected, err) // see finished
		}
		s.finish(err)
	}
	m.stepping = true // nothing happens any more, whatever is still posted
	m.mu.Lock()
	m.over = true
	left := m.posted
	m.posted = nil
	m.wake()
	close(m.record.changed)
	m.mu.Unlock()
	for _, f := range left {
		f() // nothing begins any more
	}
	close(m.done)
}
