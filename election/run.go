package election

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

// Run joins a group, campaigns and calls lead each time this member is elected,
// until ctx ends or lead returns while it leads; see [Member.Run]. Then it leaves
// the group. It returns within 100 ms of ctx's end, or of lead's return if that is
// later.
func Run(ctx context.Context, conn client.Conn, o Options, lead func(ctx context.Context, l *Leadership) error) error {
	m, err := Join(ctx, conn, o)
	if err != nil {
		return err
	}
	defer m.leave(ctx)
	_, err = m.run(ctx, lead)
	return err
}

// leave is Close, but does not wait for answers for longer than ctx lasts and
// grace.
func (m *Member) leave(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { m.post(m.giveUpSends) })
	})
	defer stop()
	m.Close()
}

// giveUpSends ends the wait for all answers.
func (m *Member) giveUpSends() {
	for _, s := range m.out {
		s.cancel()
	}
}

// Run campaigns and calls lead each time this member is elected, on the caller's
// goroutine. The context given to lead is the leadership: it ends Timing.Stop
// before the lease does, with a *[LostError] as its cause, and with ctx. lead must
// return then, and does best within Timing.Stop.
//
// When lead returns while it leads, Run resigns, which hands over at once, and
// returns what lead returned. When the leadership was lost, Run waits for lead to
// return and campaigns again. When ctx ends, Run resigns once lead has returned,
// and returns what lead returned, or ctx.Err() if that is nil. In each case it
// waits for the answer to the resign: at most Timing.Silence, and 100 ms once ctx
// has ended. The resign goes on after that, and Close waits for it.
//
// Other errors are those of [Member.Campaign].
func (m *Member) Run(ctx context.Context, lead func(ctx context.Context, l *Leadership) error) error {
	l, err := m.run(ctx, lead)
	if l != nil {
		l.await(ctx)
	}
	return err
}

// run is Run without the wait for the end of the last leadership, which it
// returns, if there was one.
func (m *Member) run(ctx context.Context, lead func(context.Context, *Leadership) error) (*Leadership, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.runs.Done()
	for {
		l, err := m.elect(ctx, &campaign{ctx: ctx, result: make(chan result, 1)})
		if err != nil {
			return nil, err
		}
		lost, err := m.work(ctx, l, lead)
		if lost && ctx.Err() == nil {
			m.o.Logger.Debug("the work of a lost leadership has ended", "group", m.o.Group, "term", l.Term(), "error", err)
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		return l, err
	}
}

// enter counts a call of Run, for Close.
func (m *Member) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending == nil {
		m.runs.Add(1)
	}
	return m.ending
}

// work calls lead and tells when it has returned, also when it panics: nobody
// else would end the leadership.
func (m *Member) work(ctx context.Context, l *Leadership, lead func(context.Context, *Leadership) error) (lost bool, err error) {
	defer func() {
		m.call(func() { lost = m.returned(l, ctx.Err() != nil) })
	}()
	return true, lead(l.ctx, l)
}

// Campaign blocks until this member is elected. When ctx ends first it withdraws,
// with ctx.Err(). The Leadership's Context has the values of ctx, and outlives it.
//
// After Done the holder stops its work and calls [Leadership.Resign] to say so;
// without that, nobody can lead until the lease is over. One campaign can go on at
// a time, and none while the member leads: that is protocol.ErrInvalid. Refusals
// that will not change, such as protocol.ErrDenied, end the campaign and are its
// error; over others it goes on, see [Status].
func (m *Member) Campaign(ctx context.Context) (*Leadership, error) {
	return m.elect(ctx, &campaign{ctx: context.WithoutCancel(ctx), byHand: true, result: make(chan result, 1)})
}

// campaign is a call that waits for its leadership.
type campaign struct {
	ctx    context.Context // the leadership's begins with it
	byHand bool            // the caller says when the work is over
	result chan result     // holds one
}

type result struct {
	l   *Leadership
	err error
}

func (c *campaign) fail(err error) { c.result <- result{err: err} }

func (m *Member) elect(ctx context.Context, c *campaign) (*Leadership, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !m.post(func() { m.stand(c) }) {
		return nil, m.err()
	}
	select {
	case r := <-c.result:
		return r.l, r.err
	case <-ctx.Done():
		m.call(func() { m.withdraw(c) })
		return nil, ctx.Err()
	}
}

// stand begins a campaign. The rest of a leadership that has ended is waited for.
func (m *Member) stand(c *campaign) {
	switch {
	case m.err() != nil:
		c.fail(m.err())
	case m.stands != nil:
		c.fail(protocol.Errorf(protocol.ErrInvalid, "election %q: this member campaigns already", m.o.Group))
	case m.leads != nil && m.leads.lost.Load() == nil:
		c.fail(protocol.Errorf(protocol.ErrInvalid, "election %q: this member leads already", m.o.Group))
	default:
		m.stands = c
		m.step(campaignAsked{})
	}
}

// withdraw ends a campaign that nobody waits for, and its leadership.
func (m *Member) withdraw(c *campaign) {
	switch {
	case m.stands == c:
		m.stands = nil
		m.step(withdrawAsked{})
	case m.leads != nil && m.leads.campaign == c:
		m.returned(m.leads, true)
	}
}

// giveUp ends a campaign that is refused.
func (m *Member) giveUp(err error) {
	c := m.stands
	m.stands = nil
	m.step(withdrawAsked{})
	c.fail(fmt.Errorf("campaign in %q: %w", m.o.Group, err))
}

// begun begins a leadership.
func (m *Member) begun(a leadAction) {
	c := m.stands
	m.stands = nil
	l := &Leadership{m: m, token: a.Token, campaign: c, over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(c.ctx)
	l.until.Store(int64(a.Until))
	m.leads, m.won = l, l
	m.o.Logger.Info("leads", "group", m.o.Group, "term", a.Token.Term, "epoch", a.Token.Epoch)
}

// cancelled tells the work to stop.
func (m *Member) cancelled(a cancelAction) {
	l := m.leads
	why := &LostError{l.token, a.Reason}
	l.lost.Store(why)
	l.cancel(why)
	if l.idle {
		m.step(workStopped{})
	}
}

// ended ends a leadership. Only who asked for another one stays a candidate.
func (m *Member) ended(a lostAction) {
	m.o.Logger.Info("leads no more", "group", m.o.Group, "term", a.Token.Term, "reason", a.Reason.String())
	m.lost, m.leads = m.leads, nil
	if m.stands == nil {
		m.step(withdrawAsked{})
	}
}

// returned notes that the work of a leadership is over, and reports whether the
// leadership had ended before. Else it ends now, as withdrawn or as resigned.
func (m *Member) returned(l *Leadership, withdraws bool) (lost bool) {
	lost = l.lost.Load() != nil
	if m.leads != l {
		return lost
	}
	l.idle = true
	switch {
	case lost:
		m.step(workStopped{})
	case withdraws:
		m.step(withdrawAsked{})
	default:
		m.step(resignAsked{})
	}
	return lost
}
