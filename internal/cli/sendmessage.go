package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

type sendOptions struct {
	connection
	payload
	kind string
}

func (a *app) sendMessageCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send-message NODE [DATA…]",
		Short: "Send a message to one node's inbox",
		Long: `Send a message to the inbox of one node: a node id, an address, or the name that a
node shows to the registry, if only one does. A name is what its node says of itself;
only ids and addresses are proved.

The command ends with 0 when the registry keeps the message, whether or not the node
is connected. Without --host and a default host it goes to the host used last.`,
		Example: `  pilotgo send-message 2881234567 --data 'hello'
  pilotgo send-message 0:0000.ABBC.1207 --data '{"job":7}' --type json`,
		Args: arguments(1, -1, "pilotgo send-message NODE --data TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sendMessage(cmd.Context(), o, args[0], args[1:])
		},
	}
	o.payload.add(cmd.Flags())
	o.hostFlag(cmd.Flags())
	o.connection.flags(cmd.Flags(), connectPatience)
	cmd.Flags().StringVar(&o.kind, "type", "text", "what the message is: text, json or binary")
	return cmd
}

func (a *app) sendMessage(ctx context.Context, o sendOptions, target string, words []string) error {
	if !slices.Contains([]string{"text", "json", "binary"}, o.kind) {
		return usagef("--type is text, json or binary, not %q", o.kind)
	}
	data, err := o.payload.read(a.in, words)
	if err != nil {
		return err
	}
	h, err := a.messageHost(o.host)
	if err != nil {
		return err
	}
	if err := a.intend(h); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	c, err := a.dial(ctx, h, o.connection)
	if err != nil {
		return err
	}
	defer c.Close()
	to, err := findNode(ctx, c, target)
	if err != nil {
		return err
	}
	ack, err := c.Send(ctx, to, data)
	if err != nil {
		return publishError(target, err)
	}
	a.used(ctx, c, h, ack.Epoch)
	r := new(object).as("target", "type", "bytes", "ack").
		set("target", to.Address()).set("type", o.kind).set("bytes", len(data)).
		set("ack", fmt.Sprintf("ACK %s %d bytes", strings.ToUpper(o.kind), len(data))).
		set("node_id", to).set("registry", h.addr).set("seq", ack.Seq).
		set("sent_at", ack.Time.UTC().Format(time.RFC3339))
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "sent %d bytes to %s as #%d\n", len(data), to.Address(), ack.Seq)
	})
}

// messageHost is the host named, else the default, else the one used last.
func (a *app) messageHost(word string) (host, error) {
	n, err := a.hosts()
	if err != nil {
		return host{}, err
	}
	if word != "" {
		return n.resolve(word)
	}
	if n.preferred != "" {
		return n.fallback()
	}
	b, err := a.book()
	if err != nil {
		return host{}, err
	}
	known := b.counting(time.Now())
	if len(known) == 0 {
		return n.fallback() // which says what to do
	}
	last := slices.MaxFunc(known, func(x, y string) int { return cmp.Compare(b.Hosts[x].Used.UnixNano(), b.Hosts[y].Used.UnixNano()) })
	return host{word: b.Hosts[last].Name, addr: last}, nil
}

// findNode reads a node id or an address, else looks for the one node that shows
// this name.
func findNode(ctx context.Context, c *client.Client, target string) (protocol.NodeID, error) {
	if id, err := protocol.ParseNodeID(target); err == nil {
		return id, nil
	}
	var found []protocol.NodeID
	for node, err := range c.Nodes(ctx, client.NodesOptions{}) {
		if err != nil {
			return 0, fmt.Errorf("find node %q: %w", target, err)
		}
		if strings.EqualFold(node.Name, target) {
			found = append(found, node.ID)
		}
	}
	switch len(found) {
	case 0:
		return 0, protocol.Errorf(protocol.ErrNotFound, "no node shows the name %q", target)
	case 1:
		return found[0], nil
	}
	e := usagef("%d nodes show the name %q", len(found), target)
	e.hint = fmt.Sprintf("name one by its id: %v", found)
	return 0, e
}
