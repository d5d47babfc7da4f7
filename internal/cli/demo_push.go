package cli

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
)

const demoTopic = "demo"

// comparison is how long the messages of one publisher took to two readers.
type comparison struct {
	*demo
	publisher, pushed, polled *client.Client

	mu         sync.Mutex // guards what follows
	push, poll []time.Duration
	began      time.Time
}

// pushAct publishes, reads in both ways, and ends when both readers have everything.
func (d *demo) pushAct(ctx context.Context) error {
	c := &comparison{demo: d, push: make([]time.Duration, d.messages), poll: make([]time.Duration, d.messages)}
	for _, who := range []**client.Client{&c.publisher, &c.pushed, &c.polled} {
		var err error
		if *who, err = d.enter(ctx, nil); err != nil {
			return err
		}
	}
	if err := c.polled.Join(ctx, demoTopic); err != nil {
		return err
	}
	sub, err := c.pushed.Subscribe(ctx, demoTopic)
	if err != nil {
		return err
	}
	d.say("\nPUSH AND POLLING. One agent publishes %d messages; one has subscribed to them,\n"+
		"one looks into its inbox every %v, as scripts do.\n\n"+
		"  time     reader    message  arrived after\n", d.messages, d.demoOptions.poll)
	c.began = time.Now()
	if err := together(ctx, c.publishAll, func(ctx context.Context) error { return c.readPushed(ctx, sub) }, c.readPolled); err != nil {
		return err
	}
	c.tellResult()
	return nil
}

// together runs parts until all have ended, or one of them with an error.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *comparison) publishAll(ctx context.Context) error {
	for i := range c.messages {
		if err := sleep(ctx, c.interval); err != nil {
			return err
		}
		// The payload tells when it was sent: all clients have the same clock.
		payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(i)), uint64(time.Since(c.began)))
		if _, err := c.publisher.PublishTo(ctx, demoTopic, payload); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) readPushed(ctx context.Context, sub client.Stream) error {
	left := c.messages
	for m, err := range client.Messages(ctx, sub) {
		if err != nil {
			return err
		}
		c.arrived("push", c.push, m)
		if left--; left == 0 {
			return nil
		}
	}
	return ctx.Err()
}

func (c *comparison) readPolled(ctx context.Context) error {
	var after protocol.Seq
	for left := c.messages; left > 0; {
		if err := sleep(ctx, c.demoOptions.poll); err != nil {
			return err
		}
		for page, err := range c.polled.Inbox(ctx, client.InboxOptions{After: after}) {
			if err != nil {
				return err
			}
			for i := range page.Messages {
				c.arrived("polling", c.poll, &page.Messages[i])
				after = page.Messages[i].Seq
				left--
			}
		}
	}
	return nil
}

// arrived notes and shows how long a message took.
func (c *comparison) arrived(reader string, took []time.Duration, m *protocol.Message) {
	now := time.Since(c.began)
	i := binary.BigEndian.Uint64(m.Payload)
	latency := now - time.Duration(binary.BigEndian.Uint64(m.Payload[8:]))
	c.mu.Lock()
	took[i] = latency
	c.mu.Unlock()
	c.say("%6.2f s   %-8s %6d   %12s\n", now.Seconds(), reader, i+1, milliseconds(latency))
}

// spread is what one way of reading took.
type spread struct {
	Median float64 `json:"median_ms"`
	Worst  float64 `json:"worst_ms"`
}

func spreadOf(took []time.Duration) spread {
	sorted := slices.Sorted(slices.Values(took))
	return spread{inMS(sorted[len(sorted)/2]), inMS(sorted[len(sorted)-1])}
}

func (c *comparison) tellResult() {
	push, poll := spreadOf(c.push), spreadOf(c.poll)
	c.result.set("messages", c.messages).set("poll_ms", c.demoOptions.poll.Milliseconds()).set("push", push).set("polling", poll)
	c.say("\n             median         worst\n")
	c.say("push     %8.1f ms   %8.1f ms\n", push.Median, push.Worst)
	c.say("polling  %8.1f ms   %8.1f ms\n", poll.Median, poll.Worst)
}
