package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type subscribeOptions struct {
	connection
	follow  bool
	count   int
	timeout time.Duration
	from    start
	limited bool // there is a timeout
	endless bool // it was said that there is none
}

func (a *app) subscribeCommand() *cobra.Command {
	var o subscribeOptions
	cmd := &cobra.Command{
		Use:   "subscribe [HOST] TOPIC",
		Short: "Join a topic, or print its messages as they come",
		Long: `Without flags, join the topic: its messages belong to this node's inbox from now
on, with those that the registry still keeps, and the command returns at once.

With --follow, print each message as it comes, as JSON on a line of its own. With
--count or --timeout, collect messages and print them together; a time-out is no error.
An interrupt (SIGINT, SIGTERM) prints what was collected, with "interrupted":true, and
ends with 1 and the code "interrupted"; --follow ends with 0.
A connection that is lost is made again, and what came meanwhile follows; but where
the registry does not admit this node any more, or shows another key, the command ends
with that error.

TOPIC may be a pattern then: "*" alone, or a prefix ending in ".*" or ":*". TIME of
--from is RFC 3339, unix seconds, or an age such as 10m.`,
		Example: `  pilotgo subscribe registry.example.com config:workers
  pilotgo --json subscribe registry.example.com jobs --follow
  pilotgo --json subscribe registry.example.com jobs --count 3 --timeout 30s
  pilotgo subscribe registry.example.com 'jobs.*' --follow --from since:10m`,
		Args: arguments(1, 2, "pilotgo subscribe HOST TOPIC [--follow | --count N | --timeout D]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.limited = o.timeout > 0
			o.endless = !o.limited && cmd.Flags().Changed("timeout")
			if len(args) == 1 {
				args = []string{"", args[0]}
			}
			return a.subscribe(cmd.Context(), o, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.follow, "follow", false, "print messages as they come, one JSON object on a line")
	f.BoolVar(&o.follow, "ndjson", false, "the same as --follow")
	f.IntVar(&o.count, "count", 0, "end after so many messages")
	durationFlag(f, &o.timeout, "timeout", 0, "end after so long, counted from when the subscription stands; 0 is never")
	o.from.text = "new"
	f.Var(&o.from, "from", "begin with new, last, all, seq:N or since:TIME")
	o.connection.flags(f, 0)
	return cmd
}

func (a *app) subscribe(ctx context.Context, o subscribeOptions, word, topic string) error {
	if o.count < 0 {
		return usagef("invalid integer for --count: %d is negative", o.count)
	}
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	if !a.streams(o) && o.count == 0 && !o.limited {
		if o.endless {
			e := usagef("--timeout 0 would collect for ever and print nothing")
			e.hint = "--follow prints messages as they come; --count ends the collecting"
			return e
		}
		return a.join(ctx, o, h, topic)
	}
	if err := protocol.ValidPattern(topic); err != nil {
		return fmt.Errorf("topic %q: %w", topic, err)
	}
	return a.read(ctx, o, h, topic)
}

// streams tells whether messages are printed as they come. The real pilotctl does
// so unless there is a count.
func (a *app) streams(o subscribeOptions) bool {
	return o.follow || a.compat.pilotctl && o.count == 0
}

// join puts the topic into this node's inbox.
func (a *app) join(ctx context.Context, o subscribeOptions, h host, topic string) error {
	if err := protocol.ValidTopic(topic); err != nil {
		f := describe(fmt.Errorf("topic %q: %w", topic, err))
		if protocol.ValidPattern(topic) == nil {
			f.hint = "a pattern can be followed: --follow, --count or --timeout"
		}
		return f
	}
	if err := a.intend(h, topic); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	c, err := a.dial(ctx, h, o.connection)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Join(ctx, topic); err != nil {
		return err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	a.used(ctx, c, h, info.Epoch.ID, topic)
	r := new(object).set("target", h.addr).set("topic", topic).set("subscribed", true).
		set("seq", info.Head).set("epoch", info.Epoch.ID.String())
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "subscribed to %s on %s; read it with: pilotgo inbox\n", topic, h.addr)
	})
}

// read prints or collects messages until there are enough or the time is up.
func (a *app) read(ctx context.Context, o subscribeOptions, h host, pattern string) error {
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	c, sub, err := a.open(ctx, o, h, pattern)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop = untilBarred(ctx, c)
	defer stop()
	if o.limited { // to read, not to connect
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeUp)
		defer cancel()
	}
	r := reader{app: a, host: h, self: c.Self().Node, stream: sub, count: o.count, text: !a.json && !o.follow}
	if a.streams(o) {
		return r.follow(ctx)
	}
	return r.collect(ctx)
}

var errTimeUp = errors.New("the time is up")

// ended is why a context has ended: errTimeUp, errReaderGone, that of a barredError,
// or its own error.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if barred := (*barredError)(nil); errors.As(cause, &barred) {
		return barred.error
	}
	if errors.Is(cause, errTimeUp) || errors.Is(cause, errReaderGone) {
		return cause
	}
	return ctx.Err()
}

