package client

import (
	"context"
	"time"

	"github.com/pilotgo/pilotgo/internal/link"
)

// dialEvery is how long one address has before the next is dialled beside it.
const dialEvery = 500 * time.Millisecond

// dials is a race of dials to addresses of the log. Its methods are for one
// goroutine.
type dials struct {
	c       *Client
	ctx     context.Context
	cancel  context.CancelFunc
	waiting []int       // addresses to dial
	next    *time.Timer // when the first of them may be
	running int
	ended   chan dialled // has room for all
}

// dialled is how a dial ended: with a session or an error.
type dialled struct {
	s   *link.Session
	at  int // index of the address
	err error
}

// dial begins to dial addresses, in turn: each once the one before has failed or
// had its time.
func (c *Client) dial(ctx context.Context, addrs []int) *dials {
	d := &dials{c: c, waiting: addrs, next: time.NewTimer(dialEvery), ended: make(chan dialled, len(addrs))}
	d.ctx, d.cancel = context.WithCancel(ctx)
	return d
}

// others lists the addresses behind the one in use, in turn.
func (c *Client) others() []int {
	list := make([]int, 0, len(c.addrs))
	for i := range len(c.addrs) - 1 {
		list = append(list, (c.at+1+i)%len(c.addrs))
	}
	return list
}

// first waits for the next dial to end; ok is false when there is none any more.
func (d *dials) first() (a dialled, ok bool) {
	for {
		if d.running == 0 {
			if len(d.waiting) == 0 {
				return dialled{}, false
			}
			d.start()
		}
		var next <-chan time.Time
		if len(d.waiting) > 0 {
			next = d.next.C
		}
		select {
		case a := <-d.ended:
			d.running--
			if a.err != nil && len(d.waiting) > 0 {
				d.start()
			}
			return a, true
		case <-next:
			d.start()
		}
	}
}

// session waits for the first session of all dials, and the error of none.
func (d *dials) session() (dialled, error) {
	var failed []error
	for a, ok := d.first(); ok; a, ok = d.first() {
		if a.err == nil {
			return a, nil
		}
		failed = append(failed, a.err)
	}
	return dialled{}, worst(failed)
}

func (d *dials) start() {
	at := d.waiting[0]
	d.waiting = d.waiting[1:]
	d.running++
	d.next.Reset(dialEvery)
	go func() {
		conf := d.c.link
		conf.Host = d.c.addrs[at]
		s, err := link.Dial(d.ctx, conf.Host, conf)
		d.ended <- dialled{s, at, err}
	}()
}

// stop ends the dials under way, and closes sessions that nobody took.
func (d *dials) stop() {
	d.cancel()
	d.next.Stop()
	for ; d.running > 0; d.running-- {
		(<-d.ended).drop()
	}
}

// drop closes a session that is of no use.
func (a dialled) drop() {
	if a.s != nil {
		a.s.Close(0, "")
	}
}
