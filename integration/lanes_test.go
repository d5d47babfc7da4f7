package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/testenv"
	"github.com/pilotgo/pilotgo/protocol"
)

// office is clients that do all kinds of work at once, whatever happens to the
// registry, and note what they were told.
type office struct {
	t       *testing.T
	ctx     context.Context // of the whole test
	working context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	reading chan struct{} // closed when the reader has the last message
	keeper  *client.Client
	answers atomic.Int64

	mu      sync.Mutex
	acked   map[string]protocol.Seq // by topic and payload
	refused map[string]error
	slot    map[string]int // newest that was acknowledged, by topic
	joined  map[string]bool
	cleared protocol.Seq
	log     []protocol.Message
}

const (
	fullLane = 256 // publishes without an answer
	unread   = 700 // of a sender, well below what is retained
	fenced   = "election:office"
)

func openOffice(t *testing.T, p *process) *office {
	t.Helper()
	o := &office{
		t: t, acked: map[string]protocol.Seq{}, refused: map[string]error{}, slot: map[string]int{}, joined: map[string]bool{},
	}
	var cancel context.CancelFunc
	o.ctx, cancel = context.WithTimeout(t.Context(), max(3*testenv.Budget(t, 0), 4*time.Minute))
	t.Cleanup(cancel)
	o.working, o.stop = context.WithCancel(o.ctx)
	read := make([]chan struct{}, 6)
	for i, flight := range []int{fullLane, 64, 8} {
		read[i] = make(chan struct{}, unread)
		c := p.dial(fmt.Sprint("bulk ", i))
		o.work.Go(func() { o.bulk(c, fmt.Sprint("bulk.", i), flight, read[i]) })
	}
	for i := 3; i < 6; i++ {
		read[i] = make(chan struct{}, unread)
		c := p.dial(fmt.Sprint("claimant ", i))
		o.work.Go(func() { o.claim(c, i, read[i]) })
	}
	for i := range 2 {
		c := p.dial(fmt.Sprint("status ", i))
		o.work.Go(func() { o.report(c, fmt.Sprint("status.", i)) })
	}
	reader := p.dial("reader")
	sub, err := reader.Subscribe(o.ctx, "*", client.FromAll())
	require.NoError(t, err)
	o.reading = make(chan struct{})
	go o.read(sub, read)
	o.keeper = p.dial("keeper")
	o.work.Go(func() { o.keep(o.keeper) })
	return o
}

// publish notes the answer, before it calls then.
func (o *office) publish(c *client.Client, p client.Publication, then func(client.Ack, error)) {
	name := p.Topic + " " + string(p.Payload)
	pending := c.Publish(o.ctx, p)
	o.work.Go(func() {
		ack, err := pending.Wait(o.ctx)
		o.mu.Lock()
		switch code := protocol.CodeOf(err); {
		case err == nil:
			o.acked[name] = ack.Seq
		case errors.Is(err, protocol.ErrUnknownOutcome):
			o.t.Errorf("%s: the log knows every key: %v", name, err)
		case code == protocol.ErrConflict, code == protocol.ErrStaleTerm:
			o.refused[name] = err
		default:
			o.refused[name] = err
			o.t.Errorf("%s: %v", name, err)
		}
		o.mu.Unlock()
		o.answers.Add(1)
		then(ack, err)
	})
}

// bulk fills its lane with numbers.
func (o *office) bulk(c *client.Client, topic string, flight int, read chan struct{}) {
	room := make(chan struct{}, flight)
	for n := 0; ; n++ {
		for _, place := range []chan struct{}{room, read} {
			select {
			case place <- struct{}{}:
			case <-o.working.Done():
				return
			}
		}
		o.publish(c, client.Publication{Topic: topic, Payload: fmt.Append(nil, n)}, func(client.Ack, error) { <-room })
	}
}

