package cli

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
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
		Short: "Show an election, a rollout and push against polling, live",
		Long: `Start a registry on this machine and show, live: five agents that elect a leader, a
failover when it is cut off the network, a handover; a configuration that is refused,
one that is rolled out in steps, and one that rolls itself back; and how long messages
take to a reader that subscribes and to one that polls the inbox as scripts do. It ends
by itself. Nothing is kept, and nothing is sent to other machines.`,
		Example: `  pilotgo demo
  pilotgo --json demo | jq .election.failover_ms`,
		Args:        arguments(0, 0, "pilotgo demo has flags only"),
		Annotations: newKind,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.messages, "messages", 5, "how many messages to publish for the comparison with polling, up to 100")
	durationFlag(f, &o.interval, "interval", 500*time.Millisecond, "time between messages")
	durationFlag(f, &o.poll, "poll", 2*time.Second, "time between two looks at the inbox")
	return cmd
}

// The acts of the demonstration, in their order. Each one adds to the result.
var acts = []func(*demo, context.Context) error{
	(*demo).electionAct,
	(*demo).configAct,
	(*demo).pushAct,
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	if o.messages < 1 || o.messages > 100 || o.poll <= 0 {
		return usagef("--messages is from 1 to 100, and --poll above 0")
	}
	s, err := openStage()
	if err != nil {
		return err
	}
	defer s.close()
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	d := &demo{app: a, demoOptions: o, stage: s, began: time.Now(), result: new(object)}
	for _, act := range acts {
		if err := act(d, ctx); err != nil && ctx.Err() != nil {
			return streamEnd(ended(ctx))
		} else if err != nil {
			return err
		}
	}
	return d.print(d.result, func(w *bufio.Writer) {
		fmt.Fprint(w, `
Try it yourself, each in a terminal of its own:

  pilotgo registry serve
  pilotgo election run localhost tasks -- sh -c 'echo I lead; sleep 1000'
  pilotgo election watch localhost tasks
  pilotgo config follow workers --host localhost --out config.json
  echo '{"max_workers":10}' | pilotgo config publish workers --host localhost -f -
`)
	})
}

// stage is a registry on loopback with what its visitors left open.
type stage struct {
	log      *memlog.Log
	registry *registry.Registry
	addr     string

	mu      sync.Mutex
	closers []func() // the last one is called first
}

func openStage() (_ *stage, err error) {
	s := &stage{log: memlog.New(memlog.Options{})}
	s.onClose(func() { s.log.Close() })
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.registry, err = registry.New(registry.Options{Log: s.log, Key: link.NewIdentity().Key}); err != nil {
		return nil, err
	}
	s.onClose(func() { s.registry.Close() })
	at, err := s.registry.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = at.String()
	return s, nil
}

func (s *stage) onClose(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, f)
}

func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// enter brings a new agent on the stage; socket may be nil.
func (s *stage) enter(ctx context.Context, socket net.PacketConn) (*client.Client, error) {
	return s.enterAs(ctx, link.NewIdentity(), socket)
}

func (s *stage) enterAs(ctx context.Context, id link.Identity, socket net.PacketConn) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	c, err := client.Dial(ctx, s.addr, client.Options{Key: id.Key, NoState: true, PacketConn: socket})
	if err == nil {
		s.onClose(func() { c.Close() })
	}
	return c, err
}

type demo struct {
	*app
	demoOptions
	*stage
	began  time.Time
	result *object

	output sync.Mutex
}

// say shows progress to people; a program gets the result only.
func (d *demo) say(format string, args ...any) {
	if d.json {
		return
	}
	d.output.Lock()
	defer d.output.Unlock()
	fmt.Fprintf(d.out, format, args...)
	d.out.Flush()
}

// line shows what somebody does, and when.
func (d *demo) line(who, format string, args ...any) {
	d.say("%6.2f s   %-8s  %s\n", time.Since(d.began).Seconds(), who, fmt.Sprintf(format, args...))
}

func milliseconds(t time.Duration) string { return fmt.Sprintf("%.1f ms", inMS(t)) }

func inMS(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }

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
