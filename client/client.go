package client

import (
	"context"
	"errors"
)

// Client is a connection to a registry host that comes back by itself. Its
// methods may be called from any goroutine.
type Client struct{}

var _ Conn = (*Client)(nil)

// Dial connects to a registry host: "host", "host:port", "[v6]:port", with
// "quic://" before it or not. Several addresses of one log stand with commas
// between them and are tried in turn. ctx bounds the first connection, not the
// life of the client.
func Dial(ctx context.Context, addr string, o Options) (*Client, error) {
	return nil, errors.ErrUnsupported
}

// Self tells who publishes here.
func (c *Client) Self() Self { return Self{} }

// Capabilities tells what the transport can do: everything.
func (c *Client) Capabilities() Capabilities {
	return Capabilities{Fences: true, Acks: true, Ordered: true, History: true}
}

// Close ends the client and waits until nothing of it runs. Publishes without an
// answer fail with net.ErrClosed; of those that were sent the outcome is
// unknown: call Flush before, to wait for it. Close is idempotent.
func (c *Client) Close() error { return nil }