// claim takes terms, each for some heartbeats.
func (o *office) claim(c *client.Client, who int, read chan struct{}) {
	var f client.FenceState
	var err error
	for n := 0; o.working.Err() == nil; n++ {
		if f, err = c.Fence(o.ctx, fenced); err != nil {
			continue // not connected
		}
		for range 5 {
			read <- struct{}{}
		}
		refused := func(err error) {
			if err != nil {
				<-read
			}
		}
		term := f.K + 1
		told := make(chan error, 1)
		o.publish(c, client.Publication{
			Topic: fenced, Payload: fmt.Appendf(nil, "claim %d %d %d", f.S, who, n),
			Conditions: []protocol.Condition{{Topic: fenced, Epoch: f.Epoch.ID, Term: term, HasExpect: true, Expect: f.S, Raise: term}},
		}, func(_ client.Ack, err error) {
			refused(err)
			told <- err
		})
		// The heartbeats do not wait for the claim, which is before them in the lane.
		for i := range 4 {
			o.publish(c, client.Publication{
				Topic: fenced, Payload: fmt.Appendf(nil, "beat %d %d %d", i, who, n),
				Conditions: []protocol.Condition{{Topic: fenced, Epoch: f.Epoch.ID, Term: term}},
			}, func(_ client.Ack, err error) { refused(err) })
		}
		<-told
	}
}

// report replaces its report again and again.
func (o *office) report(c *client.Client, topic string) {
	room := make(chan struct{}, 32)
	for n := 0; o.working.Err() == nil; n++ {
		room <- struct{}{}
		o.publish(c, client.Publication{Topic: topic, Slot: "s", Payload: fmt.Append(nil, n)}, func(_ client.Ack, err error) {
			o.mu.Lock()
			if err == nil {
				o.slot[topic] = max(o.slot[topic], n)
			}
			o.mu.Unlock()
			<-room
		})
	}
}

// keep joins and leaves topics, and clears its inbox.
func (o *office) keep(c *client.Client) {
	for n := 0; o.working.Err() == nil; n++ {
		topic, leave := fmt.Sprint("in.", n%50), n%3 == 0
		for again := true; again && o.ctx.Err() == nil; {
			do := c.Join
			if leave {
				do = c.Leave
			}
			again = do(o.ctx, topic) != nil // not connected
		}
		o.mu.Lock()
		if leave {
			delete(o.joined, topic)
		} else {
			o.joined[topic] = true
		}
		o.mu.Unlock()
		o.answers.Add(1)
		if upTo := o.head(); n%5 == 0 && c.ClearInbox(o.ctx, upTo) == nil {
			o.mu.Lock()
			o.cleared = max(o.cleared, upTo)
			o.mu.Unlock()
		}
		o.publish(c, client.Publication{To: c.Self().Node, Payload: fmt.Append(nil, n)}, func(client.Ack, error) {})
	}
}

func (o *office) head() protocol.Seq {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.log) == 0 {
		return 0
	}
	return o.log[len(o.log)-1].Seq
}

// read keeps the log, until the message that ends it.
func (o *office) read(sub client.Stream, read []chan struct{}) {
	defer close(o.reading)
	for m, err := range client.Messages(o.ctx, sub) {
		if !assert.NoError(o.t, err) {
			return
		}
		o.mu.Lock()
		o.log = append(o.log, *m)
		o.mu.Unlock()
		if who, err := strconv.Atoi(strings.TrimPrefix(m.Topic, "bulk.")); err == nil {
			<-read[who]
		}
		if m.Topic == fenced {
			<-read[whose(m)]
		}
		if m.Topic == "end" {
			return
		}
	}
}

// whose tells the claimant whom a fenced message is of.
func whose(m *protocol.Message) (who int) {
	words := strings.Fields(string(m.Payload))
	who, _ = strconv.Atoi(words[2])
	return who
}

// more waits for some more answers.
func (o *office) more(n int64) {
	o.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for goal := o.answers.Load() + n; o.answers.Load() < goal; {
		select {
		case <-tick.C:
		case <-o.ctx.Done():
			require.FailNow(o.t, "no more answers")
		}
	}
}

// close ends the work and compares the log with what everybody was told.
func (o *office) close(p *process) {
	o.t.Helper()
	o.stop()
	o.work.Wait()
	c := p.dial("closer")
	_, err := c.PublishTo(o.ctx, "end", []byte("end"))
	require.NoError(o.t, err)
	<-o.reading
	o.checkOrder()
	o.checkFence(c)
	o.checkSlots(c)
	o.checkInbox()
}

