package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// payload is where a message's bytes come from.
type payload struct {
	data, file string
	flags      *pflag.FlagSet
}

func (p *payload) add(f *pflag.FlagSet) {
	p.flags = f
	f.StringVar(&p.data, "data", "", "the message; - reads standard input")
	f.StringVar(&p.file, "data-file", "", "read the message from a file")
}

// maxRead is above what any registry takes.
const maxRead = 64 << 20

// read returns the bytes: of --data, of a file, else the words that are left,
// with spaces between. Only "-" reads standard input, so that nothing ever waits
// for it unasked.
func (p *payload) read(in io.Reader, words []string) ([]byte, error) {
	text := strings.Join(words, " ")
	switch given := p.flags.Changed("data"); {
	case p.file != "" && (given || len(words) > 0), given && len(words) > 0:
		return nil, usagef("the message is given twice: %q and a flag", cutText(text))
	case p.file != "":
		f, err := os.Open(p.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(f)
	case given:
		text = p.data
	case len(words) == 0:
		e := usagef("--data is required")
		e.hint = "--data TEXT, --data - for standard input, --data '' for an empty message"
		return nil, e
	}
	if text == "-" {
		return readAll(in)
	}
	return []byte(text), nil
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRead+1))
	if err == nil && len(b) > maxRead {
		err = protocol.Errorf(protocol.ErrTooLarge, "the message is above %d bytes", maxRead)
	}
	return b, err
}

func cutText(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

type publishOptions struct {
	connection
	payload
	fencing
	key, slot string
}

func (a *app) publishCommand() *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish HOST TOPIC [DATA…]",
		Short: "Publish a message to a topic, and join the topic",
		Long: `Publish a message to a topic of a registry host. The command ends with 0 only
when the message is in the registry's log. The topic then belongs to this node's
inbox.

A config_update on config:SWARM needs a version above the swarm's last one, an
integer from 1 to 2^53-1 such as $(date +%s); of two publishers of one version the
first wins and the other is told "conflict", unless both have the same config, byte
for byte: then the second ends with 0 too, "duplicate":true, and the first's seq.

When the answer is lost the code is "unknown_outcome": read the topic, or publish
again with the same --key, which the registry accepts once.

With --as-leader, or --fence, the registry takes the message only while that term of
an election lasts. The exit codes are those of 'pilotgo context' then: 13 when a later
term has begun.`,
		Example: `  pilotgo publish registry.example.com jobs --data '{"type":"job","id":7}'
  pilotgo publish registry.example.com jobs hello world
  tar c dir | pilotgo publish registry.example.com archives --data -
  pilotgo publish registry.example.com jobs --data '' --key job-7
  pilotgo election run localhost tasks -- sh -c 'pilotgo publish $PILOTGO_REGISTRY jobs --as-leader --data 1'`,
		Args: arguments(2, -1, "pilotgo publish HOST TOPIC --data TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.fencing.asked() { // pilotctl has nothing like it
				cmd.Annotations = newKind
			}
			return a.publish(cmd.Context(), o, args[0], args[1], args[2:])
		},
	}
	o.payload.add(cmd.Flags())
	o.connection.flags(cmd.Flags(), connectPatience)
	o.fencing.flags(cmd.Flags())
	cmd.Flags().StringVar(&o.key, "key", "", "idempotency key: the registry takes a message once per key")
	cmd.Flags().StringVar(&o.slot, "slot", "", "take the place of this node's last message of this topic and slot")
	return cmd
}

func (a *app) publish(ctx context.Context, o publishOptions, word, topic string, words []string) error {
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	if err := protocol.ValidTopic(topic); err != nil {
		return fmt.Errorf("topic %q: %w", topic, err)
	}
	data, err := o.payload.read(a.in, words)
	if err != nil {
		return err
	}
	update, err := readUpdate(topic, data)
	if err != nil {
		return err
	}
	fences, err := o.fencing.conditions()
	if err != nil {
		return err
	}
	if err := a.intend(h, topic); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	c, err := a.dial(ctx, h, o.connection)
	if err != nil {
		return err
	}
	defer c.Close()
	p := client.Publication{Topic: topic, Payload: data, Slot: o.slot, Key: []byte(o.key), Join: true, Conditions: fences}
	if update != nil {
		return a.publishUpdate(ctx, c, h, p, update)
	}
	ack, err := send(ctx, c, &p)
	if err != nil {
		return err
	}
	return a.published(ctx, c, h, p, ack)
}

// send publishes, and joins the topic if there is room in the inbox.
func send(ctx context.Context, c *client.Client, p *client.Publication) (client.Ack, error) {
	ack, err := c.Publish(ctx, *p).Wait(ctx)
	if errors.Is(err, protocol.ErrLimit) && p.Join {
		p.Join = false
		return send(ctx, c, p)
	}
	return ack, publishError(p.Topic, err)
}

// publishError tells what is known about a message without an ack. The client knows
// whether it may have left before the context ended.
func publishError(what string, err error) error {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if ended && errors.Is(err, protocol.ErrUnknownOutcome) {
		return protocol.Errorf(protocol.ErrUnknownOutcome, "no answer about the message to %s in time", what)
	}
	return err
}

// published notes the join and prints where the message is.
func (a *app) published(ctx context.Context, c *client.Client, h host, p client.Publication, ack client.Ack) error {
	if p.Join {
		a.used(ctx, c, h, ack.Epoch, p.Topic)
	} else {
		a.used(ctx, c, h, ack.Epoch)
		a.warn("not_joined", "the inbox of this node has no room for more topics")
	}
	o := new(object).as("bytes", "target", "topic").
		set("target", h.addr).set("topic", p.Topic).set("bytes", len(p.Payload)).
		set("seq", ack.Seq).set("epoch", ack.Epoch.String()).
		set("published_at", ack.Time.UTC().Format(time.RFC3339)).set("duplicate", ack.Duplicate)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "published %d bytes to %s on %s as #%d\n", len(p.Payload), p.Topic, h.addr, ack.Seq)
	})
}
