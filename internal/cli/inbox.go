package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type inboxOptions struct {
	connection
	clear, full, all, partial, latest, follow bool
	limit                                     int
	from, topic                               string
	since                                     moment

	sender protocol.NodeID // of from; 0 = anyone
	direct bool            // direct messages only
}

func (a *app) inboxCommand() *cobra.Command {
	var o inboxOptions
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Print what was published to the topics of this node, and sent to it",
		Long: `Print the retained messages of every topic that this node has joined, by subscribe
or by publish, on every registry host that it uses, and the direct messages to it,
oldest first.

All hosts are asked at once. When one does not answer nothing is printed and the exit
code is 1, since a script could not tell a missing message from one that was never
sent; --partial prints what the others have. A host that is gone for good is dropped
by 'pilotgo registry forget HOST', or after a week.

The newest 64 MiB of payload are printed, and the newest message whatever its size;
where older ones were left out "truncated" is true. A payload that is no UTF-8 is in
data_b64, and what can be shown of it in data.

Candidacies of elections that are older than 25 seconds are left out, unless --full
is given: a node that has died since would win every election of the scripts.`,
		Example: `  pilotgo --json inbox | jq -r '.messages[] | .topic + ": " + .data'
  pilotgo inbox --topic jobs --limit 5
  pilotgo --json inbox --follow
  pilotgo inbox --clear`,
		Args: arguments(0, 0, "pilotgo inbox has flags only"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.inbox(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.clear, "clear", false, "do not show the present messages again")
	f.BoolVar(&o.full, "full", false, "with old election candidacies")
	f.BoolVar(&o.all, "all", false, "with messages that were cleared")
	f.BoolVar(&o.partial, "partial", false, "print what the hosts that answer have")
	f.BoolVar(&o.latest, "latest", false, "the newest message only")
	f.BoolVar(&o.follow, "follow", false, "go on with messages as they come, one JSON object on a line")
	f.IntVar(&o.limit, "limit", 0, "the newest so many messages")
	f.StringVar(&o.from, "from", "", "messages of one sender only: node id or address")
	f.StringVar(&o.topic, "topic", "", "messages of one topic only")
	f.Var(&o.since, "since", "messages from a time on: RFC 3339, unix seconds, or an age such as 10m")
	o.connection.flags(f, inboxPatience)
	return cmd
}

// inboxPatience is how long a host has to answer.
const inboxPatience = 2 * time.Second

func (a *app) inbox(ctx context.Context, o inboxOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	o.direct = a.compat.pilotctl // the real inbox has no others
	boxes, err := a.mailboxes(ctx, &o)
	if err != nil {
		return err
	}
	defer boxes.close()
	switch {
	case o.clear:
		return a.clearInbox(ctx, &o, boxes)
	case o.follow:
		return a.followInbox(ctx, &o, boxes)
	}
	list, cut := o.choose(boxes.merged())
	return a.printInbox(boxes, list, cut || boxes.truncated())
}

func (o *inboxOptions) check() (err error) {
	if o.limit < 0 {
		return usagef("invalid integer for --limit: %d is negative", o.limit)
	}
	if o.latest && o.limit > 1 {
		return usagef("--latest is one message, --limit %d is more", o.limit)
	}
	if o.latest {
		o.limit = 1
	}
	if o.from != "" {
		if o.sender, err = protocol.ParseNodeID(o.from); err != nil {
			return err
		}
	}
	if o.clear && (o.topic != "" || o.from != "" || o.limit != 0 || !o.since.IsZero() || o.follow) {
		return usagef("--clear is for the whole inbox")
	}
	return nil
}

// mailbox is the part of the inbox that one host keeps.
type mailbox struct {
	host      host
	client    *client.Client
	info      client.Info
	head      protocol.Seq // of the log when the listing began
	messages  []*message
	dropped   int // messages before these, left out for their size
	truncated bool
	silence   *time.Timer // ends the asking; nil is never
	err       error
}

type mailboxes []*mailbox

// mailboxes asks all hosts at once. It fails if one does not answer and the rest
// was not asked for.
func (a *app) mailboxes(ctx context.Context, o *inboxOptions) (mailboxes, error) {
	hosts, err := a.inboxHosts()
	if err != nil {
		return nil, err
	}
	boxes := make(mailboxes, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		boxes[i] = &mailbox{host: h}
		wg.Go(func() { boxes[i].err = boxes[i].answer(ctx, a, o) })
	}
	wg.Wait()
	if err := boxes.failed(); err != nil && (!o.partial || ctx.Err() != nil) {
		boxes.close()
		return nil, err
	}
	return boxes, nil
}

// inboxHosts are those in the book that count, and the default host.
func (a *app) inboxHosts() ([]host, error) {
	b, err := a.book()
	if err != nil {
		return nil, err
	}
	n, err := a.hosts()
	if err != nil {
		return nil, err
	}
	var hosts []host
	for _, addr := range b.counting(time.Now()) {
		hosts = append(hosts, host{word: b.Hosts[addr].Name, addr: addr})
	}
	if n.preferred != "" {
		h, err := n.fallback()
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(hosts, func(k host) bool { return k.addr == h.addr }) {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// answer is list for as long as the host is not silent. A large inbox may take its
// time, page by page.
func (m *mailbox) answer(ctx context.Context, a *app, o *inboxOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.timeout > 0 {
		m.silence = time.AfterFunc(o.timeout, func() { cancel(errSilent) })
		defer m.silence.Stop()
	}
	err := m.list(ctx, a, o)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return protocol.Errorf(protocol.ErrTimeout, "no answer from %s", m.host.addr)
	}
	return err
}

var errSilent = errors.New("silent for too long")

// list reads the host's part of the inbox. A log of a new epoch knows nothing of
// this node's topics: it is told, and asked again.
func (m *mailbox) list(ctx context.Context, a *app, o *inboxOptions) error {
	c, err := a.dial(ctx, m.host, o.connection)
	if err != nil {
		return err
	}
	m.client = c
	if err := m.ask(ctx, o); err != nil {
		return fmt.Errorf("%s: %w", m.host, err)
	}
	again, err := a.joined(m.host, m.info.Epoch.ID)
	a.unnoted(m.host, err) // a full disk does not keep one from reading
	if len(again) > 0 {
		if err := m.askAgain(ctx, o, again); err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		a.unnoted(m.host, a.rejoined(m.host, m.info.Epoch.ID))
	}
	if !o.full {
		m.messages = recent(m.messages, m.info.Now)
	}
	return nil
}

// ask asks at once for the messages and for how the registry is.
func (m *mailbox) ask(ctx context.Context, o *inboxOptions) error {
	var told error
	var wg sync.WaitGroup
	wg.Go(func() { m.info, told = m.client.Info(ctx) })
	err := m.pages(ctx, o)
	wg.Wait()
	if err != nil {
		return err
	}
	for _, msg := range m.messages {
		msg.epoch = m.info.Epoch.ID
	}
	return told
}

func (m *mailbox) askAgain(ctx context.Context, o *inboxOptions, topics []string) error {
	if err := rejoin(ctx, m.client, topics); err != nil {
		return err
	}
	return m.ask(ctx, o)
}

func (m *mailbox) pages(ctx context.Context, o *inboxOptions) error {
	m.messages, m.dropped, m.head, m.truncated = nil, 0, 0, false
	for page, err := range m.client.Inbox(ctx, client.InboxOptions{Topic: o.topic, All: o.all}) {
		if err != nil {
			return err
		}
		if m.silence != nil {
			m.silence.Reset(o.timeout)
		}
		m.take(page, o, m.client.Self().Node)
	}
	return nil
}

// take adds a page, and drops the oldest of what is too much.
func (m *mailbox) take(page *client.InboxPage, o *inboxOptions, self protocol.NodeID) {
	if m.head == 0 {
		m.head = page.Head
	}
	for _, msg := range page.Messages { // copies, or one that is kept would keep the page
		if o.wants(&msg) {
			m.messages = append(m.messages, &message{Message: &msg, host: m.host.addr, to: self})
		}
	}
	excess := len(m.messages) - fitting(m.messages)
	m.messages = slices.Delete(m.messages, 0, excess)
	m.dropped += excess
	m.truncated = m.truncated || page.Truncated || m.dropped > 0
}

// inboxBytes bounds the payloads of a listing.
const inboxBytes = 64 << 20

// fitting is how many of the newest messages have no more than inboxBytes of
// payload: at least the newest one.
func fitting(list []*message) int {
	room := inboxBytes
	for i, m := range slices.Backward(list) {
		if room -= len(m.Payload); room < 0 {
			return max(1, len(list)-1-i)
		}
	}
	return len(list)
}

func (o *inboxOptions) wants(m *protocol.Message) bool {
	return (o.sender == 0 || m.Sender == o.sender) && (!o.direct || m.Topic == "") &&
		(o.since.IsZero() || m.Time >= protocol.TimeOf(o.since.Time))
}

// recent leaves out candidacies that are too old at now.
func recent(list []*message, now time.Time) []*message {
	oldest := protocol.TimeOf(now.Add(-candidacyAge))
	return slices.DeleteFunc(list, func(m *message) bool { return m.Time < oldest && m.candidacy() })
}

func (b mailboxes) close() {
	var wg sync.WaitGroup
	for _, m := range b {
		if m.client != nil {
			wg.Go(func() { m.client.Close() })
		}
	}
	wg.Wait()
}

// failed names the hosts that did not answer.
func (b mailboxes) failed() error {
	var first error
	var names []string
	for _, m := range b {
		if m.err != nil {
			names = append(names, m.host.addr)
			if first == nil {
				first = m.err
			}
		}
	}
	if first == nil {
		return nil
	}
	f := *describe(first)
	if len(names) > 1 {
		f.message = fmt.Sprintf("nothing from %d hosts: %s; %s", len(names), strings.Join(names, " "), f.message)
	}
	if silent(first) {
		f.hint = "a host that is gone for good: pilotgo registry forget " + names[0]
	}
	if len(names) < len(b) {
		f.hint = strings.TrimSuffix("see the rest with --partial; "+f.hint, "; ")
	}
	return &f
}

// silent reports whether err may come from a host that is gone, and not from
// something that is wrong here or there.
func silent(err error) bool {
	var dns *net.DNSError
	code := protocol.CodeOf(err)
	return code == protocol.ErrNotConnected || code == protocol.ErrTimeout || errors.As(err, &dns)
}

// unreachable lists the hosts that did not answer.
func (b mailboxes) unreachable() []string {
	var list []string
	for _, m := range b {
		if m.err != nil {
			list = append(list, m.host.addr)
		}
	}
	return list
}

// logs are the mailboxes that answered, each log once: one registry may be known
// by several addresses.
func (b mailboxes) logs() mailboxes {
	seen := make(map[protocol.EpochID]bool)
	return slices.DeleteFunc(slices.Clone(b), func(m *mailbox) bool {
		known := seen[m.info.Epoch.ID]
		seen[m.info.Epoch.ID] = known || m.err == nil
		return m.err != nil || known
	})
}

// merged is the whole inbox: within a host by seq, across hosts by registry time.
func (b mailboxes) merged() []*message {
	var all []*message
	for _, m := range b.logs() {
		all = append(all, m.messages...)
	}
	slices.SortStableFunc(all, func(x, y *message) int { return cmp.Compare(x.Time, y.Time) })
	return all
}

func (b mailboxes) truncated() bool {
	return slices.ContainsFunc(b, func(m *mailbox) bool { return m.truncated })
}

// choose takes from the end of a list what is asked for, and reports whether
// something of that was too much.
func (o *inboxOptions) choose(list []*message) (chosen []*message, cut bool) {
	if o.limit > 0 && len(list) > o.limit {
		list = list[len(list)-o.limit:]
	}
	n := fitting(list)
	return list[len(list)-n:], n < len(list)
}

func (a *app) printInbox(boxes mailboxes, list []*message, truncated bool) error {
	if !a.json {
		return a.printInboxText(boxes, list, truncated, "inbox is empty")
	}
	render := (*message).appendJSON
	if a.compat.pilotctl {
		render = (*message).appendPlain
		slices.SortStableFunc(list, func(x, y *message) int { return strings.Compare(x.kind(), y.kind()) })
	}
	o := new(object).as("messages", "total").
		setMessages("messages", list, render).
		set("total", len(list)).
		set("truncated", truncated).
		set("unreachable", boxes.unreachable())
	return a.print(o.alias("items", "messages").listing("messages"), nil)
}

func (a *app) printInboxText(boxes mailboxes, list []*message, truncated bool, none string) error {
	for _, m := range list {
		m.writeText(a.out, a.terminal)
	}
	if len(list) == 0 {
		fmt.Fprintln(a.out, none)
	}
	if truncated {
		fmt.Fprintln(a.out, "older messages were left out")
	}
	for _, m := range boxes {
		switch {
		case m.err == nil:
		case silent(m.err):
			fmt.Fprintf(a.out, "without %s, which does not answer\n", m.host.addr)
		default:
			fmt.Fprintf(a.out, "without %s: %s\n", m.host.addr, shown(m.err.Error(), a.terminal))
		}
	}
	return a.flush()
}

// clearInbox moves the cursors behind what was listed.
func (a *app) clearInbox(ctx context.Context, o *inboxOptions, boxes mailboxes) error {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	cleared := 0
	for _, m := range boxes.logs() {
		if err := m.client.ClearInbox(ctx, m.head); err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		cleared += m.dropped
		for _, msg := range m.messages {
			if msg.Seq <= m.head {
				cleared++
			}
		}
	}
	return a.print(new(object).as("cleared").set("cleared", cleared), func(w *bufio.Writer) {
		fmt.Fprintf(w, "cleared %d messages\n", cleared)
	})
}

// followInbox prints what is there and then what comes, until it is stopped.
func (a *app) followInbox(ctx context.Context, o *inboxOptions, boxes mailboxes) error {
	if len(boxes) == 0 {
		e := usagef("there is no registry host to follow")
		e.hint = "subscribe to a topic first, or set PILOTGO_REGISTRY"
		return e
	}
	ctx, stop := untilUnread(ctx, a.stdout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	lines := make(chan *message)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for _, m := range boxes.logs() {
		m.messages = slices.DeleteFunc(m.messages, func(l *message) bool { return l.Seq > m.head }) // they come again
		sub, err := m.client.SubscribeInbox(ctx, client.FromSeq(m.head))
		if err != nil {
			return fmt.Errorf("%s: %w", m.host, err)
		}
		r := reader{app: a, host: m.host, self: m.client.Self().Node, stream: sub}
		wg.Go(func() { cancel(r.forward(ctx, lines)) })
	}
	present, _ := o.choose(boxes.merged())
	for _, m := range present {
		if err := a.printLine(m, false); err != nil {
			return err
		}
	}
	for {
		select {
		case m := <-lines:
			if o.wants(m.Message) && (o.topic == "" || m.Topic == o.topic) {
				if err := a.printLine(m, false); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return streamEnd(context.Cause(ctx))
		}
	}
}

// forward passes on what a subscription hands over, until it ends.
func (r *reader) forward(ctx context.Context, lines chan<- *message) error {
	for {
		m, err := r.next(ctx)
		if err != nil {
			return err
		}
		select {
		case lines <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
