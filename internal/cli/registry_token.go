package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/spf13/cobra"
)

func (a *app) registryTokenCommand() *cobra.Command {
	return a.noun("token", "Make and revoke join tokens, for operators",
		`  pilotgo registry token create --label worker`,
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var o client.TokenOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a join token and print it",
		Long: `Make a join token and print it. Who has it can join the registry until it expires or
is used up: hand it on like a password. It tells by which key to know the registry,
which itself keeps only a hash, so it is printed now and never again.

Joining takes it once: PILOTGO_TOKEN=TOKEN pilotgo registry info HOST. The node's key is
known from then on.`,
		Example: `  TOKEN=$(pilotgo registry token create --host 10.0.0.7)
  pilotgo registry token create --uses 0 --expires 30d --label worker --note 'batch machines'`,
		Args: arguments(0, 0, "pilotgo registry token create has flags only"),
	}
	f := cmd.Flags()
	f.IntVar(&o.Uses, "uses", 1, "how many keys it lets in; 0 is any number")
	lifetime := lifetime(day)
	f.Var(&lifetime, "expires", "how long it is good for, as in 90m or 30d; 0 is for ever")
	f.StringSliceVar(&o.Labels, "label", nil, "label for the keys it lets in; may be given many times")
	f.StringVar(&o.Note, "note", "", "text to tell it from others")
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if o.Uses < 0 {
			return usagef("--uses is not negative")
		}
		o.Lifetime = time.Duration(lifetime)
		text, entry, err := c.CreateToken(ctx, o)
		if err != nil {
			return unsure("a token is made, whose text nobody has then", err)
		}
		return a.showNewToken(text, entry)
	})
}

func (a *app) showNewToken(text string, entry protocol.TokenEntry) error {
	o := fieldsOf(marshal(shownToken(entry, entry.Created)))
	o.set("token", text)
	if !a.json {
		fmt.Fprintf(a.err, "token %v: %s\n", entry.ID, strings.Join(about(entry), ", "))
	}
	return a.print(o, func(w *bufio.Writer) { fmt.Fprintln(w, text) })
}

// about tells what a token is good for.
func about(k protocol.TokenEntry) []string {
	list := []string{"for any number of keys"}
	switch {
	case k.Uses == 1:
		list[0] = "for one key"
	case k.Uses > 1:
		list[0] = fmt.Sprintf("for %d keys", k.Uses)
	}
	if k.Expires != 0 {
		list = append(list, "until "+timeText(k.Expires))
	}
	if len(k.Labels) > 0 {
		list = append(list, "labels "+strings.Join(k.Labels, " "))
	}
	return list
}

type tokenShown struct {
	ID      string   `json:"token_id"`
	State   string   `json:"state"`
	Created string   `json:"created_at"`
	Expires string   `json:"expires_at,omitempty"`
	Uses    uint64   `json:"uses"`
	Used    uint64   `json:"used"`
	Labels  []string `json:"labels"`
	Note    string   `json:"note"`
}

func shownToken(k protocol.TokenEntry, now protocol.Time) tokenShown {
	s := tokenShown{
		ID: k.ID.String(), State: "good", Created: timeText(k.Created), Expires: timeText(k.Expires),
		Uses: k.Uses, Used: k.Used, Labels: append([]string{}, k.Labels...), Note: k.Note,
	}
	switch {
	case k.Revoked:
		s.State = "revoked"
	case k.Expires != 0 && now >= k.Expires:
		s.State = "expired"
	case k.Uses != 0 && k.Used >= k.Uses:
		s.State = "used_up"
	}
	return s
}

func (a *app) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the join tokens",
		Example: `  pilotgo --json registry token list | jq -r '.tokens[] | select(.state == "good") | .token_id'`,
		Args:    arguments(0, 0, "pilotgo registry token list has flags only"),
	}
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		info, err := c.Info(ctx)
		if err != nil {
			return err
		}
		list := []tokenShown{}
		for k, err := range c.Tokens(ctx) {
			if err != nil {
				return err
			}
			list = append(list, shownToken(k, protocol.TimeOf(info.Now)))
		}
		return a.print(new(object).set("tokens", list).listing("tokens"), func(w *bufio.Writer) {
			rows := [][]string{{"TOKEN", "STATE", "USED", "EXPIRES", "LABELS", "NOTE"}}
			for _, k := range list {
				uses := "any"
				if k.Uses > 0 {
					uses = strconv.FormatUint(k.Uses, 10)
				}
				rows = append(rows, []string{
					k.ID, k.State, fmt.Sprintf("%d/%s", k.Used, uses), or(k.Expires, "never"), or(strings.Join(k.Labels, " "), "-"), k.Note,
				})
			}
			columns(w, rows)
		})
	})
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke TOKEN",
		Short: "Make a join token let in nobody any more",
		Long: `Make a join token let in nobody any more. TOKEN is its id, or the token itself. The
keys that it has let in stay; 'pilotgo registry nodes revoke' puts out a key.`,
		Example: `  pilotgo registry token revoke a1b2c3d4e5f60708`,
		Args:    arguments(1, 1, "pilotgo registry token revoke TOKEN"),
	}
	return a.operatorsCommand(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		id, err := tokenID(args[0])
		if err != nil {
			return err
		}
		k, err := c.RevokeToken(ctx, id)
		if err != nil {
			return unsure(fmt.Sprintf("token %v is revoked", id), err)
		}
		o := fieldsOf(marshal(shownToken(k, 0)))
		return a.print(o, func(w *bufio.Writer) {
			fmt.Fprintf(w, "token %v lets in nobody any more; it has let in %d\n", k.ID, k.Used)
		})
	})
}

func tokenID(text string) (protocol.TokenID, error) {
	if protocol.IsJoinToken(text) {
		token, err := protocol.ParseJoinToken(text)
		return token.ID, err
	}
	return protocol.ParseTokenID(text)
}
