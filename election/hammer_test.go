package election_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/election"
	"github.com/pilotgo/pilotgo/fakeregistry"
	"github.com/pilotgo/pilotgo/protocol"
)

// hammer is what many goroutines do to some members at once.
type hammer struct {
	t       *testing.T
	members []*election.Member

	mu    sync.Mutex
	leads []*election.Leadership
	terms map[uint64]int
	done  map[string]int
}

// blow does one thing to one member, whatever others do to it.
func (h *hammer) blow(r *rand.Rand) {
	m := h.members[r.IntN(len(h.members))]
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(r.IntN(int(2*lan.Silence))))
	defer cancel()
	defer func() {
		end, _ := ctx.Deadline()
		assert.LessOrEqual(h.t, time.Since(end), 100*time.Millisecond, "a call outlasts its context")
	}()
	switch r.IntN(7) {
	case 0, 1:
		l, err := m.Campaign(ctx)
		h.judge("campaign", err)
		if err == nil {
			h.led(l)
		}
	case 2:
		h.judge("run", m.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
			h.led(l)
			_, err := l.Publish(ctx, client.Publication{Topic: "config:fleet"}).Wait(ctx)
			h.judge("publish", err)
			if r.IntN(2) == 0 {
				<-ctx.Done()
			}
			return errOver
		}))
	case 3, 4:
		if l := h.any(r); l != nil {
			h.judge("resign", l.Resign(ctx))
		}
	case 5:
		h.judge("ask", m.Ask(ctx, ""))
	case 6:
		for o, err := range m.Observe(ctx) {
			h.judge("observe", err)
			if o.Leader != "" && r.IntN(2) == 0 {
				break
			}
		}
		m.Status()
	}
}

var errOver = errors.New("the work is over")

// judge wants errors that a caller can make sense of.
func (h *hammer) judge(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	outcome := "done"
	for _, known := range []error{
		nil, errOver, context.Canceled, context.DeadlineExceeded, net.ErrClosed,
		protocol.ErrStaleTerm, protocol.ErrInvalid, protocol.ErrDenied, protocol.ErrNotFound, protocol.ErrUnknownOutcome,
	} {
		if errors.Is(err, known) {
			if known != nil {
				outcome = known.Error()
			}
			h.done[what+": "+outcome]++
			return
		}
	}
	h.t.Errorf("%s: %v", what, err)
}

// led notes a leadership, which may be over already.
func (h *hammer) led(l *election.Leadership) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.terms[l.Term()]++
	h.leads = append(h.leads, l)
}

func (h *hammer) any(r *rand.Rand) *election.Leadership {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.leads) == 0 {
		return nil
	}
	return h.leads[len(h.leads)-1-r.IntN(min(3, len(h.leads)))]
}

// Every call in every order, from many goroutines, and Close among them: each
// comes to an end with an error that makes sense, no term is led twice, and
// nothing is left.
func TestCallsInEveryOrder(t *testing.T) {
	all := map[string]int{}
	for seed := range uint64(6) {
		bubble(t, func(t *testing.T, reg *fakeregistry.Registry) {
			h := &hammer{t: t, terms: map[uint64]int{}, done: all}
			for _, node := range []string{"a", "a", "b"} {
				h.members = append(h.members, member(t, reg, node))
			}
			var work sync.WaitGroup
			end := time.Now().Add(10 * time.Second)
			for i := range 24 {
				work.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					for time.Now().Before(end) {
						h.blow(r)
						time.Sleep(time.Duration(r.IntN(int(lan.Silence))))
					}
				})
			}
			for i, m := range h.members {
				for range 2 {
					work.Go(func() {
						time.Sleep(time.Duration(6+i) * time.Second)
						start := time.Now()
						assert.NoError(t, m.Close())
						assert.LessOrEqual(t, time.Since(start), lan.Lease+lan.Silence)
					})
				}
			}
			work.Wait()
			for _, l := range h.leads {
				require.False(t, l.Valid())
				require.Error(t, l.Err())
				<-l.Done()
			}
			for term, n := range h.terms {
				require.Equal(t, 1, n, "term %d", term)
			}
		})
	}
	t.Log(all)
	for _, outcome := range []string{
		"campaign: done", "campaign: " + context.DeadlineExceeded.Error(), "campaign: " + net.ErrClosed.Error(),
		"run: " + errOver.Error(), "resign: done", "ask: done", "publish: done",
	} {
		require.NotZero(t, all[outcome], outcome)
	}
}
