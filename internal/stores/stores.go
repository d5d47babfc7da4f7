// Package stores opens the places where a registry can keep its log, by their
// names: a folder, or the addresses of NATS servers.
package stores

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pilotgo/pilotgo/internal/extras"
	"github.com/pilotgo/pilotgo/protocol"
	"github.com/pilotgo/pilotgo/registry/disklog"
	"github.com/pilotgo/pilotgo/registry/jetlog"
)

// Open opens a store by its name.
func Open(ctx context.Context, name string, o extras.StoreOptions) (extras.Store, error) {
	scheme, _, ok := strings.Cut(name, "://")
	switch {
	case !ok:
		l, err := disklog.Open(name, disklog.Options{Retention: o.Retention, Logger: o.Logger})
		return folder{l}, err
	case scheme == "nats" || scheme == "tls" || scheme == "ws" || scheme == "wss":
		return openCluster(ctx, name, o)
	}
	return nil, protocol.Errorf(protocol.ErrInvalid, "no store is called %q: name a folder, memory, or nats:// addresses", name)
}

// folder is a log on disk.
type folder struct{ *disklog.Log }

func (folder) TicketKey() (zero [32]byte) { return zero }

// cluster is a log on NATS servers, with what all its registries have in common.
type cluster struct {
	*jetlog.Log
	key     ed25519.PrivateKey
	tickets [32]byte
}

func (c *cluster) Key() ed25519.PrivateKey { return c.key }

func (c *cluster) SetKey(ed25519.PrivateKey) error {
	return fmt.Errorf("the identity key of a cluster: %w", errors.ErrUnsupported)
}

func (c *cluster) Successions() []protocol.Succession { return nil }
func (c *cluster) TicketKey() [32]byte                { return c.tickets }

// Failed tells that the log has lost what was acknowledged: its registry stops
// writing then, and a new one would not open it. Ready of the log tells that too.
func (c *cluster) Failed() <-chan struct{} { return c.Lost() }

func openCluster(ctx context.Context, urls string, o extras.StoreOptions) (_ extras.Store, err error) {
	conf, err := tlsConfig(o)
	if err != nil {
		return nil, err
	}
	replicas := o.Replicas
	if replicas == 0 {
		replicas = 1
		if strings.Count(urls, ",") >= 2 {
			replicas = 3
		}
	}
	c := new(cluster)
	c.Log, err = jetlog.Open(ctx, urls, jetlog.Options{
		Stream: o.Stream, Replicas: replicas, Creds: o.Creds, TLS: conf, Retention: o.Retention, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.key, err = c.Log.Key(ctx); err != nil {
		return nil, err
	}
	secret, err := c.Secret(ctx, "tickets", len(c.tickets))
	copy(c.tickets[:], secret)
	return c, err
}

// tlsConfig is nil where nothing is said about TLS: the scheme then decides.
func tlsConfig(o extras.StoreOptions) (*tls.Config, error) {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, protocol.Errorf(protocol.ErrInvalid, "--store-ca: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, protocol.Errorf(protocol.ErrInvalid, "%s has no certificate", o.CA)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, protocol.Errorf(protocol.ErrInvalid, "--store-cert and --store-key go together")
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, protocol.Errorf(protocol.ErrInvalid, "--store-cert %s and --store-key %s: %v", o.Cert, o.Key, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
