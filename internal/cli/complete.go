package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/config"
	"github.com/pilotgo/pilotgo/election"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completePatience is how long a shell waits for a registry's words at most.
const completePatience = 500 * time.Millisecond

// mostWords is how many words of one kind a registry is asked for.
const mostWords = 1000

// offer is the words that can stand in a place, behind those before it.
type offer func(a *app, cmd *cobra.Command, before []string) []string

// places says what can stand where among the arguments of a command; a command
// that is not here is completed as the noun above it.
var places = map[string][]offer{
	"publish":             {offerHosts, offerTopics},
	"subscribe":           {offerHosts, offerTopics},
	"send-message":        {offerNodesByName},
	"election":            {offerSeats, offerGroups},
	"config":              {offerSwarms},
	"registry info":       {offerHosts},
	"registry wait":       {offerHosts},
	"registry forget":     {offerHosts},
	"registry bench":      {offerHosts},
	"registry fence":      {offerTopicsOfHost},
	"registry topic":      {offerTopicsOfHost},
	"registry nodes":      {offerNodes},
	"registry nodes list": nil,
}

// anyNumber are the commands that take any number of what stands in their last place.
var anyNumber = map[string]bool{"registry nodes": true}

// placesOf finds what can stand behind a command, and the name it was found by.
func placesOf(cmd *cobra.Command) (list []offer, name string, ok bool) {
	for ; cmd.HasParent(); cmd = cmd.Parent() {
		name = strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		if list, ok = places[name]; ok {
			return list, name, true
		}
	}
	return nil, "", false
}

// complete lets the words of a command line be completed. It is called where a
// shell asks for that only: it takes time.
func (a *app) complete(cmd *cobra.Command) {
	list, name, ok := placesOf(cmd)
	if ok && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
			at := len(before)
			if anyNumber[name] {
				at = min(at, len(list)-1)
			}
			if at >= len(list) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return list[at](a, cmd, before), cobra.ShellCompDirectiveNoFileComp
		}
	}
	a.completeFlags(cmd)
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
}

// completeFlags lets the values of flags be completed, by their kind and name.
func (a *app) completeFlags(cmd *cobra.Command) {
	named := map[string]offer{"host": offerHosts, "topic": offerTopicsOfHost, "members": offerNodes, "relays": offerNodes, "group": offerGroups}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		words := named[f.Name]
		if c, ok := f.Value.(*choice); ok {
			words = func(*app, *cobra.Command, []string) []string { return c.of }
		}
		if words == nil {
			return
		}
		// It fails only for a flag that is not there, or has one already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return words(a, cmd, nil), cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// offerHosts offers the aliases, and the hosts that this node has used.
func offerHosts(a *app, _ *cobra.Command, _ []string) []string {
	n, err := a.hosts()
	if err != nil {
		return nil
	}
	words := slices.Collect(maps.Keys(n.alias))
	if b, err := a.book(); err == nil {
		for _, addr := range b.counting(time.Now()) {
			words = append(words, or(b.Hosts[addr].Name, addr))
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// offerTopics offers the topics of the host that stands before, or of the default.
func offerTopics(a *app, cmd *cobra.Command, before []string) []string {
	return a.wordsAt(cmd, before, func(ctx context.Context, c *client.Client) []string { return topicsUnder(ctx, c, "") })
}

// offerTopicsOfHost offers those of the host that --host names, or of the default.
func offerTopicsOfHost(a *app, cmd *cobra.Command, _ []string) []string {
	return offerTopics(a, cmd, nil)
}

func offerGroups(a *app, cmd *cobra.Command, before []string) []string {
	return a.wordsAt(cmd, before, groupsOf)
}

// offerSeats offers what [HOST] GROUP can begin with.
func offerSeats(a *app, cmd *cobra.Command, before []string) []string {
	return append(offerHosts(a, cmd, nil), offerGroups(a, cmd, nil)...)
}

func offerSwarms(a *app, cmd *cobra.Command, _ []string) []string {
	return a.wordsAt(cmd, nil, swarmsOf)
}

// offerNodes offers ids, with the names that the nodes show.
func offerNodes(a *app, cmd *cobra.Command, _ []string) []string {
	return a.wordsAt(cmd, nil, func(ctx context.Context, c *client.Client) []string {
		var words []string
		for n, err := range c.Nodes(ctx, client.NodesOptions{}) {
			if err != nil || len(words) == mostWords {
				break
			}
			words = append(words, n.ID.String()+"\t"+or(shown(n.Name, true), n.ID.Address()))
		}
		return words
	})
}

// offerNodesByName offers names too, where they will do.
func offerNodesByName(a *app, cmd *cobra.Command, _ []string) []string {
	words := offerNodes(a, cmd, nil)
	for _, w := range words {
		if id, name, _ := strings.Cut(w, "\t"); !strings.ContainsAny(name, " :") {
			words = append(words, name+"\tnode "+id)
		}
	}
	return words
}

// wordsAt asks the host that stands before, that of --host or the default. There
// are no words where that fails or takes long, nor of a host whose key this node
// does not know: a key press trusts nobody.
func (a *app) wordsAt(cmd *cobra.Command, before []string, ask func(context.Context, *client.Client) []string) []string {
	word := ""
	if f := cmd.Flags().Lookup("host"); f != nil {
		word = f.Value.String()
	}
	if len(before) > 0 {
		word = before[0]
	}
	h, err := a.chosen(word)
	if err != nil || !a.trusts(h) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completePatience)
	defer cancel()
	c, err := a.dial(ctx, h, connection{})
	if err != nil {
		return nil
	}
	defer c.Close()
	return ask(ctx, c)
}

// trusts tells whether a key is known of the host.
func (a *app) trusts(h host) bool {
	known, err := client.KnownRegistries(a.home)
	if err != nil {
		return false
	}
	for addr := range strings.SplitSeq(h.addr, ",") {
		if slices.ContainsFunc(known, func(k client.KnownRegistry) bool { return k.Host == addr }) {
			return true
		}
	}
	return false
}

// topicsUnder lists the topics with a prefix, as far as they can be had, without it.
func topicsUnder(ctx context.Context, c *client.Client, prefix string) []string {
	var words []string
	for t, err := range c.Topics(ctx, prefix+"*") {
		if err != nil || len(words) == mostWords {
			break
		}
		words = append(words, strings.TrimPrefix(t.Name, prefix))
	}
	return words
}

func groupsOf(ctx context.Context, c *client.Client) []string {
	return topicsUnder(ctx, c, election.TopicPrefix)
}

// swarmsOf lists the swarms; what is below config: with another colon is about one.
func swarmsOf(ctx context.Context, c *client.Client) []string {
	return slices.DeleteFunc(topicsUnder(ctx, c, config.Topic("")), func(word string) bool { return config.ValidName(word) != nil })
}
