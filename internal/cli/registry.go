package cli

import (
	"bufio"
	"context"
	"fmt"

	"github.com/pilotgo/pilotgo/client"
	"github.com/spf13/cobra"
)

func (a *app) registryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Serve a registry, and look after those this node knows",
		Example: `  pilotgo registry serve
  pilotgo registry info 10.0.0.7`,
		Annotations: map[string]string{"exit": newKind["exit"], "group": "only"},
		Args:        needsCommand,
		RunE:        func(*cobra.Command, []string) error { return nil },
	}
	own := []*cobra.Command{a.registryServeCommand(), a.registryFakeCommand(), a.registryInfoCommand(), a.registryWaitCommand(), a.registryForgetCommand(), a.registryBenchCommand()}
	for _, c := range append(own, a.storeCommands()...) {
		c.Annotations = newKind
		cmd.AddCommand(c)
	}
	cmd.AddCommand(a.registryTokenCommand(), a.registryNodesCommand(), a.registryTopicCommand(), a.registryFenceCommand(), a.registryAccessCommand())
	return cmd
}

func (a *app) registryInfoCommand() *cobra.Command {
	var o connection
	cmd := &cobra.Command{
		Use:     "info [HOST]",
		Short:   "Ask a registry how it is",
		Example: `  pilotgo --json registry info 10.0.0.7 | jq .head`,
		Args:    arguments(0, 1, "pilotgo registry info [HOST]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showRegistry(cmd.Context(), o, append(args, "")[0])
		},
	}
	o.flags(cmd.Flags(), connectPatience)
	return cmd
}

func (a *app) showRegistry(ctx context.Context, o connection, word string) error {
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	info, err := a.registryInfo(ctx, h, o)
	if err != nil {
		return err
	}
	r := answered(h, info)
	return a.print(fieldsOf(marshal(r)), r.writeText)
}

// fieldsOf makes an object of a marshalled one.
func fieldsOf(raw []byte) *object {
	o := new(object)
	for _, m := range members(raw, len(raw)) {
		o.setRaw(m.key, m.raw)
	}
	return o
}

func (a *app) registryForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget HOST",
		Short: "Forget a registry host: its key, and what was joined there",
		Long: `Forget the key that was remembered for a registry host, which lets it come back with
another one, and the topics that this node joined there, which takes it out of the
inbox. The registry itself is not asked.`,
		Example: `  pilotgo registry forget 10.0.0.7`,
		Args:    arguments(1, 1, "pilotgo registry forget HOST"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.forget(args[0]) },
	}
}

func (a *app) forget(word string) error {
	h, err := a.chosen(word)
	if err != nil {
		return err
	}
	key, err := client.ForgetRegistry(a.home, h.addr)
	if err != nil {
		return err
	}
	var topics []string
	err = a.changeBook(func(b *book) bool {
		e := b.Hosts[h.addr]
		if e != nil {
			topics = e.Joins
			delete(b.Hosts, h.addr)
		}
		return e != nil
	})
	if err != nil {
		return err
	}
	o := new(object).set("host", h.addr).set("key_forgotten", key).set("topics", topics)
	return a.print(o, func(w *bufio.Writer) {
		if !key && topics == nil {
			fmt.Fprintf(w, "%s was not known\n", h.addr)
			return
		}
		fmt.Fprintf(w, "forgot %s and %d topics joined there\n", h.addr, len(topics))
	})
}
