package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

func (a *app) registryNodesCommand() *cobra.Command {
	return a.noun("nodes", "List nodes; admit, revoke, label and forget them",
		`  pilotgo registry nodes list
  pilotgo registry nodes revoke 2159829326`,
		a.nodesListCommand(), a.nodesAdmitCommand(), a.nodesRevokeCommand(), a.nodesLabelCommand(), a.nodesForgetCommand())
}

// nodeShown is a node, or a key that operators said something about before it came.
type nodeShown struct {
	Node        protocol.NodeID `json:"node_id"`
	Address     string          `json:"address"`
	Hostname    string          `json:"hostname"`
	Tags        []string        `json:"tags"`
	Fingerprint string          `json:"fingerprint"`
	Online      uint64          `json:"online"`
	LastSeen    string          `json:"last_seen,omitempty"`
	Standing    string          `json:"standing"`
	Labels      []string        `json:"labels"`
	Token       string          `json:"token_id,omitempty"`
}

func (a *app) nodesListCommand() *cobra.Command {
	var o client.NodesOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes that a registry knows",
		Long: `List the nodes that a registry knows, and what operators have said about their keys,
also of keys that have not been there. Who is no operator sees the nodes alone.`,
		Example: `  pilotgo --json registry nodes list | jq '.nodes[] | select(.online > 0) | .hostname'`,
		Args:    arguments(0, 0, "pilotgo registry nodes list has flags only"),
	}
	cmd.Flags().StringVar(&o.Topic, "topic", "", "only nodes that joined this topic")
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := nodesOf(ctx, c, o)
		if err != nil {
			return err
		}
		return a.print(new(object).set("nodes", list).listing("nodes"), func(w *bufio.Writer) {
			rows := [][]string{{"NODE", "NAME", "ONLINE", "LAST SEEN", "STANDING", "LABELS", "KEY"}}
			for _, n := range list {
				id := "-"
				if n.Node != 0 {
					id = n.Node.String()
				}
				rows = append(rows, []string{
					id, or(n.Hostname, "-"), fmt.Sprint(n.Online), or(n.LastSeen, "never"), or(n.Standing, "-"), or(strings.Join(n.Labels, " "), "-"), n.Fingerprint,
				})
			}
			columns(w, rows)
		})
	})
}

// nodesOf lists the nodes, and behind them the keys that have not been there.
func nodesOf(ctx context.Context, c *client.Client, o client.NodesOptions) ([]nodeShown, error) {
	said := make(map[protocol.KeyHash]protocol.KeyEntry)
	var order []protocol.KeyHash
	told := true
	for k, err := range c.Keys(ctx) {
		if told = protocol.CodeOf(err) != protocol.ErrDenied; !told {
			break
		}
		if err != nil {
			return nil, err
		}
		said[k.Key] = k
		order = append(order, k.Key)
	}
	list := []nodeShown{}
	for n, err := range c.Nodes(ctx, o) {
		if err != nil {
			return nil, err
		}
		key := protocol.KeyHashOf(n.Key)
		s := nodeShown{
			Node: n.ID, Address: n.ID.Address(), Hostname: n.Name, Tags: append([]string{}, n.Tags...), Online: n.Online, LastSeen: timeText(n.LastSeen),
		}
		if len(n.Key) > 0 {
			s.say(key, said[key])
		}
		if !told {
			s.Standing = "" // not known to this node
		}
		list = append(list, s)
		delete(said, key)
	}
	for _, key := range order {
		if k, ok := said[key]; ok && o.Topic == "" {
			s := nodeShown{Tags: []string{}}
			s.say(key, k)
			list = append(list, s)
		}
	}
	return list, nil
}

func (s *nodeShown) say(key protocol.KeyHash, k protocol.KeyEntry) {
	s.Fingerprint, s.Standing = key.String(), k.Standing.String()
	s.Labels = append([]string{}, k.Labels...)
	if id := (protocol.TokenID{}); len(k.Token) == len(id) {
		s.Token = protocol.TokenID(k.Token).String()
	}
}