func (o *office) checkOrder() {
	o.t.Helper()
	at, next := map[string]protocol.Seq{}, map[string]int{}
	var last protocol.Seq
	for i := range o.log {
		m := &o.log[i]
		name := m.Topic + " " + string(m.Payload)
		require.Greater(o.t, m.Seq, last, "a seq comes twice")
		require.Zero(o.t, at[name], "%s is there twice", name)
		require.NoError(o.t, o.refused[name], "%s is there", name)
		last, at[name] = m.Seq, m.Seq
		if strings.HasPrefix(m.Topic, "bulk.") {
			require.Equal(o.t, fmt.Sprint(next[m.Topic]), string(m.Payload), "order of %s", m.Topic)
			next[m.Topic]++
		}
	}
	lost := 0
	for name, seq := range o.acked {
		if strings.HasPrefix(name, "status.") || strings.HasPrefix(name, " ") { // replaced, direct
			continue
		}
		if at[name] != seq {
			lost++
		}
	}
	require.Zero(o.t, lost, "acknowledged, and not where the ack said")
}

// checkFence goes through the fenced messages as the registry did.
func (o *office) checkFence(c *client.Client) {
	o.t.Helper()
	var f protocol.Fence
	claims, beats := 0, 0
	for i := range o.log {
		m := &o.log[i]
		if m.Topic != fenced {
			continue
		}
		term := m.Fences[0].Term
		var expect, who, n uint64
		if _, err := fmt.Sscanf(string(m.Payload), "claim %d %d %d", &expect, &who, &n); err == nil {
			require.EqualValues(o.t, f.S, expect, "%s", m.Payload)
			require.Greater(o.t, term, f.K)
			claims++
		} else {
			require.Equal(o.t, f.K, term, "%s", m.Payload)
			beats++
		}
		f = protocol.Fence{K: term, S: m.Seq}
	}
	state, err := c.Fence(o.ctx, fenced)
	require.NoError(o.t, err)
	require.Equal(o.t, f, state.Fence)
	o.t.Logf("%d messages, %d claims, %d heartbeats, %d refused", len(o.log), claims, beats, len(o.refused))
	require.Positive(o.t, claims)
	require.Positive(o.t, beats)
}

// checkSlots looks for the newest of each report, and no other.
func (o *office) checkSlots(c *client.Client) {
	o.t.Helper()
	for _, topic := range slices.Sorted(maps.Keys(o.slot)) {
		require.Equal(o.t, []string{fmt.Sprint(o.slot[topic])}, published(o.t, c, topic))
	}
}

// checkInbox looks for what was joined, and for nothing that was cleared.
func (o *office) checkInbox() {
	o.t.Helper()
	var joined []string
	for topic, err := range o.keeper.Joined(o.ctx) {
		require.NoError(o.t, err)
		joined = append(joined, topic)
	}
	require.Equal(o.t, slices.Sorted(maps.Keys(o.joined)), joined)
	require.Positive(o.t, o.cleared)
	var direct []protocol.Seq
	for page, err := range o.keeper.Inbox(o.ctx, client.InboxOptions{}) {
		require.NoError(o.t, err)
		for i := range page.Messages {
			require.Greater(o.t, page.Messages[i].Seq, o.cleared)
			if page.Messages[i].Topic == "" {
				direct = append(direct, page.Messages[i].Seq)
			}
		}
	}
	var sent []protocol.Seq
	for name, seq := range o.acked {
		if strings.HasPrefix(name, " ") && seq > o.cleared {
			sent = append(sent, seq)
		}
	}
	slices.Sort(sent)
	require.Equal(o.t, sent[max(0, len(sent)-1000):], direct, "so many are retained")
}

// Whatever ends a registry under load, and again: each lane's messages are in the
// log in the order in which they were called for, once; fences, slots, joins and
// cursors are as the answers said.
func TestLanesKeepTheirOrderWhenTheRegistryEnds(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		registryEnds(t, t.TempDir(), (*process).kill)
	})
	t.Run("terminated", func(t *testing.T) {
		registryEnds(t, t.TempDir(), func(p *process) {
			began := time.Now()
			p.tell(syscall.SIGTERM)
			code, said := p.ended()
			require.Zero(t, code, "%s", said)
			require.Less(t, time.Since(began), 30*time.Second)
		})
	})
}

func registryEnds(t *testing.T, store string, end func(*process)) {
	t.Helper()
	budget := testenv.Budget(t, 0)
	p := registryProcess(t, "--store", store)
	o := openOffice(t, p)
	began, ends := time.Now(), 0
	for ends < 3 || time.Since(began) < budget {
		o.more(100 + rand.Int64N(5000))
		end(p)
		p.start()
		ends++
	}
	o.more(1000)
	o.close(p)
	t.Logf("ended %d times", ends)
}
