package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
first wins and the other is told "conflict".

When the answer is lost the code is "unknown_outcome": read the topic, or publish
again with the same --key, which the registry accepts once.`,
		Example: `  pilotgo publish registry.example.com jobs --data '{"type":"job","id":7}'
  pilotgo publish registry.example.com jobs hello world
  tar c dir | pilotgo publish registry.example.com archives --data -
  pilotgo publish registry.example.com jobs --data '' --key job-7`,
		Args: arguments(2, -1, "pilotgo publish HOST TOPIC --data TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.publish(cmd.Context(), o, args[0], args[1], args[2:])
		},
		ValidArgsFunction: a.completeHosts,
	}
	o.payload.add(cmd.Flags())
	o.connection.flags(cmd.Flags(), connectPatience)
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
	p := client.Publication{Topic: topic, Slot: o.slot, Key: []byte(o.key), Join: true}
	if p.Payload, err = o.payload.read(a.in, words); err != nil {
		return err
	}
	update, err := readUpdate(topic, p.Payload)
	if err != nil {
		return err
	}
	if err := a.intend(h, topic); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c, err := a.dial(ctx, h, o.connection)
	if err != nil {
		return err
	}
	defer c.Close()
	if update != nil {
		if p.Conditions, err = update.conditions(ctx, c); err != nil {
			return err
		}
	}
	ack, err := c.Publish(ctx, p).Wait(ctx)
	if update != nil && lost(err) {
		a.joinAnyway(ctx, c, h, p.Conditions[0])
		return update.conflict(err)
	}
	if err != nil {
		return publishError(topic, err)
	}
	a.used(ctx, c, h, ack.Epoch, topic)
	return a.printPublished(h, p, ack)
}

// publishError tells what is known about a message without an ack. Once it is
// handed over, a context that ends says nothing about where it got to.
func publishError(what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return protocol.Errorf(protocol.ErrUnknownOutcome, "no answer about the message to %s in time", what)
	}
	return err
}

// lost tells that somebody else wrote first.
func lost(err error) bool {
	return errors.Is(err, protocol.ErrStaleTerm) || errors.Is(err, protocol.ErrConflict)
}

// joinAnyway joins the topic of a publish that lost: who publishes next has to
// read the winner's.
func (a *app) joinAnyway(ctx context.Context, c *client.Client, h host, f protocol.Condition) {
	if c.Join(ctx, f.Topic) == nil {
		a.used(ctx, c, h, f.Epoch, f.Topic)
	}
}

func (a *app) printPublished(h host, p client.Publication, ack client.Ack) error {
	o := new(object).as("bytes", "target", "topic").
		set("target", h.addr).set("topic", p.Topic).set("bytes", len(p.Payload)).
		set("seq", ack.Seq).set("epoch", ack.Epoch.String()).
		set("published_at", ack.Time.UTC().Format(time.RFC3339)).set("duplicate", ack.Duplicate)
	return a.print(o, func(w *bufio.Writer) {
		fmt.Fprintf(w, "published %d bytes to %s on %s as #%d\n", len(p.Payload), p.Topic, h.addr, ack.Seq)
	})
}

// update is a new version of a swarm's configuration. It goes under the fence of
// its topic: else scripts, which take the last of two equal versions, and Go
// agents, which take the first, would part for ever.
type update struct {
	topic   string
	version uint64
}

// readUpdate finds the version in a config_update; any other message is nil.
func readUpdate(topic string, data []byte) (*update, error) {
	if swarmOf(topic) == "" {
		return nil, nil
	}
	var m map[string]json.RawMessage // not a struct, whose keys match in any case
	if json.Unmarshal(data, &m) != nil || unquoteIfText(m["type"]) != "config_update" {
		return nil, nil
	}
	version, err := strconv.ParseUint(string(m["version"]), 10, 64)
	if err != nil || version < 1 || version > protocol.MaxTerm {
		return nil, &failure{
			code:    protocol.ErrInvalid.Name(),
			message: fmt.Sprintf("config_update: version %s is no integer from 1 to %d", cutText(string(m["version"])), uint64(protocol.MaxTerm)),
			hint:    "use $(date +%s), as an unquoted number",
			exit:    exitInvalid,
		}
	}
	return &update{topic, version}, nil
}

// leap is how far ahead of registry time a version may be that is a time.
const leap = 24 * time.Hour

// conditions asks for the fence and refuses a version that would leave no room
// for later ones.
func (u *update) conditions(ctx context.Context, c *client.Client) ([]protocol.Condition, error) {
	f, err := c.Fence(ctx, u.topic)
	if err != nil {
		return nil, err
	}
	if u.version > f.K+1 {
		info, err := c.Info(ctx)
		if err != nil {
			return nil, err
		}
		if latest := info.Now.Add(leap).Unix(); latest > 0 && u.version > uint64(latest) {
			return nil, &failure{
				code:    protocol.ErrInvalid.Name(),
				message: fmt.Sprintf("config_update: version %d skips ahead: the last one is %d, and as a time it is more than a day away", u.version, f.K),
				hint:    fmt.Sprintf("use $(date +%%s), or %d", f.K+1),
				exit:    exitInvalid,
			}
		}
	}
	return []protocol.Condition{{Topic: u.topic, Epoch: f.Epoch.ID, Term: u.version, Raise: u.version}}, nil
}

func (u *update) conflict(err error) error {
	have := uint64(0)
	var e *protocol.Error
	if errors.As(err, &e) {
		have = e.Fence.K
	}
	return &failure{
		code:    protocol.ErrConflict.Name(),
		message: fmt.Sprintf("config_update: version %d is not above the last one, %d", u.version, have),
		hint:    "read the newest version, then publish yours with a higher number",
		exit:    exitConflict,
		cause:   err,
	}
}