// open connects and subscribes, within a time that a registry may take at all.
func (a *app) open(ctx context.Context, o subscribeOptions, h host, pattern string) (*client.Client, client.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	c, err := a.dial(ctx, h, o.connection)
	if err != nil {
		return nil, nil, err
	}
	sub, err := c.Subscribe(ctx, pattern, o.from.option())
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	if s, ok := sub.(*client.Subscription); ok && s.Narrowed() {
		a.warn("narrowed", fmt.Sprintf("%s also matches topics that this node may not read: they are left out", pattern))
	}
	return c, sub, nil
}

func (s *start) option() client.SubscribeOption {
	switch s.kind {
	case protocol.StartLast:
		return client.FromLast()
	case protocol.StartAll:
		return client.FromAll()
	case protocol.StartAfter:
		return client.FromSeq(s.after)
	case protocol.StartSince:
		return client.Since(s.since)
	default:
		return client.FromNew()
	}
}

// reader prints what a subscription hands over.
type reader struct {
	*app
	host   host
	self   protocol.NodeID
	stream client.Stream
	count  int  // 0 = no end
	text   bool // for people, not JSON
}

// next waits for the next message. The error is as ended tells when that is why there
// is none.
func (r *reader) next(ctx context.Context) (*message, error) {
	for {
		item, err := r.stream.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ended(ctx)
		case err != nil:
			return nil, err
		case item.Kind == client.ItemMessage:
			return &message{item.Message, item.Epoch.ID, r.host.addr, r.self}, nil
		}
		r.tell(item)
	}
}

// tell says what is no message: a loss always, the rest where it was asked for.
func (r *reader) tell(item client.Item) {
	switch item.Kind {
	case client.ItemGap:
		r.warn("gap", fmt.Sprintf("messages from %d to %d left the log before they were read", item.From, item.To))
	case client.ItemEpoch:
		r.warn("new_epoch", fmt.Sprintf("the registry began a new log, %s", item.Epoch.ID))
	default:
		if log := r.logger(); log != nil {
			log.Info("subscription", "disconnected", item.Kind == client.ItemDisconnected, "caught up to", item.Seq)
		}
	}
}

// follow prints each message on a line of its own, at once.
func (r *reader) follow(ctx context.Context) error {
	for n := 0; r.count == 0 || n < r.count; n++ {
		m, err := r.next(ctx)
		if err != nil {
			return streamEnd(err)
		}
		if err := r.printLine(m, r.text); err != nil {
			return err
		}
	}
	return nil
}

// streamEnd is the error of a stream that ended: none if it was asked to.
func streamEnd(err error) error {
	if errors.Is(err, errTimeUp) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *app) printLine(m *message, text bool) error {
	switch {
	case text:
		m.writeLine(a.out, a.terminal)
	case a.compat.pilotctl:
		a.out.Write(append(m.appendEvent(nil), '\n'))
	default:
		a.out.Write(append(m.appendJSON(nil), '\n'))
	}
	return a.flush()
}

// collect prints all messages together at the end.
func (r *reader) collect(ctx context.Context) error {
	var events []*message
	var early error
	for early == nil && (r.count == 0 || len(events) < r.count) {
		m, err := r.next(ctx)
		switch {
		case err == nil:
			events = append(events, m)
		case errors.Is(err, errTimeUp), errors.Is(err, context.Canceled):
			early = err
		case len(events) == 0:
			return err
		default:
			early = err
		}
	}
	if err := r.printEvents(events, early); err != nil || errors.Is(early, errTimeUp) {
		return err
	}
	return early // there is less than was asked for
}

// printEvents prints what was collected until early, which is nil when that is all.
func (r *reader) printEvents(events []*message, early error) error {
	if !r.json {
		for _, m := range events {
			m.writeLine(r.out, r.terminal)
		}
		return r.flush()
	}
	o := new(object)
	switch {
	case r.compat.pilotctl && len(events) == 0:
		o.setRaw("events", []byte("null"))
	case r.compat.pilotctl:
		o.setMessages("events", events, (*message).appendEvent)
	default:
		o.setMessages("events", events, (*message).appendJSON)
	}
	o.set("timeout", errors.Is(early, errTimeUp))
	if errors.Is(early, context.Canceled) && !r.compat.pilotctl {
		o.set("interrupted", true)
	}
	if r.count == 1 && len(events) == 1 && !r.compat.pilotctl {
		single(o, events[0])
	}
	return r.print(o, nil)
}

// single puts the fields of the only message beside data, for scripts that read
// the result as the message itself.
func single(o *object, m *message) {
	object := compactObject(m.Payload)
	o.flat("sender", marshal(m.Sender))
	if object == nil {
		return
	}
	o.flat("payload", object)
	for _, k := range members(object, maxCopied) {
		if (k.key == "type" || !own[k.key]) && !singleOwn[k.key] && !o.has(k.key) {
			o.flat(k.key, k.raw)
		}
	}
}

// singleOwn are keys that mean something of their own beside data.
var singleOwn = map[string]bool{"events": true, "messages": true, "timeout": true, "interrupted": true}
