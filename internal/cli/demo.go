package cli

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry"
	"github.com/pilotgo/pilotgo/registry/memlog"
	"github.com/spf13/cobra"
)

type demoOptions struct {
	messages       int
	interval, poll time.Duration
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show push against polling on a registry of its own",
		Long: `Start a registry on this machine, publish some messages, and show how long each takes
to two readers: one that subscribes, and one that polls the inbox as scripts do.
Nothing is kept, and nothing is sent to other machines.`,
		Example: `  pilotgo demo
  pilotgo --json demo --messages 5 --poll 500ms`,
		Args:        arguments(0, 0, "pilotgo demo has flags only"),
		Annotations: newKind,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.messages, "messages", 8, "how many messages to publish, up to 100")
	durationFlag(f, &o.interval, "interval", 700*time.Millisecond, "time between messages")
	durationFlag(f, &o.poll, "poll", 2*time.Second, "time between two looks at the inbox")
	return cmd
}

const demoTopic = "demo"

func (a *app) demo(ctx context.Context, o demoOptions) error {
	if o.messages < 1 || o.messages > 100 || o.poll <= 0 {
		return usagef("--messages is from 1 to 100, and --poll above 0")
	}
	s, err := startDemo(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	d := &demo{app: a, demoOptions: o, stage: s, push: make([]time.Duration, o.messages), polled: make([]time.Duration, o.messages)}
	if err := d.run(ctx); err != nil {
		return streamEnd(err)
	}
	return d.summary()
}

// stage is a registry on loopback with its three clients.
type stage struct {
	log                       *memlog.Log
	registry                  *registry.Registry
	publisher, pushed, polled *client.Client
}

func startDemo(ctx context.Context) (_ *stage, err error) {
	s := &stage{log: memlog.New(memlog.Options{})}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.registry, err = registry.New(registry.Options{Log: s.log, Key: link.NewIdentity().Key}); err != nil {
		return nil, err
	}
	addr, err := s.registry.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	for _, c := range []**client.Client{&s.publisher, &s.pushed, &s.polled} {
		if *c, err = client.Dial(ctx, addr.String(), client.Options{Key: link.NewIdentity().Key, NoState: true}); err != nil {
			return nil, err
		}
	}
	return s, s.polled.Join(ctx, demoTopic)
}

func (s *stage) close() {
	for _, c := range []*client.Client{s.publisher, s.pushed, s.polled} {
		if c != nil {
			c.Close()
		}
	}
	if s.registry != nil {
		s.registry.Close()
	}
	s.log.Close()
}

type demo struct {
	*app
	demoOptions
	*stage

	mu           sync.Mutex // guards what follows, and the output
	push, polled []time.Duration
	began        time.Time
}

// run publishes, reads in both ways, and ends when both readers have everything.
func (d *demo) run(ctx context.Context) error {
	sub, err := d.pushed.Subscribe(ctx, demoTopic)
	if err != nil {
		return err
	}
	d.began = time.Now()
	d.say("A registry and three clients on this machine. One client publishes %d messages;\n"+
		"one has subscribed to them, one looks into its inbox every %v.\n\n"+
		"  time     reader    message  arrived after\n", d.messages, d.poll)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, part := range []func(context.Context) error{d.publishAll, func(ctx context.Context) error { return d.readPushed(ctx, sub) }, d.readPolled} {
		wg.Go(func() {
			if err := part(ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (d *demo) publishAll(ctx context.Context) error {
	for i := range d.messages {
		if err := sleep(ctx, d.interval); err != nil {
			return err
		}
		// The payload tells when it was sent: all clients have the same clock.
		payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(i)), uint64(time.Since(d.began)))
		if _, err := d.publisher.PublishTo(ctx, demoTopic, payload); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) readPushed(ctx context.Context, sub client.Stream) error {
	left := d.messages
	for m, err := range client.Messages(ctx, sub) {
		if err != nil {
			return err
		}
		d.arrived("push", d.push, m)
		if left--; left == 0 {
			return nil
		}
	}
	return ctx.Err()
}

func (d *demo) readPolled(ctx context.Context) error {
	var after protocol.Seq
	for left := d.messages; left > 0; {
		if err := sleep(ctx, d.poll); err != nil {
			return err
		}
		for page, err := range d.stage.polled.Inbox(ctx, client.InboxOptions{After: after}) {
			if err != nil {
				return err
			}
			for i := range page.Messages {
				d.arrived("polling", d.polled, &page.Messages[i])
				after = page.Messages[i].Seq
				left--
			}
		}
	}
	return nil
}

// arrived notes and shows how long a message took.
func (d *demo) arrived(reader string, took []time.Duration, m *protocol.Message) {
	now := time.Since(d.began)
	i := binary.BigEndian.Uint64(m.Payload)
	latency := now - time.Duration(binary.BigEndian.Uint64(m.Payload[8:]))
	d.mu.Lock()
	took[i] = latency
	d.mu.Unlock()
	d.say("%6.2f s   %-8s %6d   %12s\n", now.Seconds(), reader, i+1, milliseconds(latency))
}

// say shows progress to people; a program gets the result only.
func (d *demo) say(format string, args ...any) {
	if d.json {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format, args...)
	d.out.Flush()
}

func milliseconds(t time.Duration) string { return fmt.Sprintf("%.1f ms", t.Seconds()*1000) }

// spread is what one way of reading took.
type spread struct {
	Median float64 `json:"median_ms"`
	Worst  float64 `json:"worst_ms"`
}

func spreadOf(took []time.Duration) spread {
	sorted := slices.Sorted(slices.Values(took))
	ms := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	return spread{ms(sorted[len(sorted)/2]), ms(sorted[len(sorted)-1])}
}

func (d *demo) summary() error {
	push, polled := spreadOf(d.push), spreadOf(d.polled)
	o := new(object).set("messages", d.messages).set("poll_ms", d.poll.Milliseconds()).set("push", push).set("polling", polled)
	return d.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "\n             median         worst\n")
		fmt.Fprintf(w, "push     %8.1f ms   %8.1f ms\n", push.Median, push.Worst)
		fmt.Fprintf(w, "polling  %8.1f ms   %8.1f ms\n", polled.Median, polled.Worst)
		fmt.Fprintf(w, "\nTry it yourself, each in a terminal of its own:\n\n  pilotgo registry serve\n  pilotgo subscribe localhost jobs --follow\n  pilotgo publish localhost jobs --data hello\n")
	})
}

// sleep waits, or ends early with the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