// setKeys does what an operator says about each of the keys that args name; then is
// what holds of a key afterwards.
func (a *app) setKeys(ctx context.Context, c *client.Client, args []string, change client.KeyChange, then string) error {
	keys, err := keysOf(ctx, c, args)
	if err != nil {
		return err
	}
	list := []nodeShown{}
	for _, key := range keys {
		k, err := c.SetKey(ctx, key, change)
		if err != nil {
			return unsure(key.String()+" "+then, err)
		}
		s := nodeShown{Tags: []string{}}
		s.say(key, k)
		list = append(list, s)
	}
	return a.print(new(object).set("keys", list).listing("keys"), func(w *bufio.Writer) {
		for _, s := range list {
			fmt.Fprintf(w, "%s: %s, labels %s\n", s.Fingerprint, s.Standing, or(strings.Join(s.Labels, " "), "none"))
		}
	})
}

// nodeOrKey reads the id of a node, or a fingerprint, with which the id is 0.
func nodeOrKey(text string) (protocol.NodeID, protocol.KeyHash, error) {
	if strings.Contains(text, "sha256:") {
		key, err := protocol.ParseKeyHash(text)
		return 0, key, err
	}
	id, err := protocol.ParseNodeID(text)
	if err != nil || id == 0 {
		e := usagef("%q is neither a node id nor a fingerprint (sha256:…)", text)
		e.hint = "see 'pilotgo registry nodes list'"
		return 0, protocol.KeyHash{}, e
	}
	return id, protocol.KeyHash{}, nil
}

// keysOf finds the keys that fingerprints and nodes name.
func keysOf(ctx context.Context, c *client.Client, args []string) ([]protocol.KeyHash, error) {
	keys := make([]protocol.KeyHash, len(args))
	wanted := make(map[protocol.NodeID][]int)
	for i, text := range args {
		id, key, err := nodeOrKey(text)
		if err != nil {
			return nil, err
		}
		if id == 0 {
			keys[i] = key
			continue
		}
		wanted[id] = append(wanted[id], i)
	}
	if len(wanted) == 0 {
		return keys, nil
	}
	for n, err := range c.Nodes(ctx, client.NodesOptions{}) {
		if err != nil {
			return nil, err
		}
		for _, i := range wanted[n.ID] {
			keys[i] = protocol.KeyHashOf(n.Key)
		}
		delete(wanted, n.ID)
	}
	for id := range wanted {
		return nil, protocol.Errorf(protocol.ErrNotFound, "the registry knows no node %d", id)
	}
	return keys, nil
}

func (a *app) nodesAdmitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admit KEY...",
		Short: "Let in a key, also one that was revoked",
		Long: `Let in a key, whatever the registry's way to admit, and also one that was revoked. KEY
is a fingerprint, as 'pilotgo info' shows it, or the id of a node that has been there.`,
		Example: `  pilotgo registry nodes admit sha256:Yw3NKWbEM2aRElRIu7JbT_QSpJxzLbLIq8G4WBvXEN0`,
		Args:    arguments(1, -1, "pilotgo registry nodes admit KEY..."),
	}
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		standing := protocol.StandingAdmitted
		return a.setKeys(ctx, c, args, client.KeyChange{Standing: &standing}, "is admitted")
	})
}

func (a *app) nodesRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke KEY...",
		Short: "Keep a key out: its sessions end now",
		Long: `Keep a key out of the registry, whatever its way to admit. The sessions of the key end
now, and each further one is refused. What it has published stays. KEY is a fingerprint
or the id of a node that has been there.

The keys of operators that the registry was started with cannot be revoked.`,
		Example: `  pilotgo registry nodes revoke 2159829326`,
		Args:    arguments(1, -1, "pilotgo registry nodes revoke KEY..."),
	}
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		standing := protocol.StandingRevoked
		return a.setKeys(ctx, c, args, client.KeyChange{Standing: &standing}, "is revoked")
	})
}

