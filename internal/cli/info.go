package cli

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/pilotgo/pilotgo/client"
	"github.com/pilotgo/pilotgo/internal/link"
	"github.com/spf13/cobra"
)

func (a *app) infoCommand() *cobra.Command {
	var o connection
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show who this node is, and how its registry is",
		Long: `Show this node's id, address and key, which need no connection. A default registry
host is asked how it is; when it does not answer, that is told and is no error.`,
		Example: `  AGENT_ID=$(pilotgo --json info | jq -r .node_id)`,
		Args:    arguments(0, 0, "pilotgo info has flags only"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.info(cmd.Context(), o) },
	}
	o.hostFlag(cmd.Flags())
	o.flags(cmd.Flags(), infoPatience)
	return cmd
}

const infoPatience = time.Second

func (a *app) info(ctx context.Context, o connection) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	name, err := a.hostname()
	if err != nil {
		return err
	}
	r := nodeInfo(id, name)
	var asked registryAnswer
	if h, err := a.chosen(o.host); err == nil {
		asked = a.askRegistry(ctx, h, o)
		r.set("registry", asked)
	} else if o.host != "" {
		return err
	}
	return a.print(r, func(w *bufio.Writer) {
		fmt.Fprintf(w, "Node ID:     %d\nAddress:     %s\nPublic key:  %s\n", id.NodeID(), id.NodeID().Address(), link.Fingerprint(id.Public()))
		if name != "" {
			fmt.Fprintf(w, "Hostname:    %s\n", name)
		}
		asked.writeText(w)
	})
}

// nodeInfo has the keys of pilotctl's info. What only a daemon could count is zero.
func nodeInfo(id link.Identity, name string) *object {
	o := new(object).
		set("node_id", id.NodeID()).set("address", id.NodeID().Address()).set("hostname", name).
		set("public_key", []byte(id.Public())).set("fingerprint", link.Fingerprint(id.Public())).
		set("identity", true).set("encrypt", true).set("owner", "").set("version", version())
	for _, key := range []string{
		"uptime_secs", "connections", "ports", "peers", "encrypted_peers", "authenticated_peers",
		"bytes_sent", "bytes_recv", "pkts_sent", "pkts_recv",
	} {
		o.set(key, 0)
	}
	o.set("conn_list", []string{}).set("peer_list", []string{})
	o.real = realInfo
	return o.set("uptime_seconds", 0).set("connection_count", 0).set("memory_mb", 0)
}

var realInfo = []string{
	"node_id", "address", "hostname", "public_key", "identity", "encrypt", "owner",
	"uptime_secs", "connections", "ports", "peers", "encrypted_peers", "authenticated_peers",
	"bytes_sent", "bytes_recv", "pkts_sent", "pkts_recv", "conn_list", "peer_list",
}

// registryAnswer is how a registry is, or why it cannot be told.
type registryAnswer struct {
	Host        string  `json:"host"`
	Reachable   bool    `json:"reachable"`
	Error       string  `json:"error,omitempty"`
	Code        string  `json:"code,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Epoch       string  `json:"epoch,omitempty"`
	Born        string  `json:"born,omitempty"`
	Head        uint64  `json:"head"`
	Now         string  `json:"now,omitempty"`
	Started     string  `json:"started,omitempty"`
	Uptime      int64   `json:"uptime_seconds"`
	RTT         float64 `json:"rtt_ms"`
	Nodes       uint64  `json:"nodes"`
	Online      uint64  `json:"online"`
	Sessions    uint64  `json:"sessions"`
	Subscribers uint64  `json:"subscriptions"`
	Topics      uint64  `json:"topics"`
	Messages    uint64  `json:"messages"`
	Bytes       uint64  `json:"bytes"`
	Published   uint64  `json:"published"`
	Software    string  `json:"software,omitempty"`
}

func (a *app) askRegistry(ctx context.Context, h host, o connection) registryAnswer {
	ctx, cancel := bounded(ctx, o.timeout)
	defer cancel()
	info, err := a.registryInfo(ctx, h, o)
	if err != nil {
		f := describe(err)
		return registryAnswer{Host: h.addr, Error: f.message, Code: f.code}
	}
	return answered(h, info)
}

func (a *app) registryInfo(ctx context.Context, h host, o connection) (client.Info, error) {
	c, err := a.dial(ctx, h, o)
	if err != nil {
		return client.Info{}, err
	}
	defer c.Close()
	return c.Info(ctx)
}

func answered(h host, info client.Info) registryAnswer {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return registryAnswer{
		Host: h.addr, Reachable: true, Fingerprint: info.Key, Software: info.Software,
		Epoch: info.Epoch.ID.String(), Born: stamp(time.Unix(int64(info.Epoch.Born), 0)), Head: uint64(info.Head),
		Now: stamp(info.Now), Started: stamp(info.Started), Uptime: int64(info.Now.Sub(info.Started).Seconds()),
		RTT:   float64(info.RTT.Microseconds()) / 1000,
		Nodes: info.Nodes, Online: info.Online, Sessions: info.Sessions, Subscribers: info.Subscriptions,
		Topics: info.Topics, Messages: info.Messages, Bytes: info.Bytes, Published: info.Published,
	}
}

func (r registryAnswer) writeText(w *bufio.Writer) {
	switch {
	case r.Host == "":
	case !r.Reachable:
		fmt.Fprintf(w, "Registry:    %s does not answer: %s\n", r.Host, r.Error)
	default:
		fmt.Fprintf(w, "Registry:    %s  %s\n", r.Host, r.Fingerprint)
		fmt.Fprintf(w, "Log:         epoch %s, head %d, %d messages in %d topics\n", r.Epoch, r.Head, r.Messages, r.Topics)
		fmt.Fprintf(w, "Nodes:       %d known, %d online; up %v, round trip %.1f ms\n", r.Nodes, r.Online, time.Duration(r.Uptime)*time.Second, r.RTT)
	}
}
