package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotgo/pilotgo/protocol"
)

// pingTime is how often a client that asks nothing else asks for a sign of life.
// A registry that restarted answers the ping with a reset; the packets by which
// QUIC keeps a connection open are too small for that, and a client that only
// reads would sit out the whole idle time-out.
const pingTime = 3 * time.Second

// vigil is how a connection finds out that its registry has gone. While nothing is
// due it costs a ping now and then.
type vigil struct {
	watch     watch
	on        bool          // an answer is due
	tolerance time.Duration // for silence, before another address is dialled

	lookAt, pingAt, askAt, knockAt, dialAt time.Time

	beside chan dialled // the dial of another address; nil while there is none
	heir   dialled      // the session that takes the place of this one
}

func newVigil() vigil {
	return vigil{
		pingAt: time.Now().Add(pingTime),
		// Not all clients of a registry leave it in one moment.
		tolerance: leaveAfter + rand.N(leaveAfter/2),
	}
}

// due tells serve that the registry owes an answer. It may be called from any
// goroutine, and costs nothing while serve knows that.
func (n *connection) due() {
	if !n.watched.Load() && n.watched.CompareAndSwap(false, true) {
		n.c.signal()
	}
}

// owed reports whether the registry owes an answer.
func (n *connection) owed() bool {
	return len(n.asked) > 0 || n.opening.Load() > 0 || n.c.lanes[0].owed() || n.c.lanes[1].owed()
}

// attend watches the registry from when it owes an answer until it owes none.
func (n *connection) attend() {
	switch watched := n.watched.Load(); {
	case watched && !n.on:
		now := time.Now()
		received, sent := n.s.Traffic()
		n.watch.begin(now, received, sent)
		n.on, n.lookAt = true, now.Add(lookEvery)
	case watched && len(n.asked) == 0:
		// First, or what becomes due meanwhile would not be seen.
		n.watched.Store(false)
		if n.owed() {
			n.watched.Store(true)
			return
		}
		n.on = false
	}
}

// next is when serve has to look after something.
func (n *connection) next() time.Time {
	at := n.pingAt
	if n.on && n.lookAt.Before(at) {
		at = n.lookAt
	}
	if late := time.Now().Add(n.overdue()); late.Before(at) {
		at = late
	}
	return at
}

// tick looks after what should have been answered, and pings when nothing waits
// for an answer.
func (n *connection) tick() error {
	now := time.Now()
	if n.overdue() == 0 {
		return errMute
	}
	if n.on && !now.Before(n.lookAt) {
		if err := n.look(now); err != nil {
			return err
		}
	}
	if now.Before(n.pingAt) {
		return nil
	}
	n.pingAt = now.Add(pingTime)
	if len(n.asked) > 0 {
		return nil
	}
	return n.ping()
}

func (n *connection) ping() error {
	ping := &call{want: protocol.TypeDone, frame: func(id uint64) protocol.Frame {
		return &protocol.Ping{ID: id, Pad: make([]byte, protocol.PingSize)}
	}}
	ping.over.Store(true) // nobody waits for it, and no other connection repeats it
	if err := n.ask(ping); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// overdue is how long the oldest call may still wait; 0 when it has waited too
// long. Calls that were given up count, too.
func (n *connection) overdue() time.Duration {
	if len(n.asked) == 0 {
		return replyTime
	}
	return max(0, time.Until(n.asked[0].sent.Add(replyTime)))
}

// look does what the registry's silence so far is a reason for.
func (n *connection) look(now time.Time) error {
	n.lookAt = now.Add(lookEvery)
	received, sent := n.s.Traffic()
	n.watch.look(now, received, sent)
	patience := n.s.Patience()
	if !n.watch.silent(knockAfter, 3, patience) {
		return nil
	}
	if !n.watch.owing(sent) {
		return n.askAgain(now)
	}
	if !now.Before(n.knockAt) {
		n.knock(now)
	}
	if len(n.c.addrs) > 1 && n.beside == nil && !now.Before(n.dialAt) && n.watch.silent(n.tolerance, 6, patience) {
		n.dialBeside()
	}
	return nil
}

// askAgain has the registry's transport say something.
func (n *connection) askAgain(now time.Time) error {
	if now.Before(n.askAt) {
		return nil
	}
	n.askAt = now.Add(askEvery)
	return n.ping()
}

// knock ends the connection if the system learns that nobody listens there. What
// came meanwhile proves the contrary.
func (n *connection) knock(now time.Time) {
	n.knockAt = now.Add(knockEvery)
	received := n.watch.received
	n.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, knockEvery)
		defer cancel()
		err := n.s.Knock(ctx)
		if after, _ := n.s.Traffic(); err != nil && after == received {
			n.fail(err)
		}
	})
}

// dialBeside dials the other addresses of the log while the connection stays.
func (n *connection) dialBeside() {
	answer := make(chan dialled)
	n.beside = answer
	d := n.c.dial(n.ctx, n.c.others())
	n.tasks.Go(func() {
		defer d.stop()
		a, err := d.session()
		a.err = err
		select {
		case answer <- a:
		case <-n.ctx.Done():
			a.drop()
		}
	})
}

var errSilent = protocol.Errorf(protocol.ErrNotConnected, "the registry has gone silent, and another one answers")

// answered ends the connection in favour of a session with another address, unless
// the registry has been heard meanwhile. Of the two sessions only one is ever the
// client's: the registries know nothing of the other before that.
func (n *connection) answered(a dialled) error {
	n.beside = nil
	received, _ := n.s.Traffic()
	switch {
	case a.err != nil:
		n.dialAt = time.Now().Add(leaveAfter)
		return nil
	case !n.on || received != n.watch.received:
		n.tasks.Go(a.drop)
		return nil
	}
	n.heir = a
	return errSilent
}
