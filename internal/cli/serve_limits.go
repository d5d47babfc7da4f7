package cli

import (
	"github.com/pilotgo/pilotgo/registry"
	"github.com/spf13/pflag"
)

// limitOptions are what clients can take of a registry; 0 is the default of each.
type limitOptions struct{ registry.Limits }

func (o *limitOptions) flags(f *pflag.FlagSet) {
	for _, l := range []struct {
		to    *int
		name  string
		usage string
	}{
		{&o.Payload, "max-payload", "bytes of one payload (default 1 MiB, at most 16 MiB)"},
		{&o.Sessions, "max-connections", "connections in all (default 10000)"},
		{&o.NodeSessions, "max-node-connections", "connections of one node (default 100)"},
		{&o.SourceSessions, "max-source-connections", "connections from one address, or one /64 of IPv6 (default half of all)"},
		{&o.SourceHandshakes, "max-source-handshakes", "handshakes a second from one address, or one /64 of IPv6 (default 200)"},
		{&o.Handshakes, "max-handshakes", "connections that begin a second, in all (default no limit)"},
		{&o.Node.Publishes, "max-node-publishes", "publishes a second of one node (default no limit)"},
		{&o.Node.Bytes, "max-node-bytes", "bytes of payload a second of one node (default no limit)"},
		{&o.Total.Publishes, "max-publishes", "publishes a second in all, each node having its share (default no limit)"},
		{&o.Total.Bytes, "max-bytes", "bytes of payload a second in all, each node having its share (default no limit)"},
		{&o.Subscriptions, "max-subscriptions", "subscriptions of one connection (default 1000)"},
		{&o.NodeSubscriptions, "max-node-subscriptions", "subscriptions of one node (default 5000)"},
		{&o.TotalSubscriptions, "max-total-subscriptions", "subscriptions in all (default 100000)"},
		{&o.Joins, "max-inbox-topics", "topics in one inbox (default 10000)"},
		{&o.TotalJoins, "max-total-inbox-topics", "topics in all inboxes together (default 2000000)"},
		{&o.Nodes, "max-nodes", "nodes remembered (default 100000)"},
	} {
		f.IntVar(l.to, l.name, 0, l.usage)
	}
}