func (a *app) nodesLabelCommand() *cobra.Command {
	var change client.KeyChange
	cmd := &cobra.Command{
		Use:   "label KEY...",
		Short: "Give labels to a key, or take them",
		Long: `Give labels to a key, or take them, for access rules to name. Without rules the label
admin makes an operator, and the label relay lets a node publish on behalf of others. It
takes effect at once. KEY is a fingerprint or the id of a node that has been there.`,
		Example: `  pilotgo registry nodes label 2159829326 --add release --drop guest`,
		Args:    arguments(1, -1, "pilotgo registry nodes label KEY..."),
	}
	f := cmd.Flags()
	f.StringSliceVar(&change.Add, "add", nil, "label to give; may be given many times")
	f.StringSliceVar(&change.Drop, "drop", nil, "label to take; may be given many times")
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if len(change.Add)+len(change.Drop) == 0 {
			return usagef("nothing to do: --add LABEL or --drop LABEL")
		}
		return a.setKeys(ctx, c, args, change, "has these labels")
	})
}

func (a *app) nodesForgetCommand() *cobra.Command {
	var yes consent
	cmd := &cobra.Command{
		Use:   "forget NODE... --yes",
		Short: "Free a node's place in the registry's table",
		Long: `Free a node's place in the registry's table: its name, its inbox, its labels and that it
was admitted. A revocation stays. What it has published stays too, but its id is free
for the next key that has it. A node with a session is not forgotten. NODE is an id, or
the fingerprint of its key, also of one that has not been there.

There is no prompt: without --yes nothing is done.`,
		Example: `  pilotgo registry nodes forget 2159829326 --yes`,
		Args:    arguments(1, -1, "pilotgo registry nodes forget NODE... --yes"),
	}
	return a.operatorsCommand(yes.required(cmd, func(args []string) string {
		return "this drops the name, the inbox and the labels of " + strings.Join(args, ", ")
	}), func(ctx context.Context, c *client.Client, args []string) error {
		ids, unseen, err := forgettable(ctx, c, args)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := c.ForgetNode(ctx, id); err != nil {
				return forgetError(unsure(fmt.Sprintf("node %d is forgotten", id), err))
			}
		}
		none := protocol.StandingNone
		for _, k := range unseen {
			if _, err := c.SetKey(ctx, k.Key, client.KeyChange{Standing: &none, Drop: k.Labels}); err != nil {
				return unsure(k.Key.String()+" is forgotten", err)
			}
		}
		keys := []string{}
		for _, k := range unseen {
			keys = append(keys, k.Key.String())
		}
		return a.print(new(object).set("forgotten", ids).set("keys", keys).listing("forgotten"), func(w *bufio.Writer) {
			for _, id := range ids {
				fmt.Fprintf(w, "forgot node %d\n", id)
			}
			for _, key := range keys {
				fmt.Fprintf(w, "forgot %s\n", key)
			}
		})
	})
}

// forgettable finds the nodes that ids and fingerprints name, and what was said about
// those keys that have not been there. A revocation of such a key is all there is of
// it, and stays.
func forgettable(ctx context.Context, c *client.Client, args []string) (ids []protocol.NodeID, unseen []protocol.KeyEntry, err error) {
	ids = []protocol.NodeID{}
	wanted := make(map[protocol.KeyHash]bool)
	for _, text := range args {
		id, key, err := nodeOrKey(text)
		if err != nil {
			return nil, nil, err
		}
		if id != 0 {
			ids = append(ids, id)
		} else {
			wanted[key] = true
		}
	}
	if len(wanted) == 0 {
		return ids, nil, nil
	}
	for n, err := range c.Nodes(ctx, client.NodesOptions{}) {
		if err != nil {
			return nil, nil, err
		}
		if key := protocol.KeyHashOf(n.Key); wanted[key] {
			ids = append(ids, n.ID)
			delete(wanted, key)
		}
	}
	for k, err := range c.Keys(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if wanted[k.Key] && k.Standing != protocol.StandingRevoked {
			unseen = append(unseen, k)
			delete(wanted, k.Key)
		}
	}
	for key := range wanted {
		return nil, nil, protocol.Errorf(protocol.ErrNotFound, "the registry has nothing to forget about %s", key)
	}
	return ids, unseen, nil
}

func forgetError(err error) error {
	if !errors.Is(err, protocol.ErrConflict) {
		return err
	}
	f := describe(err)
	f.hint = "end its sessions first: pilotgo registry nodes revoke NODE"
	return f
}
